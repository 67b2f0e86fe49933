"""One stream of a device, and the steps that wait before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from drivers.base.deadline import polls
from drivers.base.errors import Hang
from drivers.cuda import abi
from drivers.cuda.api import Api
from drivers.hosted.pending import advance, shown

Command: TypeAlias = Callable[[], bool]
"""Enqueues itself; False while it waits for a signal."""
PATIENCE_S: Final = 60.0
"""libcuda may load code or grow local memory when a kernel first runs."""
_NAMED: Final = 16
"""Kernels that an error names."""


class Ring:
    """`pending` runs in order, from the first command that waits for a signal on.

    Everything is called with the device's lock held.
    """

    def __init__(self, api: Api, name: str) -> None:
        self.api, self.name = api, name
        self.stream = api.make("cuStreamCreate", abi.STREAM_NON_BLOCKING)
        self.start = api.functions["cuLaunchKernel"]
        self.pending: deque[Command] = deque()
        self.enqueued = self.done = 0
        """Commands: how many there were, and how many are known to be done."""
        self.used = False
        """Whether it ever ran anything."""
        self.kernels: deque[str] = deque(maxlen=_NAMED)
        """The last ones that are not known to be done."""

    @property
    def busy(self) -> bool:
        """Whether something was enqueued that is not known to be done."""
        return self.enqueued != self.done

    def count(self) -> int:
        """A command is enqueued: its position."""
        self.enqueued += 1
        self.used = True
        return self.enqueued

    def collect(self) -> None:
        """Find out whether everything is done. Raises: DeviceFault."""
        if self.busy and self.api.ready("cuStreamQuery", self.stream):
            self.finished(self.enqueued)

    def finished(self, position: int) -> None:
        """Everything up to a position is done."""
        self.done = max(self.done, position)
        if not self.busy:
            self.kernels.clear()

    def follow(self, event: int) -> None:
        """Later commands begin after an event, as it was recorded last."""
        self.api.do("cuStreamWaitEvent", self.stream, event, 0)

    def settle(self) -> None:
        """Wait until everything is done. Raises: Hang, DeviceFault."""
        for _ in polls(PATIENCE_S, self.api.world):
            self.collect()
            if not self.busy:
                return
        raise self.hang(PATIENCE_S)

    def hang(self, timeout_s: float) -> Hang:
        """The error for work that does not end."""
        return Hang(
            f"{self.name} is not done after {timeout_s:g} s", queue=self.name, dump=self.dump(),
            hint="set what it waits for, or make smaller kernels",
        )  # fmt: skip

    def advance(self) -> bool:
        """Enqueue what can be; whether that was anything."""
        return advance(self.pending, _enqueued)

    def dump(self) -> str:
        """What waits and runs, as text."""
        names = ", ".join(dict.fromkeys(self.kernels))
        more = f", {self.enqueued - self.done} commands run" + f" ({names})" * bool(names)
        return shown(self.pending, more)

    def close(self) -> None:
        """Nothing may be running."""
        self.pending.clear()
        self.api.do("cuStreamDestroy_v2", self.stream)


def _enqueued(command: Command) -> bool:
    return command()

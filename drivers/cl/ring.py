"""One in-order queue of a device, and the steps that wait before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from drivers.base.contracts import World
from drivers.base.deadline import polls
from drivers.base.errors import Hang
from drivers.cl.api import Api, Words
from drivers.cl.event import Event
from drivers.hosted.pending import advance, shown

Command: TypeAlias = Callable[[], bool]
"""Enqueues itself; False while it waits for a signal."""


class Ring:
    """`pending` runs in order, from the first command that waits for a signal on."""

    def __init__(self, api: Api, handle: int, name: str) -> None:
        self.api, self.handle, self.name = api, handle, name
        self.pending: deque[Command] = deque()
        self.enqueued = self.done = 0
        """Commands that change memory: how many there were, and how many are known to be done."""

    @property
    def busy(self) -> bool:
        """Whether something was enqueued that is not known to be done."""
        return self.enqueued != self.done

    def advance(self) -> bool:
        """Enqueue what can be and hand it over; whether that was anything."""
        return advance(self.pending, _enqueued, self.flush)

    def marker(self) -> Event:
        """Something that is done when everything before it is."""
        made = Words([0])
        self.api.do("clEnqueueMarkerWithWaitList", self.handle, 0, 0, made.at)
        return Event(self.api, made.words[0])

    def wait_for(self, event: Event) -> None:
        """Later commands of this queue begin after an event of another one."""
        events = Words([event.handle])
        self.api.do("clEnqueueBarrierWithWaitList", self.handle, 1, events.at, 0)

    def barrier(self) -> None:
        """Later commands begin when everything before is done."""
        self.api.do("clEnqueueBarrierWithWaitList", self.handle, 0, 0, 0)

    def flush(self) -> None:
        """Hand over what was enqueued."""
        self.api.do("clFlush", self.handle)

    def finished(self, event: Event, world: World, timeout_s: float) -> None:
        """Wait for a marker, then release it. Raises: Hang; DeviceFault."""
        try:
            self.reach(event, world, timeout_s)
        finally:
            event.release()

    def reach(self, event: Event, world: World, timeout_s: float) -> None:
        """Wait for a marker. Raises: Hang; DeviceFault."""
        for _ in polls(timeout_s, world):
            if event.done():
                return
        raise Hang(
            f"{self.name} is not done after {timeout_s:g} s", queue=self.name,
            dump=self.dump(), hint="wait longer, or make smaller kernels",
        )  # fmt: skip

    def dump(self) -> str:
        """What waits, as text."""
        return shown(self.pending)


def _enqueued(command: Command) -> bool:
    return command()

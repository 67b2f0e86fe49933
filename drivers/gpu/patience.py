"""How long queues are waited for: as long as they make progress, without a total limit."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

from drivers.gpu.ring import Ring, Waited


class HasQueues(Protocol):
    """A device whose queues may progress."""

    @property
    def compute(self) -> Ring:
        """The queue of kernels."""

    @property
    def copies(self) -> Ring:
        """The queue of copies."""


_open: weakref.WeakSet[HasQueues] = weakref.WeakSet()


def opened(device: HasQueues) -> None:
    """Register its queues: one may signal what another one waits for."""
    _open.add(device)


def progress() -> list[object]:
    """A list that changes whenever any queue of this process progresses."""
    rings = [ring for device in list(_open) for ring in (device.compute, device.copies)]
    return [ring.steps() for ring in rings if ring.broken is None]


class Patience:
    """Distinguishes queues that hang, that wait for a signal, and that are slow."""

    def __init__(self, clock: Callable[[], float], parked: Callable[[Ring], bool]) -> None:
        self._clock, self._parked = clock, parked

    def wait(
        self,
        rings: Sequence[Ring],
        reached: Callable[[], bool],
        timeout_s: float = math.inf,
        steps: Callable[[], object] | None = None,
        mark: int = 0,
    ) -> Waited:
        """Wait on the last of `rings`; STUCK: one of them hangs, or no queue progresses.

        The ring is asked for an interrupt at `mark`; 0 where it is going to interrupt anyway.

        A queue that waits for a signal is no hang. The wait lasts while any queue of the process
        progresses, which may be about to signal, and always until the end of `timeout_s`.
        Raises: the device's fault.
        """
        if reached():
            return Waited.DONE
        clock, ring = self._clock, rings[-1]
        deadline_s, before = clock() + timeout_s, progress()
        waited = ring.wait_for(reached, timeout_s, steps, mark)
        while waited is Waited.STUCK and clock() < deadline_s:
            if any(not one.idle and not self._parked(one) for one in rings):
                break
            if timeout_s == math.inf and progress() == before:
                break
            before = progress()
            waited = ring.wait_for(reached, deadline_s - clock(), steps, mark)
        return waited

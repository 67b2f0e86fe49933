"""The workgroups' barrier: waves signal that they arrived, and wait for the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from boards.amd.wave.strict import Observer
from boards.machine.arrays import Array


class Barriers:
    """One barrier for each workgroup. A wave signals once, then waits; gfx11 does both at once."""

    # src: RDNA4 ISA 4.4.3, S_BARRIER_SIGNAL and S_BARRIER_WAIT: an ended wave counts as arrived.

    def __init__(self, waves: int, per_group: int, observer: Observer | None) -> None:
        self._per_group, self._observer = per_group, observer
        self._ended = np.zeros(waves, np.bool_)
        self._signalled = np.zeros(waves, np.bool_)
        self._complete = np.zeros(waves, np.bool_)
        """The barrier that this wave signalled is complete, and it has not waited for it yet."""
        self._waiting = np.zeros(waves, np.bool_)
        self._parked = np.zeros(waves, np.int64)

    def end(self, waves: Array) -> None:
        """Waves are over."""
        self._ended[waves] = True
        self._waiting[waves] = False

    def signal(self, waves: Array) -> None:
        """Waves have arrived."""
        self._signalled[waves] = True
        if self._observer is not None:
            self._observer.signal(waves)

    def wait(self, waves: Array, after: int) -> Array:
        """Park waves until their barrier is complete; those that never signalled it."""
        self._waiting[waves] = True
        self._parked[waves] = after
        return np.asarray(waves[~(self._signalled[waves] | self._complete[waves])])

    def release(self) -> Iterator[tuple[int, Array]]:
        """(program counter, waves) of those that may go on."""
        arrived = (self._signalled | self._ended).reshape(-1, self._per_group).all(axis=1)
        done = self._signalled & np.repeat(arrived, self._per_group)
        self._complete |= done
        self._signalled &= ~done
        free = np.flatnonzero(self._waiting & self._complete)
        if not len(free):
            return
        self._waiting[free] = self._complete[free] = False
        if self._observer is not None:
            self._observer.races.waits[free] += 1
        parked = self._parked[free]
        for pc in np.unique(parked):
            yield int(pc), free[parked == pc]

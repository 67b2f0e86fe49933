"""Who runs next: threads that parted, and the chunks of a grid.

Threads that are furthest behind in the code go first, so that lanes that parted meet again. But
code may wait for others: a lane that holds a lock, a block that has yet to store a flag. Since
Volta each thread makes progress, and blocks that are on the GPU together do: CUDA C++ Programming
Guide, "Independent Thread Scheduling" and forward progress of cooperative groups. So who has waited
for long gets a turn of several branches, and a chunk that does not end lets the next one begin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.nv.launch import EndlessGrid
from boards.nv.warp import flow
from boards.nv.warp.state import RUNNING, Threads

PATIENCE: Final = 48
"""Choices after which who is ready and was not chosen gets a turn."""
_LONG: Final = 4 * PATIENCE
"""Choices after which convergence barriers are cleared for lanes that ran YIELD."""
_TURN: Final = 16
"""Choices of a turn."""
SLICE_STEPS: Final = 1 << 12
"""Of a chunk, before another one runs."""
TOGETHER: Final = 32
"""Chunks that are on the GPU together: as many threads as the largest of its chips holds."""
_MOST_TURNS: Final = 1 << 26
NOWHERE: Final = 1 << 62
"""Behind all code."""


class Turns:
    """Chooses which threads of a chunk run next."""

    def __init__(self, t: Threads) -> None:
        self._t = t
        self._choice = self._left = 0
        self._last = np.zeros(t.count, np.int64)
        """Of a thread, the last choice that took it."""
        self._favoured = np.zeros(t.count, bool)

    def choose(self) -> tuple[Array, int, int] | None:
        """(threads, their place, the next place where others are); None if none is ready."""
        t = self._t
        ready = t.alive & (t.waits == RUNNING)
        if not ready.any():
            return None
        self._choice += 1
        if self._choice % _LONG == 0 and t.yielded.any():
            flow.clear_yielded(t)
        some = self._those_who_waited(ready)
        pc = int(t.pc[some].min())
        mask = ready & (t.pc == pc)
        if some is not ready:  # lanes that have met stay together
            mask &= t.whole_warps(some & mask)
        later = t.pc[ready & (t.pc > pc)]
        self._last[mask] = self._choice
        return mask, pc, int(later.min()) if len(later) else NOWHERE

    def _those_who_waited(self, ready: Array) -> Array:
        """The threads of a turn that is not over, or who begins one, or all."""
        t = self._t
        if self._left:
            self._left -= 1
            some = ready & self._favoured
            if some.any():
                return some
            self._left = 0
        elif self._choice % PATIENCE == 0:
            waited = np.where(ready, self._last, self._choice)
            first = int(waited.argmin())
            if self._choice - int(waited[first]) >= PATIENCE:
                self._favoured = ready & (t.pc == t.pc[first])
                self._left = _TURN
                return self._favoured
        return ready


def in_turns(chunks: Iterator[Iterator[None]]) -> None:
    """Runs all chunks to their end; each yields after a slice of steps. Raises: EndlessGrid."""
    begun = deque[Iterator[None]]()
    for _ in range(_MOST_TURNS):
        new = next(chunks, None) if len(begun) < TOGETHER else None
        if new is None and not begun:
            return
        now = begun.popleft() if new is None else new
        for _slice in now:
            begun.append(now)
            break
    raise EndlessGrid

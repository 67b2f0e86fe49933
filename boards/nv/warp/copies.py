"""Copies from global to shared memory that run beside the code: LDGSTS, LDGDEPBAR, DEPBAR.

The bytes are not in shared memory before the code has waited for their group.
src: PTX ISA, cp.async, cp.async.commit_group, cp.async.wait_group
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array

Land = Callable[[Array], None]
"""Stores the copies of some threads."""


@dataclass(slots=True)
class _Copy:
    group: Array
    """Of each thread, its group; -1 where there is nothing to copy."""
    land: Land


class Copies:
    """Copies of a chunk of threads that have not arrived."""

    def __init__(self, count: int) -> None:
        self._group = np.zeros(count, np.int64)
        """Of each thread, how many groups it has closed."""
        self._open: list[_Copy] = []
        self.scoreboards = 0
        """Those that closed groups count in, as bits."""

    def begin(self, mask: Array, land: Land) -> None:
        """A copy of the threads of a mask."""
        self._open.append(_Copy(np.where(mask, self._group, -1), land))

    def close(self, mask: Array, scoreboard: int | None) -> None:
        """LDGDEPBAR: what was begun is a group."""
        self._group[mask] += 1
        if scoreboard is not None:
            self.scoreboards |= 1 << scoreboard

    def arrive(self, mask: Array, left: int) -> None:
        """All but the last groups have arrived for the threads of a mask."""
        limit = self._group - left
        kept = []
        for copy in self._open:
            done = mask & (copy.group >= 0) & (copy.group < limit)
            if done.any():
                copy.land(done)
                copy.group[done] = -1
            if (copy.group >= 0).any():
                kept.append(copy)
        self._open = kept

    def __bool__(self) -> bool:
        return bool(self._open)

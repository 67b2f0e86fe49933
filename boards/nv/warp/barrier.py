"""Block barriers: 16 of them, whole blocks or as many threads as BAR says, and what BAR.RED counts.

src: PTX ISA, barrier: a warp that arrives counts as all of its threads; threads that have ended
are not waited for where no number is given
"""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array

BARRIERS = 16
_LANES = 32
POPC, AND, OR = range(3)
"""Reductions. src: Mesa sm70_encode.rs, OpBar"""


class Barriers:
    """Who is at which barrier, in a chunk of blocks."""

    def __init__(self, blocks: int, padded: int, alive: Array) -> None:
        self._padded = padded
        self._arrived = np.zeros((blocks, BARRIERS), np.int64)
        """Warps that went on: BAR.ARV."""
        self.number = np.zeros(len(alive), np.int64)
        self.wanted = np.zeros(len(alive), np.int64)
        """Threads that a barrier waits for; 0 for the block's."""
        self._operation = np.full(len(alive), -1, np.int8)
        self._vote = np.zeros(len(alive), bool)
        self.result = np.zeros(len(alive), np.uint32)

    def sync(self, number: Array, wanted: Array, mask: Array) -> None:
        """Threads that wait."""
        self.number[mask], self.wanted[mask] = number[mask], wanted[mask]
        self._operation[mask] = -1

    def reduce(self, operation: int, vote: Array, mask: Array) -> None:
        """What threads that wait bring along."""
        self._operation[mask], self._vote[mask] = operation, vote[mask]

    def arrive(self, number: Array, mask: Array) -> None:
        """Warps that do not wait."""
        first = mask.reshape(-1, _LANES)
        for warp in np.flatnonzero(first.any(axis=1)):
            thread = warp * _LANES + int(first[warp].argmax())
            self._arrived[thread // self._padded, number[thread]] += 1

    def free(self, waiting: Array, alive: Array) -> tuple[Array, Array]:
        """(threads that may go on, blocks where a barrier is over)."""
        free = np.zeros(len(waiting), bool)
        at, living = waiting.reshape(-1, self._padded), alive.reshape(-1, self._padded)
        numbers, wanted = (x.reshape(at.shape) for x in (self.number, self.wanted))
        met = np.zeros(len(at), bool)
        for number in np.unique(self.number[waiting]):
            here = at & (numbers == number)
            some = here.any(axis=1)
            whole = some & ~(living & ~here).any(axis=1)
            need = np.where(here, wanted, 0).max(axis=1)
            warps = (here.reshape(len(at), -1, _LANES)
                     | ~living.reshape(len(at), -1, _LANES)).all(axis=2)  # fmt: skip
            warps &= here.reshape(len(at), -1, _LANES).any(axis=2)
            count = warps.sum(axis=1) + self._arrived[:, number]
            done = np.where(need == 0, whole, some & (count * _LANES >= need))
            self._arrived[done, number] = 0
            met |= done
            now = (here & done[:, None]).ravel()
            self._reduce(now)
            free |= now
        return free, met

    def _reduce(self, now: Array) -> None:
        given = now & (self._operation >= 0)
        if not given.any():
            return
        votes = (given & self._vote).reshape(-1, self._padded).sum(axis=1)
        voters = given.reshape(-1, self._padded).sum(axis=1)
        counts, wholes = (np.repeat(x, self._padded) for x in (votes, voters))
        every = np.where(self._operation == AND, counts == wholes, counts > 0)
        found = np.where(self._operation == POPC, counts, every)
        self.result[given] = found[given]

"""Who wrote each cache line, and who may already see it: missing flushes and invalidates.

Time is counted in releases. A line that agent W wrote is visible to agent R once W has released
after the write and R has acquired after that release. Host writes are not seen here, and
uncached memory is not asked about.
"""

from __future__ import annotations

import numpy as np

from boards.amd.pool import LINE_SHIFT, Pool
from boards.amd.wave_types import Array

_HOST = 0
_ALWAYS = np.iinfo(np.int64).max
_CAPACITY = 64
Lines = Array | slice


class Coherence:
    """The caches of every agent of a board, as far as they can go stale."""

    def __init__(self) -> None:
        self.names = ["host"]
        self._now = 1
        self._released = np.zeros(_CAPACITY, np.int64)
        self._wrote = np.zeros(_CAPACITY, np.int64)
        self._seen = np.zeros((_CAPACITY, _CAPACITY), np.int64)
        self._beyond_l2 = np.zeros(_CAPACITY, np.bool_)

    def agent(self, name: str, *, beyond_l2: bool = False) -> int:
        """A new agent, which has seen everything released so far.

        One `beyond_l2` writes memory itself; the others share an L2, which may hold older lines.
        """
        number = len(self.names)
        self.names.append(name)
        if number >= len(self._released):
            more = len(self._released)
            self._released = np.pad(self._released, (0, more))
            self._wrote = np.pad(self._wrote, (0, more))
            self._seen = np.pad(self._seen, ((0, more), (0, more)))
            self._beyond_l2 = np.pad(self._beyond_l2, (0, more))
        self._beyond_l2[number] = beyond_l2
        self.acquire(number)
        return number

    def release(self, agent: int) -> None:
        """What `agent` wrote may be seen by whoever acquires from now on."""
        self._released[agent] = self._now
        self._now += 1

    def acquire(self, agent: int, *, l2: bool = True) -> None:
        """`agent` drops what it has cached, and with `l2` what the shared cache holds."""
        seen = self._seen[agent]
        np.copyto(seen, self._released, where=True if l2 else ~self._beyond_l2)
        seen[agent] = seen[_HOST] = _ALWAYS

    def wrote(self, agent: int, pool: Pool, lines: Lines) -> None:
        """`agent` wrote these lines of a pool."""
        pool.writer[lines] = agent
        pool.written_at[lines] = self._now
        self._wrote[agent] = self._now

    def suspects(self, agent: int) -> bool:
        """Whether anything at all could be stale for `agent`."""
        return bool((self._wrote > self._seen[agent]).any())

    def stale(self, agent: int, pool: Pool, lines: Lines) -> tuple[int, int] | None:
        """(writer, offset) of a line that `agent` must not read yet, or None."""
        writer = pool.writer[lines]
        late = np.flatnonzero(pool.written_at[lines] > self._seen[agent][writer])
        if not len(late):
            return None
        at = int(late[0])
        line = lines.start + at if isinstance(lines, slice) else int(lines[at])
        return int(writer[at]), line << LINE_SHIFT


def lines_of(offsets: Array, nbytes: int) -> Array:
    """Line numbers of elements, with neighbours in the same line counted once."""
    lines = offsets >> LINE_SHIFT
    if len(lines) > 1:
        keep = np.empty(len(lines), np.bool_)
        keep[0] = True
        np.not_equal(lines[1:], lines[:-1], out=keep[1:])
        lines = lines[keep]
    if nbytes > 1 and ((offsets & (1 << LINE_SHIFT) - 1) + nbytes > 1 << LINE_SHIFT).any():
        lines = np.concatenate((lines, offsets + (nbytes - 1) >> LINE_SHIFT))
    return lines

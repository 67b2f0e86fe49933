"""Who wrote each cache line, and who may already see it: missing flushes and invalidates.

Time is counted in releases. A line that agent W wrote is visible to agent R once W has released
after the write and R has acquired after that release. Host writes are not seen here, and
uncached memory is not asked about.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        self._names = ["host"]
        self._before: dict[int, tuple[int, str]] = {}
        """When the last agent of a number retired, and its name."""
        self._retired: list[int] = []
        self._now = 1
        self._released = np.zeros(_CAPACITY, np.int64)
        self._wrote = np.zeros(_CAPACITY, np.int64)
        self._seen = np.zeros((_CAPACITY, _CAPACITY), np.int64)
        self._beyond_l2 = np.zeros(_CAPACITY, np.bool_)

    def agent(self, name: str, *, beyond_l2: bool = False) -> int:
        """A new agent, which has seen everything released so far.

        One `beyond_l2` writes memory itself; the others share an L2, which may hold older lines.
        """
        number = self._retired.pop() if self._retired else len(self._names)
        if number < len(self._names):
            self._names[number] = name
        else:
            self._names.append(name)
        if number >= len(self._released):
            more = len(self._released)
            self._released = np.pad(self._released, (0, more))
            self._wrote = np.pad(self._wrote, (0, more))
            self._seen = np.pad(self._seen, ((0, more), (0, more)))
            self._beyond_l2 = np.pad(self._beyond_l2, (0, more))
        self._beyond_l2[number] = beyond_l2
        self.acquire(number)
        return number

    def retire(self, agent: int) -> None:
        """`agent` is no more: its caches were written back, and its number goes to another."""
        self.release(agent)
        self._before[agent] = self._now, self._names[agent]
        self._retired.append(agent)

    def release(self, agent: int) -> None:
        """What `agent` wrote may be seen by whoever acquires from now on."""
        self._released[agent] = self._now
        self._now += 1

    def acquire(self, agent: int, *, l2: bool = True) -> None:
        """`agent` drops what it has cached, and with `l2` what the shared cache holds."""
        seen = self._seen[agent]
        np.copyto(seen, self._released, where=True if l2 else ~self._beyond_l2)
        seen[agent] = seen[_HOST] = _ALWAYS

    def share(self, agent: int, others: Sequence[int]) -> None:
        """`agent` begins with caches that the others filled: it has seen what all of them have."""
        seen = self._seen[agent]
        np.copyto(seen, self._seen[list(others)].min(axis=0))
        seen[agent] = seen[_HOST] = _ALWAYS

    def wrote(self, agent: int, pool: Pool, lines: Lines) -> None:
        """`agent` wrote these lines of a pool."""
        pool.writer[lines] = agent
        pool.written_at[lines] = self._now
        self._wrote[agent] = self._now

    def suspects(self, agent: int) -> bool:
        """Whether anything at all could be stale for `agent`."""
        return bool((self._wrote > self._seen[agent]).any())

    def stale(self, agent: int, pool: Pool, lines: Lines) -> tuple[str, int] | None:
        """(writer's name, offset) of a line that `agent` must not read yet, or None."""
        writer = pool.writer[lines]
        late = np.flatnonzero(pool.written_at[lines] > self._seen[agent][writer])
        if not len(late):
            return None
        at = int(late[0])
        line = lines.start + at if isinstance(lines, slice) else int(lines[at])
        return self._name(int(writer[at]), int(pool.written_at[line])), line << LINE_SHIFT

    def _name(self, number: int, written_at: int) -> str:
        """Who had a number then."""
        retired, name = self._before.get(number, (0, ""))
        return name if written_at < retired else self._names[number]


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

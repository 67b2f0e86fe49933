"""Who wrote each cache line, and who may already see it: missing flushes and invalidates.

Time is counted in releases. A line that agent W wrote is visible to agent R once W has released
after the write and R has acquired after that release, both in a scope that reaches from one to the
other: their common L2, their GPU, or the system. Host writes are not seen here, and uncached memory
is not asked about.

SDMA reads and writes memory itself. What it wrote reaches a reader of its GPU in agent scope: by
LLVM's model no acquire drops lines of local memory from an L2, writes of others invalidate them. It
reads what others wrote once they have released in system scope, which writes dirty lines back.

# src: LLVM AMDGPUUsage.rst, "Memory Model GFX942": where an agent has several L2s, agent scope
# src: writes back what is dirty, and invalidates what is not local; system scope does so everywhere
# src: "Memory Model GFX90A": lines of local memory are invalidated by others' coherent writes;
# src: "Memory Model GFX10-GFX11": no acquire invalidates an L2
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from boards.amd.cp.engine_types import Scope
from boards.machine.arrays import Array
from boards.machine.pool import LINE_SHIFT, Pool

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
        self._released = np.zeros((len(Scope), _CAPACITY), np.int64)
        """When each agent last released in a scope, or in a wider one."""
        self._wrote = np.zeros(_CAPACITY, np.int64)
        self._seen = np.zeros((_CAPACITY, _CAPACITY), np.int64)
        self._l2 = np.zeros(_CAPACITY, np.int64)
        self._gpu = np.zeros(_CAPACITY, np.int64)
        self._direct = np.zeros(_CAPACITY, np.bool_)
        """Which agents work behind no L2."""
        self._places: dict[tuple[str, int], int] = {}
        self._acquired: dict[int, tuple[int, Scope]] = {}
        """When, and in which scope, an agent last acquired: again changes nothing until then."""
        self._beside: dict[int, tuple[Array, Array, Array]] = {}
        """For each agent, which ones are at its L2, elsewhere on its GPU, and elsewhere."""

    def agent(self, name: str, gpu: str = "", l2: int | None = 0) -> int:
        """A new agent, which has seen everything released so far.

        It works behind an L2 of a GPU; without `l2`, or without `gpu`, it reads and writes memory
        itself.
        """
        number = self._retired.pop() if self._retired else len(self._names)
        if number < len(self._names):
            self._names[number] = name
        else:
            self._names.append(name)
        if number >= len(self._wrote):
            more = len(self._wrote)
            self._released = np.pad(self._released, ((0, 0), (0, more)))
            self._beside.clear()
            self._wrote = np.pad(self._wrote, (0, more))
            self._seen = np.pad(self._seen, ((0, more), (0, more)))
            self._l2 = np.pad(self._l2, (0, more))
            self._gpu = np.pad(self._gpu, (0, more))
            self._direct = np.pad(self._direct, (0, more))
        own, behind = -1 - number, l2 if gpu else None
        at = (
            self._place(gpu, -1) if gpu else own,
            own if behind is None else self._place(gpu, behind),
        )
        if at != (self._gpu[number], self._l2[number]):
            self._gpu[number], self._l2[number] = at
            self._direct[number] = behind is None
            self._beside.clear()
            self._acquired.clear()
        self._acquired.pop(number, None)
        self.acquire(number)
        return number

    def _place(self, gpu: str, l2: int) -> int:
        """A number for a GPU (`l2` -1), or for one of its caches."""
        return self._places.setdefault((gpu, l2), len(self._places))

    def retire(self, agent: int) -> None:
        """`agent` is no more: its caches were written back, and its number goes to another."""
        self.release(agent)
        self._before[agent] = self._now, self._names[agent]
        self._retired.append(agent)

    def release(self, agent: int, scope: Scope = Scope.SYSTEM) -> None:
        """What `agent` wrote may be seen by those in `scope` who acquire from now on."""
        self._released[: scope + 1, agent] = self._now
        self._now += 1

    def acquire(self, agent: int, scope: Scope = Scope.SYSTEM) -> None:
        """`agent` drops what it, and the caches in front of those in `scope`, may hold."""
        now, before = self._acquired.get(agent, (0, scope))
        if now == self._now and before >= scope:
            return
        self._acquired[agent] = self._now, scope
        seen = self._seen[agent]
        beside, near, far = self._beside.get(agent) or self._around(agent)
        np.copyto(seen, self._released[Scope.L2], where=beside)
        if scope >= Scope.AGENT:
            np.copyto(seen, self._released[Scope.AGENT], where=near)
        if scope >= Scope.SYSTEM:
            np.copyto(seen, self._released[Scope.SYSTEM], where=far)
        seen[agent] = seen[_HOST] = _ALWAYS

    def _around(self, agent: int) -> tuple[Array, Array, Array]:
        """Which agents are at the same L2, elsewhere on the same GPU, and elsewhere."""
        near, beside = self._gpu == self._gpu[agent], self._l2 == self._l2[agent]
        if self._direct[agent]:
            near = beside
        self._beside[agent] = beside, near & ~beside, ~near
        return self._beside[agent]

    def share(self, agent: int, others: Sequence[int]) -> None:
        """`agent` begins with caches that the others filled: it has seen what all of them have."""
        self._acquired.pop(agent, None)
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

    def dirty(self, agent: int, pool: Pool, lines: Lines) -> tuple[str, int] | None:
        """(writer's name, offset) of a line that a cache still has to write back, or None.

        Asked for agents that write memory itself: what they write there is lost later.
        """
        writer = pool.writer[lines]
        behind_l2 = ~self._direct[writer] & (writer != _HOST)
        kept = behind_l2 & (pool.written_at[lines] > self._released[Scope.SYSTEM][writer])
        found = np.flatnonzero(kept)
        if not len(found):
            return None
        at = int(found[0])
        line = lines.start + at if isinstance(lines, slice) else int(lines[at])
        return self._name(int(writer[at]), int(pool.written_at[line])), line << LINE_SHIFT

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

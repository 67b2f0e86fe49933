"""An address space as one agent sees it: translation, permission, poison, stale lines.

Whole vectors are moved at numpy's speed: one translation when all their addresses lie in one run,
slices instead of gathers when they are dense.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from boards.amd.cp.engine_types import Scope
from boards.amd.memory.coherence import Coherence, lines_of
from boards.amd.memory.moves import gather, is_dense, scatter
from boards.amd.memory.tlb import Run, Tlb
from boards.amd.wave.types import MemoryFault
from boards.machine.arrays import Addresses, Array, Words
from boards.machine.pool import LINE_SHIFT, Pool, poison, poison_at

_DWORD = 4
_FEW_WORDS = 8


@dataclass(slots=True)
class Checks:
    """What a space checks beyond permissions."""

    poison: bool = True
    """Reads of VRAM that was never written."""
    coherence: bool = True
    """Reads of lines that another agent wrote and did not flush, or this one did not invalidate."""


@dataclass(slots=True)
class Shared:
    """What all agents of one process on one GPU share."""

    tlb: Tlb
    coherence: Coherence
    checks: Checks
    find: Callable[[str, str, str], None]
    """Reports a violation: kind, what, and details that do not make it another one."""
    buffer_at: Callable[[int], str]
    """Names the buffer at an address, for messages."""
    prefix: str
    """Makes an agent's name unique on the board."""


Agents: TypeAlias = "WeakValueDictionary[str, AgentSpace]"


class AgentSpace:
    """`Space` of one agent; `agent` gives another one of the same tables."""

    def __init__(
        self, shared: Shared, name: str, agents: Agents | None = None, l2: int = 0
    ) -> None:
        self._shared, self.name = shared, name
        self._beyond = name.startswith("SDMA")
        behind = None if self._beyond else l2
        self._number = shared.coherence.agent(f"{shared.prefix}{name}", shared.prefix, behind)
        self._agents: Agents = WeakValueDictionary() if agents is None else agents
        self._agents[name] = self
        """Those of the same tables, for as long as somebody uses them."""
        self._defined_only = not name.startswith("SDMA")
        """Copying undefined bytes is no use of them."""

    def __del__(self) -> None:
        self._shared.coherence.retire(self._number)

    def agent(self, name: str, *, l2: int = 0) -> AgentSpace:
        found = self._agents.get(name)
        return found if found is not None else AgentSpace(self._shared, name, self._agents, l2)

    def lose(self) -> None:
        """The GPU is reset: no cache of these tables has anything left to write back."""
        for agent in list(self._agents.values()):
            agent.release()

    def release(self, scope: Scope = Scope.SYSTEM) -> None:
        self._shared.coherence.release(self._number, scope)

    def acquire(self, scope: Scope = Scope.SYSTEM) -> None:
        self._shared.coherence.acquire(self._number, scope)

    def share(self, others: Sequence[AgentSpace]) -> None:
        """See `Space.share`."""
        if others:
            self._shared.coherence.share(self._number, [other._number for other in others])

    def load(self, va: Addresses, nbytes: int) -> Words:
        if not len(va):
            return np.zeros((max(1, nbytes // _DWORD), 0), np.uint32)
        run = self._one_run(va, nbytes, "read")
        if run is not None:
            return self._load_run(run, va, nbytes)
        return self._load_scattered(va, nbytes)

    def _load_run(self, run: Run, va: Addresses, nbytes: int) -> Words:
        off = self._offsets(run, va)
        dense = is_dense(off, nbytes)
        if run.cached and self._shared.checks.coherence:
            self._check_stale(run, off, nbytes, dense)
        words = gather(run.pool, off, nbytes, dense)
        if run.pool.poisoned and self._defined_only and self._shared.checks.poison:
            self._check_poison(run, off, nbytes, words)
        return words

    def _load_scattered(self, va: Addresses, nbytes: int) -> Words:
        runs, at = self._runs(va, nbytes, "read")
        if runs is None:
            step, count = _part(nbytes)
            parts = [self.load(va + np.uint64(step * i), step) for i in range(count)]
            return _joined(parts, step, nbytes)
        words = np.empty((max(1, nbytes // _DWORD), len(va)), np.uint32)
        for number in np.unique(at).tolist():
            chosen = at == number
            words[:, chosen] = self._load_run(runs[number], va[chosen], nbytes)
        return words

    def store(self, va: Addresses, data: Words, nbytes: int) -> None:
        if not len(va):
            return
        run = self._one_run(va, nbytes, "write")
        if run is not None:
            self._store_run(run, va, data, nbytes)
            return
        runs, at = self._runs(va, nbytes, "write")
        if runs is None:
            step, count = _part(nbytes)
            for i in range(count):
                part = data[i * step // _DWORD][None] >> np.uint32(i * step % _DWORD * 8)
                self.store(va + np.uint64(step * i), part, step)
            return
        for number in np.unique(at).tolist():
            chosen = at == number
            self._store_run(runs[number], va[chosen], data[:, chosen], nbytes)

    def _store_run(self, run: Run, va: Addresses, data: Words, nbytes: int) -> None:
        off = self._offsets(run, va)
        dense = is_dense(off, nbytes)
        if run.cached and self._shared.checks.coherence:
            self._shared.coherence.wrote(self._number, run.pool, _lines(off, nbytes, dense))
        scatter(run.pool, off, data, nbytes, dense)

    def fetch(self, va: int, nbytes: int) -> bytes:
        """Code from `va` on: as much as there is, a word at least."""
        found = b""
        for _ in range(nbytes):
            at = va + len(found)
            try:
                run = self._permitted(at, "execute")
            except MemoryFault:
                if not found:
                    raise
                break
            found += self._bytes(run, at, min(nbytes - len(found), run.end - at))
            if len(found) == nbytes:
                break
        if len(found) < _DWORD:
            raise MemoryFault("unmapped", "execute", va + len(found))
        return found

    def read(self, va: int, nbytes: int) -> bytes:
        if nbytes > 0:
            run = self._permitted(va, "read")
            if va + nbytes <= run.end:
                return self._bytes(run, va, nbytes)
        parts = []
        for run, start, count in self._pieces(va, nbytes, "read"):
            parts.append(self._bytes(run, start, count))
        return b"".join(parts)

    def write(self, va: int, data: bytes) -> None:
        done = 0
        for run, start, count in self._pieces(va, len(data), "write"):
            off = run.offset + start - run.start
            if run.cached and self._shared.checks.coherence:
                lines = slice(off >> LINE_SHIFT, (off + count - 1 >> LINE_SHIFT) + 1)
                if self._beyond:
                    self._check_dirty(run, lines)
                self._shared.coherence.wrote(self._number, run.pool, lines)
            part = np.frombuffer(data, np.uint8, count, done)
            run.pool.bytes[off : off + count] = part
            done += count

    def _bytes(self, run: Run, va: int, count: int) -> bytes:
        off = run.offset + va - run.start
        shared = self._shared
        if run.cached and shared.checks.coherence and shared.coherence.suspects(self._number):
            self._check_stale(run, np.array([off]), count, True)
        if run.pool.poisoned and self._defined_only and shared.checks.poison:
            first, last = -(-off // _DWORD), (off + count) // _DWORD
            if last > first and run.pool.may_be_undefined(first * _DWORD, last * _DWORD):
                self._check_words(run, first, last)
        return run.pool.bytes[off : off + count].tobytes()

    def _pieces(self, va: int, nbytes: int, access: str) -> list[tuple[Run, int, int]]:
        """The runs a range lies in. Raises: MemoryFault before anything is touched."""
        pieces, end = [], va + nbytes
        for _ in range(nbytes):
            if va >= end:
                break
            run = self._permitted(va, access)
            count = min(end, run.end) - va
            pieces.append((run, va, count))
            va += count
        return pieces

    def _permitted(self, va: int, access: str, index: int = 0) -> Run:
        run = self._shared.tlb.lookup(va)
        if run is None:
            raise MemoryFault("unmapped", access, va, index)
        kind = _refusal(run, access)
        if kind:
            raise MemoryFault(kind, access, va, index)
        return run

    def _one_run(self, va: Addresses, nbytes: int, access: str) -> Run | None:
        """The run that holds every element, or None when there is no such run."""
        run = self._shared.tlb.covering(int(va.min()), int(va.max()) + nbytes)
        if run is not None:
            kind = _refusal(run, access)
            if kind:
                raise MemoryFault(kind, access, int(va[0]), 0)
        return run

    def _runs(self, va: Addresses, nbytes: int, access: str) -> tuple[list[Run] | None, Array]:
        """The run of each element. Raises: MemoryFault for the first element that has none.

        (None, ...) when elements cross from one run into another: take them apart.
        """
        runs, at, missing = self._shared.tlb.split(va, nbytes)
        kinds = [_refusal(run, access) for run in runs]
        refused = np.array([bool(kind) for kind in kinds], np.bool_)
        bad = missing | refused[at] if runs else missing
        straddles = False
        for index in np.flatnonzero(bad).tolist():
            self._permitted(int(va[index]), access, index)
            self._permitted(int(va[index]) + nbytes - 1, access, index)
            straddles = True
        if not straddles:
            return runs, at
        runs, at, missing = self._shared.tlb.split(va, nbytes)
        return (None if missing.any() else runs), at

    @staticmethod
    def _offsets(run: Run, va: Addresses) -> Array:
        return va.astype(np.int64) + (run.offset - run.start)

    def _check_stale(self, run: Run, off: Array, nbytes: int, dense: bool) -> None:
        coherence = self._shared.coherence
        if not coherence.suspects(self._number):
            return
        found = coherence.stale(self._number, run.pool, _lines(off, nbytes, dense))
        if found is not None:
            writer, where = found[0], run.start + found[1] - run.offset
            self._shared.find(
                "stale read",
                f"{self.name} reads what {writer} wrote to {self._shared.buffer_at(where)} "
                "without a release and an acquire in between",
                f"at {where:#x}",
            )

    def _check_dirty(self, run: Run, lines: slice) -> None:
        found = self._shared.coherence.dirty(self._number, run.pool, lines)
        if found is not None:
            writer, where = found[0], run.start + found[1] - run.offset
            self._shared.find(
                "dirty line",
                f"{self.name} writes {self._shared.buffer_at(where)}, where a cache still has to "
                f"write back what {writer} wrote",
                f"at {where:#x}",
            )

    def _check_poison(self, run: Run, off: Array, nbytes: int, words: Words) -> None:
        low, high = int(off.min()), int(off.max()) + nbytes
        if not run.pool.may_be_undefined(low, high):
            return
        where = _poisoned(run.pool, off, nbytes, words)
        if where is not None:
            self._report_poison(run, where)

    def _check_words(self, run: Run, first: int, last: int) -> None:
        """The same of words number `first`...`last` - 1 of the pool."""
        words = run.pool.words[first:last]
        if last - first <= _FEW_WORDS:  # numpy takes longer to begin
            found = poison_at(first, words.tolist())
        else:
            hit = words == poison(first, last - first)
            found = first + int(np.argmax(hit)) if hit.any() else -1
        if found >= 0:
            self._report_poison(run, found * _DWORD)

    def _report_poison(self, run: Run, where: int) -> None:
        va = run.start + where - run.offset
        buffer = self._shared.buffer_at(va)
        what = f"{self.name} reads {buffer}, never written"
        self._shared.find("uninitialised VRAM", what, f"at {va:#x}")


def _poisoned(pool: Pool, off: Array, nbytes: int, words: Words) -> int | None:
    """Offset of a word that still is poison, among those that elements lie in."""
    if nbytes < _DWORD or (off & _DWORD - 1).any():
        last = off + nbytes - 1 >> 2
        steps = range(int((last - (off >> 2)).max()) + 1)
        index = np.unique([np.minimum((off >> 2) + step, last) for step in steps])
        hit = pool.words[index] == _expected(index)
        return int(index[np.argmax(hit)]) << 2 if hit.any() else None
    for i in range(nbytes // _DWORD):
        hit = words[i] == _expected((off >> 2) + i)
        if hit.any():
            return int(off[np.argmax(hit)]) + _DWORD * i
    return None


def _expected(index: Array) -> Words:
    """The poison of words number `index`."""
    one, two = poison(0, 2)
    words: Words = index.astype(np.uint32) * (two - one) + one
    return words


def _refusal(run: Run, access: str) -> str:
    """Why an access to a run is refused; empty when it is not."""
    if access == "execute":
        return "" if run.executable else "no-execute"
    if access == "write":
        return "" if run.writable else "read-only"
    return "" if run.readable else "unreadable"


def _lines(off: Array, nbytes: int, dense: bool) -> Array | slice:
    if dense:
        return slice(int(off[0]) >> LINE_SHIFT, (int(off[-1]) + nbytes - 1 >> LINE_SHIFT) + 1)
    return lines_of(off, nbytes)


def _part(nbytes: int) -> tuple[int, int]:
    """Size and number of the parts of elements that cross runs."""
    return (1, nbytes) if nbytes <= _DWORD else (_DWORD, nbytes // _DWORD)


def _joined(parts: list[Words], step: int, nbytes: int) -> Words:
    """Parts of elements as whole elements again."""
    if step == _DWORD:
        return np.concatenate(parts)
    words = np.zeros_like(parts[0])
    for i in range(nbytes):
        words |= parts[i] << np.uint32(8 * i)
    return words

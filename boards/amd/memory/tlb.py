"""Translations a GPU has cached, as runs of pages; they stay until the kernel flushes them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from boards.amd.memory.pages import (
    EXECUTABLE,
    HUGE_BYTES,
    READABLE,
    SYSTEM,
    WRITEABLE,
    Format,
    Leaf,
)
from boards.machine.arrays import Addresses, Array
from boards.machine.pool import Pool


@dataclass(frozen=True, slots=True)
class Run:
    """Addresses that are mapped alike onto one piece of a pool."""

    start: int
    end: int
    pool: Pool
    offset: int
    """Of `start`, in the pool."""
    readable: bool
    writable: bool
    executable: bool
    cached: bool
    """Whether agents may hold lines of it in caches of their own."""

    def joins(self, other: Run) -> bool:
        """Whether `other` continues this run."""
        return (
            other.start == self.end
            and other.pool is self.pool
            and other.offset - self.offset == self.end - self.start
            and (other.readable, other.writable) == (self.readable, self.writable)
            and (other.executable, other.cached) == (self.executable, self.cached)
        )


class Tables(Protocol):
    """What walks the page tables: the kernel's own view of them, or a hub's registers."""

    @property
    def format(self) -> Format: ...
    def walk(self, va: int) -> Leaf | None: ...


class Decoder(Protocol):
    """What lies behind addresses on the bus."""

    def decode(self, address: int) -> tuple[Pool, int] | None: ...


class Tlb:
    """The cached translations of one address space on one GPU."""

    def __init__(self, table: Tables, vram: Pool, bus: Decoder) -> None:
        self._table, self._vram, self._bus = table, vram, bus
        self._runs: list[Run] = []
        self._starts: list[int] = []
        self._last: Run | None = None
        self._arrays: tuple[Array, Array] | None = None
        self.walks, self.fills = 0, 0

    def flush(self) -> None:
        """Forget everything: what the kernel does after it has changed the tables."""
        self._runs, self._starts, self._last, self._arrays = [], [], None, None

    def forget_runs(self, which: Callable[[Run], bool]) -> None:
        """Forget some of it."""
        self._runs = [run for run in self._runs if not which(run)]
        self._starts = [run.start for run in self._runs]
        self._last = self._arrays = None

    def lookup(self, va: int) -> Run | None:
        """The run that holds an address; walks the tables on a miss. None: not mapped."""
        last = self._last
        if last is not None and last.start <= va < last.end:
            return last
        at = bisect_right(self._starts, va) - 1
        if at >= 0 and va < self._runs[at].end:
            self._last = self._runs[at]
        else:
            self._last = self._fill(va)
        return self._last

    def _fill(self, va: int) -> Run | None:
        self.walks += 1
        leaf = self._table.walk(va)
        run = None if leaf is None else self._place(leaf, va)
        return None if run is None else self._insert(run)

    def _place(self, leaf: Leaf, va: int) -> Run | None:
        """The memory behind what a walk for `va` ended at; None: there is none."""
        pool, offset = self._vram, leaf.pa
        if leaf.entry & SYSTEM:
            found = self._bus.decode(leaf.pa)
            if found is None:
                return None
            pool, offset = found
        if offset + leaf.nbytes > pool.nbytes:
            return None
        return self._run(leaf, pool, offset)

    def _run(self, leaf: Leaf, pool: Pool, offset: int) -> Run:
        pool.prepare(offset, leaf.nbytes)
        return Run(
            leaf.va, leaf.va + leaf.nbytes, pool, offset,
            bool(leaf.entry & READABLE), bool(leaf.entry & WRITEABLE),
            bool(leaf.entry & EXECUTABLE), not self._table.format.uncached(leaf.entry),
        )  # fmt: skip

    def _insert(self, run: Run) -> Run:
        """Put a run in its place; stale runs it overlaps keep what they cover."""
        at = bisect_right(self._starts, run.start)
        if at < len(self._runs) and run.end > self._runs[at].start:
            run = _cut(run, run.start, self._runs[at].start)
        if at and self._runs[at - 1].end > run.start:
            run = _cut(run, self._runs[at - 1].end, run.end)
        if at < len(self._runs) and run.joins(self._runs[at]):
            run = _cut(run, run.start, self._runs[at].end)
            del self._runs[at], self._starts[at]
        if at and self._runs[at - 1].joins(run):
            at -= 1
            run = _cut(self._runs[at], self._runs[at].start, run.end)
            del self._runs[at], self._starts[at]
        self._runs.insert(at, run)
        self._starts.insert(at, run.start)
        self._arrays = None
        self.fills += 1
        return run

    def covering(self, low: int, high: int) -> Run | None:
        """One run for all addresses from `low` up to `high`, or None."""
        run = self.lookup(low)
        for _ in range((high - low) // HUGE_BYTES + 2):
            if run is None or run.end >= high:
                return run
            reached = run.end
            self.lookup(reached)
            run = self.lookup(low)
            if run is None or run.end == reached:
                return None
        return None

    def split(self, va: Addresses, nbytes: int) -> tuple[list[Run], Array, Array]:
        """For scattered elements: the runs, which of them each is in, which are in none.

        An element that lies in two runs counts as in none.
        """
        at = np.zeros(len(va), np.intp)
        missing = np.ones(len(va), np.bool_)
        for _ in range(len(va) + 1):
            if self._runs:
                starts, ends = self._bounds()
                at = np.maximum(np.searchsorted(starts, va, side="right") - 1, 0)
                missing = (va < starts[at]) | (va + np.uint64(nbytes) > ends[at])
            known = self.fills
            for first in np.unique(va[missing] & np.uint64((1 << 64) - HUGE_BYTES)).tolist():
                part = va[missing & (va & np.uint64((1 << 64) - HUGE_BYTES) == np.uint64(first))]
                self.lookup(int(part[0]))
            if self.fills == known:
                break
        return self._runs, at, missing

    def _bounds(self) -> tuple[Array, Array]:
        if self._arrays is None:
            ends = [run.end for run in self._runs]
            self._arrays = np.array(self._starts, np.uint64), np.array(ends, np.uint64)
        return self._arrays


def _cut(run: Run, start: int, end: int) -> Run:
    return Run(
        start, end, run.pool, run.offset + start - run.start,
        run.readable, run.writable, run.executable, run.cached,
    )  # fmt: skip

"""The page table of one VMID: four levels in VRAM, written through the BAR, never read back.

Pages that lie together are given to the GPU as fragments, whole 2 MiB as one entry. What was
unmapped is only gone after a flush of the translation caches; `settle` is called after one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.pci.layout import TABLE_ROOTS
from drivers.amd.pci.page_format import (
    ADDRESS_MASK,
    ENTRIES,
    ENTRY_BYTES,
    FRAGMENT_SHIFT,
    HUGE_FRAGMENT,
    PDB0,
    PTB,
    SHIFTS,
    VALID,
    format_of,
)
from drivers.bare.vram import HUGE_BYTES, Piece
from drivers.base.errors import BadArgument

if TYPE_CHECKING:
    from drivers.amd.pci.gpu import BareGpu

VA_BITS: Final = 48
_PAGE_SHIFT: Final = SHIFTS[PTB]


@dataclass(eq=False, slots=True)
class _Table:
    """A page of entries, and what of it is in use."""

    offset: int
    level: int
    children: dict[int, _Table] = field(default_factory=dict)
    used: int = 0
    """Entries that are not empty."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Entries of one table that map memory lying together."""

    va: int
    address: int
    count: int
    level: int
    fragment: int


def _runs(va: int, pieces: Iterable[Piece]) -> Iterator[_Run]:
    """Pieces of memory as the largest pages that their addresses allow."""
    for address, nbytes in pieces:
        end = va + nbytes
        for _ in range(nbytes // PAGE_BYTES):
            if va == end:
                break
            run = _longest(va, address, end - va)
            yield run
            step = run.count << SHIFTS[run.level]
            va, address = va + step, address + step


def _longest(va: int, address: int, nbytes: int) -> _Run:
    both = va | address
    if not both & HUGE_BYTES - 1 and nbytes >= HUGE_BYTES:
        left = ENTRIES - (va >> SHIFTS[PDB0] & ENTRIES - 1)
        return _Run(va, address, min(left, nbytes // HUGE_BYTES), PDB0, HUGE_FRAGMENT)
    pages = min(both >> _PAGE_SHIFT & -(both >> _PAGE_SHIFT) or ENTRIES, nbytes // PAGE_BYTES)
    fragment = min(pages.bit_length() - 1, HUGE_FRAGMENT)
    return _Run(va, address, 1 << fragment, PTB, fragment)


def _same_table(run: _Run) -> tuple[int, int]:
    return run.level, run.va // (ENTRIES << SHIFTS[run.level])


class PageTable:
    """What one process maps. Every call makes its writes visible to the GPU (HDP flush)."""

    def __init__(self, gpu: BareGpu, vmid: int) -> None:
        self.gpu, self.vmid = gpu, vmid
        self.format = format_of(gpu.gc_version)
        self._root = _Table(TABLE_ROOTS.offset + vmid * PAGE_BYTES, 0)
        self._clear(self._root)
        self._starts: list[int] = []
        self._maps: dict[int, int] = {}
        self._retired: list[_Table] = []
        self._tables = 0
        gpu.flush_hdp()

    @property
    def base(self) -> int:
        """The root, as CONTEXT_PAGE_TABLE_BASE_ADDR wants it."""
        return self.gpu.physical_base + self._root.offset | VALID

    @property
    def tables(self) -> int:
        """Pages of VRAM that the tables below the root take."""
        return self._tables

    @property
    def mapped_bytes(self) -> int:
        """What is mapped now."""
        return sum(self._maps.values())

    def map(self, va: int, pieces: Iterable[Piece], *, system: bool, writable: bool,
            executable: bool, uncached: bool) -> None:  # fmt: skip
        """Map pieces one behind the other; `system`: they are bus addresses, else VRAM's offsets.

        Raises: OutOfMemory for tables, with nothing mapped; BadArgument for what overlaps.
        """
        pieces = tuple(pieces)
        nbytes = sum(size for _, size in pieces)
        base = 0 if system else self.gpu.physical_base
        pieces = tuple((base + address, size) for address, size in pieces)
        self._check(va, pieces, nbytes)
        flags = {
            level: self.format.flags(level, system=system, writable=writable,
                                     executable=executable, uncached=uncached)
            for level in (PDB0, PTB)
        }  # fmt: skip
        insort(self._starts, va)
        self._maps[va] = nbytes
        done = va
        try:
            for (level, _), runs in groupby(_runs(va, pieces), _same_table):
                done = self._fill(level, flags[level], tuple(runs))
            self.gpu.flush_hdp()
        except BaseException:
            self._forget(va, done)
            self._prune(done)
            raise

    def _fill(self, level: int, flags: int, runs: tuple[_Run, ...]) -> int:
        """Entries of one table, with one write; the address behind them."""
        table, step = self._table(runs[0].va, level), 1 << SHIFTS[level]
        entries = array("Q")
        for run in runs:
            first = run.address | flags | run.fragment << FRAGMENT_SHIFT
            entries.extend(range(first, first + run.count * step, step))
        self._write(table, runs[0].va, entries)
        table.used += len(entries)
        return runs[0].va + len(entries) * step

    def unmap(self, va: int, nbytes: int) -> None:
        """Exactly what one `map` mapped. The GPU may use old translations until a flush."""
        if self._maps.get(va) != nbytes:
            raise BadArgument(f"{va:#x}+{nbytes:#x} is not what was mapped at once")
        self._forget(va, va + nbytes)

    def settle(self) -> None:
        """The translation caches were flushed: tables that are empty are given back."""
        retired, self._retired = self._retired, []
        for table in retired:
            self._tables -= 1
            self.gpu.pages.free(((table.offset, PAGE_BYTES),))

    def close(self) -> None:
        """Everything unmapped and given back. No context may use the table any more."""
        for va in list(self._starts):
            self._forget(va, va + self._maps[va])
        self.settle()

    def _check(self, va: int, pieces: tuple[Piece, ...], nbytes: int) -> None:
        numbers = [va, *(number for piece in pieces for number in piece)]
        outside = va < 0 or nbytes <= 0 or va + nbytes > 1 << VA_BITS
        if outside or any(number % PAGE_BYTES for number in numbers):
            raise BadArgument(f"{va:#x}+{nbytes:#x} is not whole pages of {VA_BITS} address bits")
        if any(address + size - 1 & ~(ADDRESS_MASK | PAGE_BYTES - 1) for address, size in pieces):
            raise BadArgument(f"memory for {va:#x} lies beyond {VA_BITS} address bits")
        at = bisect_right(self._starts, va)
        before = self._starts[at - 1] if at else None
        behind = at < len(self._starts) and self._starts[at] < va + nbytes
        if behind or (before is not None and before + self._maps[before] > va):
            raise BadArgument(f"{va:#x}+{nbytes:#x} is mapped already, or part of it")

    def _clear(self, table: _Table) -> None:
        empty = array("Q", [self.format.empty(table.level)] * ENTRIES)
        self.gpu.vram.write(table.offset, empty.tobytes())

    def _write(self, table: _Table, va: int, entries: array[int]) -> None:
        index = va >> SHIFTS[table.level] & ENTRIES - 1
        self.gpu.vram.write(table.offset + index * ENTRY_BYTES, entries.tobytes())

    def _erase(self, table: _Table, va: int, count: int) -> None:
        self._write(table, va, array("Q", [self.format.empty(table.level)] * count))
        table.used -= count

    def _table(self, va: int, level: int) -> _Table:
        """The table of a level that covers an address, made on the way where it is missing."""
        table = self._root
        for shift in SHIFTS[:level]:
            index = va >> shift & ENTRIES - 1
            child = table.children.get(index)
            if child is None:
                ((offset, _),) = self.gpu.pages.alloc(PAGE_BYTES, visible=True)
                self._tables += 1
                child = _Table(offset, table.level + 1)
                self._clear(child)
                address = self.gpu.physical_base + offset
                self._write(table, va, array("Q", [self.format.table(address, table.level)]))
                table.children[index] = child
                table.used += 1
            table = child
        return table

    def _forget(self, va: int, end: int) -> None:
        """Empty the entries of [va, end), which begins a mapping, and the tables left empty."""
        at = bisect_right(self._starts, va) - 1
        del self._starts[at], self._maps[va]
        for _ in range((end - va) // PAGE_BYTES):
            if va == end:
                break
            va = self._forget_run(va, end)
        self.gpu.flush_hdp()

    def _path(self, va: int) -> list[_Table]:
        """The tables that cover an address, the root first."""
        path = [self._root]
        for shift in SHIFTS[:PTB]:
            child = path[-1].children.get(va >> shift & ENTRIES - 1)
            if child is None:
                break
            path.append(child)
        return path

    def _prune(self, va: int) -> None:
        """Drop tables that were made for an address, and got no entry."""
        self._retire(self._path(va), va)
        self.gpu.flush_hdp()

    def _forget_run(self, va: int, end: int) -> int:
        """Empty the entries of one table from `va` on; the address behind them."""
        path = self._path(va)
        table = path[-1]
        shift = SHIFTS[table.level]
        left = ENTRIES - (va >> shift & ENTRIES - 1)
        count = min(left, end - va >> shift)
        if table.level == PDB0:
            count = self._pages_here(table, va, count)
        self._erase(table, va, count)
        self._retire(path, va)
        return va + (count << shift)

    def _pages_here(self, table: _Table, va: int, most: int) -> int:
        """How many entries of PDB0 from `va` on map memory themselves."""
        first = va >> SHIFTS[PDB0] & ENTRIES - 1
        tables = (i for i in range(first, first + most) if i in table.children)
        return next(tables, first + most) - first

    def _retire(self, path: list[_Table], va: int) -> None:
        for parent, table in zip(path[-2::-1], path[:0:-1], strict=True):
            if table.used:
                return
            index = va >> SHIFTS[parent.level] & ENTRIES - 1
            self._erase(parent, va, 1)
            del parent.children[index]
            self._retired.append(table)

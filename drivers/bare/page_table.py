"""The page table of one address space: tables in VRAM, written through the BAR, never read back.

What its entries say is the `Format`'s. Memory that lies together is given to the GPU as the largest
pages there are, and smaller ones that lie together as such. What was unmapped is only gone after a
flush of the translation caches; `settle` is called after one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Final

from drivers.bare.card import Card
from drivers.bare.page_format import Format, Rights
from drivers.bare.vram import Piece, whole_pages
from drivers.base.errors import BadArgument

_QUAD_BYTES: Final = 8


@dataclass(eq=False, slots=True)
class _Table:
    """Entries in VRAM, and what of them is in use."""

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
    log2_pages: int


def _packed(entries: Iterable[int], nbytes: int) -> bytes:
    """Entries of a size as they lie in memory."""
    if nbytes == _QUAD_BYTES:
        return array("Q", entries).tobytes()
    return b"".join(entry.to_bytes(nbytes, "little") for entry in entries)


class PageTable:
    """What one process maps. Every call makes its writes visible to the GPU.

    `root_offset` is where VRAM has room for the root.
    """

    def __init__(self, card: Card, made: Format, root_offset: int) -> None:
        self.format = made
        self._card, self._levels = card, made.levels
        self._last = len(self._levels) - 1
        self._mapping = [number for number, level in enumerate(self._levels) if level.maps]
        self._upper = self._mapping[:-1]
        self._shifts = tuple(level.shift for level in self._levels)
        self._spans = tuple(level.entries << level.shift for level in self._levels)
        """Addresses that a table of each level covers."""
        self._page_shift = self._shifts[-1]
        self.page_bytes = 1 << self._page_shift
        self._root = _Table(root_offset, 0)
        self._clear(self._root)
        self._starts: list[int] = []
        self._maps: dict[int, int] = {}
        self._retired: list[_Table] = []
        self._tables = 0
        card.flush_writes()

    @property
    def root(self) -> int:
        """The address of the root, as entries have addresses of VRAM."""
        return self._card.physical_base + self._root.offset

    @property
    def tables(self) -> int:
        """Tables below the root."""
        return self._tables

    @property
    def mapped_bytes(self) -> int:
        """What is mapped now."""
        return sum(self._maps.values())

    def map(self, va: int, pieces: Iterable[Piece], rights: Rights, *, system: bool) -> None:
        """Map pieces one behind the other; `system`: they are bus addresses, else VRAM's offsets.

        Raises: OutOfMemory for tables, with nothing mapped; BadArgument for what overlaps.
        """
        pieces = tuple(pieces)
        nbytes = sum(size for _, size in pieces)
        base = 0 if system else self._card.physical_base
        pieces = tuple((base + address, size) for address, size in pieces)
        self._check(va, pieces, nbytes)
        flags = {level: self.format.page(level, rights, system=system) for level in self._mapping}
        insort(self._starts, va)
        self._maps[va] = nbytes
        done = va
        try:
            for (level, _), runs in groupby(self._runs(va, pieces), self._same_table):
                done = self._fill(level, flags[level], tuple(runs))
            self._card.flush_writes()
        except BaseException:
            self._forget(va, done)
            self._prune(done)
            raise

    def _runs(self, va: int, pieces: Iterable[Piece]) -> Iterator[_Run]:
        """Pieces of memory as the largest pages that their addresses allow."""
        for address, nbytes in pieces:
            end = va + nbytes
            for _ in range(nbytes // self.page_bytes):
                if va == end:
                    break
                run = self._longest(va, address, end - va)
                yield run
                step = run.count << self._shifts[run.level]
                va, address = va + step, address + step

    def _longest(self, va: int, address: int, nbytes: int) -> _Run:
        both, page_shift = va | address, self._page_shift
        for number in self._upper:
            shift = self._shifts[number]
            if nbytes >> shift and not both & (1 << shift) - 1:
                left = self._levels[number].entries - self._index(va, number)
                count = min(left, nbytes >> shift)
                return _Run(va, address, count, number, shift - page_shift)
        number, most = both >> page_shift, self._levels[-1].entries
        pages = min(number & -number or most, nbytes >> page_shift, most)
        log2_pages = pages.bit_length() - 1
        return _Run(va, address, 1 << log2_pages, self._last, log2_pages)

    def _same_table(self, run: _Run) -> tuple[int, int]:
        return run.level, run.va // self._spans[run.level]

    def _index(self, va: int, level: int) -> int:
        """Which entry of a table covers an address."""
        found = self._levels[level]
        return va >> found.shift & found.entries - 1

    def _fill(self, level: int, flags: int, runs: tuple[_Run, ...]) -> int:
        """Entries of one table, with one write; the address behind them."""
        made, step_bytes = self.format, 1 << self._shifts[level]
        shift, together = made.address_shift, made.together
        table, step = self._table(runs[0].va, level), step_bytes >> shift
        entries = []
        for run in runs:
            first = run.address >> shift | flags | together(level, run.log2_pages)
            entries.append(range(first, first + run.count * step, step))
        self._write(table, runs[0].va, chain.from_iterable(entries))
        count = sum(run.count for run in runs)
        table.used += count
        return runs[0].va + count * step_bytes

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
            self._card.pages.free(((table.offset, self._table_bytes(table.level)),))

    def close(self) -> None:
        """Everything unmapped and given back. No context may use the table any more."""
        for va in list(self._starts):
            self._forget(va, va + self._maps[va])
        self.settle()

    def _check(self, va: int, pieces: tuple[Piece, ...], nbytes: int) -> None:
        numbers = [va, *(number for piece in pieces for number in piece)]
        bits = self.format.va_bits
        outside = va < 0 or nbytes <= 0 or va + nbytes > 1 << bits
        if outside or any(number % self.page_bytes for number in numbers):
            raise BadArgument(f"{va:#x}+{nbytes:#x} is not whole pages of {bits} address bits")
        bits = self.format.address_bits
        if any(address < 0 or address + size > 1 << bits for address, size in pieces):
            raise BadArgument(f"memory for {va:#x} lies beyond {bits} address bits")
        at = bisect_right(self._starts, va)
        before = self._starts[at - 1] if at else None
        behind = at < len(self._starts) and self._starts[at] < va + nbytes
        if behind or (before is not None and before + self._maps[before] > va):
            raise BadArgument(f"{va:#x}+{nbytes:#x} is mapped already, or part of it")

    def _table_bytes(self, level: int) -> int:
        """What a table takes of VRAM."""
        found = self._levels[level]
        return whole_pages(found.entries * found.entry_bytes)

    def _clear(self, table: _Table) -> None:
        level = self._levels[table.level]
        empty = [self.format.empty(table.level)] * level.entries
        self._card.vram.write(table.offset, _packed(empty, level.entry_bytes))

    def _write(self, table: _Table, va: int, entries: Iterable[int]) -> None:
        nbytes = self._levels[table.level].entry_bytes
        place = table.offset + self._index(va, table.level) * nbytes
        self._card.vram.write(place, _packed(entries, nbytes))

    def _erase(self, table: _Table, va: int, count: int) -> None:
        self._write(table, va, [self.format.empty(table.level)] * count)
        table.used -= count

    def _table(self, va: int, level: int) -> _Table:
        """The table of a level that covers an address, made on the way where it is missing."""
        table = self._root
        for number in range(level):
            index = self._index(va, number)
            child = table.children.get(index)
            if child is None:
                child = self._made(number + 1)
                address = self._card.physical_base + child.offset
                self._write(table, va, [self.format.table(address, number)])
                table.children[index] = child
                table.used += 1
            table = child
        return table

    def _made(self, level: int) -> _Table:
        """A table without entries."""
        nbytes = self._table_bytes(level)
        ((offset, _),) = self._card.pages.alloc(nbytes, visible=True, whole=True)
        self._tables += 1
        table = _Table(offset, level)
        self._clear(table)
        return table

    def _forget(self, va: int, end: int) -> None:
        """Empty the entries of [va, end), which begins a mapping, and the tables left empty."""
        at = bisect_right(self._starts, va) - 1
        del self._starts[at], self._maps[va]
        for _ in range((end - va) // self.page_bytes):
            if va == end:
                break
            va = self._forget_run(va, end)
        self._card.flush_writes()

    def _path(self, va: int) -> list[_Table]:
        """The tables that cover an address, the root first."""
        path = [self._root]
        for number in range(self._last):
            child = path[-1].children.get(self._index(va, number))
            if child is None:
                break
            path.append(child)
        return path

    def _prune(self, va: int) -> None:
        """Drop tables that were made for an address, and got no entry."""
        self._retire(self._path(va), va)
        self._card.flush_writes()

    def _forget_run(self, va: int, end: int) -> int:
        """Empty the entries of one table from `va` on; the address behind them."""
        path = self._path(va)
        table = path[-1]
        level = self._levels[table.level]
        left = level.entries - self._index(va, table.level)
        count = min(left, end - va >> level.shift)
        if table.level != self._last:
            count = self._pages_here(table, va, count)
        self._erase(table, va, count)
        self._retire(path, va)
        return va + (count << level.shift)

    def _pages_here(self, table: _Table, va: int, most: int) -> int:
        """How many entries of an upper table from `va` on map memory themselves."""
        first = self._index(va, table.level)
        tables = (i for i in range(first, first + most) if i in table.children)
        return next(tables, first + most) - first

    def _retire(self, path: list[_Table], va: int) -> None:
        for parent, table in zip(path[-2::-1], path[:0:-1], strict=True):
            if table.used:
                return
            self._erase(parent, va, 1)
            del parent.children[self._index(va, parent.level)]
            self._retired.append(table)

"""Page tables in VRAM: four levels of 512 entries, in each family's own format.

What the kernel writes and the GPU walks. Physical addresses in an entry are offsets into the GPU's
own VRAM, or, with the SYSTEM bit, addresses on the bus, behind which host memory and other GPUs'
VRAM lie.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.machine.extents import Extents, Piece
from boards.machine.pool import Pool, Vram

PAGE_SHIFT, ENTRIES, INDEX_BITS = 12, 512, 9
SHIFTS = (39, 30, 21, 12)
"""Of the index into PDB2, PDB1, PDB0 and PTB."""
VA_BITS = 48
_PAGE = 1 << PAGE_SHIFT
HUGE_SHIFT = 21
HUGE_BYTES = 1 << HUGE_SHIFT
# src: drivers/gpu/drm/amd/amdgpu/amdgpu_vm.h AMDGPU_PTE_*
VALID, SYSTEM, SNOOPED, EXECUTABLE = 1 << 0, 1 << 1, 1 << 2, 1 << 4
READABLE, WRITEABLE = 1 << 5, 1 << 6
ADDRESS_MASK = 0x0000_FFFF_FFFF_F000
MTYPE_NC, MTYPE_RW, MTYPE_CC, MTYPE_UC = 0, 1, 2, 3
"""src: include/navi10_enum.h MTYPE_*; MTYPE_RW is what gfx9's gmc writes for local memory."""


@dataclass(frozen=True, slots=True)
class Format:
    """Where one family keeps the memory type and the mark of an entry that maps memory."""

    mtype_shift: int
    mtype_mask: int
    leaf: int
    """Set in an entry of an upper level that maps memory itself."""
    leaf_in_ptb: bool
    """Whether the mark is in entries of the last level too."""

    def pte(self, pa: int, flags: int, mtype: int, *, huge: bool = False) -> int:
        """A valid entry that maps memory."""
        mark = self.leaf if huge or self.leaf_in_ptb else 0
        return pa & ADDRESS_MASK | flags | VALID | mtype << self.mtype_shift | mark

    def uncached(self, entry: int) -> bool:
        """Whether no cache keeps what the entry maps."""
        return entry >> self.mtype_shift & self.mtype_mask == MTYPE_UC


FORMATS = {
    # src: amdgpu_vm.h AMDGPU_PTE_MTYPE_VG10_SHIFT 57, AMDGPU_PDE_PTE bit 54
    "gfx9": Format(57, 3, 1 << 54, leaf_in_ptb=False),
    # src: amdgpu_vm.h AMDGPU_PTE_MTYPE_NV10_SHIFT 48
    "gfx10": Format(48, 7, 1 << 54, leaf_in_ptb=False),
    "gfx11": Format(48, 7, 1 << 54, leaf_in_ptb=False),
    # src: amdgpu_vm.h AMDGPU_PTE_MTYPE_GFX12_SHIFT 54, AMDGPU_PTE_IS_PTE = AMDGPU_PDE_PTE_GFX12
    # bit 63; gmc_v12_0.c: IS_PTE is in gart_pte_flags, which every entry starts from
    "gfx12": Format(54, 3, 1 << 63, leaf_in_ptb=True),
}


class Bus:
    """Addresses on the bus: which pool lies where. The IOMMU lets nothing else through."""

    _FIRST, _GAP = 1 << 36, 1 << 30

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._windows: list[tuple[int, Pool]] = []
        self._next = self._FIRST

    def add(self, pool: Pool) -> int:
        """Give a pool addresses; returns the first."""
        base = self._next
        self._next = base + (pool.nbytes + 2 * self._GAP - 1) // self._GAP * self._GAP
        self._starts.append(base)
        self._windows.append((base, pool))
        return base

    def remove(self, base: int) -> None:
        """Take the addresses of a pool back; they are not used again."""
        at = self._starts.index(base)
        del self._starts[at], self._windows[at]

    def decode(self, address: int) -> tuple[Pool, int] | None:
        """The pool and offset behind an address."""
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        base, pool = self._windows[at]
        return (pool, address - base) if address - base < pool.nbytes else None


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a walk ended at: `nbytes` from `va` on, mapped alike and in one piece."""

    va: int
    nbytes: int
    pa: int
    entry: int


class PageTable:
    """The table of one process on one GPU."""

    def __init__(self, fmt: Format, vram: Vram, memory: Extents) -> None:
        self.format, self._vram, self._memory = fmt, vram, memory
        self._entries: Array = vram.bytes.view(np.uint64)
        self._tables: list[Piece] = []
        self.root = self._new_table()

    @property
    def tables(self) -> int:
        """Pages that the tables take."""
        return len(self._tables)

    def _new_table(self) -> int:
        piece = self._memory.take(_PAGE, _PAGE, whole=True)[0]
        self._vram.zero(piece.start, _PAGE)
        self._tables.append(piece)
        return piece.start

    def table(self, pa: int) -> Array:
        """The 512 entries of a table; what is written to them is written to VRAM."""
        first = pa // 8
        return self._entries[first : first + ENTRIES]

    def _down(self, va: int, level: int) -> Array:
        """The table of a level that covers `va`, made on the way where it is missing."""
        table = self.table(self.root)
        for shift in SHIFTS[:level]:
            index = va >> shift & ENTRIES - 1
            if not int(table[index]) & VALID:
                table[index] = self._new_table() | VALID
            table = self.table(int(table[index]) & ADDRESS_MASK)
        return table

    def map(self, va: int, pa: int, nbytes: int, flags: int, mtype: int) -> None:
        """Map whole pages; 2 MiB at once where both addresses allow it."""
        end = va + nbytes
        for _ in range(nbytes >> PAGE_SHIFT):
            if va >= end:
                return
            if not (va | pa) & HUGE_BYTES - 1 and end - va >= HUGE_BYTES:
                entry = self.format.pte(pa, flags, mtype, huge=True)
                table, index = self._down(va, 2), va >> HUGE_SHIFT & ENTRIES - 1
                self._drop(int(table[index]))
                table[index] = entry
                step = HUGE_BYTES
            else:
                step = min(end, (va & -HUGE_BYTES) + HUGE_BYTES) - va
                index, count = va >> PAGE_SHIFT & ENTRIES - 1, step >> PAGE_SHIFT
                first = self.format.pte(pa, flags, mtype)
                steps = np.arange(count, dtype=np.uint64) * np.uint64(_PAGE)
                self._down(va, 3)[index : index + count] = np.uint64(first) + steps
            va, pa = va + step, pa + step

    def _drop(self, entry: int) -> None:
        """Free the empty table that a large entry replaces."""
        if entry & VALID:
            start = entry & ADDRESS_MASK
            piece = next(p for p in self._tables if p.start == start)
            self._tables.remove(piece)
            self._memory.give([piece])

    def unmap(self, va: int, nbytes: int) -> None:
        """Clear the entries of a range, as far as there are any; makes no tables."""
        end = va + nbytes
        for _ in range(nbytes >> PAGE_SHIFT):
            if va >= end:
                return
            step = min(end, (va & -HUGE_BYTES) + HUGE_BYTES) - va
            self._clear(va, step >> PAGE_SHIFT)
            va += step

    def _clear(self, va: int, pages: int) -> None:
        """The same within what one entry of PDB0 covers."""
        table = self.table(self.root)
        for shift in SHIFTS[:-1]:
            index = va >> shift & ENTRIES - 1
            entry = int(table[index])
            if entry & self.format.leaf:
                table[index] = 0
            if not entry & VALID or entry & self.format.leaf:
                return
            table = self.table(entry & ADDRESS_MASK)
        first = va >> PAGE_SHIFT & ENTRIES - 1
        table[first : first + pages] = 0

    def walk(self, va: int) -> Leaf | None:
        """What the GPU's walker finds for an address, level by level; None: not mapped."""
        if not 0 <= va < 1 << VA_BITS:
            return None
        pa = self.root
        for shift in SHIFTS[:-1]:
            entry = int(self.table(pa)[va >> shift & ENTRIES - 1])
            if not entry & VALID:
                return None
            if entry & self.format.leaf:
                return Leaf(va >> shift << shift, 1 << shift, entry & ADDRESS_MASK, entry)
            pa = entry & ADDRESS_MASK
        return self._last_level(self.table(pa), va)

    def _last_level(self, table: Array, va: int) -> Leaf | None:
        """The run of alike entries around `va` in a table of the last level."""
        index = va >> PAGE_SHIFT & ENTRIES - 1
        entry = int(table[index])
        if not entry & VALID or (self.format.leaf_in_ptb and not entry & self.format.leaf):
            return None
        offsets = (np.arange(ENTRIES, dtype=np.int64) - index) * _PAGE
        differ = np.flatnonzero(table - offsets.view(np.uint64) != np.uint64(entry))
        before = differ[differ < index]
        after = differ[differ > index]
        first = int(before[-1]) + 1 if len(before) else 0
        last = int(after[0]) if len(after) else ENTRIES
        start = (va & -_PAGE) - (index - first) * _PAGE
        pa = (entry & ADDRESS_MASK) - (index - first) * _PAGE
        return Leaf(start, (last - first) * _PAGE, pa, entry)

    def describe(self, va: int) -> list[str]:
        """The walk in words, one line a level."""
        lines, pa = [], self.root
        for name, shift in zip(("PDB2", "PDB1", "PDB0", "PTB"), SHIFTS, strict=True):
            index = va >> shift & ENTRIES - 1
            entry = int(self.table(pa)[index])
            lines.append(f"{name} at {pa:#x} [{index}] = {entry:#018x}")
            if not entry & VALID or shift == PAGE_SHIFT or entry & self.format.leaf:
                break
            pa = entry & ADDRESS_MASK
        return lines

    def close(self) -> None:
        """Give all tables back."""
        self._memory.give(self._tables)
        self._tables = []

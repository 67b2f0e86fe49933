"""The walker of a hub: from the root that a register names down to an entry that maps memory.

Three formats, any depth and block size, entries of directories that map memory, fragments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from boards.amd.memory.pages import (
    ADDRESS_MASK,
    INDEX_BITS,
    PAGE_SHIFT,
    SYSTEM,
    VALID,
    Format,
    Leaf,
)
from boards.machine.arrays import Array

_BLOCK = 512
"""Entries of the last level that are read together, for runs of alike ones."""
# src: amdgpu_vm.h AMDGPU_PTE_FRAG(x) bits 7 to 11, AMDGPU_PDE_BFS(a) from bit 59, AMDGPU_PTE_TF 56
_FRAGMENT_SHIFT, _FRAGMENT_MASK = 7, 0x1F
_BFS_SHIFT, _BFS_MASK = 59, 0x1F
_TRANSLATE_FURTHER = 1 << 56
# What the WALKER_ERROR field of a fault says. No public document: 0 and 5 are what amdgpu's
# reports of missing pages and missing directories show; 1 is this board's for the range check.
PAGE, RANGE, DIRECTORY = 0, 1, 5


@dataclass(frozen=True, slots=True)
class Context:
    """What the registers of one VMID say of its tables."""

    root: int
    """PAGE_TABLE_BASE_ADDR: formed like an entry of a directory."""
    first_va: int
    last_va: int
    depth: int
    """Directories above the last level."""
    block_bits: int
    """A table of the last level covers 2^(9 + this) pages."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a walk found nothing."""

    error: int
    """PAGE, RANGE or DIRECTORY."""
    what: str


ReadTable = Callable[[int, bool, int, int], Array | None]
"""(address, whether on the bus, first entry, count) -> entries; None where there is no memory."""


class Walker:
    """Walks the tables of one context, as `boards.amd.memory.tlb.Tlb` asks for it."""

    def __init__(self, fmt: Format, read: ReadTable, find: Callable[[str, str], None]) -> None:
        self.format, self._read, self._find = fmt, read, find
        self.context: Context | None = None
        self.missing = Missing(RANGE, "the context is not enabled")
        """Of the last walk that found nothing."""

    def walk(self, va: int, *, alone: bool = False) -> Leaf | None:
        """What is mapped at an address, or None: then `missing` says why.

        Entries around it that are alike are part of it, unless it is wanted `alone`.
        """
        context = self.context
        if context is None:
            return self._nothing(RANGE, "the context is not enabled")
        if not context.first_va <= va <= context.last_va:
            bounds = f"{context.first_va:#x} to {context.last_va:#x}"
            return self._nothing(RANGE, f"{va:#x} is outside of the context's {bounds}")
        entry, above = context.root, context.last_va.bit_length() + 1
        for level in range(context.depth):
            shift = PAGE_SHIFT + context.block_bits + INDEX_BITS * (context.depth - level)
            found = self._entry(entry, va - context.first_va, shift, above)
            if found is None or not found & VALID:
                what = f"level {level} of {context.depth}, {found or 0:#x} for {va:#x}"
                return self._nothing(DIRECTORY, what)
            if found & self.format.leaf:
                return self._block(va - context.first_va, va, shift, found)
            entry, above = found, shift
        return self._last(context, entry, va, above, alone)

    def _nothing(self, error: int, what: str) -> Leaf | None:
        self.missing = Missing(error, what)
        return None

    def _entry(self, table: int, offset: int, shift: int, above: int) -> int | None:
        """One entry of the table that another entry points to."""
        if not table & VALID:
            return None
        index = (offset & (1 << above) - 1) >> shift
        found = self._read(table & ADDRESS_MASK, bool(table & SYSTEM), index, 1)
        return None if found is None else int(found[0])

    @staticmethod
    def _block(offset: int, va: int, shift: int, entry: int) -> Leaf:
        """An entry that maps all the addresses it stands for, from wherever it says on."""
        # src: amdgpu_vm_pt.c amdgpu_vm_ptes_update() chooses the level by the virtual address and
        # writes an address that may be a multiple of 4 KiB alone: it is added to, not cut.
        into = offset & (1 << shift) - 1
        return Leaf(va - into, 1 << shift, entry & ADDRESS_MASK, entry)

    def _last(self, context: Context, table: int, va: int, above: int, alone: bool) -> Leaf | None:
        """The last level, whose entries stand for 2^BFS pages, and may point further down."""
        # src: gmc_v9_0.c gmc_v9_0_get_vm_pde(): BFS and TF exist on gfx9 alone
        bfs = table >> _BFS_SHIFT & _BFS_MASK if context.block_bits else 0
        offset, shift = va - context.first_va, PAGE_SHIFT + bfs
        entry = self._entry(table, offset, shift, above)
        if entry is None:
            return self._nothing(DIRECTORY, f"no table of pages, {table:#x} for {va:#x}")
        if context.block_bits and entry & VALID and entry & _TRANSLATE_FURTHER:
            table, above, shift = entry, shift, PAGE_SHIFT
            entry = self._entry(table, offset, shift, above)
        if entry is None or not self._maps(entry):
            return self._nothing(PAGE, f"entry {entry or 0:#018x} for {va:#x}")
        if alone:
            into = offset & (1 << shift) - 1
            return Leaf(va - into, 1 << shift, entry & ADDRESS_MASK, entry)
        return self._run(table, offset, va, shift, above, entry)

    def _maps(self, entry: int) -> bool:
        return bool(entry & VALID) and not (
            self.format.leaf_in_ptb and not entry & self.format.leaf
        )

    def _run(self, table: int, offset: int, va: int, shift: int, above: int, entry: int) -> Leaf:
        """The run of alike entries around an address; a fragment reaches as far as it says."""
        index = (offset & (1 << above) - 1) >> shift
        start, count = index & -_BLOCK, min(_BLOCK, 1 << above - shift)
        entries = self._read(table & ADDRESS_MASK, bool(table & SYSTEM), start, count)
        low = high = index
        if entries is not None:
            steps = (np.arange(count, dtype=np.int64) - (index - start)) << shift
            differ = np.flatnonzero(entries - steps.view(np.uint64) != np.uint64(entry)) + start
            before, after = differ[differ < index], differ[differ > index]
            low = int(before[-1]) + 1 if len(before) else start
            high = int(after[0]) - 1 if len(after) else start + count - 1
        low, high = self._fragment(entry, index, shift, low, high)
        back = (index - low << shift) + (offset & (1 << shift) - 1)
        pa = (entry & ADDRESS_MASK) - (index - low << shift)
        return Leaf(va - back, high - low + 1 << shift, pa, entry)

    def _fragment(self, entry: int, index: int, shift: int, low: int, high: int) -> tuple[int, int]:
        """Translations are cached by fragments: one that reaches too far is believed."""
        pages = (entry >> _FRAGMENT_SHIFT & _FRAGMENT_MASK) - (shift - PAGE_SHIFT)
        pages = min(max(0, pages), INDEX_BITS)
        first = index & -(1 << pages)
        last = first + (1 << pages) - 1
        if low <= first and last <= high:
            return low, high
        name = f"entry {entry:#018x} is in a fragment of {1 << pages} pages"
        self._find("fragment", f"{name} that are not all mapped alike")
        return min(low, first), max(high, last)

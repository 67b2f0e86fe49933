"""An independent page table walker: the translation that a GPU would find.

Written from the kernel's header amdgpu_vm.h and gmc_v*.c, not from the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

VALID, SYSTEM, SNOOPED = 1 << 0, 1 << 1, 1 << 2
EXECUTABLE, READABLE, WRITEABLE = 1 << 4, 1 << 5, 1 << 6
PDE_PTE, TF = 1 << 54, 1 << 56
GFX12_PTE = 1 << 63
ADDRESS = ((1 << 48) - 1) & ~0xFFF
KNOWN = {
    # every bit that may be set in an entry of a page: flags, fragment, address, memory type
    9: VALID | SYSTEM | SNOOPED | EXECUTABLE | READABLE | WRITEABLE | 31 << 7 | ADDRESS | 3 << 57,
    11: VALID | SYSTEM | SNOOPED | EXECUTABLE | READABLE | WRITEABLE | 31 << 7 | ADDRESS | 7 << 48,
    12: VALID | SYSTEM | SNOOPED | EXECUTABLE | READABLE | WRITEABLE | 31 << 7 | ADDRESS | 3 << 54,
}


@dataclass(frozen=True, slots=True)
class Found:
    """One translation."""

    address: int
    system: bool
    writable: bool
    executable: bool
    mtype: int
    fragment: int
    page_bytes: int


class BadTableError(Exception):
    """An invalid entry."""


def walk(read64: Callable[[int], int], root: int, major: int, va: int) -> Found | None:
    """Translate one address; None where nothing is mapped."""
    table = root
    for shift in (39, 30, 21, 12):
        entry = read64(table + (va >> shift & 511) * 8)
        if not entry & VALID:
            return None
        if _is_page(major, shift, entry):
            return _page(major, shift, entry, va)
        _check_table(major, shift, entry)
        table = entry & ADDRESS
    raise BadTableError("a walk has no end")


def _is_page(major: int, shift: int, entry: int) -> bool:
    if major == 12:
        if shift == 12 and not entry & GFX12_PTE:
            raise BadTableError(f"{entry:#x} in the last table is no page")
        return bool(entry & GFX12_PTE)
    if shift == 12:
        return True
    if major == 9 and shift == 21:
        return not entry & TF  # src: gmc_v9_0_get_vm_pde(), translate further
    return bool(entry & PDE_PTE)


def _check_table(major: int, shift: int, entry: int) -> None:
    extra = {(9, 30): 9 << 59, (9, 21): TF}.get((major, shift), 0)
    if entry & ~ADDRESS != VALID | extra:
        raise BadTableError(f"{entry:#x} is no entry of a table (shift {shift})")


def _page(major: int, shift: int, entry: int, va: int) -> Found:
    mark = GFX12_PTE if major == 12 else PDE_PTE if shift != 12 and major != 9 else 0
    if entry & ~(KNOWN[major] | mark) or not entry & READABLE:
        raise BadTableError(f"{entry:#x} has bits that mean nothing (shift {shift})")
    fragment, size = entry >> 7 & 31, 1 << shift
    spread = 4096 << fragment
    if (entry & ADDRESS) % size:
        raise BadTableError(f"{entry:#x} is not aligned to its page")
    if fragment and (entry & ADDRESS) // size * size % spread != va // size * size % spread:
        raise BadTableError(f"{entry:#x}: fragment {fragment} is not aligned like {va:#x}")
    if bool(entry & SYSTEM) and not entry & SNOOPED:
        raise BadTableError(f"{entry:#x}: host memory that is not snooped")
    shift_of_mtype, mask = {9: (57, 3), 11: (48, 7), 12: (54, 3)}[major]
    return Found(
        (entry & ADDRESS) + va % size,
        bool(entry & SYSTEM),
        bool(entry & WRITEABLE),
        bool(entry & EXECUTABLE),
        entry >> shift_of_mtype & mask,
        fragment,
        size,
    )


def every(
    read_table: Callable[[int], Sequence[int]], root: int, major: int
) -> Iterator[tuple[int, Found]]:
    """Every page that is mapped, by address; `read_table` gives the 512 entries of a table."""
    yield from _below(read_table, root, major, 39, 0)


def _below(
    read_table: Callable[[int], Sequence[int]], table: int, major: int, shift: int, first: int
) -> Iterator[tuple[int, Found]]:
    for index, entry in enumerate(read_table(table)):
        if not entry & VALID:
            continue
        va = first + (index << shift)
        if _is_page(major, shift, entry):
            yield va, _page(major, shift, entry, va)
        else:
            _check_table(major, shift, entry)
            yield from _below(read_table, entry & ADDRESS, major, shift - 9, va)

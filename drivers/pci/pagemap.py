"""Physical addresses of this process's memory, as /proc/self/pagemap shows them to root.

Source: Linux Documentation/admin-guide/mm/pagemap.rst; fs/proc/task_mmu.c.
"""

from __future__ import annotations

import os
import struct

from drivers.base.contracts import World
from drivers.base.errors import BadArgument, Denied, MalformedInput

PATH = "/proc/self/pagemap"
PAGE_BYTES = 4096
_ENTRY_BYTES = 8
# src: fs/proc/task_mmu.c PM_PFRAME_BITS, PM_SWAP, PM_PRESENT
_FRAME_MASK, _SWAPPED, _PRESENT = (1 << 55) - 1, 1 << 62, 1 << 63
_PART_BYTES = 1 << 16


def physical_pieces(world: World, cpu_va: int, nbytes: int) -> tuple[tuple[int, int], ...]:
    """(physical address, bytes) of whole locked pages, neighbours merged.

    Raises: MalformedInput for a page that is absent or swapped; Denied when frames are hidden.
    """
    if cpu_va % PAGE_BYTES or nbytes <= 0 or nbytes % PAGE_BYTES:
        raise BadArgument(f"{nbytes:#x} bytes at {cpu_va:#x} are not whole pages")
    pieces: list[tuple[int, int]] = []
    for number, entry in enumerate(_entries(world, cpu_va, nbytes)):
        pa = _address(entry, cpu_va + number * PAGE_BYTES)
        if pieces and sum(pieces[-1]) == pa:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + PAGE_BYTES)
        else:
            pieces.append((pa, PAGE_BYTES))
    return tuple(pieces)


def _entries(world: World, cpu_va: int, nbytes: int) -> list[int]:
    """One word for each page."""
    first, total = cpu_va // PAGE_BYTES * _ENTRY_BYTES, nbytes // PAGE_BYTES * _ENTRY_BYTES
    fd = world.open(PATH, os.O_RDONLY)
    try:
        parts = [
            world.pread(fd, min(_PART_BYTES, total - done), first + done)
            for done in range(0, total, _PART_BYTES)
        ]
    finally:
        world.close(fd)
    return list(struct.unpack(f"<{total // _ENTRY_BYTES}Q", b"".join(parts)))


def _address(entry: int, cpu_va: int) -> int:
    """The physical address of one page."""
    if not entry & _PRESENT:
        state = "swapped out" if entry & _SWAPPED else "not in memory"
        raise MalformedInput(
            f"{PATH}: the page at {cpu_va:#x} is {state}, although it is locked",
            hint="a device may not be given its address: use an IOMMU",
        )
    frame = entry & _FRAME_MASK
    if not frame:
        raise Denied(
            f"{PATH} hides where the page at {cpu_va:#x} is",
            hint="physical addresses are shown to root alone: use an IOMMU",
        )
    return frame * PAGE_BYTES

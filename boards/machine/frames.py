"""Physical memory without an IOMMU: frames of the process's pages, huge pages, /proc/PID/pagemap.

Frame numbers are made up: 2 MiB pages have 512 in a row, in an order that is not that of their
addresses; small pages have one each, scattered. Only huge pages stay where they are, so DMA to
anything else is a violation, as is DMA to a frame that was given back.

src: Linux Documentation/admin-guide/mm/pagemap.rst, Documentation/admin-guide/mm/hugetlbpage.rst
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from boards.machine import host
from boards.machine.pinned import Pin
from boards.machine.pool import Pool

HUGE_BYTES = 2 << 20
FRAMES_PER_HUGE = HUGE_BYTES // host.PAGE_BYTES
ENTRY_BYTES = 8
# src: pagemap.rst: bits 0-54 frame number, 61 page is file-page or shared-anon, 63 page present
PRESENT, SHARED = 1 << 63, 1 << 61
_FIRST_HUGE, _FIRST_SMALL = 0x10_0000, 0x4_0000
_STRIDE = 7
"""Odd: huge page n of the pool is frame block n * 7 modulo the pool's size."""


@dataclass(frozen=True, slots=True)
class HugePage:
    """One 2 MiB page of a process."""

    va: int
    frame: int
    pin: Pin


class Frames:
    """The machine's physical memory, as far as processes have it."""

    def __init__(self, huge_pages: int, find: Callable[[str, str, str], None]) -> None:
        self._find = find
        blocks = [n * _STRIDE % huge_pages for n in range(huge_pages)] if huge_pages else []
        if len(set(blocks)) != len(blocks):
            blocks = list(range(huge_pages))
        self._free = [_FIRST_HUGE + block * FRAMES_PER_HUGE for block in blocks]
        self._by_frame: dict[int, HugePage] = {}
        self._small: dict[tuple[int, int], int] = {}

    @property
    def free_huge(self) -> int:
        """Free huge pages."""
        return len(self._free)

    def take(self, va: int, nbytes: int, keep: object) -> list[HugePage]:
        """Frames for a huge mapping. Raises: OSError ENOMEM, EINVAL."""
        if (va | nbytes) % HUGE_BYTES:
            raise OSError(errno.EINVAL, f"{nbytes:#x} bytes at {va:#x} are no huge pages")
        if nbytes // HUGE_BYTES > len(self._free):
            raise OSError(errno.ENOMEM, f"{len(self._free)} huge pages are free")
        pages = []
        for at in range(va, va + nbytes, HUGE_BYTES):
            frame = self._free.pop(0)
            page = HugePage(at, frame, Pin(Pool("host memory", at, HUGE_BYTES), keep))
            self._by_frame[frame] = page
            pages.append(page)
        return pages

    def give(self, pages: list[HugePage]) -> None:
        """Frames are free again."""
        for page in pages:
            del self._by_frame[page.frame]
            self._free.append(page.frame)

    def small(self, pid: int, page: int) -> int:
        """The frame of a small page; it may move, and here it stays."""
        return self._small.setdefault((pid, page), _FIRST_SMALL + _STRIDE * len(self._small))

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """The memory at a physical address; None, and a violation, where it is not pinned."""
        frame = address // host.PAGE_BYTES
        block = frame - (frame - _FIRST_HUGE) % FRAMES_PER_HUGE
        page = self._by_frame.get(block)
        if page is None or address + nbytes > block * host.PAGE_BYTES + HUGE_BYTES:
            self._find("DMA to memory that is not pinned", f"{address:#x}+{nbytes:#x}", "")
            return None
        return page.pin.pool, address - block * host.PAGE_BYTES


def pagemap(
    pid: int, frames: Frames, huge: dict[int, HugePage], offset: int, nbytes: int, *, shown: bool
) -> bytes:
    """What /proc/PID/pagemap holds at `offset`; frame numbers are zero unless `shown`.

    Raises: OSError EINVAL for half entries.
    """
    if offset % ENTRY_BYTES or nbytes % ENTRY_BYTES:
        raise OSError(errno.EINVAL, "pagemap has entries of 8 bytes")
    entries = []
    for page in range(offset // ENTRY_BYTES, (offset + nbytes) // ENTRY_BYTES):
        va = page * host.PAGE_BYTES
        found = huge.get(va & -HUGE_BYTES)
        if found is not None:
            entry = PRESENT | SHARED | found.frame + (va - found.va) // host.PAGE_BYTES
        elif host.mapped(va, host.PAGE_BYTES):
            entry = PRESENT | frames.small(pid, page)
        else:
            entry = 0
        entries.append(entry if shown else entry & (PRESENT | SHARED))
    return b"".join(entry.to_bytes(ENTRY_BYTES, "little") for entry in entries)

"""GPU addresses of a process: ranges with nothing mapped on both sides of each.

A range that was given back is not used again before translations of it are surely forgotten:
`settle` says that the translation caches were flushed.
"""

from __future__ import annotations

from typing import Final

from drivers.bare.extents import Extents
from drivers.bare.vram import natural_align, whole_pages
from drivers.base.errors import BadArgument, OutOfMemory
from drivers.base.pages import PAGE_BYTES

FIRST_VA: Final = 1 << 45
LAST_VA: Final = (1 << 46) - 1
"""The process's addresses: 32 TiB, away from 0 and from where flat apertures lie (bit 48 on)."""
GUARD_BYTES: Final = PAGE_BYTES
"""Unmapped in front of and behind every range."""


class AddressSpace:
    """Ranges of virtual addresses; nothing is mapped by taking one."""

    def __init__(self, first_va: int = FIRST_VA, last_va: int = LAST_VA) -> None:
        self.first_va, self.last_va = first_va, last_va
        self._free = Extents(first_va, last_va + 1)
        self._taken: dict[int, tuple[int, int]] = {}
        self._given: list[tuple[int, int]] = []

    @property
    def taken(self) -> int:
        """Ranges that are in use."""
        return len(self._taken)

    def take(self, nbytes: int, align: int = 0) -> int:
        """The first address of a range; `align` 0 is what suits the size. Raises: OutOfMemory."""
        nbytes = whole_pages(max(nbytes, 1))
        align = align or natural_align(nbytes)
        room = nbytes + align + GUARD_BYTES
        start = self._free.take(room, align)
        if start is None:
            raise OutOfMemory(
                f"no {nbytes} addresses are free in one piece",
                requested=nbytes,
                used=self.last_va + 1 - self.first_va - self._free.free_bytes,
                cached=0,
                limit=self.last_va + 1 - self.first_va,
                hint="Free buffers, or open the device again",
            )
        va = start + align
        self._taken[va] = (start, room)
        return va

    def give(self, va: int) -> None:
        """Back, for use after the next `settle`. Raises: BadArgument for one never taken."""
        room = self._taken.pop(va, None)
        if room is None:
            raise BadArgument(f"{va:#x} is not the first address of a range that is in use")
        self._given.append(room)

    def settle(self) -> None:
        """The translation caches forgot every range that was given back."""
        given, self._given = self._given, []
        for start, nbytes in given:
            self._free.give(start, nbytes)

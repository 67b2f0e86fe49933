"""The host's memory that a GPU reaches. Physical addresses come in huge pages, which are shared.

Behind an IOMMU every piece is a mapping of its own. Without one the host has few huge pages, each
set aside by its administrator: small pieces lie together in one, which goes when the last goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from drivers.bare.extents import Extents
from drivers.bare.vram import HUGE_BYTES, Piece
from drivers.base.pages import PAGE_BYTES
from drivers.pci.dma import Dma, DmaMemory, Grade

SMALL_BYTES: Final = HUGE_BYTES // 2
"""From this size on a piece has huge pages of its own."""


@dataclass(frozen=True, slots=True)
class HostPiece:
    """Zeroed memory: where it is in one of the DMA's, its bus addresses, what gives it back."""

    memory: DmaMemory
    off: int
    nbytes: int
    close: Callable[[], None]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """(bus address, bytes), in order."""
        return _part(self.memory.pieces, self.off, self.nbytes)

    def view(self) -> memoryview:
        """As the host sees it; the memory stays mapped while somebody has this."""
        return self.memory.region.view()[self.off : self.off + self.nbytes]


class HostPages:
    """What one process has given a GPU of its memory. Calls are made one at a time."""

    def __init__(self, dma: Dma) -> None:
        self._dma = dma
        self._shared: dict[DmaMemory, Extents] = {}

    def alloc(self, nbytes: int) -> HostPiece:
        """Whole pages. Raises: OutOfMemory, Unsupported without DMA."""
        if self._dma.grade is not Grade.PHYSICAL or nbytes >= SMALL_BYTES:
            memory = self._dma.alloc(nbytes)
            return HostPiece(memory, 0, nbytes, memory.close)
        memory, off = self._place(nbytes)
        piece = HostPiece(memory, off, nbytes, partial(self._give, memory, off, nbytes))
        piece.view()[:] = bytes(nbytes)
        return piece

    def _place(self, nbytes: int) -> tuple[DmaMemory, int]:
        """Room in a huge page that is there, or in another one."""
        for memory, free in self._shared.items():
            off = free.take(nbytes, PAGE_BYTES)
            if off is not None:
                return memory, off
        memory = self._dma.alloc(HUGE_BYTES)
        free = self._shared[memory] = Extents(0, HUGE_BYTES)
        free.take(nbytes, HUGE_BYTES)
        return memory, 0

    def _give(self, memory: DmaMemory, off: int, nbytes: int) -> None:
        free = self._shared[memory]
        free.give(off, nbytes)
        if free.free_bytes == HUGE_BYTES:
            del self._shared[memory]
            memory.close()


def _part(pieces: tuple[Piece, ...], off: int, nbytes: int) -> tuple[Piece, ...]:
    """The pieces of [off, off + nbytes)."""
    found: list[Piece] = []
    for address, size in pieces:
        part = min(size - off, nbytes)
        if part > 0:
            found.append((address + off, part))
            nbytes -= part
        off = max(off - size, 0)
    return tuple(found)

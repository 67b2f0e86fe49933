"""Pages of VRAM: who has which. What they are mapped to is the page tables' business."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from drivers.bare.extents import Extents
from drivers.base.errors import OutOfMemory
from drivers.base.pages import PAGE_BYTES

BIG_BYTES: Final = 64 << 10
"""What one entry of a translation cache covers when 16 pages lie together."""
HUGE_BYTES: Final = 2 << 20
"""What one entry of an upper table maps."""
Piece: TypeAlias = tuple[int, int]
"""(offset, bytes)."""


def natural_align(nbytes: int) -> int:
    """The largest of the page sizes that `nbytes` fills."""
    if nbytes >= HUGE_BYTES:
        return HUGE_BYTES
    return BIG_BYTES if nbytes >= BIG_BYTES else PAGE_BYTES


def whole_pages(nbytes: int) -> int:
    """Bytes of the pages that hold `nbytes`."""
    return -(-nbytes // PAGE_BYTES) * PAGE_BYTES


class VramPages:
    """The part of VRAM from `first` to `last`, given out in pages.

    Beyond `visible` the host cannot read (a BAR that is smaller than the memory); such pages are
    given first to those who do not ask to see them.
    """

    def __init__(self, first: int, last: int, visible: int | None = None) -> None:
        seen = min(max(first, last if visible is None else visible), last)
        self._seen, self._unseen = Extents(first, seen), Extents(seen, last)
        self.nbytes = last - first

    @property
    def used_bytes(self) -> int:
        """Given out."""
        return self.nbytes - self._seen.free_bytes - self._unseen.free_bytes

    def alloc(self, nbytes: int, align: int = 0, *, visible: bool = False,
              whole: bool = False) -> tuple[Piece, ...]:  # fmt: skip
        """Pages for `nbytes`: one piece, aligned, where there is one; else the longest there are.

        `align` 0 is what suits the size; `visible`: through the BAR; `whole`: one piece or nothing.
        Raises: OutOfMemory.
        """
        nbytes = whole_pages(max(nbytes, 1))
        parts = (self._seen,) if visible else (self._unseen, self._seen)
        wanted = [align] if align else [natural_align(nbytes), PAGE_BYTES]
        for alignment in wanted:
            for part in parts:
                place = part.take(nbytes, alignment)
                if place is not None:
                    return ((place, nbytes),)
        if whole or align or sum(part.free_bytes for part in parts) < nbytes:
            raise self._full(nbytes, parts)
        return tuple(_pieces(nbytes, parts))

    def free(self, pieces: Iterable[Piece]) -> None:
        """Give pages back, of which no translation may be left. Raises: ValueError when twice."""
        for offset, nbytes in pieces:
            part = self._seen if offset < self._seen.last else self._unseen
            part.give(offset, nbytes)

    def _full(self, nbytes: int, parts: Iterable[Extents]) -> OutOfMemory:
        free = sum(part.free_bytes for part in parts)
        largest = max(part.largest_bytes for part in parts)
        return OutOfMemory(
            f"{nbytes} bytes of VRAM are not there: {free} are free, {largest} in one piece",
            requested=nbytes,
            used=self.used_bytes,
            cached=0,
            limit=self.nbytes,
            hint="Free buffers, or work on less at a time",
        )


def _pieces(nbytes: int, parts: Iterable[Extents]) -> Iterable[Piece]:
    for part in parts:
        for _ in range(len(part)):
            piece = part.take_largest(nbytes)
            if piece is None:
                break
            yield piece
            nbytes -= piece[1]
            if not nbytes:
                return

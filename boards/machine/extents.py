"""Which parts of a pool are free: pieces in address order, the first that fits."""

from __future__ import annotations

import errno
from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """Bytes of a pool in one piece."""

    start: int
    nbytes: int

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.start + self.nbytes


class Extents:
    """Free space of a pool. A request that fits no single piece is split unless it must not be."""

    def __init__(self, start: int, nbytes: int) -> None:
        self._free = [Piece(start, nbytes)]
        self.free_bytes, self._all_bytes = nbytes, nbytes

    @property
    def used_bytes(self) -> int:
        """What is taken."""
        return self._all_bytes - self.free_bytes

    def take(self, nbytes: int, align: int, *, whole: bool = False) -> list[Piece]:
        """Pieces of `nbytes` together. Raises: OSError ENOMEM."""
        if nbytes > self.free_bytes:
            raise OSError(errno.ENOMEM, f"{nbytes:#x} bytes of {self.free_bytes:#x} free")
        for at, piece in enumerate(self._free):
            start = -(-piece.start // align) * align
            if start + nbytes <= piece.end:
                return [self._cut(at, start, nbytes)]
        if whole:
            raise OSError(errno.ENOMEM, f"no {nbytes:#x} bytes in one piece")
        taken: list[Piece] = []
        for _ in range(len(self._free)):
            piece = self._free[0]
            part = min(piece.nbytes, nbytes - sum(p.nbytes for p in taken))
            if not part:
                break
            taken.append(self._cut(0, piece.start, part))
        return taken

    def _cut(self, at: int, start: int, nbytes: int) -> Piece:
        piece = self._free[at]
        rest = [Piece(piece.start, start - piece.start)]
        rest.append(Piece(start + nbytes, piece.end - start - nbytes))
        self._free[at : at + 1] = [p for p in rest if p.nbytes]
        self.free_bytes -= nbytes
        return Piece(start, nbytes)

    def give(self, pieces: list[Piece]) -> None:
        """Take pieces back, and join them with their neighbours."""
        for piece in pieces:
            at = bisect_left(self._free, piece)
            self.free_bytes += piece.nbytes
            start, end = piece.start, piece.end
            if at < len(self._free) and self._free[at].start == end:
                end = self._free.pop(at).end
            if at and self._free[at - 1].end == start:
                at -= 1
                start = self._free.pop(at).start
            self._free.insert(at, Piece(start, end - start))

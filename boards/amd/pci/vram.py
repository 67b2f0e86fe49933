"""VRAM behind a BAR that the host maps whole: poison without touching a gibibyte.

The memory file is sparse. A page that is a hole was never written; it becomes poison when
it is first mapped for an agent of the GPU. To the host, which is not watched, fresh VRAM reads as
zeros, except for the first `poison_bytes`, which hold poison from power-on.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

import numpy as np

from boards.machine import host
from boards.machine.pool import Vram, poison

_PAGE_SHIFT = 12
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Guarded:
    """VRAM that only the firmware may touch."""

    start: int
    end: int


class PciVram(Vram):
    """Memory of a GPU that host and GPU write independently."""

    def __init__(self, name: str, nbytes: int, poison_bytes: int = 0) -> None:
        super().__init__(name, nbytes)
        self._poison_bytes = min(poison_bytes, nbytes)
        self.guarded: list[Guarded] = []
        self._fill()

    def _fill(self) -> None:
        for start in range(0, self._poison_bytes, _CHUNK_BYTES):
            count = min(_CHUNK_BYTES, self._poison_bytes - start) // 4
            self.words[start // 4 : start // 4 + count] = poison(start // 4, count)
        self._suspect[: self._poison_bytes + 0xFFFF >> 16] = True

    def written(self, off: int, nbytes: int) -> list[tuple[int, int]]:
        """Pieces (start, end) of a range that are no holes: somebody has touched them."""
        pieces, at, end = [], off, off + nbytes
        for _ in range(nbytes // host.PAGE_BYTES + 2):
            start = self._seek(at, os.SEEK_DATA)
            if start >= end:
                break
            at = min(end, self._seek(start, os.SEEK_HOLE))
            pieces.append((start, at))
        return pieces

    def _seek(self, off: int, whence: int) -> int:
        try:
            return os.lseek(self.fd, off, whence)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return self.nbytes

    def prepare(self, off: int, nbytes: int) -> None:
        """Poison the holes of a range; called when it is mapped for an agent of the GPU."""
        first, last = off >> _PAGE_SHIFT, (off + nbytes - 1 >> _PAGE_SHIFT) + 1
        if not self._raw[first:last].any():
            return
        start, end = first << _PAGE_SHIFT, last << _PAGE_SHIFT
        for low, high in self.written(start, end - start):
            self._raw[low >> _PAGE_SHIFT : high + host.PAGE_BYTES - 1 >> _PAGE_SHIFT] = False
        super().prepare(off, nbytes)

    def is_guarded(self, off: int, nbytes: int) -> bool:
        return any(off < area.end and area.start < off + nbytes for area in self.guarded)

    def lose(self) -> None:
        """All contents are gone: after a reset old contents cannot be read."""
        self.guarded.clear()
        self.empty()
        self._raw[:] = True
        self._suspect[:] = False
        self.writer = np.zeros(len(self.writer), np.uint16)
        self._fill()

    def dirty_pages(self, off: int, nbytes: int) -> int:
        """How many pages of a range somebody has touched since they were punched out."""
        return sum(end - start for start, end in self.written(off, nbytes)) >> _PAGE_SHIFT

    def place(self, off: int, data: bytes) -> None:
        """Bytes that somebody other than an agent of the GPU writes."""
        self.bytes[off : off + len(data)] = np.frombuffer(data, np.uint8)

    def discard(self, off: int, nbytes: int) -> None:
        """What is in a range is gone; its pages are holes again."""
        self.forget(off, nbytes)

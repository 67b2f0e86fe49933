"""Memory objects of the resource manager: video memory, system memory, pages of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from boards.machine import host
from boards.machine.arrays import Array
from boards.machine.extents import Piece
from boards.machine.pool import Pool
from boards.nv.objects import Object


class Memory(Object):
    """Bytes that GPUs can be given addresses of."""

    def __init__(
        self, pool: Pool, pieces: list[Piece], nbytes: int, page_bytes: int,
        give: Callable[[], None], *, kind: str, gpu_index: int = -1, read_only: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.pool, self.pieces, self.nbytes = pool, pieces, nbytes
        self.page_bytes, self.kind, self.gpu_index = page_bytes, kind, gpu_index
        """`kind` is "video", "system" or "user"; the index is of the GPU whose memory it is."""
        self.read_only = read_only
        self._give = give
        self._holders = 1

    def hold(self) -> None:
        """A mapping keeps the memory."""
        self._holders += 1

    def drop(self) -> None:
        """One holder less: the last one gives the memory back."""
        self._holders -= 1
        if not self._holders:
            self._give()

    def freed(self) -> None:
        """RM_FREE: mappings keep what they have, as UVM's duplicates do."""
        self.drop()

    def there(self) -> bool:
        """Whether the bytes can be touched: a process may have unmapped its own pages."""
        return self.kind != "user" or host.mapped(self.pool.va, self.pool.nbytes)

    def prepare(self, off: int, nbytes: int) -> None:
        """What was never written is poison, from the first time that somebody can see it."""
        for start, count in self._ranges(off, nbytes):
            self.pool.prepare(start, count)

    def parts(self, off: int, nbytes: int) -> Iterator[Array]:
        """Its bytes in order."""
        for start, count in self._ranges(off, nbytes):
            yield self.pool.bytes[start : start + count]

    def _ranges(self, off: int, nbytes: int) -> Iterator[tuple[int, int]]:
        at = 0
        for piece in self.pieces:
            low, high = max(off, at), min(off + nbytes, at + piece.nbytes)
            if low < high:
                yield piece.start + low - at, high - low
            at += piece.nbytes

    def pieces_from(self, off: int) -> Iterator[Piece]:
        """Its pieces from an offset on, for a mapping."""
        for start, count in self._ranges(off, self.nbytes - off):
            yield Piece(start, count)

    def store(self, off: int, data: bytes) -> None:
        """What RM writes by itself: notifiers."""
        done = 0
        for part in self.parts(off, len(data)):
            part.data[:] = data[done : done + len(part)]
            done += len(part)

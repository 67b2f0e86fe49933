"""Memory of a board: DRAM, and what a CPU's caches have of it.

A GPU reads DRAM. So does the process where its mapping is uncached or the SMMU looks into the CPU's
caches. A cached mapping that the SMMU does not look into is memory of its own here: stores reach
DRAM when the range is cleaned, and what the GPU wrote is seen once it is invalidated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from boards.machine.arrays import Array
from boards.machine.extents import Extents, Piece
from boards.machine.pool import FilePool

LINE_SHIFT = 6
"""Lines of 64 bytes. # src: Arm Cortex-A76 TRM; Mesa's tu_device.c, level1_dcache_size 64"""
LINE_BYTES = 1 << LINE_SHIFT
PAGE_BYTES = 4096
Find = Callable[[str, str], None]


@dataclass(slots=True)
class Cached:
    """What a CPU's caches hold of a piece of DRAM."""

    cpu: Array
    clean: Array
    """As the CPU saw it when a line was last the same here and there."""

    def dirty(self, low: int, high: int) -> Array:
        """Numbers of the bytes of lines between two offsets that only the CPU has."""
        differs = np.flatnonzero(self.cpu[low:high] != self.clean[low:high])
        lines = np.unique((differs + low) >> LINE_SHIFT)
        spread = (lines[:, None] << LINE_SHIFT) + np.arange(LINE_BYTES)
        found: Array = spread.reshape(-1)
        return found[found < len(self.cpu)]


@dataclass(slots=True, eq=False)
class Memory:
    """Pages that a GPU can be given."""

    name: str
    nbytes: int
    dram: Array
    piece: Piece | None = None
    """Where it is in the pool; None: pages of the process."""
    cached: Cached | None = None
    shadow: Piece | None = None
    """Where the CPU's view is, if it is not the DRAM itself."""
    holds: int = 1
    """Handles, descriptors, and mappings of the process and of GPUs."""
    keep: object = None
    shader_wrote: Array = field(default_factory=lambda: np.zeros(0, np.uint32))
    """The dispatch that last wrote a line, once a shader has."""
    shader_read: Array = field(default_factory=lambda: np.zeros(0, np.uint32))
    """The dispatch that last read a line."""
    cp_wrote: Array = field(default_factory=lambda: np.zeros(0, np.uint32))
    cp_wrote_last: int = 0
    """The largest of those numbers."""
    _items: dict[int, Array | None] = field(default_factory=dict)

    def items(self, nbytes: int) -> Array | None:
        """DRAM as items of 1, 2, 4 or 8 bytes; None: they would not be aligned."""
        if nbytes not in self._items:
            fits = nbytes == 1 or not self.dram.ctypes.data % nbytes
            whole = self.dram[: len(self.dram) & -nbytes]
            self._items[nbytes] = whole.view(f"u{nbytes}") if fits else None
        return self._items[nbytes]

    def lines(self) -> None:
        """Begin to keep account of lines."""
        if not len(self.shader_wrote):
            count = (self.nbytes >> LINE_SHIFT) + 1
            self.shader_wrote = np.zeros(count, np.uint32)
            self.shader_read = np.zeros(count, np.uint32)
            self.cp_wrote = np.zeros(count, np.uint32)

    def clean(self, low: int, nbytes: int) -> None:
        """Write the CPU's dirty lines back to DRAM."""
        if self.cached is not None:
            lines = self.cached.dirty(low & -LINE_BYTES, min(low + nbytes, self.nbytes))
            self.dram[lines] = self.cached.cpu[lines]
            self.cached.clean[lines] = self.cached.cpu[lines]

    def invalidate(self, low: int, nbytes: int, find: Find) -> None:
        """Drop what the CPU's caches hold; dirty lines are lost."""
        if self.cached is not None:
            low, high = low & -LINE_BYTES, min(low + nbytes, self.nbytes)
            if len(self.cached.dirty(low, high)):
                find("CPU stores lost", f"{self.name} is invalidated with dirty lines in caches")
            self.cached.cpu[low:high] = self.dram[low:high]
            self.cached.clean[low:high] = self.dram[low:high]


class SystemMemory:
    """All DRAM of a machine, which its processes and GPUs share."""

    def __init__(self, nbytes: int) -> None:
        self.pool = FilePool("system memory", 2 * nbytes)
        self.free = Extents(0, nbytes)
        self._shadows = Extents(nbytes, nbytes)

    def new(self, name: str, nbytes: int, *, cached: bool) -> Memory:
        """Zeroed pages; `cached`: in CPU caches that the GPU does not see. Raises: OSError."""
        (piece,) = self.free.take(nbytes, PAGE_BYTES, whole=True)
        made = Memory(name, nbytes, self._bytes(piece), piece)
        if cached:
            (made.shadow,) = self._shadows.take(nbytes, PAGE_BYTES, whole=True)
            cpu = self._bytes(made.shadow)
            made.cached = Cached(cpu, np.zeros_like(cpu))
        return made

    def of_process(self, name: str, pages: Array, keep: object, *, coherent: bool) -> Memory:
        """Pages of a process; where caches are not coherent, DRAM has what was cleaned so far."""
        if coherent:
            return Memory(name, len(pages), pages, keep=keep)
        (piece,) = self.free.take(len(pages), PAGE_BYTES, whole=True)
        dram = self._bytes(piece)
        dram[:] = pages
        return Memory(name, len(pages), dram, piece, cached=Cached(pages, pages.copy()), keep=keep)

    def _bytes(self, piece: Piece) -> Array:
        return self.pool.bytes[piece.start : piece.end]

    def drop(self, memory: Memory) -> None:
        """One handle, descriptor or mapping less; with the last the pages are free."""
        memory.holds -= 1
        if memory.holds:
            return
        for space, piece in ((self.free, memory.piece), (self._shadows, memory.shadow)):
            if piece is not None:
                self.pool.forget(piece.start, piece.nbytes)
                space.give([piece])
        memory.piece = memory.shadow = memory.keep = None

    def seen_by_cpu(self, memory: Memory) -> Piece | None:
        """Where the process's view of it is in the pool's file."""
        return memory.shadow or memory.piece

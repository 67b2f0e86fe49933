"""Device memory below the caching allocator: small blocks share a piece of the card's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from drivers.base.undo import run_all
from drivers.gpu.iface import GpuIface, Memory, Use

SLAB_BYTES: Final = 2 << 20
LARGE_BYTES: Final = 256 << 10
"""Blocks from this size on are memory of their own, with guard pages."""
LINE_BYTES: Final = 128
"""No two blocks share a cache line: while a kernel writes one, a copy engine may read the other.
# src: kfd_crat.c, cache_line_size of the L2 of GFX9.4.3, GFX10, GFX11 and GFX12"""

Moment: TypeAlias = tuple[object, int]
"""A compute queue, and a position in it. Another queue may have replaced it since."""
UNKNOWN: Final[Moment] = (None, 0)


class Block:
    """Some bytes of a piece of memory."""

    __slots__ = ("bo", "gpu_va", "nbytes", "slab", "used")

    def __init__(self, bo: Memory, gpu_va: int, nbytes: int, slab: Slab | None = None) -> None:
        self.bo, self.gpu_va, self.nbytes, self.slab = bo, gpu_va, nbytes, slab
        self.used: Moment | None = UNKNOWN if slab is not None and slab.used else None
        """Position before which its former owners used it; None: never used."""


class Slab:
    """Memory cut into blocks of one size."""

    __slots__ = ("bo", "count", "free", "size", "used")

    def __init__(self, bo: Memory, size: int) -> None:
        self.bo, self.size = bo, size
        self.used = False
        """Whether some of its free blocks were allocated before."""
        self.count = bo.nbytes // size
        self.free = list(range(self.count - 1, -1, -1))


class Vram:
    """Raw memory of one GPU; the allocator's lock guards it.

    `quiet` returns once the GPU uses no memory that was given back. With `host` the host maps
    everything: it is the machine's memory.
    """

    def __init__(self, iface: GpuIface, quiet: Callable[[], object], *, host: bool) -> None:
        self._iface, self._quiet, self._host = iface, quiet, host
        self._slabs: dict[int, list[Slab]] = {}
        self._large: dict[int, Memory] = {}

    def alloc(self, nbytes: int) -> Block:
        """A block of whole cache lines. Raises: OutOfMemory."""
        nbytes += -nbytes % LINE_BYTES
        if nbytes >= LARGE_BYTES:
            bo = self._iface.allocate(nbytes, Use.DEVICE, "buffer", host=self._host)
            self._large[bo.gpu_va] = bo
            return Block(bo, bo.gpu_va, nbytes)
        slabs = self._slabs.setdefault(nbytes, [])
        slab = next((slab for slab in slabs if slab.free), None)
        if slab is None:
            bo = self._iface.allocate(SLAB_BYTES, Use.DEVICE, "small buffers", host=self._host)
            slab = Slab(bo, nbytes)
            slabs.append(slab)
        return Block(slab.bo, slab.bo.gpu_va + slab.free.pop() * nbytes, nbytes, slab)

    def free(self, block: Block) -> None:
        """Give a block back; a slab of which every block is free is freed."""
        slab = block.slab
        if slab is None:
            self._quiet()
            del self._large[block.gpu_va]
            block.bo.free()
            return
        slab.free.append((block.gpu_va - slab.bo.gpu_va) // slab.size)
        slab.used = True
        if len(slab.free) == slab.count:
            self._quiet()
            self._slabs[slab.size].remove(slab)
            slab.bo.free()

    def close(self) -> None:
        """Free everything, also what is still allocated. The GPU uses none of it."""
        objects = [slab.bo for slabs in self._slabs.values() for slab in slabs]
        objects += self._large.values()
        self._slabs, self._large = {}, {}
        run_all(bo.free for bo in objects)


class Wrapped:
    """Pages of the process's own memory that the GPU reaches, and their owner."""

    __slots__ = ("bo", "cpu_va", "memory")

    def __init__(self, bo: Memory, memory: memoryview, cpu_va: int) -> None:
        self.bo, self.memory, self.cpu_va = bo, memory, cpu_va


class Imported:
    """Memory of another driver or process that the GPU reaches, and its owner; never reused."""

    __slots__ = ("bo", "gpu_va", "owner")

    def __init__(self, bo: Memory, owner: object) -> None:
        self.bo, self.gpu_va, self.owner = bo, bo.gpu_va, owner

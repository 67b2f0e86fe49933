"""Host memory as device memory: mappings for large blocks, slabs for small ones."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import Region, World
from drivers.base.undo import run_all

SLAB_BYTES: Final = 256 << 10
LARGE_BYTES: Final = 64 << 10
"""Blocks from this size on are mappings of their own."""


class Storage:
    """One raw block: an address, its bytes, and where it came from."""

    __slots__ = ("cpu_va", "home", "view")

    def __init__(self, cpu_va: int, view: memoryview, home: Region | Slab) -> None:
        self.cpu_va, self.view, self.home = cpu_va, view, home


class Slab:
    """A mapping cut into blocks of one size."""

    __slots__ = ("block_bytes", "count", "free", "region")

    def __init__(self, region: Region, block_bytes: int) -> None:
        self.region, self.block_bytes = region, block_bytes
        self.count = region.nbytes // block_bytes
        self.free = list(range(self.count))


class HostMemory:
    """Raw memory below the caching allocator, whose lock guards it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._slabs: dict[int, list[Slab]] = {}
        self._large: dict[int, Region] = {}

    def alloc(self, nbytes: int) -> Storage:
        """A block aligned to 64 bytes or better. Raises: OutOfMemory."""
        if nbytes >= LARGE_BYTES:
            region = self._world.mmap(-1, nbytes)
            self._large[region.cpu_va] = region
            return Storage(region.cpu_va, region.view(), region)
        slabs = self._slabs.setdefault(nbytes, [])
        slab = next((slab for slab in slabs if slab.free), None)
        if slab is None:
            slab = Slab(self._world.mmap(-1, SLAB_BYTES), nbytes)
            slabs.append(slab)
        off = slab.free.pop() * nbytes
        return Storage(slab.region.cpu_va + off, slab.region.view()[off : off + nbytes], slab)

    def free(self, storage: Storage) -> None:
        """Give a block back; a slab of which every block is free is unmapped."""
        home = storage.home
        if not isinstance(home, Slab):
            del self._large[storage.cpu_va]
            home.close()
            return
        home.free.append((storage.cpu_va - home.region.cpu_va) // home.block_bytes)
        if len(home.free) == home.count:
            self._slabs[home.block_bytes].remove(home)
            home.region.close()

    def close(self) -> None:
        """Unmap everything, also what is still allocated."""
        regions = [slab.region for slabs in self._slabs.values() for slab in slabs]
        regions += self._large.values()
        self._slabs, self._large = {}, {}
        run_all(region.close for region in regions)

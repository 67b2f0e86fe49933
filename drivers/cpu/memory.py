"""Host memory as device memory: mappings for large blocks, slabs for small ones, buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drivers.base.buffer import FreedOnce
from drivers.base.contracts import Device, Region, World
from drivers.base.errors import Unsupported
from drivers.base.undo import run_all

if TYPE_CHECKING:
    from drivers.cpu.device import CpuDevice

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


class CpuBuffer(FreedOnce):
    """Memory of the CPU device, or wrapped host memory. `gpu_va` is its host address.

    A buffer that is dropped without `free` is freed by its finaliser.
    """

    __slots__ = ("__weakref__", "_home", "device", "readonly")

    def __init__(
        self,
        device: CpuDevice,
        nbytes: int,
        gpu_va: int,
        home: Storage | memoryview,
        readonly: bool,
    ) -> None:
        self._home: Storage | memoryview | None = home
        super().__init__(gpu_va, nbytes)
        self.device, self.readonly = device, readonly

    def __repr__(self) -> str:
        return f"CpuBuffer({self.nbytes} bytes{', read-only' if self.readonly else ''})"

    @property
    def host(self) -> memoryview:
        """The bytes themselves; read-only for wrapped read-only memory."""
        home = self._home
        if home is None:
            raise self._gone()
        view = (home.view if isinstance(home, Storage) else home)[: self.nbytes]
        return view.toreadonly() if self.readonly else view

    def view(self) -> memoryview:
        """The same."""
        return self.host

    def map_to(self, other: Device) -> int:
        """CPU devices share one address space. Raises: Unsupported for any other device."""
        if not isinstance(other, type(self.device)):
            raise Unsupported(
                f"memory of {self.device.name} cannot be mapped to {other.name}",
                hint="copy it through the host",
            )
        return self.gpu_va

    def free(self) -> None:
        """Give the memory back once parked work is done. Raises: UseAfterFree the second time."""
        self._end()
        home, self._home = self._home, None
        if home is not None:
            self.device.released(home)

    def __del__(self) -> None:
        home, self._home = self._home, None
        if home is not None:
            self.device.freed(home)

"""Device memory below the caching allocator, and buffers: small blocks share a buffer object."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from drivers.amd.iface import Iface, Memory, Use
from drivers.base.buffer import FreedOnce
from drivers.base.contracts import Buffer, Device
from drivers.base.errors import Unsupported
from drivers.base.undo import run_all

if TYPE_CHECKING:
    from drivers.amd.device import AmdDevice

SLAB_BYTES: Final = 2 << 20
LARGE_BYTES: Final = 256 << 10
"""Blocks from this size on are buffer objects of their own, with guard pages."""
LINE_BYTES: Final = 128
"""No two blocks share a cache line: while a kernel writes one, a copy engine may read the other.
# src: amdgpu kfd_crat.c, cache_line_size of the L2 of GFX9.4.3, GFX10, GFX11 and GFX12"""


Moment: TypeAlias = tuple[object, int]
"""A compute queue, and a position in it. Another queue may have replaced it since."""
UNKNOWN: Final[Moment] = (None, 0)


class Block:
    """Some bytes of a buffer object."""

    __slots__ = ("bo", "gpu_va", "nbytes", "slab", "used")

    def __init__(self, bo: Memory, gpu_va: int, nbytes: int, slab: Slab | None = None) -> None:
        self.bo, self.gpu_va, self.nbytes, self.slab = bo, gpu_va, nbytes, slab
        self.used: Moment | None = UNKNOWN if slab is not None and slab.used else None
        """Position before which its former owners used it; None: never used."""


class Slab:
    """A buffer object cut into blocks of one size."""

    __slots__ = ("bo", "count", "free", "size", "used")

    def __init__(self, bo: Memory, size: int) -> None:
        self.bo, self.size = bo, size
        self.used = False
        """Whether some of its free blocks were allocated before."""
        self.count = bo.nbytes // size
        self.free = list(range(self.count - 1, -1, -1))


class Vram:
    """Raw memory of one GPU; the allocator's lock guards it.

    `quiet` returns once the GPU uses no memory that was given back.
    """

    def __init__(self, iface: Iface, quiet: Callable[[], object]) -> None:
        self._iface, self._quiet = iface, quiet
        self._host = iface.node.unified
        """Whether the host maps everything: it is the machine's memory."""
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


class AmdBuffer(FreedOnce):
    """Memory on the card, or host memory that the card reaches (`wrap`).

    A buffer that is dropped without `free` is freed by its finaliser.
    """

    __slots__ = ("__weakref__", "_home", "device", "others", "readonly", "since")

    def __init__(
        self, device: AmdDevice, nbytes: int, gpu_va: int, home: Block | Wrapped, readonly: bool
    ) -> None:
        self._home: Block | Wrapped | None = home
        super().__init__(gpu_va, nbytes)
        self.device, self.readonly = device, readonly
        self.since = device.moment
        """When it was allocated."""
        self.others: tuple[AmdDevice, ...] = ()
        """Other devices that reach it at the same address."""

    def __repr__(self) -> str:
        return f"AmdBuffer({self.nbytes} bytes of {self.device.name})"

    @property
    def block(self) -> Block | None:
        """Its block of the card's memory; None for wrapped memory."""
        return self._home if isinstance(self._home, Block) else None

    @property
    def host(self) -> memoryview | None:
        """The bytes of wrapped memory, or, to read, of a GPU whose memory is the machine's.

        Kernels' results are visible after `synchronize`. Write with `copy_in`, after which
        the GPU's caches are invalidated. None for memory on a card. Raises: UseAfterFree.
        """
        home = self._home
        if home is None:
            raise self._gone()
        if isinstance(home, Wrapped):
            return home.memory.toreadonly() if self.readonly else home.memory
        if self.device.node.unified:
            return self._bytes(home).toreadonly()
        return None

    def view(self) -> memoryview:
        """The same. Raises: Unsupported for memory on a card."""
        found = self.host
        if found is None:
            raise Unsupported(f"{self!r} is not visible to the host", hint="copy_out() it")
        return found

    def _bytes(self, home: Block) -> memoryview:
        off = self.gpu_va - home.bo.gpu_va
        return home.bo.view()[off : off + self.nbytes]

    def host_bytes(self) -> memoryview | None:
        """A view for host copies without a copy engine; None where they need one."""
        home = self._home
        if not self.device.node.unified or not isinstance(home, Block):
            return None
        return self._bytes(home)

    def map_to(self, other: Device) -> int:
        """Let another GPU of this process reach it; the address is the same there."""
        home = self._home
        if home is None:
            raise self._gone()
        if not isinstance(other, type(self.device)) or not self.device.iface.shares(other.iface):
            raise Unsupported(
                f"memory of {self.device.name} cannot be mapped to {other.name}",
                hint="copy it through the host",
            )
        if other is not self.device:
            home.bo.map_to(other.iface)
            self.device.overlap()
            self.device.reached_by(other)
            self.device.share_with(other)
            self.others = (*self.others, other)
        return self.gpu_va

    def free(self) -> None:
        """Give the memory back. Raises: UseAfterFree the second time."""
        self._end()
        home, self._home = self._home, None
        if home is not None:
            self.device.give_back(home)

    def __del__(self) -> None:
        home, self._home = self._home, None
        if home is not None:
            self.device.give_back(home)


def host_bytes(buffer: Buffer) -> memoryview | None:
    """The bytes of a buffer that host copies need no copy engine for; None: they do."""
    return buffer.host_bytes() if isinstance(buffer, AmdBuffer) else None


class Wrapped:
    """Pages of the process's own memory that the GPU reaches, and their owner."""

    __slots__ = ("bo", "cpu_va", "memory")

    def __init__(self, bo: Memory, memory: memoryview, cpu_va: int) -> None:
        self.bo, self.memory, self.cpu_va = bo, memory, cpu_va

"""Host memory that a device may reach, in three grades; every grade says what it protects.

IOMMU: the device sees what is mapped and nothing else. NONE: it sees nothing of the host, bus
mastering stays off. PHYSICAL: it may write anywhere; only when the user asks for it each time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, Busy, OutOfMemory, Unsupported, UseAfterFree
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Undo, run_all
from drivers.pci.iova import LARGE_BYTES, IovaSpace
from drivers.pci.pagemap import physical_pieces

Pieces = tuple[tuple[int, int], ...]


class Grade(StrEnum):
    """What stands between a device and the host's memory."""

    IOMMU = "iommu"
    NONE = "none"
    PHYSICAL = "physical"


class Iommu(Protocol):
    """What an address space behind an IOMMU offers. Both Raise the translated errno."""

    def ranges(self) -> list[tuple[int, int]]:
        """(first, last) addresses that may be mapped."""

    def map(self, iova: int, cpu_va: int, nbytes: int) -> None:
        """Pins whole pages and shows them to the device, readable and writable."""

    def unmap(self, iova: int, nbytes: int) -> None:
        """The device sees them no longer. Raises: MalformedInput unless exactly they went."""


class DmaMemory:
    """Memory of the host that the device reaches at `pieces`: (bus address, bytes), in order."""

    def __init__(self, dma: Dma, nbytes: int, pieces: Pieces, region: Region | None) -> None:
        self._dma, self._region = dma, region
        self.nbytes, self.pieces = nbytes, pieces

    def __repr__(self) -> str:
        return f"DmaMemory({self.nbytes:#x} bytes at {self.pieces[0][0]:#x})"

    @property
    def region(self) -> Region:
        """The memory itself. Raises: Unsupported for memory that the caller mapped."""
        if self._region is None:
            raise Unsupported(f"{self!r} belongs to the caller", hint="use it through its owner")
        return self._region

    def unmap(self) -> None:
        """The device reaches it no longer. A second time does nothing."""
        self._dma.forget(self)

    def free(self) -> None:
        """Host memory goes; only what no device reaches may."""
        if self._region is not None:
            self._region.close()

    def close(self) -> None:
        """Unmap, then free: when unmapping fails the memory stays. A second close does nothing."""
        self.unmap()
        self.free()


def check_physical(world: World, pages: int) -> None:
    """Whether this user can have so many locked huge pages now, and know where they are.

    Raises: OutOfMemory that names the kernel's pool, Busy with the limit of locked memory, Denied.
    """
    nbytes = pages * LARGE_BYTES
    try:
        region = world.mmap(-1, nbytes, huge=True)
    except OutOfMemory as error:
        raise error.advised(f"as root: add {pages} to /proc/sys/vm/nr_hugepages") from error
    try:
        physical_pieces(world, region.cpu_va, nbytes)
    finally:
        region.close()


class Dma:
    """The memory of one session. `master_on` is called before the first address is given out."""

    def __init__(
        self,
        world: World,
        grade: Grade,
        iommu: Iommu | None,
        address_bits: int,
        master_on: Callable[[], None],
    ) -> None:
        self._world, self.grade, self._iommu = world, grade, iommu
        self._limit, self._master_on = 1 << address_bits, master_on
        self._space: IovaSpace | None = None
        self._live: dict[DmaMemory, int] = {}
        """What the device may reach, and the IOVA range that has to be unmapped."""
        self._closed = False

    @property
    def live(self) -> int:
        """How many memories the device may reach now."""
        return len(self._live)

    def alloc(self, nbytes: int) -> DmaMemory:
        """Pinned zeroed memory, in whole pages. Raises: Unsupported, OutOfMemory, Denied."""
        self._usable(nbytes)
        if self.grade is Grade.PHYSICAL:
            return self._alloc_physical(-(-nbytes // LARGE_BYTES) * LARGE_BYTES)
        size = -(-nbytes // PAGE_BYTES) * PAGE_BYTES
        with Undo() as undo:
            region = self._world.mmap(-1, size)
            undo.add(region.close)
            return self._mapped(region.cpu_va, size, region)

    def map(self, cpu_va: int, nbytes: int) -> DmaMemory:
        """Memory that the process has, the pages around it included. Raises: Unsupported.

        The caller keeps it alive until `close`.
        """
        self._usable(nbytes)
        if self.grade is not Grade.IOMMU:
            raise Unsupported(
                "memory of the process can be shown to the device through an IOMMU alone",
                hint="copy through staging memory",
            )
        return self._mapped(cpu_va, nbytes, None)

    def _usable(self, nbytes: int) -> None:
        if self._closed:
            raise UseAfterFree("the PCI session is closed", hint="open it again")
        if nbytes <= 0:
            raise BadArgument(f"{nbytes} bytes cannot be given to a device")
        if self.grade is Grade.NONE:
            raise Unsupported(
                "without an IOMMU nothing of the host's memory is given to the device, which could "
                "write anywhere: rings, signals, arguments and staging lie in its own memory",
                hint="for DMA switch the IOMMU (VT-d) on and use vfio-pci; at your own risk "
                "UNBOUND_DMA=physical",
            )

    def _mapped(self, cpu_va: int, nbytes: int, region: Region | None) -> DmaMemory:
        """Show whole pages around [cpu_va, nbytes) to the device."""
        iommu = self._iommu
        if iommu is None:
            raise Unsupported("this session has no IOMMU", hint="claim the function for vfio-pci")
        if self._space is None:
            self._space = IovaSpace(iommu.ranges(), self._limit)
        space, inside = self._space, cpu_va % PAGE_BYTES
        size = -(-(inside + nbytes) // PAGE_BYTES) * PAGE_BYTES
        with Undo() as undo:
            iova = space.take(size)
            undo.add(lambda: space.give(iova))
            iommu.map(iova, cpu_va - inside, size)
            undo.hand_over(lambda: self._unmap(iova, size))
            self._master_on()
            memory = DmaMemory(self, nbytes, ((iova + inside, nbytes),), region)
            self._live[memory] = size
        return memory

    def _unmap(self, iova: int, size: int) -> None:
        """A range whose unmapping failed is never taken again."""
        if self._iommu is not None and self._space is not None:
            self._iommu.unmap(iova, size)
            self._space.give(iova)

    def _alloc_physical(self, size: int) -> DmaMemory:
        """Locked huge pages whose place is known, read twice."""
        with Undo() as undo:
            region = self._world.mmap(-1, size, huge=True)
            undo.add(region.close)
            pieces = physical_pieces(self._world, region.cpu_va, size)
            if any(pa + nbytes > self._limit for pa, nbytes in pieces):
                raise Unsupported(
                    f"memory at {pieces[0][0]:#x} is above what the device addresses",
                    hint="use an IOMMU",
                )
            if physical_pieces(self._world, region.cpu_va, size) != pieces:
                raise Busy("locked pages moved while they were being found", hint="use an IOMMU")
            memory = DmaMemory(self, size, pieces, region)
        self._live[memory] = 0  # if switching on fails half-way, closing isolates before it frees
        self._master_on()
        return memory

    def forget(self, memory: DmaMemory) -> None:
        """The device reaches a memory no longer: the IOMMU says so, or our own records do."""
        size = self._live.get(memory)
        if size is None:
            return
        if size:
            self._unmap(memory.pieces[0][0] // PAGE_BYTES * PAGE_BYTES, size)
        del self._live[memory]

    def close(self, *, isolated: bool) -> None:
        """Everything is unmapped, then freed; the session is at its end.

        `isolated` says that bus mastering is off. Without an IOMMU, memory stays where that is
        not sure. Raises: Busy when memory stays; the first error of unmapping.
        """
        self._closed = True
        memories = list(self._live)
        if memories and self.grade is Grade.PHYSICAL and not isolated:
            raise Busy(
                f"{len(memories)} memories stay locked: bus mastering may still be on",
                hint="close again; if it stays, end this process and restart the machine",
            )
        run_all([memory.close for memory in memories])

    def abandon(self) -> None:
        """The address space itself is gone: what could not be unmapped is freed too."""
        memories, self._live = list(self._live), {}
        run_all([memory.free for memory in memories])

"""Memory of a bare GPU: pages of VRAM or of the host, zeroed, mapped with the least rights.

| use      | where                                           | rights              | caches   |
|----------|-------------------------------------------------|---------------------|----------|
| DEVICE   | VRAM                                            | read, write         | yes      |
| CONSTANT | VRAM                                            | read                | yes      |
| CODE     | VRAM, written by the host through the BAR       | read, execute       | yes      |
| SHARED   | the host's behind an IOMMU, else VRAM (BAR)     | read, write         | no       |

VRAM is zeroed when it is given out, before its address is known to a program: what its last owner
left there, of this process or of a killed one, is gone. Large pieces are left to a copy engine
while one is idle; everything else is written by the host, through the BAR, before it is mapped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Final, TypeAlias

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.page_table import PageTable
from drivers.bare.address_space import AddressSpace
from drivers.bare.host_pages import HostPages, HostPiece
from drivers.bare.vram import Piece, whole_pages
from drivers.base import forks
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.base.interrupts import deferred
from drivers.base.undo import Undo, whole
from drivers.gpu.iface import GpuIface, Use
from drivers.pci.dma import Dma, DmaMemory, Grade

ZEROS: Final = bytes(2 << 20)
ENGINE_BYTES: Final = 64 << 10
"""From this size on a copy engine is worth asking."""
Fill: TypeAlias = Callable[[int, int], bool]
"""Zeroes (address, bytes) with a copy engine; False where it has something else to do."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a page-table entry allows."""

    writable: bool
    executable: bool
    uncached: bool


RIGHTS: Final = {
    Use.DEVICE: Rights(writable=True, executable=False, uncached=False),
    Use.CONSTANT: Rights(writable=False, executable=False, uncached=False),
    Use.CODE: Rights(writable=False, executable=True, uncached=False),
    Use.SHARED: Rights(writable=True, executable=False, uncached=True),
    Use.PACKETS: Rights(writable=True, executable=False, uncached=True),
}
_OF_HOST: Final = (Use.SHARED, Use.PACKETS)
"""Host memory, where the GPU may reach it."""


class PciMemory:
    """Mapped to its GPU at `gpu_va`; `memory` is the host's, else it is VRAM at `pieces`."""

    __slots__ = ("_owner", "gpu_va", "memory", "name", "nbytes", "pieces", "seen")

    def __init__(
        self, owner: Memories, name: str, nbytes: int, gpu_va: int,
        pieces: tuple[Piece, ...], memory: DmaMemory | HostPiece | None, seen: memoryview | None,
    ) -> None:  # fmt: skip
        self._owner: Memories | None = owner
        self.name, self.nbytes, self.gpu_va = name, nbytes, gpu_va
        self.pieces, self.memory, self.seen = pieces, memory, seen

    def __repr__(self) -> str:
        return f"PciMemory({self.name}, {self.nbytes:#x} bytes at {self.gpu_va:#x})"

    @property
    def on_card(self) -> bool:
        """Whether it is VRAM, so that the GPU sees the host's writes only after an HDP flush."""
        return self.memory is None

    def view(self) -> memoryview:
        """The bytes, for the host. Raises: Unsupported when it was not allocated for the host."""
        if self.seen is None:
            raise Unsupported(f"{self!r} is not mapped for the host", hint="copy it out")
        return self.seen

    def map_to(self, other: GpuIface) -> None:
        """Raises: Unsupported; one GPU's page tables say nothing of another's."""
        raise Unsupported(
            f"{self!r} cannot be mapped to a second GPU over PCI",
            hint="copy it through the host",
        )

    def free(self) -> None:
        """Unmap, forget the translations, give pages and addresses back. Raises: UseAfterFree."""
        with deferred():
            owner, self._owner = self._owner, None
            if owner is None:
                raise UseAfterFree(f"{self!r} was freed twice", hint="free it once")
            self.seen = None
            owner.free(self)


class Memories:
    """All memory of one process's address space. `handles`, `bytes_held`: what is not freed."""

    def __init__(
        self,
        gpu: BareGpu,
        table: PageTable,
        addresses: AddressSpace,
        dma: Dma,
        flush_tlb: Callable[[], None],
    ) -> None:
        self._gpu, self._table, self._addresses, self._dma = gpu, table, addresses, dma
        self._host, self._flush_tlb = HostPages(dma), flush_tlb
        self.lock = RLock()
        self.handles = self.bytes_held = 0
        self.reset = False
        """Whether page tables and contents are gone."""
        self.forked = False
        """Whether everything is a parent's."""
        self.fill: Fill | None = None
        forks.inherit(self)

    def after_fork(self) -> None:
        """The GPU is the parent's: a child touches no register and frees nothing."""
        self.forked = True

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> PciMemory:
        """Zeroed memory for one use, as a whole: Ctrl-C comes behind it, and frees it.

        Raises: OutOfMemory, with nothing done.
        """
        return whole(partial(self._allocate, nbytes, use, name, host), PciMemory.free)

    def _allocate(self, nbytes: int, use: Use, name: str, host: bool) -> PciMemory:
        nbytes = whole_pages(nbytes)
        self.check_process()
        if self.fill is not None and use is Use.DEVICE and not host and nbytes >= ENGINE_BYTES:
            filled = self._filled(self.fill, nbytes, name)
            if filled is not None:
                return filled
        with self.lock:
            if use in _OF_HOST and self._dma.grade is not Grade.NONE:
                return self._of_host(nbytes, name)
            return self._of_card(nbytes, use, name, host=host or use is Use.CODE)

    def _filled(self, fill: Fill, nbytes: int, name: str) -> PciMemory | None:
        """Memory that a copy engine zeroed, also what the host cannot see; None where it is busy.

        The lock is not held meanwhile: the engine's ring has one of its own.
        """
        with self.lock, Undo() as undo:
            pieces = self._gpu.pages.alloc(nbytes)
            undo.add(partial(self._gpu.pages.free, pieces))
            va = self._map(undo, nbytes, pieces, RIGHTS[Use.DEVICE], system=False)
            memory = self._made(name, nbytes, va, pieces, None, None)
        with Undo() as undo:
            undo.add(memory.free)
            done = fill(va, nbytes)
        if done:
            return memory
        memory.free()
        return None

    def check_process(self) -> None:
        """Raises: UseAfterFree in a child of the process that claimed the GPU."""
        if self.forked:
            raise UseAfterFree(
                "the GPU belongs to the process that this one was forked from",
                hint="open a device in the parent alone, or after the fork",
            )

    def _of_card(self, nbytes: int, use: Use, name: str, *, host: bool) -> PciMemory:
        gpu = self._gpu
        with Undo() as undo:
            pieces = gpu.pages.alloc(nbytes, visible=True, whole=host)
            undo.add(partial(gpu.pages.free, pieces))
            self._zero(pieces)
            va = self._map(undo, nbytes, pieces, RIGHTS[use], system=False)
            seen = None
            if host:
                ((offset, _),) = pieces
                seen = gpu.vram.view()[offset : offset + nbytes]
            return self._made(name, nbytes, va, pieces, None, seen)

    def _of_host(self, nbytes: int, name: str) -> PciMemory:
        with Undo() as undo:
            memory = self._host.alloc(nbytes)
            undo.add(memory.close)
            va = self._map(undo, nbytes, memory.pieces, RIGHTS[Use.SHARED], system=True)
            return self._made(name, nbytes, va, (), memory, memory.view())

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> PciMemory:
        """Whole pages of this process's own memory. Raises: Unsupported without an IOMMU."""
        if cpu_va % PAGE_BYTES or nbytes % PAGE_BYTES or not nbytes:
            raise BadArgument(
                f"{nbytes:#x} bytes at {cpu_va:#x} are not whole pages", hint="copy them instead"
            )
        self.check_process()
        return whole(partial(self._wrap, cpu_va, nbytes, name), PciMemory.free)

    def _wrap(self, cpu_va: int, nbytes: int, name: str) -> PciMemory:
        with self.lock, Undo() as undo:
            memory = self._dma.map(cpu_va, nbytes)
            undo.add(memory.close)
            va = self._map(undo, nbytes, memory.pieces, RIGHTS[Use.SHARED], system=True)
            return self._made(name, nbytes, va, (), memory, None)

    def _map(
        self, undo: Undo, nbytes: int, pieces: tuple[Piece, ...], rights: Rights, *, system: bool
    ) -> int:
        """Addresses that lead to the pieces."""
        va = self._addresses.take(nbytes)
        undo.add(partial(self._addresses.give, va))
        self._table.map(
            va,
            pieces,
            system=system,
            writable=rights.writable,
            executable=rights.executable,
            uncached=rights.uncached,
        )
        undo.add(partial(self._unmap, va, nbytes))
        return va

    def _made(
        self, name: str, nbytes: int, va: int,
        pieces: tuple[Piece, ...], memory: DmaMemory | HostPiece | None, seen: memoryview | None,
    ) -> PciMemory:  # fmt: skip
        self.handles += 1
        self.bytes_held += nbytes
        return PciMemory(self, name, nbytes, va, pieces, memory, seen)

    def _zero(self, pieces: tuple[Piece, ...]) -> None:
        """The flush behind the page-table entries is behind these writes, too."""
        for offset, nbytes in pieces:
            for at in range(0, nbytes, len(ZEROS)):
                part = min(len(ZEROS), nbytes - at)
                self._gpu.vram.write(offset + at, memoryview(ZEROS)[:part])

    def _unmap(self, va: int, nbytes: int) -> None:
        """Nothing on the GPU knows of the pages any more when this returns."""
        self._table.unmap(va, nbytes)
        self._flush_tlb()
        self._table.settle()

    def free(self, memory: PciMemory) -> None:
        """What is still mapped when unmapping fails is never reused."""
        if self.forked:  # a thread that is not here may hold the lock
            return
        with self.lock:
            self.handles -= 1
            self.bytes_held -= memory.nbytes
            if not self.reset:
                self._unmap(memory.gpu_va, memory.nbytes)
                self._addresses.give(memory.gpu_va)
                self._addresses.settle()
            if memory.memory is None:
                self._gpu.pages.free(memory.pieces)
            else:
                memory.memory.close()

    def publish(self) -> None:
        """Queues see what the host wrote to SHARED memory. Host memory is snooped: nothing to do.

        Hardware: no flush the other way; the HDPs of these chips keep nothing that was read.
        # src: hdp_v4_0_invalidate_hdp() leaves 4.4.2 out; hdp_v6_0.c, hdp_v7_0.c have none
        """
        if self._dma.grade is Grade.NONE:
            self._gpu.flush_hdp()

    def write_code(self, memory: PciMemory, data: bytes) -> None:
        """Machine code, which the GPU itself may not write."""
        memory.view()[: len(data)] = data
        self._gpu.flush_hdp()

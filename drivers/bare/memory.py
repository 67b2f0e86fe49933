"""Memory of a bare GPU: pages of VRAM or of the host, zeroed, mapped with the least rights.

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

from drivers.bare.address_space import AddressSpace
from drivers.bare.card import Card
from drivers.bare.host_pages import HostPages, HostPiece
from drivers.bare.mirror import Mirrors
from drivers.bare.page_format import Rights
from drivers.bare.page_table import PageTable
from drivers.bare.vram import Piece, whole_pages
from drivers.base import forks
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.base.interrupts import deferred
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Undo, whole
from drivers.pci.dma import Dma, DmaMemory, Grade

ZEROS: Final = bytes(2 << 20)
ENGINE_BYTES: Final = 64 << 10
"""From this size on a copy engine is worth asking."""
Fill: TypeAlias = Callable[[int, int], bool]
"""Zeroes (address, bytes) with a copy engine; False where it has something else to do."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What memory is given out for."""

    rights: Rights
    of_host: bool = False
    """The host's memory where the GPU may reach it; else VRAM that the host sees."""
    host_writes: bool = False
    """The host sees it, through the BAR, whoever asks for it."""
    engine_zeroes: bool = False
    """A copy engine zeroes large pieces while it is idle, in place of the host."""


SHARED: Final = Purpose(Rights(writable=True, executable=False, uncached=True), of_host=True)
"""What both sides write while the other reads."""


@dataclass(frozen=True, slots=True)
class OfOthers:
    """Pages at bus addresses of another device: they are not allocated here."""

    pieces: tuple[Piece, ...]

    def close(self) -> None:
        """Nothing was taken."""


Behind: TypeAlias = DmaMemory | HostPiece | OfOthers
"""What is not VRAM."""


class PciMemory:
    """Mapped to its GPU at `gpu_va`; `memory` is the host's, else it is VRAM at `pieces`."""

    __slots__ = ("_owner", "gpu_va", "memory", "name", "nbytes", "pieces", "seen")

    def __init__(
        self, owner: Memories, name: str, nbytes: int, gpu_va: int,
        pieces: tuple[Piece, ...], memory: Behind | None, seen: memoryview | None,
    ) -> None:  # fmt: skip
        self._owner: Memories | None = owner
        self.name, self.nbytes, self.gpu_va = name, nbytes, gpu_va
        self.pieces, self.memory, self.seen = pieces, memory, seen

    def __repr__(self) -> str:
        return f"PciMemory({self.name}, {self.nbytes:#x} bytes at {self.gpu_va:#x})"

    @property
    def on_card(self) -> bool:
        """Whether it is VRAM, so that the GPU sees the host's writes only after a flush."""
        return self.memory is None

    def view(self) -> memoryview:
        """The bytes, for the host. Raises: Unsupported when it was not allocated for the host."""
        if self.seen is None:
            raise Unsupported(f"{self!r} is not mapped for the host", hint="copy it out")
        return self.seen

    def map_to(self, other: object) -> None:
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
        card: Card,
        table: PageTable,
        addresses: AddressSpace,
        dma: Dma,
        flush_tlb: Callable[[], None],
        mirrors: Mirrors | None = None,
    ) -> None:
        """`mirrors`: what the host sees of VRAM where the BAR is not mapped."""
        self.mirrors = mirrors
        self._card, self._table, self._addresses, self._dma = card, table, addresses, dma
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

    def allocate(
        self, nbytes: int, purpose: Purpose, name: str, *, host: bool = False
    ) -> PciMemory:
        """Zeroed memory, as a whole: Ctrl-C comes behind it, and frees it.

        Raises: OutOfMemory, with nothing done.
        """
        return whole(partial(self._allocate, nbytes, purpose, name, host), PciMemory.free)

    def _allocate(self, nbytes: int, purpose: Purpose, name: str, host: bool) -> PciMemory:
        nbytes = whole_pages(nbytes)
        self.check_process()
        seen = host or purpose.host_writes or purpose.of_host
        by_engine = purpose.engine_zeroes and not seen and nbytes >= ENGINE_BYTES
        if self.fill is not None and by_engine:
            filled = self._filled(self.fill, nbytes, purpose.rights, name)
            if filled is not None:
                return filled
        with self.lock:
            if purpose.of_host and self._dma.grade is not Grade.NONE:
                return self._of_host(nbytes, purpose.rights, name)
            return self._of_card(nbytes, purpose.rights, name, host=host or purpose.host_writes)

    def _filled(self, fill: Fill, nbytes: int, rights: Rights, name: str) -> PciMemory | None:
        """Memory that a copy engine zeroed, also what the host cannot see; None where it is busy.

        The lock is not held meanwhile: the engine's ring has one of its own.
        """
        with self.lock, Undo() as undo:
            pieces = self._card.pages.alloc(nbytes)
            undo.add(partial(self._card.pages.free, pieces))
            va = self._map(undo, nbytes, pieces, rights, system=False)
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

    def _of_card(self, nbytes: int, rights: Rights, name: str, *, host: bool) -> PciMemory:
        card = self._card
        with Undo() as undo:
            pieces = card.pages.alloc(nbytes, visible=True, whole=host)
            undo.add(partial(card.pages.free, pieces))
            self._zero(pieces)
            va = self._map(undo, nbytes, pieces, rights, system=False)
            seen = None
            if host:
                ((offset, _),) = pieces
                if self.mirrors is None:
                    seen = card.vram.view()[offset : offset + nbytes]
                else:
                    seen = self.mirrors.make(offset, nbytes).view
                    undo.add(partial(self.mirrors.drop, offset))
            return self._made(name, nbytes, va, pieces, None, seen)

    def _of_host(self, nbytes: int, rights: Rights, name: str) -> PciMemory:
        with Undo() as undo:
            memory = self._host.alloc(nbytes)
            undo.add(memory.close)
            va = self._map(undo, nbytes, memory.pieces, rights, system=True)
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
            va = self._map(undo, nbytes, memory.pieces, SHARED.rights, system=True)
            return self._made(name, nbytes, va, (), memory, None)

    def reach(self, first: int, nbytes: int, name: str) -> PciMemory:
        """Memory of another device on the GPU's bus, at `first` there. The host does not see it."""
        self.check_process()
        return whole(partial(self._reach, first, nbytes, name), PciMemory.free)

    def _reach(self, first: int, nbytes: int, name: str) -> PciMemory:
        with self.lock, Undo() as undo:
            memory = OfOthers(((first, nbytes),))
            va = self._map(undo, nbytes, memory.pieces, SHARED.rights, system=True)
            return self._made(name, nbytes, va, (), memory, None)

    def _map(
        self, undo: Undo, nbytes: int, pieces: tuple[Piece, ...], rights: Rights, *, system: bool
    ) -> int:
        """Addresses that lead to the pieces."""
        va = self._addresses.take(nbytes)
        undo.add(partial(self._addresses.give, va))
        try:
            self._table.map(va, pieces, rights, system=system)
        except BaseException:  # the GPU may have seen some of its entries
            self._flush_tlb()
            self._table.settle()
            raise
        undo.add(partial(self._unmap, va, nbytes))
        return va

    def _made(
        self, name: str, nbytes: int, va: int,
        pieces: tuple[Piece, ...], memory: Behind | None, seen: memoryview | None,
    ) -> PciMemory:  # fmt: skip
        self.handles += 1
        self.bytes_held += nbytes
        return PciMemory(self, name, nbytes, va, pieces, memory, seen)

    def _zero(self, pieces: tuple[Piece, ...]) -> None:
        """The flush behind the page-table entries is behind these writes, too."""
        for offset, nbytes in pieces:
            for at in range(0, nbytes, len(ZEROS)):
                part = min(len(ZEROS), nbytes - at)
                self._card.vram.write(offset + at, memoryview(ZEROS)[:part])

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
                if self.mirrors is not None:
                    self.mirrors.drop(memory.pieces[0][0])
                self._card.pages.free(memory.pieces)
            else:
                memory.memory.close()

    def publish(self) -> None:
        """Queues see what the host wrote to SHARED memory. Host memory is snooped: nothing to do.

        No flush the other way: a GPU whose BAR keeps what was read would need one.
        """
        if self._dma.grade is Grade.NONE:
            self._card.flush_writes()

    def write_code(self, memory: PciMemory, data: bytes) -> None:
        """Machine code, which the GPU itself may not write."""
        memory.view()[: len(data)] = data  # a mirror is pushed by the flush
        self._card.flush_writes()

"""Memory of one device: allocation, wrapping, and reuse as soon as no queue may use it."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Protocol, TypeAlias

from drivers.base.allocator import Allocator
from drivers.base.buffer import wrapped_bytes
from drivers.base.errors import Unsupported
from drivers.base.life import Life, State
from drivers.base.memory_stats import MemoryStats
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import run_all
from drivers.gpu.blocks import LARGE_BYTES, Block, Imported, Moment, Vram, Wrapped
from drivers.gpu.iface import GpuIface, Memory
from drivers.gpu.slots import Slot, Slots
from drivers.world import native

Allocation: TypeAlias = "Block | Wrapped | Imported | Memory | Slot"
"""What a buffer, a program, a graph or a signal holds."""


class Users(Protocol):
    """The queues that may use memory of a device."""

    @property
    def idle(self) -> tuple[bool, bool]:
        """Whether (the compute queue, the copy queue) has finished everything."""

    @property
    def given(self) -> int:
        """Position of the last work given to the compute queue."""

    @property
    def moment(self) -> Moment:
        """The compute queue, and the position of its last work."""

    def reach(self, mark: int) -> None:
        """Return once the compute queue has done its work up to `mark`."""

    def synchronize(self) -> None:
        """Return when all submitted work is done."""


class Heap:
    """What is given back is reused as soon as no queue of `users` may use it.

    `limit_bytes` is the device's memory; with `unified` it is the machine's, which the host sees.
    """

    def __init__(
        self,
        life: Life,
        iface: GpuIface,
        slots: Slots,
        users: Users,
        limit_bytes: int,
        *,
        unified: bool = False,
    ) -> None:
        self.life, self.users, self.unified = life, users, unified
        self._iface, self._slots = iface, slots
        self.raw = Vram(iface, self.quiet, host=unified)
        self.allocator: Allocator[Block] = Allocator(
            self.raw.alloc, self.raw.free, limit_bytes, name=life.name
        )
        self._returned: deque[Allocation] = deque()
        self.wrapped: list[Wrapped] = []
        self.imported: list[Imported] = []
        self._overlaps = False
        """Whether the copy queue or another GPU's queues run beside the compute queue."""
        self._early = 0
        """Position until which the compute queue uses memory that was already allocated again."""
        self._peers: weakref.WeakSet[Heap] = weakref.WeakSet()
        """Of other GPUs that reach memory of this one."""

    def quiet(self) -> None:
        """Return when all submitted work is done, also of GPUs that reach this one's memory."""
        self.users.synchronize()
        for peer in list(self._peers):
            if peer.life.open:
                peer.users.synchronize()

    def block(self, nbytes: int) -> Block:
        """Uninitialised memory on the card. Raises: OutOfMemory with the sizes; UseAfterFree."""
        if self._returned:
            self.reclaim()
        self.life.check()
        return self.allocator.alloc(nbytes)

    def wrap(self, memory: memoryview) -> Wrapped:
        """Whole pages of host memory, without a copy; kept alive until it is given back.

        Raises: Unsupported for memory that does not begin and end with a page; BadArgument.
        """
        self.life.check()
        view = wrapped_bytes(memory)
        address = native.address_of(view) if view.nbytes else 0
        if memory.readonly or not view.nbytes or address % PAGE_BYTES or view.nbytes % PAGE_BYTES:
            raise Unsupported(
                f"{view.nbytes} bytes at {address:#x} are not whole writable pages",
                hint="copy them to a buffer of the device",
            )
        made = Wrapped(self._pages(address, view.nbytes), view, address)
        self.wrapped.append(made)
        return made

    def import_dmabuf(self, fd: int, first: int, nbytes: int, owner: object) -> Imported:
        """All of a dma-buf; `owner` is kept until it is given back. Raises: see the interface."""
        self.life.check()
        self.take_back()
        made = Imported(self._iface.import_dmabuf(fd, first, nbytes), owner)
        self.imported.append(made)
        return made

    def export_dmabuf(self, block: Block) -> int:
        """A new descriptor of a dma-buf, which is this block alone, the caller's to close.

        Raises: Unsupported for a block that shares its memory with others, or over PCI.
        """
        if block.slab is not None:
            raise Unsupported(
                f"a buffer of {block.nbytes} bytes shares its memory with others of this process",
                hint=f"export one of {LARGE_BYTES} bytes or more",
            )
        self.quiet()
        return self._iface.export_dmabuf(block.bo)

    def _pages(self, address: int, nbytes: int) -> Memory:
        """These pages as memory of the GPU: an existing mapping, or a new one; none twice.

        Raises: Unsupported where another buffer has some of the pages, or more than these.
        """
        place, there = (address, nbytes), self._over(address, nbytes)
        if there is not None and (there.cpu_va, there.bo.nbytes) != place and self._returned:
            self.quiet()
            self.reclaim()
            there = self._over(address, nbytes)
        if there is None:
            return self._iface.wrap(address, nbytes, "host memory")
        if (there.cpu_va, there.bo.nbytes) != place:
            raise Unsupported(
                f"{nbytes} bytes at {address:#x}: {there.bo!r} is in a buffer already",
                hint="free that buffer first, or copy these bytes to one of the device",
            )
        return there.bo

    def _over(self, address: int, nbytes: int) -> Wrapped | None:
        """What is wrapped of these pages."""
        end = address + nbytes
        found = (w for w in self.wrapped if w.cpu_va < end and address < w.cpu_va + w.bo.nbytes)
        return next(found, None)

    def give_back(self, held: Allocation) -> None:
        """Take back memory without references.

        Finalisers call this at any moment, inside any lock: it only appends.
        """
        if self.life.state is not State.CLOSED:
            self._returned.append(held)

    def take_back(self) -> None:
        """Reclaim what was given back, if anything was."""
        if self._returned:
            self.reclaim()

    def reclaim(self) -> None:
        """Give back what was returned, unless a queue may still use it.

        The compute queue runs in order, and host copies wait for what used a block before. So a
        block in use can be allocated again for later work, but not be unmapped. Not so when work
        may overlap.
        """
        compute_idle, copy_idle = self.users.idle
        returned = self._returned
        if not copy_idle or (self._overlaps and not compute_idle):
            return
        if any(not all(peer.users.idle) for peer in self._peers if peer.life.open):
            return
        for _ in range(len(returned)):
            try:
                held = returned.popleft()
            except IndexError:  # another thread took the last one
                return
            if compute_idle or isinstance(held, Block):
                self._early = 0 if compute_idle else self.users.given
                self._free(held)
            else:
                returned.append(held)

    def overlap(self) -> None:
        """From now on work may overlap with the compute queue's: reuse memory only when idle."""
        if not self._overlaps:
            if self._early:
                self.users.reach(self._early)
            self._overlaps, self._early = True, 0

    def reached_by(self, other: Heap) -> None:
        """Another GPU uses memory of this one: reuse it once that is idle, too."""
        self._peers.add(other)

    def _free(self, held: Allocation) -> None:
        if isinstance(held, Block):
            held.used = self.users.moment
            self.allocator.free(held)
        elif isinstance(held, Wrapped):
            self.wrapped.remove(held)
            if all(other.bo is not held.bo for other in self.wrapped):
                held.bo.free()
        elif isinstance(held, Imported):
            self.imported.remove(held)
            held.bo.free()
        elif isinstance(held, Slot):
            self._slots.give_back(held)
        else:
            held.free()

    def trim(self) -> int:
        """Give cached memory back; how many bytes."""
        self.quiet()
        self.reclaim()
        return self.allocator.trim()

    def blocks(self) -> list[Block]:
        """Every allocated block, to find the one of an address."""
        others = [one.bo for one in self.wrapped] + [one.bo for one in self.imported]
        return [*self.allocator.live(), *(Block(bo, bo.gpu_va, bo.nbytes) for bo in others)]

    def memory_stats(self) -> MemoryStats:
        """What the allocator holds and did."""
        self.reclaim()
        return self.allocator.memory_stats()

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the allocator's lock."""
        self.allocator.after_fork()

    def close(self) -> None:
        """Free everything, also buffers still allocated, and the signals; the queues are gone."""
        self.life.state = State.CLOSED
        returned, self._returned = self._returned, deque()
        kept = Block | Wrapped | Imported | Slot
        objects = [held for held in returned if not isinstance(held, kept)]
        wrapped, self.wrapped = self.wrapped, []
        imported, self.imported = self.imported, []
        objects += dict.fromkeys(one.bo for one in wrapped)
        objects += [one.bo for one in imported]
        self._slots.detach()
        run_all([*(bo.free for bo in objects), self.raw.close, self._slots.close])

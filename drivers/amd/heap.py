"""The memory half of the device: allocation, wrapping, and giving back when nothing uses it."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.iface import Iface, Memory
from drivers.amd.memory import AmdBuffer, Block, Moment, Vram, Wrapped
from drivers.amd.signal import AmdSignal, Slots, checked_value
from drivers.base.allocator import Allocator, Statistics
from drivers.base.buffer import checked_size
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.base.undo import run_all
from drivers.world import native

if TYPE_CHECKING:
    from drivers.amd.device import AmdDevice

Home: TypeAlias = "Block | Wrapped | Memory | tuple[Memory, int]"
"""What a buffer, a program, a graph or a signal holds."""
MOST_WAITING: Final = 64
"""Homes given back before a check whether they can be freed."""


class State(Enum):
    """A device's life cycle."""

    OPEN = "it takes work"
    CLOSING = "it refuses work, and takes back what programs, graphs and buffers hold"
    CLOSED = "its memory is gone: what is given back now is dropped"


class Heap(ABC):
    """Memory of one device. What is given back is reused as soon as no queue may use it."""

    name: str

    def __init__(self, iface: Iface, limit_bytes: int) -> None:
        self.iface = iface
        self._raw = Vram(iface, self.quiet)
        self._allocator: Allocator[Block] = Allocator(
            self._raw.alloc, self._raw.free, limit_bytes, name=self.name
        )
        self._slots = Slots(iface)
        self.freed_mark: object = object()
        """Another object after anything was freed: graphs then check their references again."""
        self._returned: deque[Home] = deque()
        self._wrapped: list[Wrapped] = []
        self._overlaps = False
        """Whether the copy queue or another GPU's queues run beside the compute queue."""
        self._early = 0
        """Position until which the compute queue uses memory that was already allocated again."""
        self._peers: weakref.WeakSet[Heap] = weakref.WeakSet()
        """Other GPUs that reach memory of this one."""
        self._sharers: weakref.WeakSet[Heap] = weakref.WeakSet()
        """Those, and GPUs whose memory this one reaches: their caches may hold what it writes."""
        self._signals: weakref.WeakSet[AmdSignal] = weakref.WeakSet()
        self._state = State.OPEN

    @property
    def _closed(self) -> bool:
        """Whether it takes no more work: close has begun."""
        return self._state is not State.OPEN

    @abstractmethod
    def quiet(self) -> None:
        """Return once the GPU uses no memory that was given back."""

    @property
    @abstractmethod
    def idle(self) -> tuple[bool, bool]:
        """Whether (the compute queue, the copy queue) has finished everything."""

    @property
    @abstractmethod
    def given(self) -> int:
        """Position of the last work given to the compute queue."""

    @property
    @abstractmethod
    def moment(self) -> Moment:
        """The compute queue, and the position of its last work."""

    @abstractmethod
    def reach(self, mark: int) -> None:
        """Return once the compute queue has done its work up to `mark`."""

    def alloc(self, nbytes: int) -> AmdBuffer:
        """Uninitialised memory on the card. Raises: OutOfMemory with the sizes; BadArgument."""
        checked_size(nbytes)
        if self._returned:
            self._reclaim()
        if self._closed:
            self._refuse()
        block = self._allocator.alloc(nbytes)
        return AmdBuffer(cast("AmdDevice", self), nbytes, block.gpu_va, block, False)

    def wrap(self, memory: memoryview) -> AmdBuffer:
        """Whole pages of host memory as a buffer, without a copy; kept alive until it is freed.

        Raises: Unsupported for memory that does not begin and end with a page; BadArgument.
        """
        if not isinstance(memory, memoryview) or not memory.c_contiguous:
            raise BadArgument("only a C-contiguous memoryview can be wrapped", hint="copy it first")
        if self._closed:
            self._refuse()
        view = memory.cast("B")
        address = native.address_of(view) if view.nbytes else 0
        if memory.readonly or not view.nbytes or address % PAGE_BYTES or view.nbytes % PAGE_BYTES:
            raise Unsupported(
                f"{view.nbytes} bytes at {address:#x} are not whole writable pages",
                hint="copy them to a buffer of the device",
            )
        home = Wrapped(self._pages(address, view.nbytes), view, address)
        self._wrapped.append(home)
        device = cast("AmdDevice", self)
        return AmdBuffer(device, view.nbytes, home.bo.gpu_va, home, False)

    def _pages(self, address: int, nbytes: int) -> Memory:
        """These pages as memory of the GPU: an existing mapping, or a new one.

        Hardware: no page is mapped twice. # src: amdgpu_vm.c amdgpu_vm_bo_map(), "conflict"
        Raises: Unsupported where another buffer has some of the pages, or more than these.
        """
        place, there = (address, nbytes), self._over(address, nbytes)
        if there is not None and (there.cpu_va, there.bo.nbytes) != place and self._returned:
            self.quiet()
            self._reclaim()
            there = self._over(address, nbytes)
        if there is None:
            return self.iface.wrap(address, nbytes, "host memory")
        if (there.cpu_va, there.bo.nbytes) != place:
            raise Unsupported(
                f"{nbytes} bytes at {address:#x}: {there.bo!r} is in a buffer already",
                hint="free that buffer first, or copy these bytes to one of the device",
            )
        return there.bo

    def _over(self, address: int, nbytes: int) -> Wrapped | None:
        """What is wrapped of these pages."""
        end = address + nbytes
        homes = self._wrapped
        found = (h for h in homes if h.cpu_va < end and address < h.cpu_va + h.bo.nbytes)
        return next(found, None)

    def new_signal(self, value: int = 0) -> AmdSignal:
        """A signal at `value`."""
        checked_value(value)
        if self._closed:
            self._refuse()
        made = AmdSignal(cast("AmdDevice", self), self._slots.take(), value)
        self._signals.add(made)
        return made

    def give_back(self, home: Home) -> None:
        """Take back memory without references.

        Finalisers call this at any moment, inside any lock: it only appends.
        """
        self.freed_mark = object()
        if self._state is not State.CLOSED:
            self._returned.append(home)

    def _reclaim(self) -> None:
        """Give back what was returned, unless a queue may still use it.

        The compute queue runs in order, and host copies wait for what used a block before. So a
        block in use can be allocated again for later work, but not be unmapped. Not so when work
        may overlap.
        """
        compute_idle, copy_idle = self.idle
        returned = self._returned
        if not copy_idle or (self._overlaps and not compute_idle):
            return
        if any(not all(peer.idle) for peer in self._peers if not peer._closed):
            return
        for _ in range(len(returned)):
            try:
                home = returned.popleft()
            except IndexError:  # another thread took the last one
                return
            if compute_idle or isinstance(home, Block):
                self._early = 0 if compute_idle else self.given
                self._free(home)
            else:
                returned.append(home)

    def overlap(self) -> None:
        """From now on work may overlap with the compute queue's: reuse memory only when idle."""
        if not self._overlaps:
            if self._early:
                self.reach(self._early)
            self._overlaps, self._early = True, 0

    def reached_by(self, other: Heap) -> None:
        """Another GPU uses memory of this one: reuse it once that is idle, too."""
        self._peers.add(other)

    def share_with(self, other: Heap) -> None:
        """Both may cache a buffer of this one, and neither sees the other's caches."""
        self._sharers.add(other)
        other._sharers.add(self)

    def _free(self, home: Home) -> None:
        if isinstance(home, Block):
            home.used = self.moment
            self._allocator.free(home)
        elif isinstance(home, Wrapped):
            self._wrapped.remove(home)
            if all(other.bo is not home.bo for other in self._wrapped):
                home.bo.free()
        elif isinstance(home, tuple):
            self._slots.give_back(home)
        else:
            home.free()

    def trim(self) -> int:
        """Give cached memory back; how many bytes."""
        self.quiet()
        self._reclaim()
        return self._allocator.trim()

    def blocks(self) -> list[Block]:
        """Every allocated block, to find the one of an address."""
        wrapped = [Block(home.bo, home.bo.gpu_va, home.bo.nbytes) for home in self._wrapped]
        return [*self._allocator.live(), *wrapped]

    @property
    def statistics(self) -> Statistics:
        """What the allocator holds and did."""
        self._reclaim()
        return self._allocator.statistics

    def _refuse(self) -> None:
        raise UseAfterFree(f"{self.name} is closed", hint="open it again")

    def _close_memory(self) -> None:
        """Free everything, also buffers still allocated; the queues are gone."""
        self._state = State.CLOSED
        returned, self._returned = self._returned, deque()
        slots_or_blocks = (Block, Wrapped, tuple)
        objects = [home for home in returned if not isinstance(home, slots_or_blocks)]
        wrapped, self._wrapped = self._wrapped, []
        objects += dict.fromkeys(home.bo for home in wrapped)
        for signal in list(self._signals):
            signal.detach()
        run_all([*(bo.free for bo in objects), self._raw.close, self._slots.close])

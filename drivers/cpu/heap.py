"""The memory half of the CPU device: allocation, wrapping, and giving back when work is done."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

from drivers.base.allocator import Allocator, Statistics
from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, UseAfterFree
from drivers.cpu.memory import CpuBuffer, HostMemory, Storage, checked_size
from drivers.cpu.undo import run_all
from drivers.world import native

if TYPE_CHECKING:
    from drivers.cpu.device import CpuDevice


class Heap:
    """Memory of one device. What is freed is given back as soon as no parked work may use it."""

    name: str
    world: World

    def __init__(self, limit_bytes: int) -> None:
        self._raw = HostMemory(self.world)
        self._allocator: Allocator[Storage] = Allocator(
            self._raw.alloc, self._raw.free, limit_bytes, name=self.name
        )
        self.freed_mark: object = object()
        """Another object after anything was freed: how graphs know when to look again."""
        self._returned: deque[Storage | Region | memoryview] = deque()
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether no work is parked."""
        raise NotImplementedError

    def alloc(self, nbytes: int) -> CpuBuffer:
        """Uninitialised memory. Raises: OutOfMemory with the sizes; BadArgument."""
        storage = self.storage(checked_size(nbytes))
        return CpuBuffer(cast("CpuDevice", self), nbytes, storage.cpu_va, storage, False)

    def storage(self, nbytes: int) -> Storage:
        """A raw block, from the cache where it has one. Raises: OutOfMemory, UseAfterFree."""
        if self._returned:
            self._reclaim()
        if self._closed:
            self._refuse()
        return self._allocator.alloc(nbytes)

    def wrap(self, memory: memoryview) -> CpuBuffer:
        """Host memory as a buffer, without a copy; it is kept alive until the buffer is freed.

        Raises: BadArgument when it is not contiguous.
        """
        if not isinstance(memory, memoryview) or not memory.c_contiguous:
            raise BadArgument("only a C-contiguous memoryview can be wrapped", hint="copy it first")
        if self._closed:
            self._refuse()
        if not memory.nbytes:
            return self.alloc(0)
        view = memory.cast("B")
        address = native.address_of(view)
        device = cast("CpuDevice", self)
        return CpuBuffer(device, view.nbytes, address, view, memory.readonly)

    def freed(self, home: Storage | Region | memoryview) -> None:
        """Take back what a buffer, signal or program held.

        Finalisers call this at any moment, inside any lock: it only appends.
        """
        self.freed_mark = object()
        if not self._closed:
            self._returned.append(home)

    def _reclaim(self) -> None:
        """Give back what was freed, unless a ring still holds work."""
        if not self.idle:
            return
        returned = self._returned
        for _ in range(len(returned)):
            self._give_back(returned.popleft())

    def _give_back(self, home: Storage | Region | memoryview) -> None:
        if isinstance(home, Storage):
            self._allocator.free(home)
        elif not isinstance(home, memoryview):
            home.close()

    def trim(self) -> int:
        """Give cached memory back to the system; how many bytes."""
        self._reclaim()
        return self._allocator.trim()

    @property
    def statistics(self) -> Statistics:
        """What the allocator holds and did."""
        self._reclaim()
        return self._allocator.statistics

    def _refuse(self) -> None:
        raise UseAfterFree(f"{self.name} is closed", hint="open it again")

    def _close_memory(self) -> None:
        """Unmap everything, also what nobody freed. Views of it stay valid until they are gone."""
        self._closed = True
        returned = [self._returned.popleft() for _ in range(len(self._returned))]
        run_all([*(partial(self._give_back, home) for home in returned), self._raw.close])

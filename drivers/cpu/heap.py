"""The memory half of the CPU device: allocation, wrapping, and giving back when work is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from drivers.base.allocator import Allocator, Statistics
from drivers.base.buffer import checked_size
from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, UseAfterFree
from drivers.base.undo import run_all
from drivers.cpu.memory import CpuBuffer, HostMemory, Storage
from drivers.world import native

if TYPE_CHECKING:
    from drivers.cpu.device import CpuDevice

Home: TypeAlias = "Storage | Region | memoryview"
"""What a buffer, signal or program holds."""
T = TypeVar("T")


def _taken(queue: deque[T]) -> T | None:
    """The oldest element, None when another thread took the last one."""
    try:
        return queue.popleft()
    except IndexError:
        return None


class Heap(ABC):
    """Memory of one device. What is freed is given back as soon as no parked work may use it."""

    name: str
    world: World

    def __init__(self, limit_bytes: int) -> None:
        self._raw = HostMemory(self.world)
        self._allocator: Allocator[Storage] = Allocator(
            self._raw.alloc, self._raw.free, limit_bytes, name=self.name
        )
        self.freed_mark: object = object()
        """Another object after anything was freed: graphs then check their references again."""
        self._returned: deque[Home] = deque()
        self._busy: deque[tuple[Home, list[partial[bool]]]] = deque()
        """Memory given back while threads ran work, and whether that work may still be running."""
        self._closed = False

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether no work is parked."""

    @abstractmethod
    def running(self) -> list[partial[bool]]:
        """For each ring that a thread runs work on now: whether that work may still be running."""

    def alloc(self, nbytes: int) -> CpuBuffer:
        """Uninitialised memory. Raises: OutOfMemory with the sizes; BadArgument."""
        storage = self.storage(checked_size(nbytes))
        return CpuBuffer(cast("CpuDevice", self), nbytes, storage.cpu_va, storage, False)

    def storage(self, nbytes: int) -> Storage:
        """A raw block, from the cache where it has one. Raises: OutOfMemory, UseAfterFree."""
        if self._returned or self._busy:
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

    def freed(self, home: Home) -> None:
        """Take back the memory of a buffer, signal or program without references.

        Finalisers call this at any moment, inside any lock: it only appends.
        """
        self.freed_mark = object()
        if not self._closed:
            self._returned.append(home)

    def released(self, home: Home) -> None:
        """Take back what was freed explicitly, which other threads may be using right now.

        The mark changes first: a thread that takes a ring's lock after that finds it freed.
        """
        self.freed_mark = object()
        running = self.running()
        if running and not self._closed:
            self._busy.append((home, running))
        else:
            self.freed(home)

    def _reclaim(self) -> None:
        """Give back what was freed, unless a ring may still use it.

        The items counted here were freed before the rings are inspected, so that work which starts
        after that cannot name them. Several threads may run this at once.
        """
        busy, returned = self._busy, self._returned
        for _ in range(len(busy)):
            entry = _taken(busy)
            if entry is None:
                break
            if any(may_run() for may_run in entry[1]):
                busy.append(entry)
            else:
                returned.append(entry[0])
        count = len(returned)
        if not self.idle:
            return
        for _ in range(count):
            home = _taken(returned)
            if home is None:
                break
            self._give_back(home)

    def _give_back(self, home: Home) -> None:
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
        """Unmap everything, also allocated memory. Views of it stay valid until they are gone."""
        self._closed = True
        returned = [*self._returned, *(home for home, _ in self._busy)]
        self._returned.clear()
        self._busy.clear()
        run_all([*(partial(self._give_back, home) for home in returned), self._raw.close])

"""Memory of the CPU device: given back to its allocator when no work may use it."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from drivers.base.allocator import Allocator
from drivers.base.contracts import Region, World
from drivers.base.life import Life, State
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import run_all
from drivers.cpu.memory import HostMemory, Storage

Allocation: TypeAlias = "Storage | Region | memoryview"
"""What a buffer, signal or program holds."""
T = TypeVar("T")


def _taken(queue: deque[T]) -> T | None:
    """The oldest element, None when another thread took the last one."""
    try:
        return queue.popleft()
    except IndexError:
        return None


class Work(Protocol):
    """What may use the memory."""

    @property
    def idle(self) -> bool:
        """Whether no work is parked."""

    def running(self) -> list[partial[bool]]:
        """For each ring that a thread runs work on now: whether that work may still be running."""


class HostHeap:
    """What is freed is given back as soon as no parked work may use it."""

    def __init__(self, life: Life, world: World, limit_bytes: int, work: Work) -> None:
        self._life, self._work = life, work
        self._raw = HostMemory(world)
        self.allocator: Allocator[Storage] = Allocator(
            self._raw.alloc, self._raw.free, limit_bytes, name=life.name
        )
        self._returned: deque[Allocation] = deque()
        self._busy: deque[tuple[Allocation, list[partial[bool]]]] = deque()
        """Memory given back while threads ran work, and whether that work may still be running."""

    def storage(self, nbytes: int) -> Storage:
        """A raw block, from the cache where it has one. Raises: OutOfMemory, UseAfterFree."""
        self.take_back()
        self._life.check()
        return self.allocator.alloc(nbytes)

    def take_back(self) -> None:
        """Reclaim what was given back, if anything was."""
        if self._returned or self._busy:
            self._reclaim()

    @property
    def _closed(self) -> bool:
        """Whether its memory is gone."""
        return self._life.state is State.CLOSED

    def freed(self, held: Allocation) -> None:
        """Take back the memory of a buffer, signal or program without references.

        Finalisers call this at any moment, inside any lock: it only appends.
        """
        if not self._closed:
            self._returned.append(held)

    def released(self, held: Allocation) -> None:
        """Take back what was freed explicitly, which other threads may be using right now."""
        running = self._work.running()
        if running and not self._closed:
            self._busy.append((held, running))
        else:
            self.freed(held)

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
        if not self._work.idle:
            return
        for _ in range(count):
            held = _taken(returned)
            if held is None:
                break
            self._give_back(held)

    def _give_back(self, held: Allocation) -> None:
        if isinstance(held, Storage):
            self.allocator.free(held)
        elif not isinstance(held, memoryview):
            held.close()

    def trim(self) -> int:
        """Give cached memory back to the system; how many bytes."""
        self._reclaim()
        return self.allocator.trim()

    def memory_stats(self) -> MemoryStats:
        """What the allocator holds and did."""
        self._reclaim()
        return self.allocator.memory_stats()

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the allocator's lock."""
        self.allocator.after_fork()

    def close(self) -> None:
        """Unmap everything, also allocated memory. Views of it stay valid until they are gone."""
        self._life.state = State.CLOSED
        returned = [*self._returned, *(held for held, _ in self._busy)]
        self._returned.clear()
        self._busy.clear()
        run_all([*(partial(self._give_back, held) for held in returned), self._raw.close])

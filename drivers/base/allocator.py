"""A caching allocator over a device's raw memory: size classes, counts, freed exactly once.

Source: size classes after J. Evans, "A Scalable Concurrent malloc(3) Implementation" (2006):
eight steps per power of two bound the waste of a class to 1/8 of the request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Generic, TypeVar

from drivers.base.errors import DeviceError, OutOfMemory, UseAfterFree
from drivers.base.memory_stats import MemoryStats

T = TypeVar("T")

MIN_CLASS_BYTES = 64
_STEP_BITS = 3
_MIN_BITS = MIN_CLASS_BYTES.bit_length()


def class_bytes(nbytes: int) -> int:
    """The smallest size class that holds `nbytes`; at most 12.5 % (or 64 bytes) larger."""
    if nbytes <= MIN_CLASS_BYTES:
        return MIN_CLASS_BYTES
    bits = (nbytes - 1).bit_length()
    step = 1 << max(bits - 1 - _STEP_BITS, _MIN_BITS - 1)
    return (nbytes + step - 1) & -step


class Allocator(Generic[T]):
    """Allocates blocks `T` by `raw_alloc(nbytes)`, caches freed ones for the next of their size.

    `raw_alloc` aligns to 64 bytes or better and raises OutOfMemory when the device is full.
    One lock makes it safe for several threads.
    """

    __slots__ = (
        "_allocations",
        "_cached",
        "_free",
        "_hits",
        "_live",
        "_lock",
        "_peak",
        "_raw_alloc",
        "_raw_free",
        "_used",
        "limit_bytes",
        "name",
    )

    def __init__(
        self,
        raw_alloc: Callable[[int], T],
        raw_free: Callable[[T], None],
        limit_bytes: int,
        *,
        name: str = "device",
    ) -> None:
        self._raw_alloc, self._raw_free = raw_alloc, raw_free
        self.limit_bytes, self.name = limit_bytes, name
        self._free: dict[int, list[T]] = {}
        self._live: dict[int, tuple[int, T]] = {}
        self._lock = RLock()  # a signal handler may allocate in the middle of an allocation
        self._used = self._cached = self._peak = self._allocations = self._hits = 0

    def after_fork(self) -> None:
        """In a child: the lock may be held by a thread that only the parent has."""
        self._lock = RLock()

    def alloc(self, nbytes: int) -> T:
        """A block of at least `nbytes`, contents undefined. Raises: OutOfMemory with the sizes."""
        size = MIN_CLASS_BYTES if 0 <= nbytes <= MIN_CLASS_BYTES else _checked_class(nbytes)
        with self._lock:
            self._allocations += 1
            blocks = self._free.get(size)
            if blocks:
                block = blocks.pop()
                self._cached -= size
                self._hits += 1
            else:
                block = self._fresh(size)
            self._live[id(block)] = size, block
            self._used += size
            return block

    def free(self, block: T) -> None:
        """Give `block` back. Raises: UseAfterFree when it is not a live block of this allocator."""
        with self._lock:
            found = self._live.pop(id(block), None)
            if found is None:
                raise UseAfterFree(
                    f"{self.name}: freed twice, or not allocated here: {block!r}",
                    hint="free each buffer once",
                )
            size = found[0]
            self._used -= size
            self._cached += size
            blocks = self._free.get(size)
            if blocks is None:
                self._free[size] = [block]
            else:
                blocks.append(block)

    def _fresh(self, size: int) -> T:
        """Raw memory; where it does not fit, release the cache and try again."""
        if self._used + self._cached + size > self.limit_bytes:
            self._release()
        if self._used + self._cached + size > self.limit_bytes:
            raise self._full(size, "its limit")
        try:
            block = self._raw_alloc(size)
        except OutOfMemory:
            self._release()
            block = self._retry(size)
        self._peak = max(self._peak, self._used + self._cached + size)
        return block

    def _retry(self, size: int) -> T:
        try:
            return self._raw_alloc(size)
        except OutOfMemory as error:
            raise self._full(size, "the device's memory") from (error.__cause__ or error)

    def _full(self, size: int, what: str) -> OutOfMemory:
        return OutOfMemory(
            f"{self.name}: {size:,} bytes do not fit {what}: {self._used:,} used and "
            f"{self._cached:,} cached of {self.limit_bytes:,} bytes",
            requested=size,
            used=self._used,
            cached=self._cached,
            limit=self.limit_bytes,
            hint="free tensors that are not needed, or work on smaller pieces",
        )

    def _release(self) -> None:
        """Free the whole cache; the first error is raised after all blocks."""
        free, self._free, self._cached = self._free, {}, 0
        errors: list[DeviceError] = []
        for blocks in free.values():
            for block in blocks:
                try:
                    self._raw_free(block)
                except DeviceError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def live(self) -> list[T]:
        """Every block that is allocated and not freed, without waiting for another thread.

        Raw memory may wait for a queue with the lock held, while a fault of it is being described.
        """
        return [block for _, block in list(self._live.values())]

    def ends(self) -> list[Callable[[], object]]:
        """What gives all memory back, live or not: steps for `run_all` at closing."""
        return [*(partial(self.free, block) for block in self.live()), self.trim]

    def trim(self) -> int:
        """Release the cache to the device; how many bytes that were."""
        with self._lock:
            released = self._cached
            self._release()
            return released

    def memory_stats(self) -> MemoryStats:
        """Counts and sizes of this moment."""
        return MemoryStats(
            self._used, self._cached, self._peak, self.limit_bytes, self._allocations, self._hits,
            len(self._live),
        )  # fmt: skip


def _checked_class(nbytes: int) -> int:
    if nbytes < 0:
        raise ValueError(f"cannot allocate {nbytes} bytes: a size is not negative")
    return class_bytes(nbytes)

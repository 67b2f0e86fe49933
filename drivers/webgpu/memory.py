"""Memory: one WGPUBuffer for each block. WebGPU shows no address: `gpu_va` is a number of this
driver, which only tells buffers apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from drivers.base.allocator import Allocator
from drivers.base.errors import OutOfMemory
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import run_all
from drivers.hosted.buffer import Home, HostedBuffer
from drivers.webgpu import abi
from drivers.webgpu.stream import Stream

NO_LIMIT: Final = "WebGPU does not say how much memory there is: what does not fit is refused"
USAGE: Final = abi.USAGE_STORAGE | abi.USAGE_COPY_SRC | abi.USAGE_COPY_DST
_NUMBERS_FROM: Final = 1 << 40


class Block:
    """One WGPUBuffer."""

    __slots__ = ("gpu_va", "handle", "nbytes")

    def __init__(self, gpu_va: int, nbytes: int, handle: int) -> None:
        self.gpu_va, self.nbytes, self.handle = gpu_va, nbytes, handle


class Heap:
    """What is given back is reused at once: everything runs in the order of one queue, host copies
    included, unless steps of a ring wait for a signal."""

    def __init__(
        self, name: str, stream: Stream, max_bytes: int, limit_bytes: int,
        waiting: Callable[[], bool], forget: Callable[[Block], None],
    ) -> None:  # fmt: skip
        self._stream, self.max_bytes = stream, max_bytes
        self._waiting, self._forget = waiting, forget
        self.allocator = Allocator(self._alloc, self._free, limit_bytes, name=name)
        self._dropped: deque[Block] = deque()
        """What finalisers gave back: they only append."""
        self._next = _NUMBERS_FROM
        self._open = True

    def alloc(self, nbytes: int) -> Block:
        """Contents undefined. Raises: OutOfMemory."""
        self.collect()
        return self.allocator.alloc(nbytes)

    def _alloc(self, nbytes: int) -> Block:
        if nbytes > self.max_bytes:
            raise OutOfMemory(
                f"{nbytes:,} bytes in one buffer", requested=nbytes, used=0, cached=0,
                limit=self.max_bytes,
                hint=f"this adapter allows {self.max_bytes:,} in one: work on smaller pieces",
            )  # fmt: skip
        made = Block(self._next, nbytes, self._stream.buffer(nbytes, USAGE))
        self._next += nbytes
        return made

    def _free(self, block: Block) -> None:
        """Back to the library, after what was encoded is handed over."""
        self._stream.submit()
        self._forget(block)
        self._stream.drop_buffer(block.handle)

    def give_back(self, *blocks: Block) -> None:
        """Finalisers call this at any moment: it only appends."""
        if self._open:
            self._dropped.extend(blocks)

    def collect(self) -> None:
        """Allow reuse of what was given back, unless a step that waits may still use it."""
        if self._open and not self._waiting():
            for _ in range(len(self._dropped)):
                self.allocator.free(self._dropped.popleft())

    def memory_stats(self) -> MemoryStats:
        """Of the allocator, with what was given back counted as such."""
        self.collect()
        found = self.allocator.memory_stats()
        return replace(found, limit_bytes=None, limit_reason=NO_LIMIT)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the allocator's lock."""
        self.allocator.after_fork()
        self._open = False

    def close(self) -> None:
        """All memory, used or not."""
        self._open = False
        self._dropped.clear()
        run_all(self.allocator.ends())


WebGpuBuffer: TypeAlias = HostedBuffer[Home, Block]

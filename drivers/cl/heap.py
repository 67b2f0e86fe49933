"""Memory of one OpenCL device: allocation, scratch, and reuse as soon as no queue may use it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from drivers.base.allocator import Allocator
from drivers.base.errors import OutOfMemory
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import run_all
from drivers.cl.memory import ALIGN_BYTES, Block, RawMemory
from drivers.cl.ring import Ring
from drivers.hosted.pending import waiting

MAX_SCRATCH_BYTES: Final = 1 << 30


class Heap:
    """What is given back is reused as soon as no queue may use it.

    Everything but `give_back` is called with the device's lock held. `finish` returns when a ring
    has done everything enqueued.
    """

    def __init__(
        self, name: str, raw: RawMemory, rings: tuple[Ring, Ring], finish: Callable[[Ring], None],
        limit_bytes: int,
    ) -> None:  # fmt: skip
        self._rings, self._raw, self._finish = rings, raw, finish
        self._compute, self._copy = rings
        self.allocator = Allocator(raw.alloc, self._free_raw, limit_bytes, name=name)
        self._scratch: list[Block] = []
        """The last is in use; earlier ones are in argument lists of graphs."""
        self._waiting: deque[Block] = deque()
        """What finalisers gave back: they only append."""
        self._early = 0
        """Position until which the compute ring uses memory that may be allocated again."""
        self._overlaps = False
        """Whether the copy ring ran anything: its work runs beside the compute ring's."""
        self._open = True

    def alloc(self, nbytes: int) -> Block:
        """Contents undefined. What is full is tried again once everything enqueued is done.

        Raises: OutOfMemory.
        """
        self.collect()
        try:
            return self.allocator.alloc(nbytes)
        except OutOfMemory:
            if not self._waiting:
                raise
            for ring in self._rings:
                self._finish(ring)
            self.collect()
        return self.allocator.alloc(nbytes)

    def scratch(self, nbytes: int) -> Block:
        """Memory for work items, of at least so many bytes.

        Kernels of one ring run in order: they share it.
        """
        if not self._scratch or self._scratch[-1].nbytes < nbytes:
            size = max(nbytes, ALIGN_BYTES, 2 * sum(block.nbytes for block in self._scratch[-1:]))
            self._scratch.append(self.alloc(min(size, max(nbytes, MAX_SCRATCH_BYTES))))
        return self._scratch[-1]

    def give_back(self, block: Block) -> None:
        """Finalisers call this at any moment: it only appends."""
        if self._open:
            self._waiting.append(block)

    def collect(self) -> None:
        """Allow reuse of what was given back, unless a queue may still use it.

        The compute ring is in order, and the host waits for what used a block before. So a block
        in use can be allocated again for later work of it, until other work may overlap.
        """
        if not self._open or waiting(self._rings):
            return
        if self._copy.busy or (self._overlaps and self._compute.busy):
            return
        position = self._compute.enqueued
        for _ in range(len(self._waiting)):
            block = self._waiting.popleft()
            self._early = block.used = position
            self.allocator.free(block)

    def settle(self, block: Block) -> None:
        """Return when the host can access a block: whoever had it before is done with it."""
        if block.used > self._compute.done:
            self._finish(self._compute)

    def overlap(self) -> None:
        """The copy ring begins to run: from now on memory is reused when both rings are idle."""
        if not self._overlaps:
            if self._early > self._compute.done:
                self._finish(self._compute)
            self._overlaps = True

    def _free_raw(self, block: Block) -> None:
        """Memory goes back to OpenCL once nothing runs."""
        for ring in self._rings:
            self._finish(ring)
        self._raw.free(block)

    def memory_stats(self) -> MemoryStats:
        """Of the allocator, with what was given back counted as such."""
        self.collect()
        return self.allocator.memory_stats()

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the allocator's lock."""
        self.allocator.after_fork()

    def close(self) -> None:
        """All memory, used or not; what the host still sees stays until it does not."""
        self._open = False
        self._waiting.clear()
        run_all(self.allocator.ends())

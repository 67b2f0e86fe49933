"""Memory of one CUDA device: a cache of blocks, and reuse as soon as no stream may use one."""

from __future__ import annotations

from collections import deque
from functools import partial
from mmap import PAGESIZE

from drivers.base.allocator import Allocator
from drivers.base.buffer import wrapped_bytes
from drivers.base.errors import OutOfMemory, Unsupported
from drivers.base.memory_stats import MemoryStats
from drivers.base.undo import Step, run_all
from drivers.cuda.memory import Block, RawMemory
from drivers.cuda.ring import Ring
from drivers.hosted.pending import waiting
from drivers.world.native import address_of


class Heap:
    """What is given back is reused as soon as no stream may use it.

    Everything but `give_back` and `drop` is called with the device's lock held. The compute ring is
    in order: memory of its own is reused at once, until the copy ring has run anything.
    """

    def __init__(self, name: str, raw: RawMemory, rings: tuple[Ring, Ring], limit: int) -> None:
        self._raw, self._rings = raw, rings
        self.allocator = Allocator(raw.alloc, raw.free, limit, name=name)
        self._returned: deque[Block] = deque()
        self._dropped: deque[Step] = deque()
        """What finalisers gave back: they only append."""
        self._outside: dict[int, Block] = {}
        """Over memory of others, by id(): none is reused."""
        self.open = True

    def alloc(self, nbytes: int) -> Block:
        """Contents undefined. Raises: OutOfMemory, of a device that is full now."""
        self.collect()
        return self.allocator.alloc(nbytes)

    def wrap(self, memory: memoryview) -> Block:
        """Whole pages of the host. Raises: Unsupported, BadArgument."""
        view = wrapped_bytes(memory)
        address = address_of(view) if view.nbytes else 0
        if memory.readonly or not view.nbytes or address % PAGESIZE or view.nbytes % PAGESIZE:
            raise Unsupported(
                f"{view.nbytes} bytes at {address:#x} are not whole writable pages",
                hint="copy them to a buffer of the device",
            )
        self.collect()  # a caller may wrap again and again, and allocate nothing
        return self._kept(self._raw.wrap(view, address))

    def lend(self, gpu_va: int, nbytes: int, owner: object) -> Block:
        """Checked memory of another library, and its owner kept."""
        made = self._kept(self._raw.lent(gpu_va, nbytes, owner))
        self.collect()  # after: what is given back may be the last other reference to it
        return made

    def _kept(self, block: Block) -> Block:
        self._outside[id(block)] = block
        return block

    def give_back(self, block: Block) -> None:
        """Finalisers call this at any moment: it only appends."""
        if self.open:
            self._returned.append(block)

    def drop(self, release: Step) -> None:
        """The same for any other object."""
        self._dropped.append(release)

    def collect(self) -> None:
        """Reuse what was given back, and release objects, unless a stream may still use them."""
        if not self._returned and not self._dropped:
            return
        if waiting(self._rings):
            return
        compute, copy = self._rings
        for ring in self._rings:
            ring.collect()
        idle = not compute.busy and not copy.busy
        if not idle and copy.used:
            return
        for _ in range(len(self._returned)):
            block = self._returned.popleft()
            shared = id(block) in self._outside
            if (shared or block.peers) and not (idle and all(one.quiet() for one in block.peers)):
                self._returned.append(block)
            elif shared:
                del self._outside[id(block)]
                self._raw.free(block)
            else:
                block.peers.clear()
                self.allocator.free(block)
        if idle:
            self.release()

    def release(self) -> None:
        """Release what was dropped; nothing runs."""
        run_all([self._dropped.popleft() for _ in range(len(self._dropped))])

    def full(self, error: OutOfMemory) -> None:
        """Raises: that error, where nothing waits to be reused."""
        if not self._returned:
            raise error

    def memory_stats(self) -> MemoryStats:
        """Of the allocator, with what was given back counted as such."""
        self.collect()
        return self.allocator.memory_stats()

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the allocator's lock; nothing is released."""
        self.allocator.after_fork()
        self._raw.forked = True
        self._dropped.clear()

    def close(self) -> None:
        """All memory, used or not."""
        self.open = False
        self._returned.clear()
        outside, self._outside = list(self._outside.values()), {}
        run_all([
            *(partial(self._raw.free, block) for block in outside),
            *self.allocator.ends(),
        ])  # fmt: skip

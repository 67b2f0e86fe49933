"""Copies between host memory and the card: through pinned memory that both reach, by a copy engine.

The memory is cut into slots. While the engine copies some, threads fill or empty others, so that
neither waits for the other. A slot ends in a fence and an interrupt: a thread may sleep for it.

Pinning the caller's own pages instead (`GpuIface.wrap`) would save the host's copy. It is not done:
a kernel driver may stop all queues of the process whenever the kernel moves one of the pages, and
refuses read-only memory and pages that are wrapped already; an unbound GPU without an IOMMU reaches
none of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import RLock
from typing import Final, Protocol, TypeAlias

from drivers.base import forks
from drivers.base.order import is_in_order
from drivers.gpu.iface import GpuIface, Memory, Use
from drivers.gpu.movers import LEAST_BYTES, THREADS, Job, Move, Movers
from drivers.gpu.ring import CopyRing
from drivers.world import native

Wait: TypeAlias = Callable[[CopyRing, int], None]
"""Returns once the ring has done that position; raises the fault otherwise."""
SLOT_BYTES: Final = 1 << 20
"""40 us of PCIe 4.0 x16 at 26 GB/s: passing one to a thread and to the engine takes less."""
SLOTS: Final = THREADS + 3
"""One per thread, one that the engine copies, one queued after it, one to spare.

All of them fit the last-level cache, so that host memory is read, or written, once.
"""


class Stager(Protocol):
    """What host copies go through. `lock` and `busy`: one copy at a time."""

    lock: RLock
    busy: bool

    def copy_in(self, ring: CopyRing, dst_va: int, src: memoryview, wait: Wait) -> None:
        """Copy all of `src` to the card; returns when that is done."""

    def copy_out(self, ring: CopyRing, dst: memoryview, src_va: int, wait: Wait) -> None:
        """Fill `dst` from the card."""

    def let_go(self) -> Memory:
        """Give up the memory, which the caller frees."""

    def close(self) -> None:
        """Free it; no copy is under way."""


class Staging:
    """The slots, and the ring position until which the engine needs each of them."""

    def __init__(self, iface: GpuIface) -> None:
        bo = iface.allocate(SLOTS * SLOT_BYTES, Use.SHARED, "staging", host=True)
        self._bo: Memory = bo
        self._view, self._va = bo.view(), bo.gpu_va
        self._host_va = native.address_of(self._view)
        self.move: Move = native.function(native.symbol("memcpy"), 3)
        self._ring: CopyRing | None = None
        self._marks = [0] * SLOTS
        """Position of `_ring` at which a slot is free again, also of a copy that ^C ended."""
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self.lock = RLock()
        self.busy = False
        """Whether the lock's owner is in the middle of a copy."""

    def _enter(self, ring: CopyRing) -> None:
        if ring is not self._ring:
            self._ring, self._marks = ring, [0] * SLOTS

    def _send(self, ring: CopyRing, dst: int, src: int, nbytes: int, slot: int) -> None:
        """Queue the engine's copy to or from a slot."""
        with ring.lock:
            ring.copy(dst=dst, src=src, nbytes=nbytes)
            self._marks[slot] = ring.put

    def copy_in(self, ring: CopyRing, dst_va: int, src: memoryview, wait: Wait) -> None:
        """Copy all of `src` to the card; returns when that is done."""
        self._enter(ring)
        host_va, nbytes = native.address_of(src), src.nbytes
        filling: deque[tuple[int, Job]] = deque()

        def send() -> None:
            number, job = filling.popleft()
            job.wait()
            at, slot = number * SLOT_BYTES, number % SLOTS
            size = min(SLOT_BYTES, nbytes - at)
            self._send(ring, dst_va + at, self._va + slot * SLOT_BYTES, size, slot)

        parts = range(0, nbytes, SLOT_BYTES)
        with Movers(self.move, threads_for(nbytes), len(parts)) as movers:
            for number, at in enumerate(parts):
                off = number % SLOTS * SLOT_BYTES
                wait(ring, self._marks[number % SLOTS])
                size = min(SLOT_BYTES, nbytes - at)
                filling.append((number, movers.start(self._host_va + off, host_va + at, size)))
                if len(filling) > movers.count:
                    send()
            for _ in range(len(filling)):
                send()
        wait(ring, max(self._marks))

    def copy_out(self, ring: CopyRing, dst: memoryview, src_va: int, wait: Wait) -> None:
        """Fill `dst` from the card."""
        self._enter(ring)
        host_va, nbytes = native.address_of(dst), dst.nbytes
        parts = range(0, nbytes, SLOT_BYTES)
        emptying: list[Job] = []
        sent = 0
        with Movers(self.move, threads_for(nbytes), len(parts)) as movers:
            ahead = SLOTS - movers.count
            for number, at in enumerate(parts):
                for later in range(sent, min(number + ahead, len(parts))):
                    if later >= SLOTS:
                        emptying[later - SLOTS].wait()
                    size, slot = min(SLOT_BYTES, nbytes - parts[later]), later % SLOTS
                    self._send(
                        ring, self._va + slot * SLOT_BYTES, src_va + parts[later], size, slot
                    )
                    sent = later + 1
                off = number % SLOTS * SLOT_BYTES
                wait(ring, self._marks[number % SLOTS])
                size = min(SLOT_BYTES, nbytes - at)
                emptying.append(movers.start(host_va + at, self._host_va + off, size))

    def let_go(self) -> Memory:
        """Give up the memory, which the caller frees."""
        self._view = memoryview(b"")
        return self._bo

    def close(self) -> None:
        """Free it; no copy is under way."""
        self.let_go().free()


def threads_for(nbytes: int) -> int:
    """How many threads a copy starts: none in a recording, where their order would be random."""
    return THREADS if nbytes >= LEAST_BYTES and not is_in_order() else 0

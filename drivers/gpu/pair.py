"""A device's two queues: kernels on one, copies on the other. A stopped one is replaced.

Locks, in the order in which a thread takes them:

1. The allocator's, and that of staging memory: held while their owner waits for queues.
2. `lock`: held while a queue is replaced.
3. Those of the rings, the compute queue's first: held while packets are written.

A thread that writes to a full ring waits with the ring's lock, and may see a fault there. It takes
`lock` only where it is free, and never waits for it: see `recovery`. Code with `lock` held takes no
lock of the first kind. It stops a ring, which ends waits for room, before it takes the ring's lock.
"""

from __future__ import annotations

import weakref
from threading import RLock
from typing import Generic, TypeVar

from drivers.base.errors import DeviceError
from drivers.base.undo import run_all
from drivers.gpu.blocks import Moment
from drivers.gpu.ring import ComputeRing, CopyRing, Ring

C = TypeVar("C", bound=ComputeRing)
M = TypeVar("M", bound=CopyRing)


class RingPair(Generic[C, M]):
    """The rings of one device; opened by `Recovery.open`."""

    compute: C
    copies: M

    def __init__(self) -> None:
        self.copied = False
        """Whether a copy queue wrote past the compute queue's caches since their last acquire."""
        self.foreign = False
        """Whether another process or driver has, or had, memory of this one."""
        self._sharers: weakref.WeakSet[RingPair[C, M]] = weakref.WeakSet()
        """Of GPUs that share memory with this one: their caches may hold what it writes."""
        self._new_locks()

    def _new_locks(self) -> None:
        self.lock = RLock()
        """Held while a queue is replaced."""
        self.compute_lock, self.copy_lock = RLock(), RLock()
        """Of the rings, also of those that replace them."""

    @property
    def rings(self) -> tuple[Ring, Ring]:
        """Both."""
        return self.compute, self.copies

    @property
    def idle(self) -> tuple[bool, bool]:
        """Whether (the compute queue, the copy queue) has finished everything."""
        return self.compute.idle, self.copies.idle

    @property
    def moment(self) -> Moment:
        """The compute queue, and the position of its last work."""
        ring = self.compute
        return ring, ring.put

    def share_with(self, other: RingPair[C, M]) -> None:
        """Both may cache memory of this one, and neither sees the other's caches."""
        self._sharers.add(other)
        other._sharers.add(self)

    def share_outside(self) -> None:
        """Others write memory of this device from now on, and say so to nobody."""
        self.foreign = True
        with self.compute_lock:
            self.compute.foreign = self.compute.stale = True

    @property
    def shares(self) -> bool:
        """Whether another GPU's queue may have written memory of this one."""
        return bool(self._sharers)

    def invalidate_sharers(self) -> None:
        """After a wait: caches of other GPUs, and of the compute queue here, may be stale.

        GPUs that share memory with this one invalidate their caches before their next work.
        Hardware: a peer's VRAM is cached, too: only coherent and uncached memory has MTYPE_UC.
        # src: gmc_v10_0.c, gmc_v11_0.c, gmc_v12_0.c *_get_vm_pte()
        """
        for other in list(self._sharers):
            other.compute.stale = True
        if self.copied:
            self.copied = False  # first: another thread may submit copies meanwhile
            if not self.copies.idle:
                self.copied = True
            self.compute.stale = True

    def stop(self, why: DeviceError) -> None:
        """Refuse all work from now on, with this error."""
        for ring in self.rings:
            ring.stop(why)

    def close(self) -> None:
        """Destroy both queues and their unfinished work."""
        run_all(ring.close for ring in self.rings if not ring.gone)

    def after_fork(self, why: DeviceError) -> None:
        """In a child: its rings are the parent's memory, and its doorbells are not mapped."""
        self._new_locks()
        for ring, lock in zip(self.rings, (self.compute_lock, self.copy_lock), strict=True):
            ring.lock = lock  # a thread that is not here may hold the old one
            ring.stop(why)

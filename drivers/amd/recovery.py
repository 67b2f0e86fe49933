"""Queues that a fault stopped, or that hang, are replaced; the device stays usable.

Two threads may see one fault: the kernel wakes all who wait (# src: kfd_events.c set_event()). The
one that has the device's `lock` replaces what stopped. Another one waits for that, unless it
writes to a ring: it has the lock of the ring, which the first one needs. It reports the fault and
leaves recovery to the thread that has `lock`, or sleeps next; so the ring's lock is free again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from contextlib import AbstractContextManager
from functools import partial
from threading import RLock, get_ident
from typing import Final, TypeAlias

from drivers.amd import faults
from drivers.amd.aql_ring import AqlRing
from drivers.amd.copy_ring import CopyRing
from drivers.amd.heap import Heap
from drivers.amd.iface import Iface, Trouble, signal_at
from drivers.amd.pm4_ring import Pm4Ring
from drivers.amd.ring import Ring
from drivers.base.deadline import polls
from drivers.base.errors import DeviceError

ANSWER_S: Final = 1.0
"""Deadline of an idle queue for an empty flush."""
GRACE_S: Final = 0.02
"""How long a queue may still finish after a fault report, before it is replaced."""

COPY_CLIENT: Final = "SDMA"
"""How the names of copy engines begin where a page fault reports its unit."""

ComputeRing: TypeAlias = Pm4Ring | AqlRing


class Recovery(Heap):
    """Replacing a device's stopped queues."""

    name: str
    compute: ComputeRing
    copies: CopyRing

    def __init__(self, iface: Iface, limit_bytes: int) -> None:
        super().__init__(iface, limit_bytes)
        self.lock = RLock()
        """Held while a queue is replaced; `queues` has the lock order."""
        self._writers: list[int] = []
        """Threads that have a ring's lock and wait for room in it."""
        self._left: deque[Trouble] = deque()
        """Faults that such threads have reported; their queues may still have to be replaced."""
        self.stale: object = True
        """Whether memory was written past the compute queue's caches since their last acquire."""
        self._clean = -1
        """`put` of the compute queue when everything before was last flushed."""

    def _faulted(self, trouble: Trouble) -> DeviceError:
        """The error for the kernel's report; queues that it stopped are replaced."""
        if not self.lock.acquire(blocking=get_ident() not in self._writers):
            self._left.append(trouble)
            return faults.fault(self, trouble, self._suspects(trouble)[0])
        try:
            error = self._recover(trouble)
            self._recover_left()
        finally:
            self.lock.release()
        return error

    def _recover(self, trouble: Trouble) -> DeviceError:
        """With `lock` held: the error for the kernel's report; stopped queues are replaced."""
        rings = self._suspects(trouble)
        stopped = [ring for ring in rings if self._stuck(ring)]
        error = faults.fault(self, trouble, stopped[0] if stopped else rings[0])
        for ring in stopped:
            self._replace(ring, error)
        self._look_for_eviction(trouble, error)
        return error

    def _recover_left(self) -> None:
        """With `lock` held: replace queues stopped by faults that writers to a ring reported."""
        for _ in range(len(self._left)):
            self._recover(self._left.popleft())

    def catch_up(self) -> None:
        """The same, unless another thread has `lock` and does it."""
        if self._left and self.lock.acquire(blocking=False):
            try:
                self._recover_left()
            finally:
                self.lock.release()

    def _suspects(self, trouble: Trouble) -> tuple[Ring, ...]:
        """The queues that may have faulted: one, where the GPU reports the unit."""
        client = trouble.page.client if trouble.page is not None else ""
        if not client and not trouble.stopped:
            return self.compute, self.copies
        return (self.copies if client.startswith(COPY_CLIENT) else self.compute,)

    def _look_for_eviction(self, trouble: Trouble, fault: DeviceError) -> None:
        """Check whether queues still run; if not, refuse all work from now on."""
        gone = self.iface.gone
        if gone is None and (not self.iface.evicts or self._runs()):
            return
        gone = gone or self.iface.lost(trouble)
        for ring in (self.compute, self.copies):
            ring.stop(gone)
        fault.advised(gone.hint)

    def _runs(self) -> bool:
        """Whether an idle queue, or a new one, completes a flush."""
        idle = next((ring for ring in (self.compute, self.copies) if ring.idle), None)
        if idle is not None:
            return self._answers(idle)
        with self.engine_ring(0) as fresh:
            return self._answers(fresh)

    def _answers(self, ring: Ring) -> bool:
        """Whether an idle queue completes a flush."""
        with ring.lock:
            ring.flush()
            mark = ring.put
        return any(ring.done >= mark for _ in polls(ANSWER_S, self.iface.world))

    def _stuck(self, ring: Ring) -> bool:
        """Whether a queue makes no progress although it waits for no signal."""
        before = ring.done
        if any(ring.idle or ring.done != before for _ in polls(GRACE_S, self.iface.world)):
            return False
        return not self._parked(ring)

    def _parked(self, ring: Ring) -> bool:
        """Whether the queue is stopped at a packet that waits for a signal."""
        return faults.waits(self, ring, partial(signal_at, self.iface))

    def _hung(self, ring: Ring) -> DeviceError:
        """The error for a queue without progress; it is replaced unless it waits for a signal."""
        with self.lock:
            trouble = self.iface.wait(0)
            if trouble is not None:
                return self._faulted(trouble)
            parked = self._parked(ring)
            error = faults.hang(self, ring, parked=parked)
            if ring in (self.compute, self.copies) and not parked:
                reset = self._replace(ring, error)
                if reset is not None:
                    self._look_for_eviction(reset, error)
            self._recover_left()
        return error

    def _replace(self, ring: Ring, error: DeviceError) -> Trouble | None:
        """Destroy a queue and its work, and create a new one; what the kernel reports then.

        # src: kfd_device_queue_manager.c remove_queue_mes(), kfd_hws_hang(): a queue that does not
        # stop is reset where the kernel can do that, and the whole GPU where it cannot
        """
        reported: Trouble | None = None
        ring.stop(error)  # first: it ends a writer's wait for room, which holds the ring's lock
        with ring.lock:
            try:
                ring.close()
                reported = self.iface.wait(0)
                if ring is self.compute:
                    self.compute, self.stale, self._clean = self._open_compute(), True, -1
                else:
                    self.copies = self._open_copies()
            except DeviceError as later:
                error.add_note(f"and the queue could not be replaced: {later}")
        return reported

    def last_fault(self) -> None:
        """Before closing, where nothing is replaced. Raises: a fault that was not reported yet."""
        if self.compute.broken is not None:  # reported, or the queues are the parent's
            return
        trouble = self.iface.wait(0)
        if trouble is not None:
            raise faults.fault(self, trouble, self._suspects(trouble)[0])

    @abstractmethod
    def _open_compute(self) -> ComputeRing:
        """A new compute queue."""

    @abstractmethod
    def _open_copies(self) -> CopyRing:
        """A new copy queue."""

    @abstractmethod
    def engine_ring(self, number: int) -> AbstractContextManager[CopyRing]:
        """A queue on copy engine `number`."""

    @abstractmethod
    def program_names(self, *, code_va: int = 0, descriptor_va: int = 0) -> list[str]:
        """Programs whose code or descriptor is at the address."""

    @abstractmethod
    def graph_packets(self, va: int, nbytes: int) -> bytes:
        """The packets of a graph at the address."""

    @abstractmethod
    def graph_names(self, va: int) -> list[str]:
        """Programs of the graph whose packets are at the address."""

"""Queues that a fault stopped, or that hang, are replaced; the device stays usable.

Two threads may see one fault: a kernel driver may wake all who wait (# src: kfd_events.c
set_event()). The one that has the pair's `lock` replaces what stopped. Another one waits for that,
unless it writes to a ring: it has the lock of the ring, which the first one needs. It reports the
fault and leaves recovery to the thread that has `lock`, or sleeps next; so the ring's lock is free
again. `drivers/gpu/pair.py` has the order of locks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Final, Generic, Protocol, TypeVar

from drivers.base.deadline import polls
from drivers.base.errors import DeviceError
from drivers.base.undo import Undo
from drivers.gpu.iface import GpuIface
from drivers.gpu.incident import Incident
from drivers.gpu.pair import C, M, RingPair
from drivers.gpu.patience import Patience, opened
from drivers.gpu.ring import Ring, Waited

ANSWER_S: Final = 1.0
"""Deadline of an idle queue for an empty flush."""
GRACE_S: Final = 0.02
"""How long a queue may still finish after a fault report, before it is replaced."""


class Waiting(Protocol):
    """How a ring waits."""

    def sleep(self, timeout_ms: int) -> None:
        """Sleep until a queue interrupts. Raises: the device's fault."""

    def wait_for_room(self, rings: tuple[Ring], reached: Callable[[], bool]) -> Waited:
        """Wait on a full ring with its lock held."""


MadeC = TypeVar("MadeC", covariant=True)
MadeM = TypeVar("MadeM", covariant=True)


class QueueMaker(Protocol[MadeC, MadeM]):
    """The vendor's part: running queues."""

    def open_compute(self, waiting: Waiting) -> MadeC:
        """A new compute queue."""

    def open_copies(self, waiting: Waiting) -> MadeM:
        """A new copy queue."""

    def spare(self, waiting: Waiting) -> AbstractContextManager[Ring]:
        """A further queue, to test whether queues run."""


class Reporter(Protocol):
    """The vendor's part: errors that name buffer, kernel and packets."""

    def suspects(self, incident: Incident) -> Sequence[Ring]:
        """The queues that may have faulted: one, where the GPU reports the unit."""

    def waits(self, ring: Ring) -> bool:
        """Whether a queue is stopped at a packet that waits for a signal."""

    def fault(self, incident: Incident, ring: Ring) -> DeviceError:
        """The error for a reported fault; `ring` is the queue that was running."""

    def hang(self, ring: Ring, *, parked: bool) -> DeviceError:
        """The error for a queue without progress; a `parked` one waits for a signal."""

    def late(self, ring: Ring, timeout_s: float, *, parked: bool) -> DeviceError:
        """The error for a caller whose timeout is over; the queue continues its work."""


class Recovery(Generic[C, M]):
    """Opens the two queues of a device, and replaces what stops."""

    def __init__(
        self,
        iface: GpuIface,
        pair: RingPair[C, M],
        maker: QueueMaker[C, M],
        reporter: Reporter,
    ) -> None:
        self._iface, self._pair, self._maker, self._reporter = iface, pair, maker, reporter
        self.patience = Patience(iface.world.monotonic_s, self.parked)
        self._forget()

    def _forget(self) -> None:
        self._writers: list[int] = []
        """Threads that have a ring's lock and wait for room in it."""
        self._left: deque[Incident] = deque()
        """Faults that such threads have reported; their queues may still have to be replaced."""

    def open(self) -> None:
        """Create both queues; a failure destroys what was created."""
        pair = self._pair
        with Undo() as undo:
            pair.compute = self._maker.open_compute(self)
            undo.add(pair.compute.close)
            pair.copies = self._maker.open_copies(self)
            opened(pair)

    def parked(self, ring: Ring) -> bool:
        """Whether the queue is stopped at a packet that waits for a signal."""
        return self._reporter.waits(ring)

    def wait_for_room(self, rings: tuple[Ring], reached: Callable[[], bool]) -> Waited:
        """Wait on a full ring with its lock held."""
        self._writers.append(get_ident())
        try:
            return self.patience.wait(rings, reached)
        finally:
            self._writers.remove(get_ident())

    def sleep(self, timeout_ms: int) -> None:
        """Sleep until a queue interrupts. Raises: the device's fault, its queues replaced."""
        incident = self._iface.wait(timeout_ms)
        if incident is not None:
            raise self._faulted(incident)
        if self._left:
            self.catch_up()

    def _faulted(self, incident: Incident) -> DeviceError:
        """The error for a report; queues that the fault stopped are replaced."""
        lock = self._pair.lock
        if not lock.acquire(blocking=get_ident() not in self._writers):
            self._left.append(incident)
            return self._error(incident, self._reporter.suspects(incident)[0])
        try:
            error = self._recover(incident)
            self._recover_left()
        finally:
            lock.release()
        return error

    def _recover(self, incident: Incident) -> DeviceError:
        """With `lock` held: the error for a report; stopped queues are replaced."""
        rings = self._reporter.suspects(incident)
        if incident.gone:
            gone = self._error(incident, rings[0])
            self._pair.stop(gone)
            return gone
        stopped = [ring for ring in rings if self.stuck(ring)]
        error = self._reporter.fault(incident, stopped[0] if stopped else rings[0])
        for ring in stopped:
            self.replace(ring, error)
        self._look_for_eviction(incident, error)
        return error

    def _error(self, incident: Incident, ring: Ring) -> DeviceError:
        """The vendor's error for a report; DeviceGone where it ends the device."""
        if incident.gone:
            return self._iface.gone or self._iface.lost(incident)
        return self._reporter.fault(incident, ring)

    def _recover_left(self) -> None:
        """With `lock` held: replace queues stopped by faults that writers to a ring reported."""
        for _ in range(len(self._left)):
            self._recover(self._left.popleft())

    def catch_up(self) -> None:
        """The same, unless another thread has `lock` and does it."""
        lock = self._pair.lock
        if self._left and lock.acquire(blocking=False):
            try:
                self._recover_left()
            finally:
                lock.release()

    def _look_for_eviction(self, incident: Incident, fault: DeviceError) -> None:
        """Check whether queues still run; if not, refuse all work from now on."""
        gone = self._iface.gone
        if gone is None and (not self._iface.evicts or self._runs()):
            return
        gone = gone or self._iface.lost(incident)
        self._pair.stop(gone)
        fault.advised(gone.hint)

    def _runs(self) -> bool:
        """Whether an idle queue, or a new one, completes a flush."""
        idle = next((ring for ring in self._pair.rings if ring.idle), None)
        if idle is not None:
            return self._answers(idle)
        with self._maker.spare(self) as fresh:
            return self._answers(fresh)

    def _answers(self, ring: Ring) -> bool:
        """Whether an idle queue completes a flush."""
        with ring.lock:
            ring.flush()
            mark = ring.put
        return any(ring.done >= mark for _ in polls(ANSWER_S, self._iface.world))

    def stuck(self, ring: Ring) -> bool:
        """Whether a queue makes no progress although it waits for no signal."""
        before = ring.done
        if any(ring.idle or ring.done != before for _ in polls(GRACE_S, self._iface.world)):
            return False
        return not self.parked(ring)

    def hung(self, ring: Ring) -> DeviceError:
        """The error for a queue without progress; it is replaced unless it waits for a signal."""
        with self._pair.lock:
            incident = self._iface.wait(0)
            if incident is not None:
                return self._faulted(incident)
            parked = self.parked(ring)
            error = self._reporter.hang(ring, parked=parked)
            if ring in self._pair.rings and not parked:
                reset = self.replace(ring, error)
                if reset is not None:
                    self._look_for_eviction(reset, error)
            self._recover_left()
        return error

    def replace(self, ring: Ring, error: DeviceError) -> Incident | None:
        """Destroy a queue and its work, and create a new one; what is reported then.

        # src: kfd_device_queue_manager.c remove_queue_mes(), kfd_hws_hang(): a queue that does not
        # stop is reset where the kernel can do that, and the whole GPU where it cannot
        """
        reported: Incident | None = None
        pair = self._pair
        ring.stop(error)  # first: it ends a writer's wait for room, which holds the ring's lock
        with ring.lock:
            try:
                ring.close()
                reported = self._iface.wait(0)
                if ring is pair.compute:
                    pair.compute = self._maker.open_compute(self)
                else:
                    pair.copies = self._maker.open_copies(self)
            except DeviceError as later:
                error.add_note(f"and the queue could not be replaced: {later}")
        return reported

    def last_fault(self) -> None:
        """Before closing, where nothing is replaced. Raises: a fault that was not reported yet."""
        if self._pair.compute.broken is not None:  # reported, or the queues are the parent's
            return
        incident = self._iface.wait(0)
        if incident is not None:
            raise self._error(incident, self._reporter.suspects(incident)[0])

    def after_fork(self) -> None:
        """In a child: no thread of the parent waits."""
        self._forget()

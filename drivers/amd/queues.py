"""The device's two queues: opened, waited for, closed; `recovery` replaces one that stops.

Locks, in the order in which a thread takes them:

1. The allocator's, and that of staging memory: held while their owner waits for queues.
2. `lock`: held while a queue is replaced.
3. Those of the rings, the compute queue's first: held while packets are written.

A thread that writes to a full ring waits with the ring's lock, and may see a fault there. It takes
`lock` only where it is free, and never waits for it: see `recovery`. Code with `lock` held takes no
lock of the first kind. It stops a ring, which ends waits for room, before it takes the ring's lock.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from threading import RLock, get_ident
from typing import Final

from drivers.amd import faults, patience
from drivers.amd.aql_ring import RING_BYTES as AQL_RING_BYTES
from drivers.amd.aql_ring import AqlRing, prepare_page
from drivers.amd.copy_ring import RING_BYTES as COPY_RING_BYTES
from drivers.amd.copy_ring import CopyRing
from drivers.amd.iface import Apertures, Iface, Memory, Plan
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.pm4_ring import RING_BYTES, Pm4Ring
from drivers.amd.recovery import ComputeRing, Recovery
from drivers.amd.ring import About, Ring, Waited
from drivers.amd.signal import SLOT_BYTES, AmdSignal
from drivers.base import forks
from drivers.base.errors import DeviceError, UseAfterFree
from drivers.base.undo import Undo, run_all
from queues.amd import sdma
from queues.amd.copy_queue import zero_packets
from queues.amd.pm4_launch import Target

BUSY_S: Final = 1.0
"""How long zeroing memory waits for copies under way."""


class Queues(Recovery):
    """The hardware queues of the device."""

    node: GpuNode

    def __init__(
        self,
        name: str,
        iface: Iface,
        target: Target,
        apertures: Apertures | None,
        limit_bytes: int,
        hang_s: float,
    ) -> None:
        """With `apertures` the compute queue reads AQL packets, else PM4."""
        self.name, self.chip, self.arch = name, iface.chip, iface.chip.name
        super().__init__(iface, limit_bytes)
        self.clock, self.target = iface.clock, target
        self._apertures, self.hang_s = apertures, hang_s
        self._patience = patience.Patience(iface.world.monotonic_s, self._parked)
        self._locks = RLock(), RLock()

    def open_queues(self) -> None:
        """Create both; a failure destroys what was created."""
        with Undo() as undo:
            undo.add(self._slots.close)
            self._cells = [self._slots.take(), self._slots.take()]
            self.compute = self._open_compute()
            undo.add(self.compute.close)
            self.copies = self._open_copies()
            patience.opened(self)
            self.iface.zero_with(self.zero)
            forks.inherit(self)

    def _about(self, name: str, cell: tuple[Memory, int]) -> About:
        pool, at = cell
        return About(
            name=f"{self.name} {name}",
            arch=self.arch,
            clock=self.iface.world.monotonic_s,
            sleep=self.sleep,
            lock=self._locks[self._cells.index(cell)],
            progress=lambda: pool.view()[at : at + SLOT_BYTES],
            progress_va=pool.gpu_va + at,
            mailbox_va=self.iface.mailbox_va,
            event_id=self.iface.event_id,
            hang_s=self.hang_s,
            wait=self._wait_for_room,
        )

    def _open_compute(self) -> ComputeRing:
        about = self._about("compute queue", self._cells[0])
        apertures = self._apertures
        if apertures is None:
            hw = self.iface.open_queue(Plan(about.name, "PM4", RING_BYTES))
            return Pm4Ring(about, hw, self.target)
        facts = (apertures.lds_base >> 32, apertures.scratch_base >> 32, *self.last_cu_and_wave)
        plan = Plan(about.name, "AQL", AQL_RING_BYTES)
        with Undo() as undo:
            prepare = partial(prepare_page, hardware=facts)
            hw = self.iface.open_queue(plan, prepare)
            undo.add(hw.close)
            ring = AqlRing(about, hw, self.target, self.iface)
            self.set_scratch(ring)
        return ring

    def _open_copies(self) -> CopyRing:
        about = self._about("copy queue", self._cells[1])
        hw = self.iface.open_queue(Plan(about.name, "SDMA", COPY_RING_BYTES))
        return CopyRing(about, hw, sdma.engine_of(self.arch))

    def zero(self, va: int, nbytes: int) -> bool:
        """Zero memory with the copy engine, after its other work; False where that does not end.

        That work may wait for a signal which the caller has yet to set. Raises: Hang.
        """
        ring = self.copies
        if ring.broken is not None or self._parked(ring):
            return False
        if ring.wait_done(ring.put, BUSY_S) is not Waited.DONE:
            return False
        with ring.lock:
            if ring.broken is not None or not ring.idle:
                return False
            ring.emit(zero_packets(ring.engine, dst=va, nbytes=nbytes), interrupt=True)
            mark = ring.put
        self.wait_ring(ring, mark)
        self.stale = True
        return True

    @contextmanager
    def engine_ring(self, number: int) -> Iterator[CopyRing]:
        """A queue on copy engine `number`, those for XGMI after the others, to test it."""
        pool, at = cell = self._slots.take()
        name = f"copy engine {number}"
        about = replace(
            self._about(name, self._cells[1]),
            lock=RLock(),
            progress=lambda: pool.view()[at : at + SLOT_BYTES],
            progress_va=pool.gpu_va + at,
        )
        plan = Plan(about.name, "SDMA", COPY_RING_BYTES, engine=number)
        with ExitStack() as stack:
            stack.callback(self._slots.give_back, cell)
            hw = self.iface.open_queue(plan)
            ring = CopyRing(about, hw, sdma.engine_of(self.arch))
            stack.callback(ring.close)
            yield ring

    # Waiting

    @property
    def idle(self) -> tuple[bool, bool]:
        return self.compute.idle, self.copies.idle

    @property
    def given(self) -> int:
        return self.compute.put

    def reach(self, mark: int) -> None:
        ring = self.compute
        if not ring.done < mark <= ring.put:  # done, or the ring was replaced since
            return
        self.wait_ring(ring, mark)

    def _wait_for_room(self, rings: tuple[Ring], reached: Callable[[], bool]) -> Waited:
        """Wait on a full ring with its lock held."""
        self._writers.append(get_ident())
        try:
            return self._patience.wait(rings, reached)
        finally:
            self._writers.remove(get_ident())

    def sleep(self, timeout_ms: int) -> None:
        """Sleep until a queue interrupts. Raises: the device's fault, its queues replaced."""
        trouble = self.iface.wait(timeout_ms)
        if trouble is not None:
            raise self._faulted(trouble)
        if self._left:
            self.catch_up()

    def wait_ring(self, ring: Ring, mark: int, timeout_s: float = inf) -> None:
        """Return once a ring has done `mark`. Raises: DeviceTimeout, Hang, DeviceFault."""
        waited = self._patience.wait((ring,), lambda: ring.done >= mark, timeout_s, mark=mark)
        if waited is Waited.LATE:
            raise faults.late(self, ring, timeout_s, parked=self._parked(ring))
        if waited is Waited.STUCK:
            raise self._hung(ring)

    def wait_until(
        self, signal: AmdSignal, reached: Callable[[], bool], value: int, timeout_s: float
    ) -> None:
        """Return once `reached()`. Raises: DeviceTimeout, Hang, DeviceFault."""
        compute, copies = self.compute, self.copies
        if not reached() and compute.broken is not None:
            raise compute.broken.with_traceback(None)
        waited = self._patience.wait((compute, copies), reached, timeout_s, patience.progress)
        if waited is not Waited.DONE:
            raise self._why_not(signal, value, timeout_s, waited)
        self.invalidate_sharers()
        if self._sharers:  # another GPU's queue may have signalled
            self.stale = True

    def _why_not(self, signal: AmdSignal, value: int, time_s: float, how: Waited) -> DeviceError:
        busy = sorted((r for r in (self.compute, self.copies) if not r.idle), key=self._parked)
        if busy and how is Waited.STUCK:
            return self._hung(busy[0])
        time_s = self.hang_s if how is Waited.STUCK else time_s
        return faults.unsignalled(self.name, signal.value, value, time_s, busy=bool(busy))

    def quiet(self) -> None:
        """Return when all submitted work is done, also of GPUs that reach this one's memory."""
        self.synchronize()
        for peer in list(self._peers):
            if isinstance(peer, Queues) and not peer._closed:
                peer.synchronize()

    def synchronize(self, timeout_s: float = inf) -> None:
        """Return when everything submitted is done and visible, however long that takes.

        Raises: DeviceTimeout after `timeout_s`, which stops nothing; Hang, DeviceFault.
        """
        if self._closed:
            self._refuse()
        compute, copies = self.compute, self.copies
        with compute.lock:
            if compute.broken is not None:
                raise compute.broken.with_traceback(None)
            mark = compute.put
            if mark != self._clean:
                mark = self._clean = compute.flush()
        deadline_s = self.iface.world.monotonic_s() + timeout_s
        self.wait_ring(compute, mark, timeout_s)
        if not copies.idle:
            self.wait_ring(copies, copies.put, deadline_s - self.iface.world.monotonic_s())
        self.sleep(0)  # a queue may continue after a fault, or fault when its work is done
        self.invalidate_sharers()

    def invalidate_sharers(self) -> None:
        """GPUs that share memory with this one invalidate their caches before their next work.

        Hardware: a peer's VRAM is cached, too: only coherent and uncached memory has MTYPE_UC.
        # src: gmc_v10_0.c, gmc_v11_0.c, gmc_v12_0.c *_get_vm_pte()
        """
        for other in list(self._sharers):
            if isinstance(other, Queues):
                other.stale = True

    def close_queues(self) -> None:
        """Destroy both queues and their unfinished work."""
        rings = [ring for ring in (self.compute, self.copies) if not ring.gone]
        run_all(ring.close for ring in rings)

    def after_fork(self) -> None:
        """In a child: its rings are the parent's memory, its doorbells are not mapped.

        # src: kfd_doorbell.c kfd_doorbell_mmap(): VM_DONTCOPY; amdgpu_gem.c
        # src: amdgpu_gem_object_mmap() lets memory be shared
        """
        gone = UseAfterFree(
            f"{self.name} belongs to the process that this one was forked from",
            hint="open a device of its own in every process, after the fork",
        )
        self._allocator.after_fork()
        self.lock, self._locks = RLock(), (RLock(), RLock())
        self._left, self._writers = deque(), []
        for ring, lock in zip((self.compute, self.copies), self._locks, strict=True):
            ring.lock = lock  # a thread that is not here may hold the old one
            ring.stop(gone)

    @property
    @abstractmethod
    def last_cu_and_wave(self) -> tuple[int, int]:
        """Numbers of the last compute unit, and of the last wave of one."""

    @abstractmethod
    def set_scratch(self, ring: ComputeRing) -> None:
        """Give a new queue the scratch that there is."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""

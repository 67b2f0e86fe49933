"""The device's two queues: opened, waited for, and replaced when the hardware stops in one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from threading import RLock
from typing import Final, TypeAlias

from drivers.amd import faults, patience
from drivers.amd.aql_ring import RING_BYTES as AQL_RING_BYTES
from drivers.amd.aql_ring import AqlRing, prepare_page
from drivers.amd.copy_ring import RING_BYTES as COPY_RING_BYTES
from drivers.amd.copy_ring import CopyRing
from drivers.amd.heap import Heap
from drivers.amd.iface import Apertures, Iface, Memory, Plan, Trouble, signal_at
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.pm4_ring import RING_BYTES, Pm4Ring
from drivers.amd.ring import About, Ring, Waited
from drivers.amd.signal import SLOT_BYTES, AmdSignal
from drivers.base import forks
from drivers.base.deadline import polls
from drivers.base.errors import DeviceError, UseAfterFree
from drivers.base.undo import Undo, run_all
from queues.amd import sdma
from queues.amd.copy_queue import zero_packets
from queues.amd.pm4_launch import Target

BUSY_S: Final = 1.0
"""How long memory that is to be zeroed waits for copies under way."""
ANSWER_S: Final = 1.0
"""How long an idle queue has to do next to nothing."""
GRACE_S: Final = 0.02
"""How long a queue may still finish after a fault was told, before it is replaced."""

COPY_CLIENT: Final = "SDMA"
"""How the names of copy engines begin where a page fault tells its unit."""

ComputeRing: TypeAlias = Pm4Ring | AqlRing


class Queues(Heap):
    """What of the device has to do with its hardware queues."""

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
        self.lock = RLock()
        """Held while a queue is replaced."""
        self._apertures, self.hang_s = apertures, hang_s
        self._patience = patience.Patience(iface.world.monotonic_s, self._parked)
        self._locks = RLock(), RLock()
        self.stale: object = True
        """Whether memory was written behind the compute queue's caches since it last looked."""
        self._clean = -1
        """`put` of the compute queue when everything before was last flushed."""

    def open_queues(self) -> None:
        """Create both. Nothing is left behind when that fails."""
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
            wait=self._patience.wait,
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
            self.tell_scratch(ring)
        return ring

    def _open_copies(self) -> CopyRing:
        about = self._about("copy queue", self._cells[1])
        hw = self.iface.open_queue(Plan(about.name, "SDMA", COPY_RING_BYTES))
        return CopyRing(about, hw, sdma.engine_of(self.arch))

    def zero(self, va: int, nbytes: int) -> bool:
        """Zero memory with the copy engine, behind its other work; False where that does not end.

        It may wait for a signal that the caller is to give. Raises: Hang.
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
        """A queue on copy engine `number`, those for XGMI behind the others, to test it."""
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

    def sleep(self, timeout_ms: int) -> None:
        """Sleep until a queue interrupts. Raises: the device's fault, its queues replaced."""
        trouble = self.iface.wait(timeout_ms)
        if trouble is not None:
            raise self._faulted(trouble)

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
        """Return when everything submitted is done, by GPUs that reach this one's memory too."""
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
        self.sleep(0)  # a queue may go on after a fault, or fault when its work is done
        self.invalidate_sharers()

    def invalidate_sharers(self) -> None:
        """GPUs that share memory with this one drop what they cache of it before their next work.

        Hardware: a peer's VRAM is cached, too: only coherent and uncached memory has MTYPE_UC.
        # src: gmc_v10_0.c, gmc_v11_0.c, gmc_v12_0.c *_get_vm_pte()
        """
        for other in list(self._sharers):
            if isinstance(other, Queues):
                other.stale = True

    # Faults and hangs

    def _faulted(self, trouble: Trouble) -> DeviceError:
        """The error for what the kernel told; queues that it stopped are replaced."""
        with self.lock:
            rings = self._suspects(trouble)
            stopped = [ring for ring in rings if self._stuck(ring)]
            error = faults.fault(self, trouble, stopped[0] if stopped else rings[0])
            for ring in stopped:
                self._replace(ring, error)
            self._look_for_eviction(trouble, error)
        return error

    def _suspects(self, trouble: Trouble) -> tuple[Ring, ...]:
        """The queues that may have done it: one, where the GPU tells whose unit it was."""
        client = trouble.page.client if trouble.page is not None else ""
        if not client and not trouble.stopped:
            return self.compute, self.copies
        return (self.copies if client.startswith(COPY_CLIENT) else self.compute,)

    def _look_for_eviction(self, trouble: Trouble, fault: DeviceError) -> None:
        """Whether queues still run; when not, everything is refused from now on."""
        gone = self.iface.gone
        if gone is None and (not self.iface.evicts or self._runs()):
            return
        gone = gone or self.iface.lost(trouble)
        for ring in (self.compute, self.copies):
            ring.stop(gone)
        fault.advised(gone.hint)

    def _runs(self) -> bool:
        """Whether an idle queue, or a new one, does what it is told."""
        idle = next((ring for ring in (self.compute, self.copies) if ring.idle), None)
        if idle is not None:
            return self._answers(idle)
        with self.engine_ring(0) as fresh:
            return self._answers(fresh)

    def _answers(self, ring: Ring) -> bool:
        """Whether an idle queue does what it is told."""
        with ring.lock:
            ring.flush()
            mark = ring.put
        return any(ring.done >= mark for _ in polls(ANSWER_S, self.iface.world))

    def _stuck(self, ring: Ring) -> bool:
        """Whether a queue stays where it is although it waits for no signal."""
        before = ring.done
        if any(ring.idle or ring.done != before for _ in polls(GRACE_S, self.iface.world)):
            return False
        return not self._parked(ring)

    def _parked(self, ring: Ring) -> bool:
        """Whether the queue stands at a packet that waits for a signal."""
        return faults.waits(self, ring, partial(signal_at, self.iface))

    def _hung(self, ring: Ring) -> DeviceError:
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
        return error

    def _replace(self, ring: Ring, error: DeviceError) -> Trouble | None:
        """Destroy a queue with what it was given, and create it anew; what the kernel tells then.

        # src: kfd_device_queue_manager.c remove_queue_mes(), kfd_hws_hang(): a queue that does not
        # stop is reset where the kernel can do that, and the whole GPU where it cannot
        """
        told: Trouble | None = None
        with ring.lock:
            ring.broken = error
            try:
                ring.close()
                told = self.iface.wait(0)
                if ring is self.compute:
                    self.compute, self.stale, self._clean = self._open_compute(), True, -1
                else:
                    self.copies = self._open_copies()
            except DeviceError as later:
                error.add_note(f"and the queue could not be replaced: {later}")
        return told

    def last_fault(self) -> None:
        """Before closing, where nothing is replaced. Raises: a fault that was not reported yet."""
        if self.compute.broken is not None:  # reported, or everything is a parent's
            return
        trouble = self.iface.wait(0)
        if trouble is not None:
            raise faults.fault(self, trouble, self._suspects(trouble)[0])

    def close_queues(self) -> None:
        """Destroy both queues, with whatever they still do."""
        rings = [ring for ring in (self.compute, self.copies) if not ring.gone]
        run_all(ring.close for ring in rings)

    def after_fork(self) -> None:
        """In a child: its rings are the parent's own memory, its doorbells are not mapped.

        # src: kfd_doorbell.c kfd_doorbell_mmap(): VM_DONTCOPY; amdgpu_gem.c
        # src: amdgpu_gem_object_mmap() lets memory be shared
        """
        gone = UseAfterFree(
            f"{self.name} belongs to the process that this one was forked from",
            hint="open a device of its own in every process, after the fork",
        )
        self._allocator.after_fork()
        self.lock, self._locks = RLock(), (RLock(), RLock())
        for ring, lock in zip((self.compute, self.copies), self._locks, strict=True):
            ring.lock = lock  # a thread that is not here may hold the old one
            ring.stop(gone)

    @property
    @abstractmethod
    def last_cu_and_wave(self) -> tuple[int, int]:
        """Numbers of the last compute unit, and of the last wave of one."""

    @abstractmethod
    def tell_scratch(self, ring: ComputeRing) -> None:
        """Let a queue know of the private memory there is."""

    @abstractmethod
    def program_names(self, *, code_va: int = 0, descriptor_va: int = 0) -> list[str]:
        """Programs whose code or descriptor is there."""

    @abstractmethod
    def graph_packets(self, va: int, nbytes: int) -> bytes:
        """The packets of a graph that are there."""

    @abstractmethod
    def graph_names(self, va: int) -> list[str]:
        """Programs of the graph whose packets are there."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""

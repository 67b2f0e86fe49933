"""Hardware queues of an AMD GPU, with the ring and the memory that each needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from threading import RLock
from typing import Final

from drivers.amd.aql_ring import RING_BYTES as AQL_RING_BYTES
from drivers.amd.aql_ring import AqlRing, prepare_page
from drivers.amd.compute_ring import AmdComputeRing
from drivers.amd.iface import Apertures, Iface, Mailbox, Plan
from drivers.amd.pair import AmdPair
from drivers.amd.pm4_ring import RING_BYTES, Pm4Ring
from drivers.amd.scratch import ScratchMemory
from drivers.amd.sdma_ring import RING_BYTES as COPY_RING_BYTES
from drivers.amd.sdma_ring import SdmaRing
from drivers.base.undo import Undo
from drivers.gpu.recovery import Waiting
from drivers.gpu.ring import SPIN_S, RingParts
from drivers.gpu.slots import Slot, Slots
from queues.amd import sdma
from queues.amd.pm4_launch import Target

PROGRESS_BYTES: Final = 16
"""A ring's own progress, and that of a graph."""


class QueueMaker:
    """Queues of the device called `name`: with `apertures` kernels' reads AQL packets, else PM4."""

    def __init__(
        self,
        name: str,
        iface: Iface,
        target: Target,
        apertures: Apertures | None,
        pair: AmdPair,
        slots: Slots,
        scratch: ScratchMemory,
        hang_s: float,
    ) -> None:
        self._name, self._iface, self._target, self._hang_s = name, iface, target, hang_s
        self._apertures, self._pair, self._slots, self._scratch = apertures, pair, slots, scratch
        wakes = iface.remote is None
        self._mailbox = Mailbox(iface.mailbox_va, iface.event_id) if wakes else None
        """None where no interrupt is delivered."""
        self._cells: list[Slot] = []

    def take_cells(self) -> None:
        """Memory for the progress of both queues, also of those that replace them."""
        self._cells = [self._slots.take(), self._slots.take()]
        for cell in self._cells:
            self._watch(cell)

    def _watch(self, cell: Slot) -> None:
        """Where memory has to be fetched, waits fetch the progress of queues."""
        if self._iface.remote is not None:
            self._iface.remote.watch(cell.pool, cell.off, PROGRESS_BYTES)

    def _parts(
        self, name: str, cell: Slot, lock: AbstractContextManager[object], waiting: Waiting
    ) -> RingParts:
        return RingParts(
            name=f"{self._name} {name}",
            arch=self._iface.chip.name,
            clock=self._iface.world.monotonic_s,
            sleep=waiting.sleep,
            lock=lock,
            progress=cell.view,
            progress_va=cell.gpu_va,
            hang_s=self._hang_s,
            wait=waiting.wait_for_room,
            foreign=self._pair.foreign,
            spin_s=SPIN_S if self._iface.remote is None else 0,
        )

    def open_compute(self, waiting: Waiting) -> AmdComputeRing:
        """A new compute queue."""
        parts = self._parts("compute queue", self._cells[0], self._pair.compute_lock, waiting)
        apertures = self._apertures
        if apertures is None:
            hw = self._iface.open_queue(Plan(parts.name, "PM4", RING_BYTES))
            return Pm4Ring(parts, hw, self._target, self._mailbox)
        facts = (apertures.lds_base >> 32, apertures.scratch_base >> 32, *self._last_cu_and_wave())
        plan = Plan(parts.name, "AQL", AQL_RING_BYTES)
        with Undo() as undo:
            prepare = partial(prepare_page, hardware=facts)
            hw = self._iface.open_queue(plan, prepare)
            undo.add(hw.close)
            ring = AqlRing(parts, hw, self._target, self._mailbox, self._iface)
            ring.set_scratch(self._scratch.now, self._scratch.lane_bytes)
        return ring

    def _last_cu_and_wave(self) -> tuple[int, int]:
        """Numbers of the last compute unit, and of the last wave of one."""
        node = self._iface.node
        return node.cus - 1, node.max_waves_per_simd * node.simd_per_cu - 1

    def open_copies(self, waiting: Waiting) -> SdmaRing:
        """A new copy queue."""
        parts = self._parts("copy queue", self._cells[1], self._pair.copy_lock, waiting)
        return self._copy_ring(parts, Plan(parts.name, "SDMA", COPY_RING_BYTES))

    def _copy_ring(self, parts: RingParts, plan: Plan) -> SdmaRing:
        hw = self._iface.open_queue(plan)
        return SdmaRing(parts, hw, sdma.engine_of(self._iface.chip.name), self._mailbox)

    @contextmanager
    def engine_ring(self, number: int, waiting: Waiting) -> Iterator[SdmaRing]:
        """A queue on copy engine `number`, those for XGMI after the others, to test it."""
        cell = self._slots.take()
        self._watch(cell)
        parts = self._parts(f"copy engine {number}", cell, RLock(), waiting)
        plan = Plan(parts.name, "SDMA", COPY_RING_BYTES, engine=number)
        with ExitStack() as stack:
            stack.callback(self._slots.give_back, cell)
            ring = self._copy_ring(parts, plan)
            stack.callback(ring.close)
            yield ring

    def spare(self, waiting: Waiting) -> AbstractContextManager[SdmaRing]:
        """A further queue, to test whether queues run."""
        return self.engine_ring(0, waiting)

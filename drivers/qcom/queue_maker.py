"""Contexts of an Adreno, with the ring and the memory that each needs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import RLock

from drivers.base.undo import Undo
from drivers.gpu.recovery import Waiting
from drivers.gpu.ring import RingParts
from drivers.gpu.slots import Slot, Slots
from drivers.qcom.gate import Gate
from drivers.qcom.iface import Plan, QcomIface, QcomQueue
from drivers.qcom.rings import QcomComputeRing, QcomCopyRing, QcomPair
from drivers.qcom.stream_ring import RING_BYTES, Elsewhere
from queues.qcom import words as qcom_words


class QueueMaker:
    """Queues of the device called `name`."""

    def __init__(
        self,
        name: str,
        iface: QcomIface,
        pair: QcomPair,
        slots: Slots,
        gate: Gate,
        hang_s: float,
        graphs: Elsewhere,
    ) -> None:
        """`graphs` reads packets of graphs at an address."""
        self._gate = gate
        self._name, self._iface, self._hang_s = name, iface, hang_s
        self._pair, self._slots, self._graphs = pair, slots, graphs
        self._cells: list[Slot] = []

    def take_cells(self) -> None:
        """Memory for the progress of both queues, also of those that replace them."""
        self._cells = [self._slots.take(), self._slots.take()]

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
        )

    def _queue(self, name: str) -> QcomQueue:
        words = qcom_words.setup(self._iface.chip)
        packed = struct.pack(f"<{len(words)}I", *words)
        return self._iface.open_queue(Plan(name, RING_BYTES, packed))

    def open_compute(self, waiting: Waiting) -> QcomComputeRing:
        """A new compute queue."""
        parts = self._parts("compute queue", self._cells[0], self._pair.compute_lock, waiting)
        with Undo() as undo:
            queue = self._queue(parts.name)
            undo.add(queue.close)
            ring = QcomComputeRing(parts, queue, self._iface.chip, self._gate)
            ring.elsewhere = self._graphs
        return ring

    def open_copies(self, waiting: Waiting) -> QcomCopyRing:
        """A new copy queue."""
        parts = self._parts("copy queue", self._cells[1], self._pair.copy_lock, waiting)
        return self._copy_ring(parts)

    def _copy_ring(self, parts: RingParts) -> QcomCopyRing:
        with Undo() as undo:
            queue = self._queue(parts.name)
            undo.add(queue.close)
            return QcomCopyRing(parts, queue, self._iface.chip, self._gate)

    @contextmanager
    def _spare(self, waiting: Waiting) -> Iterator[QcomCopyRing]:
        cell = self._slots.take()
        with ExitStack() as stack:
            stack.callback(self._slots.give_back, cell)
            ring = self._copy_ring(self._parts("spare queue", cell, RLock(), waiting))
            stack.callback(ring.close)
            yield ring

    def spare(self, waiting: Waiting) -> AbstractContextManager[QcomCopyRing]:
        """A further queue, to test whether queues run."""
        return self._spare(waiting)

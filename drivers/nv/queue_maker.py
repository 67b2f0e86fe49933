"""Channels of an NVIDIA device, with the ring and the memory that each needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import RLock

from drivers.base.undo import Undo
from drivers.gpu.recovery import Waiting
from drivers.gpu.ring import RingParts
from drivers.gpu.slots import Slot, Slots
from drivers.nv.local_memory import LocalMemory
from drivers.nv.nvk.channel import Plan
from drivers.nv.nvk.iface import NvkIface
from drivers.nv.push_ring import ENTRIES, RING_BYTES, Elsewhere
from drivers.nv.rings import NvComputeRing, NvCopyRing, NvPair
from queues.nv import words as nv_words
from queues.nv.words import Target


class QueueMaker:
    """Queues of the device called `name`."""

    def __init__(
        self,
        name: str,
        iface: NvkIface,
        target: Target,
        pair: NvPair,
        slots: Slots,
        local: LocalMemory,
        hang_s: float,
        graphs: Elsewhere,
    ) -> None:
        """`graphs` reads packets of graphs at an address."""
        self._name, self._iface, self._target, self._hang_s = name, iface, target, hang_s
        self._pair, self._slots, self._local, self._graphs = pair, slots, local, graphs
        self._cells: list[Slot] = []

    def take_cells(self) -> None:
        """Memory for the progress of both queues, also of those that replace them."""
        self._cells = [self._slots.take(), self._slots.take()]

    def _parts(
        self, name: str, cell: Slot, lock: AbstractContextManager[object], waiting: Waiting
    ) -> RingParts:
        return RingParts(
            name=f"{self._name} {name}",
            arch=f"sm_{self._target.sm}",
            clock=self._iface.world.monotonic_s,
            sleep=waiting.sleep,
            lock=lock,
            progress=cell.view,
            progress_va=cell.gpu_va,
            hang_s=self._hang_s,
            wait=waiting.wait_for_room,
            foreign=self._pair.foreign,
        )

    def open_compute(self, waiting: Waiting) -> NvComputeRing:
        """A new compute queue, its engine set up."""
        parts = self._parts("compute queue", self._cells[0], self._pair.compute_lock, waiting)
        with Undo() as undo:
            channel = self._iface.open_queue(Plan(parts.name, True, RING_BYTES, ENTRIES))
            undo.add(channel.close)
            ring = NvComputeRing(parts, channel, self._target)
            ring.elsewhere = self._graphs
            ring.emit([*nv_words.compute_setup(self._target), *self._local.words(self._target)])
        return ring

    def open_copies(self, waiting: Waiting) -> NvCopyRing:
        """A new copy queue."""
        parts = self._parts("copy queue", self._cells[1], self._pair.copy_lock, waiting)
        return self._copy_ring(parts)

    def _copy_ring(self, parts: RingParts) -> NvCopyRing:
        with Undo() as undo:
            channel = self._iface.open_queue(Plan(parts.name, False, RING_BYTES, ENTRIES))
            undo.add(channel.close)
            ring = NvCopyRing(parts, channel, self._target)
            ring.emit(nv_words.copy_setup(self._target))
        return ring

    @contextmanager
    def _spare(self, waiting: Waiting) -> Iterator[NvCopyRing]:
        cell = self._slots.take()
        with ExitStack() as stack:
            stack.callback(self._slots.give_back, cell)
            ring = self._copy_ring(self._parts("spare queue", cell, RLock(), waiting))
            stack.callback(ring.close)
            yield ring

    def spare(self, waiting: Waiting) -> AbstractContextManager[NvCopyRing]:
        """A further queue, to test whether queues run."""
        return self._spare(waiting)

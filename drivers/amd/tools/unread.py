"""A device whose queues are not read: rings and doorbells are plain memory, work counts as done.

What is left of a launch is the driver's own work, which `bench.py --host-cost` measures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from drivers.amd.device import AmdDevice
from drivers.amd.pci.hardware_queue import BAR_REGISTERS, DOORBELL_BAR, DOORBELL_BYTES, ringer
from drivers.bare.memory import PciMemory
from drivers.base.contracts import Buffer
from drivers.base.region import MemoryRegion
from drivers.gpu.doorbell import store64
from drivers.gpu.staging import Staging

EVERYTHING: Final = (1 << 31) - 1
"""How far every queue has come: further than it will be given work."""
BAR_BYTES: Final = 1 << 20


class PlainBars:
    """BARs that are plain memory, by number."""

    def __init__(self) -> None:
        self.memory = {number: bytearray(BAR_BYTES) for number in (DOORBELL_BAR, BAR_REGISTERS)}

    def bar(self, number: int) -> MemoryRegion:
        """A BAR, which can be stored to without a call."""
        return MemoryRegion(self.memory[number])


class Unread:
    """One device, left alone with its host. `bars` has what is rung and flushed."""

    def __init__(self, device: AmdDevice) -> None:
        self.bars = PlainBars()
        self._device = device
        for number, ring in enumerate((device.compute, device.copies)):
            _leave(ring, self._doorbell(ring.hw.ring, number))
        self._staging = Staging(device.iface)

    def _doorbell(self, ring: object, number: int) -> Callable[[int], None]:
        """The driver's own way to ring, but of plain memory."""
        if not isinstance(ring, PciMemory):  # over KFD
            return store64(self.bars.bar(DOORBELL_BAR), number * DOORBELL_BYTES)
        flush = _no_flush if ring.on_card else None
        return ringer(self.bars, number, "queue", flush)

    def staged(self, buffer: Buffer, host: memoryview) -> Callable[[], None]:
        """What copies to a buffer through staging; nothing is waited for."""
        staging, ring, place = self._staging, self._device.copies, buffer.gpu_va
        return lambda: staging.copy_in(ring, place, host, lambda ring, mark: None)

    def close(self) -> None:
        """Free the staging memory."""
        self._staging.close()


def _no_flush() -> None:
    """Never called: registers that are memory are flushed by a store."""


def _leave(ring: Any, doorbell: Callable[[int], None]) -> None:
    """The hardware hears nothing more of a ring, which has done everything it will be given."""
    ring.ring_doorbell, ring._cell[0] = doorbell, EVERYTHING


def leave_unread(device: AmdDevice) -> Unread:
    """As `drivers.kinds` names it."""
    return Unread(device)

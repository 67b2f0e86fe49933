"""A device whose queues are not read: doorbells are plain memory, work counts as done.

What is left of a launch is the driver's own work, which `bench.py --host-cost` measures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from drivers.base.contracts import Buffer
from drivers.base.region import MemoryRegion
from drivers.gpu.staging import Staging
from drivers.nv.device import NvDevice
from drivers.nv.nvk.channel import doorbell

EVERYTHING: Final = 1 << 60
"""How far every queue has come: further than it will be given work."""
PAGE_BYTES: Final = 4096


class Unread:
    """One device, left alone with its host. `page` is what it rings."""

    def __init__(self, device: NvDevice) -> None:
        self._device, self.page = device, bytearray(PAGE_BYTES)
        device.synchronize()
        for token, ring in enumerate(device.pair.rings, 1):
            _leave(ring, doorbell(MemoryRegion(self.page), token, ring.name))
        self._staging = Staging(device.iface)

    def staged(self, buffer: Buffer, host: memoryview) -> Callable[[], None]:
        """What copies to a buffer through staging; nothing is waited for."""
        staging, ring, place = self._staging, self._device.copies, buffer.gpu_va
        return lambda: staging.copy_in(ring, place, host, lambda ring, mark: None)

    def close(self) -> None:
        """Free the staging memory."""
        self._staging.close()


def _leave(ring: Any, bell: Callable[[int], None]) -> None:
    """The hardware hears nothing more of a ring, which has done everything it will be given."""
    ring.ring_doorbell, ring._cell[0] = bell, EVERYTHING


def leave_unread(device: NvDevice) -> Unread:
    """As `drivers.kinds` names it."""
    return Unread(device)

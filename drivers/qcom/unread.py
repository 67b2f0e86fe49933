"""A device whose submissions go nowhere and count as done at once.

What is left of a launch is the driver's own work, which `bench.py --host-cost` measures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drivers.base.contracts import Buffer
from drivers.gpu.staging import Staging
from drivers.qcom.device import QcomDevice
from queues.qcom.pm4 import WORD_MASK


class Unread:
    """One device, left alone with its host. `submitted` counts what it would have been given."""

    def __init__(self, device: QcomDevice) -> None:
        self._device, self.submitted = device, 0
        device.synchronize()
        for ring in device.pair.rings:
            self._leave(ring)
        self._staging = Staging(device.iface)

    def _leave(self, ring: Any) -> None:
        def nowhere(*place: object) -> None:
            self.submitted += 1
            ring._cell[0] = ring.put & WORD_MASK

        ring._submit = nowhere
        ring.hw.submit_with = nowhere

    def staged(self, buffer: Buffer, host: memoryview) -> Callable[[], None]:
        """What copies to a buffer through staging; nothing is waited for."""
        staging, ring, place = self._staging, self._device.copies, buffer.gpu_va
        return lambda: staging.copy_in(ring, place, host, lambda ring, mark: None)

    def close(self) -> None:
        """Free the staging memory."""
        self._staging.close()


def leave_unread(device: QcomDevice) -> Unread:
    """As `drivers.kinds` names it."""
    return Unread(device)

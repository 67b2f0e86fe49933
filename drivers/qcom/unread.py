"""A device whose submissions go nowhere and count as done at once.

What is left of a launch is the driver's own work, which `bench.py --host-cost` measures. In place
of the submission is an ioctl of Linux's that does nothing: all but the kernel driver's work counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from drivers.base.contracts import Buffer
from drivers.gpu.staging import Staging
from drivers.qcom.device import QcomDevice
from drivers.world.linux import LinuxWorld
from queues.qcom.pm4 import WORD_MASK

NOTHING: Final = 0x5451
"""FIOCLEX: closes a descriptor in execve(2), as ours are closed anyway. # src: asm-generic/ioctls.h
"""


class Nowhere:
    """The world of one ring's submissions."""

    def __init__(self, ring: Any, linux: LinuxWorld, fd: int) -> None:
        self._ring, self._fd, self._ioctl = ring, fd, linux.ioctl
        self.submitted = 0

    def ioctl(self, fd: int, request: int, raw: bytearray) -> int:
        """Nothing, and all work is done."""
        self._ioctl(self._fd, NOTHING, raw)
        ring = self._ring
        ring._cell[0] = ring.put & WORD_MASK
        self.submitted += 1
        return 0


class Unread:
    """One device, left alone with its host."""

    def __init__(self, device: QcomDevice) -> None:
        self._device, self._linux = device, LinuxWorld()
        self._fd = self._linux.eventfd()
        device.synchronize()
        self._nowhere = [Nowhere(ring, self._linux, self._fd) for ring in device.pair.rings]
        for ring, world in zip(device.pair.rings, self._nowhere, strict=True):
            hw: Any = ring.hw
            hw.submit_to(world)
        self._staging = Staging(device.iface)

    @property
    def submitted(self) -> int:
        """How many submissions the kernel driver would have been given."""
        return sum(world.submitted for world in self._nowhere)

    def staged(self, buffer: Buffer, host: memoryview) -> Callable[[], None]:
        """What copies to a buffer through staging; nothing is waited for."""
        staging, ring, place = self._staging, self._device.copies, buffer.gpu_va
        return lambda: staging.copy_in(ring, place, host, lambda ring, mark: None)

    def close(self) -> None:
        """Free the staging memory."""
        self._staging.close()
        self._linux.close(self._fd)


def leave_unread(device: QcomDevice) -> Unread:
    """As `drivers.kinds` names it."""
    return Unread(device)

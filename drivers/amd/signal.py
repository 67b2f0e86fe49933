"""Signals of an AMD device: of at most 32 bits, the width that its queues compare."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from drivers.base.errors import BadArgument
from drivers.gpu.signal import GpuSignal
from drivers.gpu.slots import Slots

if TYPE_CHECKING:
    from drivers.amd.iface import Remote
    from drivers.gpu.owner import Owner

MAX_VALUE: Final = (1 << 32) - 1
"""Queues compare 32 bits. # src: WAIT_REG_MEM, POLL_REGMEM: one reference word"""


VALUE_BYTES: Final = 16
"""The value, and the time of its last change."""


class AmdSignal(GpuSignal):
    """A value that only grows, of at most 32 bits."""

    __slots__ = ()


class FetchedSignal(AmdSignal):
    """One whose memory the host has a copy of: every look at it reads across the cable."""

    __slots__ = ("_remote",)

    def __init__(self, device: Owner, slots: Slots, value: int, remote: Remote) -> None:
        self._remote: Remote | None = remote
        super().__init__(device, slots, value)
        device.iface.publish()

    def _fetch(self) -> None:
        _ = self.gpu_va
        if self._remote is not None:
            self._remote.fetch(self._slot.pool, self._slot.off, VALUE_BYTES)

    @property
    def value(self) -> int:
        """The value now."""
        self._fetch()
        return self._words[0]

    @property
    def timestamp_ns(self) -> int:
        """The GPU's clock at the last signal() or timestamp() of a queue, as CLOCK_BOOTTIME."""
        self._fetch()
        return super().timestamp_ns

    @property
    def ticks(self) -> int:
        """The same in ticks of the GPU; 0 for none yet."""
        self._fetch()
        return self._words[1]

    def wait(self, value: int, timeout_s: float = inf) -> None:
        """See `GpuSignal.wait`."""
        self.device.wait_until(self, lambda: self.value >= value, value, timeout_s)

    def set(self, value: int) -> None:
        """Host-side signal; parked queues continue. Raises: BadArgument when it would decrease."""
        self._fetch()
        super().set(value)

    def detach(self) -> None:
        """Keep the last value and release the memory: the device closes."""
        super().detach()
        self._remote = None


def new_signal(device: Owner, slots: Slots, value: int, remote: Remote | None) -> AmdSignal:
    """A signal at `value`."""
    if remote is None:
        return AmdSignal(device, slots, value)
    return FetchedSignal(device, slots, value, remote)


def checked_value(value: object) -> int:
    """A value that queues can compare. Raises: BadArgument."""
    if type(value) is not int or not 0 <= value <= MAX_VALUE:
        raise BadArgument(f"{value!r} is not a signal value", hint="pass 0 ... 2**32 - 1")
    return value

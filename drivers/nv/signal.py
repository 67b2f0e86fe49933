"""Signals of an NVIDIA device. The host's semaphores write a value and the time together.

A slot has two of them: one for the value, one that only `timestamp` writes, which changes no value.
"""

from __future__ import annotations

from typing import Final

from drivers.base.errors import BadArgument
from drivers.gpu.signal import GpuSignal

SIGNAL_BITS: Final = 63
"""Semaphores of 64 bits are compared around a circle: a value is never half of it ahead."""
MAX_VALUE: Final = (1 << SIGNAL_BITS) - 1
TIME_OFF: Final = 16
"""Of the semaphore for times alone, in the slot."""
_TIME_WORD: Final = 3


class NvSignal(GpuSignal):
    """A value that only grows."""

    __slots__ = ()

    @property
    def ticks(self) -> int:
        """The GPU's clock at the last signal or timestamp, in nanoseconds; 0 for none yet."""
        _ = self.gpu_va
        return max(self._words[1], self._words[_TIME_WORD])

    @property
    def timestamp_ns(self) -> int:
        """The same, as the host's time."""
        return self.device.iface.clock.nanoseconds(self.ticks)

    def clear_time(self) -> None:
        """Forget the time that an earlier owner of the slot left."""
        self._words[_TIME_WORD - 1] = self._words[_TIME_WORD] = 0


def checked_value(value: object) -> int:
    """A value that queues can compare. Raises: BadArgument."""
    if type(value) is not int or not 0 <= value <= MAX_VALUE:
        raise BadArgument(f"{value!r} is not a signal value", hint="pass 0 ... 2**63 - 1")
    return value

"""The GPU's clock as the time of the host, measured once: a queue wrote its counter.

No register is read: afterwards the counter is computed from the host's own clock. Crystals drift
apart by tens of microseconds a second, as over KFD.
"""

from __future__ import annotations

from typing import Final

from drivers.base.deadline import Clock

_NS_PER_S: Final = 1e9


class MeasuredClock:
    """Both clocks at one moment."""

    def __init__(self, host: Clock, ns_per_tick: int) -> None:
        self._host, self._ns_per_tick = host, ns_per_tick
        self._ticks = self._host_ns = 0

    def calibrate(self, ticks: int, host_s: float) -> None:
        """What a queue wrote at a moment of the host's monotonic clock."""
        self._ticks, self._host_ns = ticks, int(host_s * _NS_PER_S)

    def nanoseconds(self, ticks: int) -> int:
        """CLOCK_MONOTONIC when the counter stood at `ticks`; 0 for a time never written."""
        return self._host_ns + (ticks - self._ticks) * self._ns_per_tick if ticks else 0

    def now_ticks(self) -> int:
        """The counter now."""
        now_ns = int(self._host.monotonic_s() * _NS_PER_S)
        return self._ticks + (now_ns - self._host_ns) // self._ns_per_tick

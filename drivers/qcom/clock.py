"""The always-on counter as the time of the host, measured once: a queue wrote it.

Afterwards it is computed: both clocks are of one oscillator on these machines.
"""

from __future__ import annotations

from typing import Final

from drivers.base.deadline import Clock
from queues.qcom.chips import TICKS_HZ

NS_PER_S: Final = 1_000_000_000


class CounterClock:
    """Both clocks at one moment."""

    def __init__(self, host: Clock) -> None:
        self._host = host
        self._ticks = self._host_ns = 0

    def calibrate(self, ticks: int, host_s: float) -> None:
        """What a queue wrote at a moment of the host's monotonic clock."""
        self._ticks, self._host_ns = ticks, int(host_s * NS_PER_S)

    def nanoseconds(self, ticks: int) -> int:
        """CLOCK_MONOTONIC when the counter stood at `ticks`; 0 for a time never written."""
        if not ticks:
            return 0
        return self._host_ns + (ticks - self._ticks) * NS_PER_S // TICKS_HZ

    def now_ticks(self) -> int:
        """The counter now."""
        now_ns = int(self._host.monotonic_s() * NS_PER_S)
        return self._ticks + (now_ns - self._host_ns) * TICKS_HZ // NS_PER_S

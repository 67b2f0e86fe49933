"""The GPU's clock (PTIMER), as the time of the host: nanoseconds, seen in the usermode page."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import Region, World

TIME_0_OFF, TIME_1_OFF = 0x80, 0x84
"""# src: class/clc361.h NVC361_TIME_0, NVC361_TIME_1"""
_UPPER_SHIFT: Final = 32
_NS: Final = 1_000_000_000
_READS: Final = 4


class NvClock:
    """Both clocks at one moment: the host's is CLOCK_MONOTONIC."""

    def __init__(self, world: World, page: Region) -> None:
        self._page = page
        self.ticks = 0
        self.host_ns = 0
        pairs = []
        for _ in range(_READS):
            before_s = world.monotonic_s()
            ticks = self.now_ticks()
            after_s = world.monotonic_s()
            pairs.append((after_s - before_s, ticks, (before_s + after_s) / 2))
        _, ticks, host_s = min(pairs)
        self.calibrate(ticks, host_s)

    def now_ticks(self) -> int:
        """The counter now; its halves are read again when the upper one changed."""
        upper = self._page.read32(TIME_1_OFF)
        for _ in range(_READS):
            lower, again = self._page.read32(TIME_0_OFF), self._page.read32(TIME_1_OFF)
            if again == upper:
                break
            upper = again
        return upper << _UPPER_SHIFT | lower

    def nanoseconds(self, ticks: int) -> int:
        """The host's time when the counter stood at `ticks`; 0 for a time never written."""
        return self.host_ns + ticks - self.ticks if ticks else 0

    def calibrate(self, ticks: int, host_s: float) -> None:
        """Match a reading to a moment of the host's clock."""
        self.ticks, self.host_ns = ticks, int(host_s * _NS)

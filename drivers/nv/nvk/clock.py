"""The GPU's clock (PTIMER), as the time of the host: nanoseconds, seen in the usermode page."""

from __future__ import annotations

from bisect import bisect
from operator import itemgetter
from typing import Final

from drivers.base.contracts import Region, World

TIME_0_OFF, TIME_1_OFF = 0x80, 0x84
"""# src: class/clc361.h NVC361_TIME_0, NVC361_TIME_1"""
_UPPER_SHIFT: Final = 32
_NS: Final = 1_000_000_000
_READS: Final = 4
MATCH_NS: Final = 1_000_000_000
"""Time stamps this far behind the last reading of both clocks have them read again."""
MOST_MATCHES: Final = 64


class NvClock:
    """Moments at which both clocks were read; the host's is CLOCK_MONOTONIC.

    Between two of them both clocks run evenly, and after the last one as between the last two:
    oscillators drift apart by tens of microseconds a second, evenly for minutes.
    """

    def __init__(self, world: World, page: Region) -> None:
        self._world, self._page = world, page
        self._matches: list[tuple[int, int]] = []
        """(ticks, nanoseconds of the host), in order."""
        self._match()

    def _match(self) -> None:
        """Read both clocks."""
        pairs = []
        for _ in range(_READS):
            before_s = self._world.monotonic_s()
            ticks = self.now_ticks()
            after_s = self._world.monotonic_s()
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
        if not ticks:
            return 0
        if ticks - self._matches[-1][0] > MATCH_NS:
            self._match()
        matches = self._matches  # a list that is never changed
        at = bisect(matches, ticks, key=itemgetter(0))
        (first, first_ns), (last, last_ns) = matches[max(at - 2, 0)], matches[at - 1]
        if at < len(matches) and at:
            (first, first_ns), (last, last_ns) = matches[at - 1], matches[at]
        if not at or first == last:  # before the first reading, or one reading alone
            return matches[0][1] + ticks - matches[0][0]
        return first_ns + (ticks - first) * (last_ns - first_ns) // (last - first)

    def calibrate(self, ticks: int, host_s: float) -> None:
        """Match a reading to a moment of the host's clock."""
        kept = self._matches
        if len(kept) == MOST_MATCHES:
            kept = [*kept[:-2:2], *kept[-2:]]
        if not kept or ticks > kept[-1][0]:
            self._matches = [*kept, (ticks, int(host_s * _NS))]

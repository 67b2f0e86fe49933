"""A board's time: real time, plus the waits that were skipped."""

from __future__ import annotations

import heapq
import threading
import time

TICKS_PER_S = 100_000_000
"""src: notes section 2: RELEASE_MEM's clock counter is 100 MHz."""
NS_PER_TICK = 10
_NS_PER_S = 1_000_000_000
_TURN_S = 0.001
"""Real time for which a thread that skipped time lets others run."""


class Clock:
    """Monotonic seconds. Sleeping, and waiting for what cannot come, advance it at once."""

    def __init__(self) -> None:
        self._skipped_ns = 0
        self._alarms: list[int] = []

    def now_ns(self) -> int:
        """Nanoseconds since some moment."""
        return time.monotonic_ns() + self._skipped_ns

    def now_s(self) -> float:
        """The same in seconds."""
        return self.now_ns() / _NS_PER_S

    def ticks(self) -> int:
        """The GPUs' 100 MHz counter."""
        return self.now_ns() // NS_PER_TICK

    def skip(self, seconds: float) -> None:
        """Let `seconds` pass without waiting."""
        self._skipped_ns += max(0, int(seconds * _NS_PER_S))

    def alarm(self, at_ns: int) -> None:
        """Something happens on the board then, which who sleeps may be waiting for."""
        heapq.heappush(self._alarms, at_ns)

    def skip_to(self, until_ns: int) -> bool:
        """Let time pass until then, or until the next alarm; whether that was an alarm."""
        now_ns, alarms = self.now_ns(), self._alarms
        while alarms and alarms[0] <= now_ns:
            heapq.heappop(alarms)
        rings = bool(alarms) and alarms[0] < until_ns
        self._skipped_ns += max(0, (alarms[0] if rings else until_ns) - now_ns)
        return rings

    @property
    def skipped_ns(self) -> int:
        """How much time was skipped."""
        return self._skipped_ns

    def give_turn(self, before_ns: int) -> None:
        """When time was skipped since then: what one thread waits for, another one may bring."""
        if self._skipped_ns != before_ns and threading.active_count() > 1:
            time.sleep(_TURN_S)

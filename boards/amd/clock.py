"""A board's time: real time, plus what nobody needed to sit through."""

from __future__ import annotations

import time

TICKS_PER_S = 100_000_000
"""src: notes section 2: RELEASE_MEM's clock counter is 100 MHz."""
_NS_PER_TICK = 10
_NS_PER_S = 1_000_000_000


class Clock:
    """Monotonic seconds. Sleeping, and waiting for what cannot come, advance it at once."""

    def __init__(self) -> None:
        self._skipped_ns = 0

    def now_ns(self) -> int:
        """Nanoseconds since some moment."""
        return time.monotonic_ns() + self._skipped_ns

    def now_s(self) -> float:
        """The same in seconds."""
        return self.now_ns() / _NS_PER_S

    def ticks(self) -> int:
        """The GPUs' 100 MHz counter."""
        return self.now_ns() // _NS_PER_TICK

    def skip(self, seconds: float) -> None:
        """Let `seconds` pass without waiting."""
        self._skipped_ns += max(0, int(seconds * _NS_PER_S))

"""Bounded waiting: every poll of a driver iterates over `polls`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

SPIN_POLLS = 64
"""Polls before the first sleep: most registers answer within a microsecond."""
FIRST_SLEEP_S = 20e-6
LONGEST_SLEEP_S = 1e-3


class Clock(Protocol):
    """The two methods of a World that waiting needs."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that only grows."""

    def sleep(self, seconds: float) -> None:
        """Yield the core."""


def polls(
    timeout_s: float, clock: Clock, progress: Callable[[], object] | None = None
) -> Iterator[int]:
    """0, 1, 2, ... until `timeout_s` is over; at least one poll happens after the deadline.

    Spins first, then sleeps with doubling pauses of at most 1 ms. With `progress`, the time begins
    anew whenever its value is another one.
    """
    deadline_s = clock.monotonic_s() + timeout_s
    seen = None if progress is None else progress()
    pause_s, count = FIRST_SLEEP_S, 0
    while clock.monotonic_s() < deadline_s:
        yield count
        count += 1
        if progress is not None and (now := progress()) != seen:
            seen, deadline_s = now, clock.monotonic_s() + timeout_s
        if count > SPIN_POLLS:
            clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_SLEEP_S)
    yield count

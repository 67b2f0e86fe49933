"""Bounded waiting: the time is over, or begins anew with progress."""

from __future__ import annotations

from drivers.base.deadline import polls
from tests.support import check


class Clock:
    """Time that passes by sleeping, and a microsecond a look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        self.now_s += 1e-6
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_the_time_is_over() -> None:
    clock = Clock()
    count = sum(1 for _ in polls(0.5, clock))
    check(count > 100, f"{count} polls")
    check(0.5 <= clock.now_s < 0.51, f"{clock.now_s} s")


def test_at_least_one_poll() -> None:
    check(list(polls(0.0, Clock())) == [0])


def test_progress_begins_it_anew() -> None:
    """Something ends every 0.4 s until 2 s, then nothing: 0.5 s later it is over."""
    clock = Clock()
    for _ in polls(0.5, clock, lambda: min(int(clock.now_s / 0.4), 5)):
        pass
    check(2.5 <= clock.now_s < 2.51, f"{clock.now_s} s")

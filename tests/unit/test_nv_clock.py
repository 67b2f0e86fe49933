"""The GPU's clock as the host's time: oscillators that drift apart, for hours."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from drivers.nv.nvk.clock import MOST_MATCHES, NvClock
from tests.support import check

S = 1_000_000_000
START_NS = 5_000 * S


class Machine:
    """Both clocks; each reading takes a little time."""

    def __init__(self, ppm: float, seed: int) -> None:
        self.ppm, self.now_ns, self.readings = ppm, START_NS, 0
        self._random = random.Random(seed)

    def pass_ns(self, nanoseconds: int) -> None:
        self.now_ns += nanoseconds

    def monotonic_s(self) -> float:
        self.pass_ns(self._random.randrange(100, 400))
        self.readings += 1
        return self.now_ns / S

    def ticks(self) -> int:
        """PTIMER: from another moment on, faster or slower, in steps of 32 ns."""
        return int((self.now_ns - START_NS) * (1 + self.ppm / 1e6) + 77 * S) & ~31

    def read32(self, off: int) -> int:
        self.pass_ns(self._random.randrange(500, 900))
        ticks = self.ticks()
        return ticks >> 32 if off == 0x84 else ticks & 0xFFFFFFFF


@pytest.mark.parametrize("ppm", [0.0, 40.0, -55.0])
def test_time_stamps_stay_the_hosts_time_for_hours(ppm: float) -> None:
    """Matched once, 40 ppm are 0.4 s after three hours."""
    machine: Any = Machine(ppm, 3)
    clock = NvClock(machine, machine)
    machine.pass_ns(2 * S)
    clock.nanoseconds(machine.ticks())
    stamps = []
    for _ in range(2 * MOST_MATCHES):
        machine.pass_ns(90 * S)
        ticks, truth = machine.ticks(), machine.now_ns
        got = clock.nanoseconds(ticks)
        check(abs(got - truth) < 20_000, f"{got - truth} ns off after {truth - START_NS} ns")
        stamps.append((ticks, truth, got))
    for (one, _, at), (two, _, after) in pairwise(stamps):
        check(one < two and at < after, "later stamps are later")
    for ticks, truth, _ in stamps[-40:]:
        again = clock.nanoseconds(ticks)
        check(abs(again - truth) < 20_000, f"an old stamp is {again - truth} ns off")
    check(len(clock._matches) <= MOST_MATCHES, f"{len(clock._matches)} matches are kept")


def test_recent_stamps_read_no_clock() -> None:
    machine: Any = Machine(20.0, 4)
    clock = NvClock(machine, machine)
    before = machine.readings
    stamps = []
    for _ in range(50):
        machine.pass_ns(S // 100)
        stamps.append(machine.ticks())
    got = [clock.nanoseconds(ticks) for ticks in stamps]
    check(machine.readings == before, "it read the host's clock")
    check(got == sorted(got) and clock.nanoseconds(0) == 0)
    earlier = clock.nanoseconds(stamps[0] - 20_000_000)
    check(abs(earlier - (got[0] - 20_000_000)) < 1000, "a time before the first reading")

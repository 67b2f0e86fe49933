"""The always-on counter as the time of the host, matched by a queue that writes it.

Between two matches it is computed: both clocks are of one oscillator on these machines. After a
sleep of the GPU the counter begins again at 0: each sleep begins an era with a match of its own.
msm counts sleeps; KGSL does not, so a device over it that was idle for long may have slept.
# src: Mesa 25.0.7 tu_perfetto.cc (the counter is reset by a suspend); Linux 5.15 to 7.3
# adreno_gpu.c adreno_get_param(), MSM_PARAM_SUSPENDS; msm_gpu.h DRM_MSM_INACTIVE_PERIOD, 66 ms;
# kgsl_pwrctrl.c, idle_timer
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from drivers.base.contracts import CommandQueue, Signal
from drivers.base.deadline import Clock
from drivers.base.errors import Busy
from drivers.gpu.iface import GpuClock
from queues.qcom.chips import TICKS_HZ

NS_PER_S: Final = 1_000_000_000
MATCHES: Final = 3
"""Of which the tightest counts: the first work of a queue takes longer."""
SAME_NS: Final = 1_000_000
"""Two matches of one era differ by less."""
MOST_ERAS: Final = 64
IDLE_S: Final = 0.04
"""Shorter than a GPU over KGSL stays awake without work."""


class Match(NamedTuple):
    """Both clocks at one moment."""

    ticks: int
    host_ns: int

    def nanoseconds(self, ticks: int) -> int:
        """The host's time when the counter stood at `ticks`."""
        return self.host_ns + (ticks - self.ticks) * NS_PER_S // TICKS_HZ


class CounterClock:
    """Both clocks, era by era."""

    def __init__(self, host: Clock) -> None:
        self._host = host
        self._eras: deque[Match] = deque([Match(0, 0)], MOST_ERAS)

    def calibrate(self, ticks: int, host_s: float) -> None:
        """What a queue wrote at a moment of the host's monotonic clock."""
        made, last = Match(ticks, int(host_s * NS_PER_S)), self._eras[-1]
        if not last.host_ns:
            self._eras[-1] = made
        elif abs(last.nanoseconds(ticks) - made.host_ns) > SAME_NS:
            self._eras.append(made)

    def nanoseconds(self, ticks: int) -> int:
        """CLOCK_MONOTONIC when the counter stood at `ticks`; 0 for a time never written.

        A match comes before all other times of its era: a smaller number is of an era before, and
        so is one that would be in the future.
        """
        if not ticks:
            return 0
        if len(self._eras) > 1:
            now_ns = int(self._host.monotonic_s() * NS_PER_S) + SAME_NS
            for era in reversed(self._eras):
                if ticks >= era.ticks and era.nanoseconds(ticks) <= now_ns:
                    return era.nanoseconds(ticks)
        return self._eras[0].nanoseconds(ticks)

    def now_ticks(self) -> int:
        """The counter now, if the GPU did not sleep."""
        era = self._eras[-1]
        now_ns = int(self._host.monotonic_s() * NS_PER_S)
        return era.ticks + (now_ns - era.host_ns) * TICKS_HZ // NS_PER_S


class Stamped(Signal, Protocol):
    """A signal that shows the counter."""

    @property
    def ticks(self) -> int:
        """What a queue wrote."""

    def close(self) -> None:
        """Give its memory back."""


class Stamper(Protocol):
    """The device whose queue writes the counter."""

    def new_signal(self) -> Stamped:
        """A signal."""

    def compute_queue(self) -> CommandQueue:
        """A builder."""

    def synchronize(self) -> None:
        """Return when everything is done."""


def stamp(device: Stamper) -> int:
    """The counter, as a queue writes it now."""
    signal = device.new_signal()
    device.compute_queue().timestamp(signal).submit()
    device.synchronize()
    ticks = signal.ticks
    signal.close()
    return ticks


class Awake:
    """Whether the counter may have begun again since it was matched, and its next match."""

    def __init__(
        self, clock: GpuClock, host: Clock, sleeps: Callable[[], int | None],
        stamp: Callable[[], int], check: Callable[[], None],
    ) -> None:  # fmt: skip
        """`sleeps` counts them, where that is known; `stamp` lets a queue write the counter.

        `check` raises where the device is closed.
        """
        self._clock, self._host, self._sleeps, self._stamp = clock, host, sleeps, stamp
        self._check = check
        self._counted: int | None = None
        self._seen_s = float("-inf")
        self._matching = False

    def look(self, idle: bool) -> None:
        """Before work that writes times: match the clocks again where the GPU may have slept.

        Work that is under way keeps the GPU awake; `idle` says that there is none.
        Raises: UseAfterFree of a closed device; what a wait raises.
        """
        self._check()
        now_s, before_s = self._host.monotonic_s(), self._seen_s
        self._seen_s = now_s
        if not idle or self._matching:
            return
        count = self._sleeps()
        slept = count != self._counted if count is not None else now_s - before_s > IDLE_S
        if slept:
            with suppress(Busy):  # a signal handler inside a call may not wait: the next work does
                self.match()

    def match(self) -> None:
        """Let a queue write its time, half way between two readings of the host's clock."""
        looks: list[tuple[float, float, int]] = []
        self._matching = True
        try:
            for _ in range(MATCHES):
                before_s = self._host.monotonic_s()
                ticks = self._stamp()
                after_s = self._host.monotonic_s()
                looks.append((after_s - before_s, (before_s + after_s) / 2, ticks))
            self._counted = self._sleeps()
        finally:
            self._matching = False
        _, middle_s, ticks = min(looks)
        self._clock.calibrate(ticks, middle_s)
        self._seen_s = self._host.monotonic_s()

"""Times of an Adreno whose counter begins again after each sleep of the GPU."""

from __future__ import annotations

from typing import Any

import pytest

from drivers.base.errors import Busy
from drivers.qcom.clock import MOST_ERAS, Awake, CounterClock
from drivers.qcom.device import QcomDevice
from queues.qcom.chips import TICKS_HZ
from tests.qcom_devices import QcomMachine, opened
from tests.support import check

CHIPS = {"KGSL": "a630", "MSM": "a650"}
NEAR_NS = 500_000_000
"""Of the host's time, on a busy machine; each sleep of the GPU would add ten seconds."""
SLEEP_S = 10.0


def stamp(device: QcomDevice, how: str) -> tuple[int, int]:
    """What a queue writes now: the time, and the counter."""
    signal = device.new_signal()
    if how == "copies":
        device.copy_queue().timestamp(signal).submit()
    elif how == "signal":
        device.compute_queue().signal(signal, 1).submit()
    else:
        device.compute_queue().timestamp(signal).submit()
    device.synchronize()
    return signal.timestamp_ns, signal.ticks


@pytest.mark.parametrize("how", ["timestamp", "signal", "copies"])
@pytest.mark.parametrize("iface", CHIPS)
def test_times_after_sleeps_are_the_host_s(iface: str, how: str) -> None:
    """msm counts them, KGSL does not.

    # src: Mesa 25.0.7 tu_perfetto.cc: the GPU's time is reset by a suspend and resume
    """
    machine = QcomMachine(CHIPS[iface], iface, suspends=True)
    with opened(machine, iface) as device:
        last, smallest = 0, 1 << 62
        for _ in range(4):
            before = int(machine.monotonic_s() * 1e9)
            made, ticks = stamp(device, how)
            now = int(machine.monotonic_s() * 1e9)
            check(last < made and before - NEAR_NS < made < now + NEAR_NS, f"{now - made} ns ago")
            last, smallest = made, min(smallest, ticks)
            machine.sleep(SLEEP_S)
        check(smallest < SLEEP_S * TICKS_HZ, "the counter began again")
    check(not (found := machine.found()), str(found))


def test_a_time_of_before_the_sleep_stays() -> None:
    """It is more than the counter has had since."""
    machine = QcomMachine("a650", "MSM", suspends=True)
    with opened(machine, "MSM") as device:
        for _ in range(40):
            stamp(device, "timestamp")
            machine.sleep(0.05)
        signal = device.new_signal()
        device.compute_queue().timestamp(signal).submit()
        device.synchronize()
        before = signal.timestamp_ns
        machine.sleep(1.0)
        _, ticks = stamp(device, "timestamp")
        check(ticks < signal.ticks and signal.timestamp_ns == before, f"{before}, {ticks}")


def test_work_that_waits_is_not_waited_for() -> None:
    """The match needs an idle queue: one that waits for the host is left alone."""
    machine = QcomMachine("a650", "MSM", suspends=True)
    with opened(machine, "MSM") as device:
        first, second = device.new_signal(), device.new_signal()
        device.compute_queue().wait(first, 1).timestamp(second).submit()
        machine.sleep(1.0)
        device.compute_queue().timestamp(second).submit()
        first.set(1)
        device.synchronize()
        check(second.ticks > 0)


def test_without_a_sleep_nothing_is_matched_again() -> None:
    machine = QcomMachine("a650", "MSM")
    with opened(machine, "MSM") as device:
        matches: list[int] = []
        clock: Any = device.iface.clock
        clock.calibrate = lambda ticks, host_s: matches.append(ticks)
        for _ in range(3):
            machine.sleep(1.0)
            stamp(device, "timestamp")
        check(not matches, str(matches))


def test_eras_are_bounded() -> None:
    """The oldest one goes; a counter that only drifts against the host stays one era."""
    clock = CounterClock(QcomMachine("a650", "MSM"))
    for number in range(1, 3 * MOST_ERAS):
        clock.calibrate(1000, 10.0 * number)
    last = 10.0 * (3 * MOST_ERAS - 1)
    check(clock.nanoseconds(1000 + TICKS_HZ) == int((last + 1) * 1e9))
    check(clock.nanoseconds(0) == 0 and clock.nanoseconds(1) < clock.nanoseconds(1000))


def test_a_handler_that_may_not_wait_keeps_the_last_match() -> None:
    """Its work goes on, and the next work matches the clocks."""
    host, tries = QcomMachine("a650", "MSM"), list[int]()
    clock = CounterClock(host)

    def stamps() -> int:
        tries.append(len(tries))
        if not tries[-1]:
            raise Busy("inside of a launch", hint="wait after it")
        return TICKS_HZ

    awake = Awake(clock, host, lambda: 0, stamps, lambda: None)
    awake.look(idle=True)
    check(len(tries) == 1 and clock.nanoseconds(TICKS_HZ) == 10**9, "as it was")
    awake.look(idle=True)
    check(len(tries) > 1)

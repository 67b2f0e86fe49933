"""Signals of the CPU: they grow, wake who sleeps, tell the time, and give up in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from drivers.base.contracts import Signal
from drivers.base.errors import DeviceTimeout
from drivers.cpu import CpuDevice
from tests.cpu_harness import both, open_device
from tests.support import check


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    with open_device() as opened:
        yield opened


@both
def test_a_signal_grows_and_never_shrinks(native: bool) -> None:
    with open_device(native=native) as device:
        signal = device.new_signal(3)
        check(isinstance(signal, Signal))
        signal.set(3)
        np.testing.assert_equal((signal.value, signal.timestamp_ns), (3, 0))
        signal.set(2**64 - 1)
        np.testing.assert_equal(signal.value, 2**64 - 1)
        with pytest.raises(ValueError, match="cannot go back"):
            signal.set(4)
        device.compute_queue().signal(signal, 5).submit()
        np.testing.assert_equal(signal.value, 2**64 - 1, "a smaller SIGNAL is ignored")
        for wrong in (-1, 2**64, 1.5, None):
            with pytest.raises(ValueError, match="signal value"):
                signal.set(wrong)
            with pytest.raises(ValueError, match="signal value"):
                device.new_signal(wrong)


@both
def test_time_stamps_are_the_monotonic_clock(native: bool) -> None:
    with open_device(native=native) as device:
        first, second = device.new_signal(), device.new_signal()
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        device.compute_queue().timestamp(first).signal(second, 1).submit()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        stamps = [before, first.timestamp_ns, second.timestamp_ns, after]
        np.testing.assert_array_equal(np.sort(stamps), stamps)
        np.testing.assert_equal(first.value, 0)


@both
def test_waiting_threads_are_woken(native: bool) -> None:
    with open_device(native=native) as device:
        signal, seen = device.new_signal(), []

        def wait(value: int) -> None:
            signal.wait(value)
            seen.append((value, signal.value >= value))

        threads = [threading.Thread(target=wait, args=(value,)) for value in (1, 2, 2)]
        for thread in threads:
            thread.start()
        for value in (1, 2):
            time.sleep(0.01)
            signal.set(value)
        for thread in threads:
            thread.join(10)
        np.testing.assert_equal(sorted(seen), [(1, True), (2, True), (2, True)])
        np.testing.assert_equal(signal._words[2], 0, "nobody is counted as waiting any more")


@pytest.mark.parametrize("timeout_s", [0.0, 0.0001, 0.003, 0.06])
def test_waiting_gives_up_with_the_last_value(device: CpuDevice, timeout_s: float) -> None:
    signal = device.new_signal(6)
    signal.wait(6, timeout_s)
    with pytest.raises(DeviceTimeout) as caught:
        signal.wait(7, timeout_s)
    np.testing.assert_equal((caught.value.register, caught.value.last), ("signal", 6))

"""Times of a WebGPU device are ns on each library, finer than Dawn rounds them by itself."""

from __future__ import annotations

import time

import pytest

from drivers.webgpu.device import WebGpuDevice
from drivers.webgpu.link import Link
from tests.support import check
from tests.webgpu import LIBRARIES, webgpu

QUANTUM_NS = 1 << 16
"""# src: Dawn, QueryHelper: timestamps are rounded to multiples of 2^16 ns"""
PAUSE_NS = 50_000_000
MARKS = 12


def marked(device: WebGpuDevice) -> int:
    """The time of a mark that was waited for."""
    signal, done = device.new_signal(), device.new_signal()
    a, b = device.alloc(4096), device.alloc(4096)
    device.copy_queue().copy(a, b, 4096).timestamp(signal).signal(done, 1).submit()
    done.wait(1)
    return signal.timestamp_ns


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pause_of_the_host_is_seen_in_ns(library: str) -> None:
    """Between two marks, each waited for: no shorter than the pause, no longer than the host's."""
    with webgpu(library) as device:
        check(device.facts.times, "the adapter has timestamp-query")
        begin = time.perf_counter_ns()
        first = marked(device)
        time.sleep(PAUSE_NS / 1e9)
        last = marked(device)
        most = time.perf_counter_ns() - begin
    check(PAUSE_NS <= last - first <= most, f"{last - first} of {most} ns")


@pytest.mark.parametrize("library", LIBRARIES)
def test_times_are_not_rounded(library: str) -> None:
    with webgpu(library) as device:
        found = [marked(device) for _ in range(MARKS)]
    check(any(time_ns % QUANTUM_NS for time_ns in found), f"{found}")


@pytest.mark.parametrize("library", ["dawn", "standard"])
def test_dawn_rounds_them_unless_its_toggle_is_off(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Link, "_toggles", lambda _: None)
    with webgpu(library) as device:
        found = [marked(device) for _ in range(MARKS)]
    check(not any(time_ns % QUANTUM_NS for time_ns in found), f"{found}")

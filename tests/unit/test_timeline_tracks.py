"""A timeline's tracks: clocks, steps that never ran, and how much is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivers.base.contracts import Device
from drivers.base.errors import BadArgument, UseAfterFree
from drivers.timeline import tracer as tracing
from drivers.timeline.attach import attach
from drivers.timeline.clock import QueueClock
from tests.contract.arrays import get, put, ramp
from tests.contract.kernels import combine
from tests.contract.null_vendor.compiler import assemble
from tests.contract.null_vendor.opening import open_null
from tests.support import check

COUNT = 64
GRID = (COUNT // 32, 1, 1)


@contextmanager
def traced(path: Path) -> Iterator[Any]:
    with open_null() as device:
        attach(device, device.iface.world, str(path))
        yield device


def slices(path: Path) -> list[Any]:
    return [one for one in json.loads(path.read_text()) if one["ph"] == "X" and one["tid"] < 3]


def notes(path: Path) -> list[str]:
    return [one["name"] for one in json.loads(path.read_text()) if one["ph"] == "i"]


def operands(device: Device) -> tuple[Any, list[Any]]:
    program = device.load(assemble(combine(device.limits, COUNT), device))
    return program, [put(device, ramp(COUNT)) for _ in range(3)]


class Clock:
    """A host's clock that goes on by 10 us whenever it is read."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        self.now_s += 10e-6
        return self.now_s


class Stamp:
    """A signal, and a queue that writes a device's time into it."""

    def __init__(self, clock: Clock, ahead_ns: int) -> None:
        self._clock, self._ahead_ns, self.timestamp_ns = clock, ahead_ns, 0

    def timestamp(self, signal: Stamp) -> Stamp:
        signal.timestamp_ns = int(self._clock.now_s * 1e9) + 4000 + self._ahead_ns
        return self

    def submit(self) -> None:
        pass


@pytest.mark.parametrize("ahead_ns", [0, 7 * 10**15, -(10**10)])
def test_a_devices_clock_is_mapped_to_the_hosts(ahead_ns: int) -> None:
    clock, mapped = Clock(), QueueClock()
    stamp: Any = Stamp(clock, ahead_ns)
    world: Any = clock
    mapped.compare(world, lambda: stamp, lambda: None, stamp)
    found_ns = mapped.host_ns(int(200.0 * 1e9) + ahead_ns)
    check(abs(found_ns - 200 * 10**9) <= mapped.error_ns <= 10_001, f"{found_ns}")
    check(ahead_ns or mapped.offset_ns == 0, "one clock is not moved")


def test_a_refused_step_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with traced(path) as device:
        program, args = operands(device)
        queue = device.compute_queue()
        for wrong in ([1.5], args[:2]):
            with pytest.raises(BadArgument):
                queue.exec(program, wrong, GRID)
        queue.exec(program, args, GRID).submit()
        np.testing.assert_array_equal(get(device, args[2]), 4 * ramp(COUNT))
        args[0].free()
        with pytest.raises(UseAfterFree):
            device.launch(program, args, 2)
        device.launch(program, [args[1], args[1], args[2]], 2)
    check([one["name"] for one in slices(path)] == [program.name] * 2, f"{slices(path)}")


def test_what_waits_for_ever_gets_no_times(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with traced(path) as device:
        program, args = operands(device)
        device.launch(program, args, 2)
        device.synchronize()
        device.compute_queue().wait(device.new_signal(), 1).exec(program, args, GRID).submit()
        device.close()  # and once more behind the block
    check(len(slices(path)) == 1 and notes(path) == ["1 steps without times"], f"{notes(path)}")


def test_signals_are_kept_in_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    monkeypatch.setattr(tracing, "MOST_STAMPS", 8)
    with traced(path) as device:
        program, args = operands(device)
        gate = device.new_signal()
        device.compute_queue().wait(gate, 1).submit()
        for _ in range(20):
            device.launch(program, args, 2)
        for _ in range(20):  # built, and thrown away
            device.compute_queue().exec(program, args, GRID)
        gate.set(1)
        device.synchronize()
        for _ in range(5):
            device.launch(program, args, 2)
    check(len(slices(path)) == 13 and notes(path) == ["32 steps without times"], f"{notes(path)}")


def test_more_work_than_a_narrow_signal_counts(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with traced(path) as device:
        program, args = operands(device)
        most, rounds = (1 << device.limits.signal_bits) - 1, 5
        track = device.compute_queue()._track
        track._value = most - 2
        for _ in range(rounds):
            device.launch(program, args, 2)
        device.synchronize()
    check(len(slices(path)) == rounds and not notes(path), f"{slices(path)}")


def test_graphs_replayed_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with traced(path) as device:
        program, args = operands(device)
        graph = device.compute_queue().exec(program, args, GRID).bind()
        for _ in range(50):
            graph.replay()
        graph.close()
    check(len(slices(path)) == 50 and not notes(path), f"{len(slices(path))}, {notes(path)}")


def test_clocks_are_compared_again_where_nothing_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    monkeypatch.setattr(tracing, "COMPARE_S", -1.0)
    with traced(path) as device:
        program, args = operands(device)
        track = device.compute_queue()._track
        seen = [track.clock.read_s]
        for _ in range(3):
            device.launch(program, args, 2)
            device.synchronize()
            seen.append(track.clock.read_s)
        check(sorted(set(seen)) == seen, f"{seen}")
        waits = device.new_signal()
        device.compute_queue().wait(waits, 1).exec(program, args, GRID).submit()
        tracer = device.compute_queue()._tracer
        tracer.synchronized()
        check(track.clock.read_s == seen[-1], "not beside work")
        waits.set(1)
    check(len(slices(path)) == 4 and not notes(path), f"{slices(path)}")


def test_what_is_no_memory_is_refused_as_ever(tmp_path: Path) -> None:
    wrong: Any = [1, 2]
    with traced(tmp_path / "out.json") as device:
        _, args = operands(device)
        for call in (
            lambda: device.copy_in(args[0], wrong),
            lambda: device.copy_out(wrong, args[0]),
        ):
            with pytest.raises(BadArgument):
                call()


def test_a_replay_does_not_wait_for_ever_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    monkeypatch.setattr(tracing, "REPLAY_S", 0.01)
    with traced(path) as device:
        program, args = operands(device)
        gate = device.new_signal()
        graph = device.compute_queue().exec(program, args, GRID).bind()
        device.compute_queue().wait(gate, 1).submit()
        for _ in range(2):
            graph.replay()
        gate.set(1)
        device.synchronize()
    check(len(slices(path)) == 1 and notes(path) == ["1 steps without times"], f"{notes(path)}")


def test_events_are_written_without_a_synchronize(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    monkeypatch.setattr(tracing, "FLUSH_S", -1.0)
    with traced(path) as device:
        program, args = operands(device)
        for number in range(3):
            device.launch(program, args, 2)
            check(len(slices(path)) == number + 1, f"{slices(path)}")

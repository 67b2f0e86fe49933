"""The CPU's command queue: order, copies, waiting, refusals, and both command processors alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.base.contracts import Param
from drivers.base.errors import BadArgument, Hang, MalformedInput, Unsupported, UseAfterFree
from drivers.cpu import CpuDevice
from queues.cpu import packets
from tests.cpu_harness import both, int64s, kernel, open_device, read
from tests.support import check


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    with open_device() as opened:
        yield opened


@both
def test_a_list_runs_in_order(native: bool) -> None:
    with open_device(native=native) as device:
        bump, ramp = device.load(kernel("bump")), device.load(kernel("ramp"))
        a, b, c = (int64s(device, np.full(8, value)) for value in (1, 10, 100))
        queue = device.compute_queue()
        queue.exec(bump, (a, 5), (8, 1, 1)).copy(b, a, 32).barrier()
        queue.exec(ramp, (c, 2, b), (8, 1, 1)).submit()
        expected_b = np.array([6] * 4 + [10] * 4)
        np.testing.assert_array_equal(read(b), expected_b)
        np.testing.assert_array_equal(read(c), np.arange(8) * 2 + expected_b)
        queue.submit()
        np.testing.assert_array_equal(read(a), np.full(8, 6), "a builder is empty after submit")


@both
def test_work_that_waits_goes_on_in_order(native: bool) -> None:
    with open_device(native=native) as device:
        bump, ramp = device.load(kernel("bump")), device.load(kernel("ramp"))
        gate, done = device.new_signal(), device.new_signal()
        a = int64s(device, np.zeros(4))
        device.compute_queue().exec(bump, (a, 1), (4, 1, 1)).wait(gate, 3).exec(
            ramp, (a, 10, a), (4, 1, 1)
        ).submit()
        np.testing.assert_array_equal(read(a), np.ones(4), "up to the WAIT it ran at once")
        device.launch(bump, (a, 100), 4)
        device.compute_queue().exec(bump, (a, 1000), (4, 1, 1)).signal(done, 1).submit()
        gate.set(2)
        np.testing.assert_array_equal(read(a), np.ones(4), "still closed")
        gate.set(3)
        done.wait(1)
        np.testing.assert_array_equal(read(a), np.arange(4) * 10 + 1101)
        device.synchronize()
        device.launch(bump, (a, 1), 4)
        np.testing.assert_array_equal(read(a), np.arange(4) * 10 + 1102)


def test_two_rings_wait_for_each_other(device: CpuDevice) -> None:
    bump = device.load(kernel("bump"))
    ready, copied = device.new_signal(), device.new_signal()
    a, b = int64s(device, [1, 2]), int64s(device, [0, 0])
    device.copy_queue().wait(ready, 1).copy(b, a, 16).signal(copied, 1).submit()
    device.compute_queue().wait(copied, 1).exec(bump, (b, 1), (2, 1, 1)).submit()
    np.testing.assert_array_equal(read(b), [0, 0])
    ready.set(1)
    device.synchronize()
    np.testing.assert_array_equal(read(b), [2, 3])


def test_a_queue_that_waits_for_nothing_is_a_hang(device: CpuDevice) -> None:
    gate, out = device.new_signal(4), device.new_signal()
    device.compute_queue().wait(gate, 77).signal(out, 1).submit()
    for wait in (lambda: out.wait(1, timeout_s=0.02), lambda: device.synchronize(0.02)):
        with pytest.raises(Hang) as caught:
            wait()
        np.testing.assert_equal(caught.value.queue, "CPU:0 compute")
        check("WAIT" in caught.value.dump)
        check(f"value={77:#x}" in caught.value.dump)
    gate.set(77)
    out.wait(1)


def test_a_device_closes_with_parked_work() -> None:
    device = open_device()
    gate, out = device.new_signal(), int64s(device, [0])
    view = out.view()
    device.compute_queue().wait(gate, 1).exec(device.load(kernel("bump")), (out, 1)).submit()
    device.close()
    np.testing.assert_array_equal(np.frombuffer(view, np.int64), [0])


def test_freed_while_parked_is_not_reused(device: CpuDevice) -> None:
    bump, gate = device.load(kernel("bump")), device.new_signal()
    out = int64s(device, [5])
    view, va = out.view(), out.gpu_va
    device.compute_queue().wait(gate, 1).exec(bump, (out, 1)).submit()
    out.free()
    bump.close()
    others = [device.alloc(8) for _ in range(20)]
    check(all(other.gpu_va != va for other in others), "not handed out while work may write it")
    gate.set(1)
    device.synchronize()
    np.testing.assert_array_equal(np.frombuffer(view, np.int64), [6])
    check(any(device.alloc(8).gpu_va == va for _ in range(1)), "handed out again afterwards")


def test_what_cannot_be_queued(device: CpuDevice) -> None:
    bump, out, big = device.load(kernel("bump")), device.alloc(8), device.alloc(64)
    signal, dead, dead_signal = device.new_signal(), device.alloc(8), device.new_signal()
    dead.free()
    dead_signal.close()
    queue = device.compute_queue()
    with open_device() as other:
        foreign, foreign_signal = other.alloc(64), other.new_signal()
        refused: list[tuple[type[Exception], Callable[[], object]]] = [
            (BadArgument, lambda: queue.exec(bump, (out, 1), (0, 1, 1))),
            (BadArgument, lambda: queue.exec(bump, (out, 1), (1, 2, 1))),
            (BadArgument, lambda: queue.exec(bump, (out, 1), (1, 1, 1), (32, 1, 1))),
            (BadArgument, lambda: queue.exec(bump, (out, "x"))),
            (BadArgument, lambda: queue.exec(bump, [0] * 5000)),
            (BadArgument, lambda: queue.exec(bump, (foreign, 1))),
            (BadArgument, lambda: queue.exec(bump, (Param(-1), 1))),
            (BadArgument, lambda: queue.exec(out, (out, 1))),
            (UseAfterFree, lambda: queue.exec(bump, (dead, 1))),
            (BadArgument, lambda: queue.copy(out, big, 9)),
            (BadArgument, lambda: queue.copy(big, out, 9)),
            (BadArgument, lambda: queue.copy(big, foreign, 8)),
            (BadArgument, lambda: queue.copy(big, 5, 8)),
            (BadArgument, lambda: queue.copy(big, out, -1)),
            (UseAfterFree, lambda: queue.copy(dead, big, 8)),
            (BadArgument, lambda: queue.wait(signal, -1)),
            (BadArgument, lambda: queue.signal(signal, 2**64)),
            (BadArgument, lambda: queue.signal(foreign_signal, 1)),
            (UseAfterFree, lambda: queue.timestamp(dead_signal)),
            (Unsupported, lambda: device.copy_queue().exec(bump, (out, 1))),
            (BadArgument, lambda: device.compute_queue().exec(bump, (Param(0), 1)).submit()),
        ]
        for error, call in refused:
            with pytest.raises(error):
                call()
    queue.submit()


def test_a_list_longer_than_the_ring(device: CpuDevice) -> None:
    bump, out = device.load(kernel("bump")), int64s(device, [0])
    queue = device.compute_queue()
    for _ in range(5000):
        queue.exec(bump, (out, 1))
    queue.submit()
    np.testing.assert_array_equal(read(out), [5000])


@both
def test_a_broken_packet_is_a_fault_once(native: bool) -> None:
    with open_device(native=native) as device:
        out = int64s(device, [0])
        with device._compute.lock:
            device._compute.submit([0x63 | 1 << 32], ())  # nothing public makes such a word
        with pytest.raises(MalformedInput, match="unknown opcode 99"):
            device.synchronize()
        device.launch(device.load(kernel("bump")), (out, 1), 1)
        device.synchronize()
        np.testing.assert_array_equal(read(out), [1])


@both
@pytest.mark.parametrize("header", [packets.BARRIER | 2 << 32, packets.BARRIER])
def test_a_packet_that_ends_after_its_list_does_not_run(native: bool, header: int) -> None:
    with open_device(native=native) as device:
        with device._compute.lock:
            device._compute.submit([header], ())  # nothing public makes such a word
        with pytest.raises(MalformedInput, match="words"):
            device.synchronize()


STEP = st.one_of(
    st.tuples(st.just("bump"), st.integers(0, 3), st.integers(-(2**40), 2**40)),
    st.tuples(st.just("copy"), st.integers(0, 3), st.integers(0, 3), st.integers(0, 64)),
    st.tuples(st.just("signal"), st.integers(1, 2**64 - 1)),
)


@settings(max_examples=60)
@given(st.lists(STEP, max_size=12))
def test_both_command_processors_agree_with_numpy(steps: list[tuple]) -> None:
    model = [np.arange(8, dtype=np.int64) * (i + 1) for i in range(4)]
    signal_value = 0
    for step in steps:
        if step[0] == "bump":
            model[step[1]] += step[2]
        elif step[0] == "copy":
            whole = model[step[1]].tobytes()
            moved = model[step[2]].tobytes()[: step[3]] + whole[step[3] :]
            model[step[1]] = np.frombuffer(moved, np.int64).copy()
        else:
            signal_value = max(signal_value, step[1])
    for device in _DEVICES:
        bump, signal = device.load(kernel("bump")), device.new_signal()
        buffers = [int64s(device, np.arange(8) * (i + 1)) for i in range(4)]
        queue = device.compute_queue()
        for step in steps:
            if step[0] == "bump":
                queue.exec(bump, (buffers[step[1]], step[2]), (8, 1, 1))
            elif step[0] == "copy":
                queue.copy(buffers[step[1]], buffers[step[2]], step[3])
            else:
                queue.signal(signal, step[1])
        queue.submit()
        for buffer, expected in zip(buffers, model, strict=True):
            np.testing.assert_array_equal(read(buffer), expected)
        np.testing.assert_equal(signal.value, signal_value)


_DEVICES: list[CpuDevice] = []


@pytest.fixture(scope="module", autouse=True)
def _devices() -> Iterator[None]:
    _DEVICES.extend([open_device(native=True), open_device(native=False)])
    yield
    for device in _DEVICES:
        device.close()
    _DEVICES.clear()

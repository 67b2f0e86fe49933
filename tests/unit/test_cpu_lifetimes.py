"""What is freed, closed or forked while other threads use it: the CPU device stays whole."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from drivers.base.contracts import Param
from drivers.base.errors import BadArgument, Hang, UseAfterFree
from drivers.cpu import CpuDevice
from tests.cpu_harness import both, int64s, kernel, open_device, read
from tests.support import check
from tests.switching import switching_often

LONG_S = 30.0


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    with open_device() as opened:
        yield opened


def until(ready: Callable[[], bool]) -> None:
    """Wait for another thread."""
    deadline_s = time.monotonic() + LONG_S
    while not ready() and time.monotonic() < deadline_s:
        time.sleep(0.001)
    check(ready(), "the other thread did not get there")


@pytest.mark.parametrize("what", ["buffer", "program", "signal"])
def test_freed_between_adding_and_submitting(device: CpuDevice, what: str) -> None:
    bump, out, done = device.load(kernel("bump")), int64s(device, [0] * 8), device.new_signal()
    view = out.view()
    queue = device.compute_queue().exec(bump, (out, 1), (8, 1, 1)).signal(done, 1)
    {"buffer": out.free, "program": bump.close, "signal": done.close}[what]()
    with pytest.raises(UseAfterFree):
        queue.submit()
    np.testing.assert_array_equal(np.frombuffer(view, np.int64), np.zeros(8))


def test_a_refused_packet_leaves_nothing_behind(device: CpuDevice) -> None:
    bump, out = device.load(kernel("bump")), int64s(device, [0])
    queue = device.compute_queue()
    with pytest.raises(BadArgument):
        queue.exec(bump, (Param(0), "x"))
    with pytest.raises(BadArgument):
        queue.copy(Param(0), 5, 8)
    graph = queue.exec(bump, (out, 1)).bind()
    graph.replay()
    np.testing.assert_array_equal(read(out), [1])


def test_a_graph_without_its_values_does_not_run(device: CpuDevice) -> None:
    bump, out = device.load(kernel("bump")), int64s(device, [0])
    graph = device.compute_queue().exec(bump, (out, Param(0))).bind()
    for _ in range(2):
        with pytest.raises(BadArgument):
            graph.replay(None)
        with pytest.raises(BadArgument):
            graph.replay(("x",))
    np.testing.assert_array_equal(read(out), [0])
    graph.replay((4,))
    np.testing.assert_array_equal(read(out), [4])


@both
def test_more_arguments_than_a_packet_holds(native: bool) -> None:
    with open_device(native=native) as device:
        bump, out = device.load(kernel("bump")), int64s(device, [0])
        with pytest.raises(BadArgument, match="5001 arguments"):
            device.launch(bump, (out, *[1] * 5000), 1)
        device.launch(bump, (out, *[1] * 4000), 1)
        np.testing.assert_array_equal(read(out), [1])


def test_freed_while_another_thread_runs_it(device: CpuDevice) -> None:
    slow, out = device.load(kernel("slow")), int64s(device, [0] * 8)
    va = out.gpu_va
    device.launch(slow, (out, 10), 8)
    runner = threading.Thread(target=device.launch, args=(slow, (out, 30_000_000), 8))
    runner.start()
    until(lambda: device._compute.depth > 0)
    out.free()
    others = [device.alloc(64) for _ in range(8)]
    check(runner.is_alive(), "the kernel is too fast for this test")
    check(all(other.gpu_va != va for other in others), "not handed out while a thread writes it")
    runner.join(LONG_S)
    np.testing.assert_equal(device.alloc(64).gpu_va, va, "handed out again afterwards")


def test_a_signal_closed_under_a_waiting_thread(device: CpuDevice) -> None:
    gate = device.new_signal()
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            gate.wait(1, LONG_S)
        except UseAfterFree as error:
            caught.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: gate._words[2] > 0)
    gate.close()
    others = [int64s(device, [-1] * 8) for _ in range(4)]
    waiter.join(LONG_S)
    np.testing.assert_equal(len(caught), 1, "told, and long before the time-out")
    for other in others:
        np.testing.assert_array_equal(read(other), [-1] * 8)


def test_many_threads_free(device: CpuDevice) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(2000):
                device.alloc(64)
        except Exception as error:
            failures.append(error)

    before = device.memory_stats().live
    threads = [threading.Thread(target=work) for _ in range(4)]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
    np.testing.assert_equal(failures, [])
    np.testing.assert_equal(device.memory_stats().live, before)


def test_nothing_is_parked_while_threads_change(device: CpuDevice) -> None:
    gate = device.new_signal()
    with device._compute.quiet(1.0):
        submit = device.compute_queue().wait(gate, 1).submit
        parker = threading.Thread(target=submit)
        parker.start()
        parker.join(0.05)
        check(device.idle, "the ring is held")
    parker.join(LONG_S)
    check(not device.idle, "now it is parked")
    with pytest.raises(Hang), device._compute.quiet(0.01):
        pass
    gate.set(1)


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e12])
def test_waiting_for_ever(device: CpuDevice, timeout_s: float) -> None:
    gate = device.new_signal()
    device.compute_queue().wait(gate, 1).submit()
    timer = threading.Timer(0.02, gate.set, (1,))
    timer.start()
    device.synchronize(timeout_s)
    gate.wait(1, timeout_s)  # a limit that was misread would raise DeviceTimeout
    check(gate.value >= 1, "it returned before the timer")
    timer.join(LONG_S)


def test_a_child_does_not_wait_for_locks_of_its_parents_threads(device: CpuDevice) -> None:
    gate = device.new_signal()
    with device.heap.allocator._lock, device._compute.lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            device.alloc(64)
            gate.set(1)
            os._exit(0)
    _, status = os.waitpid(child, 0)
    np.testing.assert_equal(os.waitstatus_to_exitcode(status), 0)

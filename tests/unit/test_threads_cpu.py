"""Worker threads of the CPU: every item once, scratch of one's own, exit, fork, many submitters."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from drivers.base.errors import BadArgument, DeviceFault
from drivers.cpu import CpuDevice
from tests.cpu_harness import int64s, kernel, open_device, read
from tests.support import check, run_limited

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize(
    ("grid", "chunk"), [(2, 0), (63, 0), (64, 0), (1000, 0), (1000, 1), (1000, 7), (9, 100)]
)
def test_every_item_is_computed_once(threads: int, grid: int, chunk: int) -> None:
    with open_device(threads) as device:
        slow = device.load(kernel("slow", chunk_items=chunk))
        out = int64s(device, np.zeros(grid))
        for _ in range(20):
            device.launch(slow, (out, 300), grid)
        np.testing.assert_array_equal(read(out), np.full(grid, 20))


def test_workers_take_part_and_have_scratch_of_their_own() -> None:
    size, grid = 3 << 20, 64
    with open_device(3) as device:
        program = device.load(kernel("scratch", scratch_bytes=size))
        seen: set[int] = set()
        for _ in range(50):
            out = int64s(device, np.zeros(grid))
            device.launch(program, (out, size), grid)
            seen |= set(read(out).tolist())
            if len(seen) > 1:
                break
        starts = np.array(sorted(seen))
        check(len(starts) > 1, "more than one worker took part")
        np.testing.assert_array_equal(starts % 64, 0)
        np.testing.assert_array_less(size - 1, np.diff(starts))


def test_the_number_of_threads_changes_between_kernels() -> None:
    with open_device(1) as device:
        slow, out = device.load(kernel("slow", chunk_items=1)), int64s(device, np.zeros(50))
        before = threading.active_count()
        for count in (4, 2, 1, 3):
            device.set_threads(count)
            np.testing.assert_equal(device.threads, count)
            np.testing.assert_equal(threading.active_count() - before, count - 1)
            device.launch(slow, (out, 100), 50)
        np.testing.assert_array_equal(read(out), np.full(50, 4))
        for wrong in (0, -1, 1.5, 10**6):
            with pytest.raises(BadArgument):
                device.set_threads(wrong)
        np.testing.assert_equal(device.threads, 3)
    np.testing.assert_equal(threading.active_count(), before)


def test_many_threads_submit_to_one_device() -> None:
    with open_device(2) as device:
        slow, graph_out = device.load(kernel("slow", chunk_items=1)), int64s(device, [0] * 8)
        graph = device.compute_queue().exec(slow, (graph_out, 50), (8, 1, 1)).bind()
        outs = [int64s(device, np.zeros(8)) for _ in range(4)]

        def work(index: int) -> None:
            for _ in range(100):
                device.launch(slow, (outs[index], 50), 8)
                graph.replay()

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for out in outs:
            np.testing.assert_array_equal(read(out), np.full(8, 100))
        np.testing.assert_array_equal(read(graph_out), np.full(8, 400))


def engine_fails(device: CpuDevice, entered: threading.Event, go_on: threading.Event) -> None:
    """From now on the thread of the compute ring raises what no driver raises on purpose."""
    ring = device._compute
    run = ring.run

    def broken(state_va: int, words_va: int, count: int) -> int:
        if threading.current_thread().name.startswith("unbound"):
            entered.set()
            go_on.wait(60)
            raise ArithmeticError("of no driver")
        return run(state_va, words_va, count)

    ring.run = broken


def test_an_engine_thread_outlives_an_error_of_any_kind() -> None:
    with open_device() as device:
        slow, out = device.load(kernel("slow")), int64s(device, np.zeros(8))
        gate = device.new_signal()
        ring = device._compute
        run = ring.run
        device.compute_queue().wait(gate, 1).exec(slow, (out, 50), (8, 1, 1)).submit()
        go_on = threading.Event()
        engine_fails(device, threading.Event(), go_on)
        go_on.set()
        gate.set(1)
        with pytest.raises(DeviceFault, match="of no driver") as caught:
            device.synchronize()
        np.testing.assert_equal(
            (caught.value.kind, type(caught.value.__cause__)), ("engine", ArithmeticError)
        )
        ring.run = run
        done = device.new_signal()
        device.compute_queue().wait(gate, 1).exec(slow, (out, 50), (8, 1, 1)).submit()
        device.compute_queue().wait(gate, 2).signal(done, 1).submit()
        gate.set(2)
        done.wait(1, 60)
        np.testing.assert_array_equal(read(out), np.full(8, 1))


def test_every_caller_is_told_of_his_own_work() -> None:
    """One thread's kernel fails in the engine; another one's behind it is dropped."""
    with open_device() as device:
        slow, out = device.load(kernel("slow", long=1)), int64s(device, np.zeros(8))
        entered, go_on = threading.Event(), threading.Event()
        engine_fails(device, entered, go_on)
        met: dict[str, DeviceFault] = {}

        def work(name: str) -> None:
            try:
                device.launch(slow, (out, 50), 8)
            except DeviceFault as fault:
                met[name] = fault

        threads = [threading.Thread(target=work, args=(name,)) for name in ("first", "second")]
        threads[0].start()
        check(entered.wait(60), "the engine is at the first kernel")
        threads[1].start()
        ring, until_s = device._compute, time.monotonic() + 60
        while len(ring.pending) < 2 and time.monotonic() < until_s:
            time.sleep(0.001)
        go_on.set()
        for thread in threads:
            thread.join(60)
        kinds = {name: fault.kind for name, fault in met.items()}
        np.testing.assert_equal(kinds, {"first": "engine", "second": "dropped"})
        check(met["second"].__cause__ is met["first"], "what it was dropped for")
        device.synchronize()  # both were told


def test_a_child_after_fork_computes_and_exits() -> None:
    with open_device(3) as device:
        slow, out = device.load(kernel("slow", chunk_items=1)), int64s(device, np.zeros(40))
        gate = device.new_signal()
        device.launch(slow, (out, 100), 40)
        device.compute_queue().wait(gate, 1).submit()
        child = os.fork()
        if child == 0:
            device.launch(slow, (out, 100), 40)
            device.set_threads(2)
            device.launch(slow, (out, 100), 40)
            right = np.array_equal(read(out), np.full(40, 3))
            device.close()
            os._exit(0 if right else 1)
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.01)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
        np.testing.assert_equal((done, os.waitstatus_to_exitcode(status)), (child, 0))
        gate.set(1)
        device.launch(slow, (out, 100), 40)
        device.synchronize()
        np.testing.assert_array_equal(read(out), np.full(40, 2))


def test_a_device_that_is_never_closed_does_not_keep_the_interpreter() -> None:
    program = """
from tests.cpu_harness import int64s, kernel, open_device
device = open_device(3)
out = int64s(device, [0] * 64)
device.launch(device.load(kernel("slow", chunk_items=1)), (out, 100), 64)
device.compute_queue().wait(device.new_signal(), 1).submit()
print("end")
"""
    done = run_limited(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, cpu_s=60
    )
    np.testing.assert_equal((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))

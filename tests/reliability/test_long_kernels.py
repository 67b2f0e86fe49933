"""Kernels that take long: signals are handled meanwhile, and what a handler raises stops them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tensor as xp
from compilers.cpu import clang
from compilers.lower import pace
from drivers.base.errors import NotFound, UseAfterFree
from drivers.cpu import CpuDevice
from drivers.cpu.ring import Parked
from queues.cpu import packets
from tensor import engine
from tensor.executable import Runtime
from tests.cpu_harness import both, int64s, kernel, open_device, read
from tests.support import check, run_limited

MANY = 1 << 44
"""Work items of a microsecond each."""
SCENE_S = 60

# In a process of its own: where nothing stops the kernel, only SIGKILL ends it.
HEAD = """
import signal, sys, threading, time
import numpy as np
import tensor as xp

numbers = np.arange(1000, dtype=np.float32)
x = xp.asarray(numbers)
handled = []

def works():
    for n in range(3):
        if not np.array_equal((x * 3 + n).numpy(), numbers * 3 + n):
            return False
    return True

def raises(number, frame):
    # What a finaliser of the compiler's is at may swallow it: then it comes once more.
    signal.setitimer(signal.ITIMER_REAL, 5)
    handled.append(number)
    raise TimeoutError

def computes(number, frame):
    handled.append(works())

def interrupted(work):
    signal.signal(signal.SIGALRM, raises)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        work()
    except TimeoutError:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return True
    return False

works()
"""
EAGER = "print([interrupted(lambda: xp.sum(xp.arange(10**18)).realize()), works()])"
FUSED = """
def work():
    wide = xp.reshape(xp.arange(10**12), (10**6, 10**6)) * 1.5
    xp.sum(xp.sin(wide), axis=0).realize()

print([interrupted(work), works()])
"""
REPLAYED = """
@xp.jit
def f(a):
    return xp.sum(xp.arange(10**18) + xp.astype(a[0], xp.int64)) + a

print([interrupted(lambda: f(x)), interrupted(lambda: f(x)), works()])
"""
AGAIN = """
print([interrupted(lambda: xp.sum(xp.arange(10**18)).realize()) for _ in range(4)] + [works()])
"""
HANDLER = """
rows = xp.asarray(np.ones((1500, 1500), np.float32))
(rows @ rows).realize()
signal.signal(signal.SIGALRM, computes)
right = []
for _ in range(12):
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    right.append(float((rows @ rows)[7, 9].numpy()) == 1500.0)
signal.setitimer(signal.ITIMER_REAL, 0)
print([all(right), all(handled), len(handled) > 2])
"""
BESIDE = """
other = threading.Thread(target=lambda: right.append(works()))
right = []
signal.signal(signal.SIGALRM, raises)

def work():
    other.start()
    xp.sum(xp.arange(10**18)).realize()

print([interrupted(work), other.join() or right, works()])
"""
LEFT_BY = """
from contextlib import suppress

def work():
    with suppress(Exception):  # a daemon thread that prints while Python ends is fatal by itself
        xp.sum(xp.arange(10**18)).realize()

threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print([True])
"""

# A trace function, as a handler would, computes at every line that holds a ring's lock.
INSIDE = """
from drivers.cpu.device import CpuDevice
from drivers.cpu.ring import CpuRing
from queues.cpu.queue import CpuCommands
from queues.cpu.graph import CpuGraph
from tensor import engine

places = {
    part.__code__ for part in (
        CpuDevice.launch, CpuRing.submit, CpuRing.doorbell, CpuRing.background, CpuRing._park,
        CpuCommands.run, CpuGraph.replay, CpuGraph._patch,
    )
}
rows = xp.asarray(np.ones((700, 700), np.float32))
jitted = xp.jit(lambda a, b: a * 3 + b)
inputs = [xp.asarray(numbers + n) for n in range(5)]
device = engine.device("CPU")
moved = device.alloc(numbers.nbytes)

def computed(n):
    eager = (inputs[n] * 3 + 1).numpy()
    replayed = jitted(inputs[n], inputs[n + 1]).numpy()
    device.compute_queue().copy(moved, inputs[n]._node.storage.buffer, numbers.nbytes).submit()
    return (
        np.array_equal(eager, (numbers + n) * 3 + 1)
        and np.array_equal(replayed, (numbers + n) * 3 + numbers + n + 1)
        and float((rows @ rows)[7, 9].numpy()) == 700.0
    )

def interrupted_at(place, right):
    seen = 0
    def trace(frame, event, argument):
        nonlocal seen
        if frame.f_code not in places:
            return None
        if event == "line":
            if seen == place:
                sys.settrace(None)
                right.append(computed(3))
            seen += 1
        return trace
    sys.settrace(trace)
    right.append(computed(0))
    sys.settrace(None)
    return seen <= place

computed(1), computed(3)
place, ended, right = 0, False, []
while not ended:
    computed(2)
    ended = interrupted_at(place, right)
    place += 1
print([all(right), place > 50, device.idle])
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "scene", [EAGER, FUSED, REPLAYED, AGAIN, HANDLER, BESIDE, LEFT_BY, INSIDE],
    ids=["eager", "fused", "replayed", "again", "handler", "beside", "left-by", "inside"],
)  # fmt: skip
def test_a_scene(scene: str, threads: int) -> None:
    done = run_limited(
        [sys.executable, "-c", HEAD + scene],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "DEV": "CPU", "CPU_THREADS": str(threads)},
        capture_output=True,
        text=True,
        cpu_s=SCENE_S,
        check=False,
    )
    check(done.returncode == 0 and "True" in done.stdout, done.stdout + done.stderr)
    check("False" not in done.stdout, done.stdout)


def at_work(device: CpuDevice) -> bool:
    """Wait until the engine runs a kernel; whether it does."""
    deadline_s = time.monotonic() + SCENE_S
    while time.monotonic() < deadline_s:
        if any(parked.running for parked in list(device._compute.pending)):
            return True
        time.sleep(0.001)
    return False


@pytest.mark.parametrize("threads", [1, 3])
def test_a_grid_of_many_parts_is_left_when_the_device_closes(threads: int) -> None:
    device = open_device(threads)
    spin, out = device.load(kernel("spin", chunk_items=8, long=True)), device.alloc(8)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            device.launch(spin, (out, 1000), MANY)
        except UseAfterFree as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    check(at_work(device), "the kernel did not start")
    device.close()
    thread.join(SCENE_S)
    check(len(errors) == 1, f"{errors}")


@pytest.mark.parametrize("moves", [True, False])
def test_work_between_two_packets_is_progress(moves: bool) -> None:
    """The engine is in no packet each time it is looked at, for it has just done one, or none."""
    with open_device(native=False) as device:
        ring = device._compute
        parked = Parked(device.alloc(8), memoryview(b""), {})
        looks: list[int] = []

        class Changed:
            def wait_for(self, done: Callable[[], bool], longest_s: float) -> bool:
                looks.append(parked.at)
                parked.at += moves
                if len(looks) == 4:
                    ring.pending.clear()
                return done()

        ring.pending.append(parked)
        real, ring._changed = ring._changed, Changed()
        found = ring._drained(1.0)
        ring._changed = real
        ring.pending.clear()
        check(found is moves, f"{looks}")


@both
def test_the_processor_stops_in_front_of_hold(native: bool) -> None:
    with open_device(2, native=native) as device:
        bump, out = device.load(kernel("bump")), int64s(device, np.zeros(8))
        run = packets.exec_packet(entry=bump.gpu_va, grid=8, args=[out.gpu_va, 5])
        held = packets.exec_packet(
            entry=bump.gpu_va, grid=8, chunk=packets.HOLD | 3, args=[out.gpu_va, 5]
        )
        words = int64s(device, np.array([*run, *held, *run], np.uint64).view(np.int64))
        done = device._run(device._state_va, words.gpu_va, 3 * len(run))
        np.testing.assert_equal(done, len(run))
        np.testing.assert_array_equal(read(out), np.full(8, 5))


@both
def test_work_that_takes_long_is_done_when_launch_returns(native: bool) -> None:
    with open_device(2, native=native) as device:
        bump = device.load(kernel("bump", chunk_items=3, long=True))
        out, gate = int64s(device, np.zeros(64)), device.new_signal()
        device.launch(bump, (out, 1), 64)
        np.testing.assert_array_equal(read(out), np.full(64, 1))
        queue = device.compute_queue()
        queue.exec(bump, [out, 2], (64, 1, 1)).exec(bump, [out, 3], (64, 1, 1)).submit()
        np.testing.assert_array_equal(read(out), np.full(64, 6))
        graph = device.compute_queue().exec(bump, [out, 4], (64, 1, 1)).bind()
        graph.replay()
        np.testing.assert_array_equal(read(out), np.full(64, 10))
        device.compute_queue().wait(gate, 1).exec(bump, [out, 5], (64, 1, 1)).submit()
        device.launch(bump, (out, 6), 64)  # lines up behind what waits
        np.testing.assert_array_equal(read(out), np.full(64, 10))
        gate.set(1)
        device.synchronize()
        np.testing.assert_array_equal(read(out), np.full(64, 21))


def compiled(monkeypatch: pytest.MonkeyPatch, name: str) -> Runtime:
    """The CPU with every kernel compiled as one that takes long, and looks often."""
    monkeypatch.setattr(pace, "LONG", 1)
    monkeypatch.setattr(pace, "POLL", 24)
    monkeypatch.setattr(pace, "CHUNK", 100)
    run = engine.runtime("CPU")
    monkeypatch.setattr(run, "executables", {})
    monkeypatch.setattr(run, "compiler", name)
    return run


@pytest.mark.parametrize("compiler", ["LLVM", "CLANG"])
def test_kernels_that_look_compute_the_same(monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    if compiler == "CLANG":
        try:
            clang.find()
        except NotFound as error:
            pytest.skip(str(error))
    run = compiled(monkeypatch, compiler)
    rng = np.random.default_rng(5)
    a, b = rng.random((37, 67), dtype=np.float32), rng.random((67, 41), dtype=np.float32)
    x, y = xp.asarray(a), xp.asarray(b)
    wide = np.arange(10007, dtype=np.int64)
    for got, expected in (
        (x @ y, a @ b),
        (xp.sum(x, axis=0), a.sum(0)),
        (xp.cumulative_sum(xp.asarray(wide)), wide.cumsum()),
        (xp.sum(xp.asarray(wide) * 3), wide.sum() * 3),
        (xp.sort(y, axis=0), np.sort(b, axis=0)),
        (xp.max(xp.exp(x), axis=1), np.exp(a).max(1)),
    ):
        np.testing.assert_allclose(got.numpy(), expected, rtol=2e-5)
    launches = [launch for made in run.executables.values() for launch in made.launches]
    check(all(launch.program.chunk & packets.HOLD for launch in launches), "not compiled as long")

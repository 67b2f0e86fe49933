"""No wait sleeps past what it waits for: an interrupt was asked for. No real time passes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from boards.amd.kfd.world import BoardWorld
from drivers.amd import aql_ring, queue_maker
from drivers.amd.device import AmdDevice
from drivers.base.contracts import Param
from drivers.gpu.ring import Ring, Waited
from queues.amd.aql_launch import PACKET_BYTES
from tests.boards.driver_harness import add, get, put
from tests.boards.slow_engines import Pace, slow_device
from tests.support import check

N = 64
WORK_S = 2.0
"""Of a kernel or a copy: much longer than all that the host does beside it."""
KINDS = pytest.mark.parametrize(
    ("chip", "queue"),
    [("gfx1100", "PM4"), ("gfx1100", "AQL"), ("gfx942", "PM4"), ("gfx942", "AQL")],
)


class Waits:
    """What was slept past: names of rings whose waits a time-out ended although all was there."""

    def __init__(self, board: BoardWorld) -> None:
        if board.process is None:
            raise AssertionError("the board has no process")
        self.events, self.past = board.process.events, list[str]()
        self.before = self.events.slept

    @property
    def slept(self) -> int:
        return self.events.slept - self.before


@contextmanager
def watched(board: BoardWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waits]:
    """Looks after every sleep of a ring's wait."""
    waits, real = Waits(board), Ring.wait_for

    def wait_for(
        ring: Ring,
        reached: Callable[[], bool],
        timeout_s: float,
        steps: Callable[[], object] | None = None,
        mark: int = 0,
    ) -> Waited:
        timed_out = waits.events.timed_out

        def looked() -> bool:
            nonlocal timed_out
            there, now = reached(), waits.events.timed_out
            if there and now != timed_out:
                waits.past.append(ring.name)
            timed_out = now
            return there

        return real(ring, looked, timeout_s, steps, mark)

    with monkeypatch.context() as patch:
        patch.setattr(Ring, "wait_for", wait_for)
        yield waits


def synchronizes(device: AmdDevice) -> None:
    program, x = device.load(add(device.arch)), put(device, np.ones(N, np.float32))
    y = put(device, np.zeros(N, np.float32))
    for _ in range(3):
        device.launch(program, [x, y, y, N], 1)
    device.synchronize()
    np.testing.assert_array_equal(get(device, y), np.full(N, 3, np.float32))


def copies(device: AmdDevice) -> None:
    values = np.arange(1 << 18, dtype=np.float32)
    np.testing.assert_array_equal(get(device, put(device, values)), values)


def copy_queue(device: AmdDevice) -> None:
    x, y, done = put(device, np.ones(N, np.float32)), device.alloc(4 * N), device.new_signal()
    device.copy_queue().copy(y, x, 4 * N).signal(done, 1).submit()
    done.wait(1)
    device.copy_queue().copy(x, y, 4 * N).submit()
    device.synchronize()


def replays(device: AmdDevice) -> None:
    program, x = device.load(add(device.arch)), put(device, np.ones(N, np.float32))
    graph = device.compute_queue().exec(program, [x, x, Param(0), N]).bind()
    results = [device.alloc(4 * N) for _ in range(12)]
    for result in results:
        graph.replay([result])
    for result in results:
        np.testing.assert_array_equal(get(device, result), np.full(N, 2, np.float32))


def reuses(device: AmdDevice) -> None:
    """The compute queue's memory is handed out again although another queue begins."""
    program = device.load(add(device.arch))
    x, y = (put(device, np.ones(N, np.float32)) for _ in range(2))
    device.launch(program, [x, x, y, N], 1)
    y.free()
    z = device.alloc(4 * N)
    device.copy_queue().copy(z, x, 4 * N).submit()
    np.testing.assert_array_equal(get(device, z), np.ones(N, np.float32))


def loads(device: AmdDevice) -> None:
    for _ in range(3):
        device.load(add(device.arch))
    synchronizes(device)


@pytest.mark.parametrize(
    "work", [synchronizes, copies, copy_queue, replays, reuses, loads], ids=lambda f: f.__name__
)
@KINDS
def test_waits_end_with_an_interrupt(
    chip: str, queue: str, work: Callable[[AmdDevice], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Pace(kernel_s=WORK_S, copy_s=WORK_S)
    with slow_device(chip, queue, pace) as (board, device), watched(board, monkeypatch) as waits:
        work(device)
        check(waits.slept > 0, "nobody had to wait")
        check(not waits.past, f"{waits.slept} sleeps, and past their end: {waits.past}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_full_ring_interrupts(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More launches than a small ring holds: one that finds no room sleeps until half of it is."""
    monkeypatch.setattr(queue_maker, "RING_BYTES", 32 << 10)
    monkeypatch.setattr(queue_maker, "AQL_RING_BYTES", 64 * PACKET_BYTES)
    monkeypatch.setattr(aql_ring, "SLOTS", 64)
    pace, count = Pace(kernel_s=WORK_S), 250
    with slow_device("gfx1100", queue, pace) as (board, device):
        program, x = device.load(add("gfx1100")), put(device, np.ones(N, np.float32))
        y = put(device, np.zeros(N, np.float32))
        before = pace.emptied[-1:]
        with watched(board, monkeypatch) as waits:
            for _ in range(count):
                device.launch(program, [x, y, y, N], 1)
            check(waits.slept > 0 and not waits.past, f"{waits.slept}, {waits.past}")
            check(0 < pace.kernels < count, f"{pace.kernels} of {count} were done before the last")
            check(pace.emptied[-1] <= 1, f"without work after {pace.emptied} kernels, {before}")
        pace.clock = None
        np.testing.assert_array_equal(get(device, y), np.full(N, count, np.float32))


def test_an_event_that_woke_another_thread_is_not_slept_past() -> None:
    """One thread looks and is about to sleep; another one's sleep takes the event meanwhile."""
    with slow_device("gfx1100", "PM4", Pace()) as (board, device):
        waits = Waits(board)
        device.recovery.sleep(0)
        waits.events.signal(device.event_id, value=True)
        other = threading.Thread(target=device.recovery.sleep, args=(1000,))
        other.start()
        other.join()
        check(waits.slept == 0, "the event was there before the other one slept")
        device.recovery.sleep(1000)
        check(waits.slept == 0, "slept past the event")
        device.recovery.sleep(1000)
        check(waits.slept == 1, "one event ends one sleep of each")


def test_a_sleep_that_nothing_ends_takes_two_ticks() -> None:
    """src: kfd_events.c user_timeout_to_jiffies(), at 250 Hz."""
    with slow_device("gfx1100", "PM4", Pace()) as (board, device):
        for asked_ms, taken_ms in ((1, 8), (4, 8), (5, 12), (50, 56)):
            before_ns = board.hardware.clock.skipped_ns
            device.recovery.sleep(asked_ms)
            taken_ns = board.hardware.clock.skipped_ns - before_ns
            check(taken_ns <= taken_ms * 1e6, f"{asked_ms} ms took {taken_ns} ns")
            check(taken_ns > (taken_ms - 1) * 1e6, f"{asked_ms} ms took {taken_ns} ns")

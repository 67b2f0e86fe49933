"""R6: work that takes long is waited for, work that does not end is not. No real time passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import inf

import numpy as np
import pytest

from boards.amd.cp.engine_types import Host
from boards.amd.cp.engines import Engines, _Running
from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Options, open_board
from boards.machine import clock
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.session import close_session
from drivers.amd.limits import HANG_S
from drivers.amd.memory import AmdBuffer
from drivers.base.errors import DeviceError, DeviceTimeout, Hang
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import add, get, open_on, put
from tests.reliability.amd_scene import let_go
from tests.support import check

CHIP = "gfx1100"
N = 64
TICKS_PER_S = 100_000_000
HALF_AN_HOUR_S = 1800
QUEUES = pytest.mark.parametrize("queue", ["PM4", "AQL"])


class Slow(Engines):
    """Every dispatch takes `kernel_s` of the board's time; its queue stands meanwhile."""

    def __init__(self, host: Host, kernel_s: float) -> None:
        super().__init__(host)
        self.kernel_s = kernel_s
        self.until: dict[int, float] = {}

    def _step(self, queue_id: int, running: _Running) -> bool:
        if self.host.ticks() < self.until.get(queue_id, 0):
            return False
        before = running.context.waves.data  # dispatches take turns with two of them
        moved = super()._step(queue_id, running)
        if running.context.waves.data is not before:
            self.until[queue_id] = self.host.ticks() + self.kernel_s * TICKS_PER_S
        return moved


@pytest.fixture(autouse=True)
def no_real_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour is skipped in short steps; beside other threads each would really wait."""
    monkeypatch.setattr(clock, "_TURN_S", 0)


@contextmanager
def slow(
    kernel_s: float, queue: str = "PM4", gpus: int = 1, **environ: str
) -> Iterator[tuple[BoardWorld, list[AmdDevice]]]:
    """Devices whose kernels take so long."""
    options = Options(engines=partial(Slow, kernel_s=kernel_s))
    board = open_board(CHIP, gpus=gpus, vram_bytes=256 << 20, options=options)
    world = ForeignWorld(board)
    devices = [open_on(world, queue, number, **environ) for number in range(gpus)]
    yield board, devices
    for device in devices:
        device.close()
    close_session(world)
    check(not board.violations, f"{board.violations}")


def counter(device: AmdDevice) -> tuple[AmdBuffer, AmdBuffer]:
    """Ones, and zeros to add them to."""
    return put(device, np.ones(N, np.float32)), put(device, np.zeros(N, np.float32))


def holds(device: AmdDevice, buffer: AmdBuffer, value: int) -> None:
    np.testing.assert_array_equal(get(device, buffer), np.full(N, value, np.float32))


@pytest.mark.parametrize(
    ("queue", "way"), [("PM4", "launches"), ("PM4", "graph"), ("AQL", "steps")]
)
def test_half_an_hour_of_queued_work(queue: str, way: str) -> None:
    """With the default settings, and a kernel takes almost as long as it may."""
    kernel_s, count = 50, HALF_AN_HOUR_S // 50
    with slow(kernel_s, queue) as (board, (device,)):
        program, (x, y) = device.load(add(CHIP)), counter(device)
        compute, begin_s = device.compute, board.monotonic_s()
        steps = device.compute_queue()
        for _ in range(count):
            if way == "launches":
                device.launch(program, [x, y, y, N], 1)
            else:
                steps.exec(program, [x, y, y, N])
        if way == "graph":
            steps.bind().replay()
        elif way == "steps":
            steps.submit()
        holds(device, y, count)
        check(board.monotonic_s() - begin_s >= HALF_AN_HOUR_S, "the board did not take its time")
        check(device.compute is compute, "the queue was replaced")


@pytest.mark.parametrize(("queue", "count"), [("PM4", 1700), ("AQL", 1100)])
def test_more_work_than_a_ring_holds(queue: str, count: int) -> None:
    """A launch waits for room while anything moves."""
    with slow(0.01, queue, AMD_HANG_S="2") as (_, (device,)):
        program, (x, y) = device.load(add(CHIP)), counter(device)
        for _ in range(count):
            device.launch(program, [x, y, y, N], 1)
        holds(device, y, count)


@pytest.mark.parametrize("way", ["launch", "graph"])
@QUEUES
def test_a_kernel_that_takes_too_long(queue: str, way: str) -> None:
    """Found in time, by default and where another limit is set; and what comes next is right."""
    for limit_s, environ in ((HANG_S, {}), (2.5, {"AMD_HANG_S": "2.5"})):
        with slow(2 * limit_s, queue, **environ) as (board, (device,)):
            program, (x, y) = device.load(add(CHIP)), counter(device)
            clock, compute = board.hardware.clock, device.compute
            begin_ns, begin_s = clock.skipped_ns, clock.now_s()
            if way == "graph":
                graph = device.compute_queue().exec(program, [x, y, y, N]).bind()
                graph.replay()
            else:
                device.launch(program, [x, y, y, N], 1)
            with pytest.raises(Hang, match=f"no progress for {limit_s:g} s") as caught:
                device.synchronize()
            check((clock.skipped_ns - begin_ns) / 1e9 <= 1.2 * limit_s, "found too late")
            check(clock.now_s() - begin_s >= limit_s, "found too early")
            check("AMD_HANG_S" in caught.value.hint, caught.value.hint)
            check("'k'" in str(caught.value) or queue == "AQL", str(caught.value))
            let_go(caught.value)
            check(device.compute is not compute and compute.gone, "the queue was not replaced")
            holds(device, x, 1)


def test_without_a_limit_a_kernel_may_take_ten_minutes() -> None:
    with slow(600, AMD_HANG_S="0") as (board, (device,)):
        check(device.waits.hang_s == inf)
        program, (x, y) = device.load(add(CHIP)), counter(device)
        compute, begin_s = device.compute, board.monotonic_s()
        device.launch(program, [x, y, y, N], 1)
        with pytest.raises(DeviceTimeout, match="is not done after 300 s"):
            device.synchronize(300)
        holds(device, y, 1)
        check(board.monotonic_s() - begin_s >= 600 and device.compute is compute)


def late(error: DeviceError, device: AmdDevice, ring: object) -> None:
    """The error of a time-out; nothing was destroyed."""
    check(type(error) is DeviceTimeout and "nothing was lost" in error.hint, f"{error!r}")
    check(device.compute is ring and device.compute.broken is None, "the queue was replaced")
    let_go(error)


@QUEUES
def test_time_outs_destroy_nothing(queue: str) -> None:
    """Short waits as polls, of a queue at work and of one that waits for a signal."""
    with slow(5, queue) as (_, (device,)):
        program, (x, y) = device.load(add(CHIP)), counter(device)
        go, done, ring = device.new_signal(), device.new_signal(), device.compute
        steps = device.compute_queue().exec(program, [x, y, y, N]).wait(go, 1)
        steps.exec(program, [x, y, y, N]).signal(done, 1).submit()
        for seconds in (0.0, 0.05, 1.0, 7.0, 100.0):
            for wait in (partial(done.wait, 1), device.synchronize):
                with pytest.raises(DeviceTimeout) as caught:
                    wait(timeout_s=seconds)
                late(caught.value, device, ring)
        before = ring.put
        for _ in range(3):
            with pytest.raises(DeviceTimeout):
                device.synchronize(0.01)
        check(ring.put == before, "asking again and again fills the ring")
        go.set(1)
        done.wait(1)
        holds(device, y, 2)


def test_a_queue_that_waits_for_another_one_at_work() -> None:
    """Neither a copy behind a long kernel nor another GPU behind this one hangs."""
    with slow(50, gpus=2) as (_, (first, second)):
        program, (x, y) = first.load(add(CHIP)), counter(first)
        z, done, copied = first.alloc(4 * N), first.new_signal(), first.new_signal()
        steps = first.compute_queue()
        for _ in range(8):
            steps.exec(program, [x, y, y, N])
        first.copy_queue().wait(done, 1).copy(z, y, 4 * N).signal(copied, 1).submit()
        second.compute_queue().wait(copied, 1).submit()
        steps.signal(done, 1).submit()
        second.synchronize()
        check(copied.value == 1, "the second GPU did not wait")
        first.waits.wait_ring(first.copies, first.copies.put)
        holds(first, z, 8)

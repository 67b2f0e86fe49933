"""What ends a process's work on an AMD GPU: said clearly, and the next process is fine."""

from __future__ import annotations

import gc
import traceback
from dataclasses import astuple
from itertools import product

import numpy as np
import pytest

from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Options, another_process
from drivers.amd.kfd.session import close_session
from drivers.base.errors import DeviceError, DeviceFault, DeviceGone, Hang
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import get, open_on, put
from tests.reliability import amd_trouble as t
from tests.reliability.amd_scene import let_go
from tests.support import check

N = t.N
QUEUES = t.QUEUES
KILLERS = {"ecc": (t.ecc, "ECC"), "gpu reset": (t.gpu_reset, "GPU hang")}


@pytest.mark.parametrize(("name", "queue"), list(product(KILLERS, QUEUES)))
def test_resets_end_the_process_and_say_so(name: str, queue: str) -> None:
    """Linux gives a process whose GPU was reset no queue that runs; a new process is fine."""
    make, kind = KILLERS[name]
    with t.rig_on(queue) as rig:
        make(rig)
        error = t.reported(rig)
        check(isinstance(error, DeviceFault) and error.kind == kind, f"{error!r}")
        check("new process" in error.hint, error.hint)
        x = np.zeros(N, np.float32)
        for use in (
            lambda: rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1),
            lambda: get(rig.device, rig.x),
            lambda: put(rig.device, x),
            rig.device.synchronize,
            lambda: rig.device.compute_queue().signal(rig.device.new_signal(), 1).submit(),
        ):
            with pytest.raises(DeviceGone, match="start a new process") as caught:
                use()
            let_go(caught.value)
        board = rig.board
    fresh = another_process(board)
    fresh_world = ForeignWorld(fresh)
    with open_on(fresh_world) as device:
        check(len(get(device, put(device, x))) == N)
    close_session(fresh_world)
    check(not any(astuple(fresh.baseline())), f"{fresh.baseline()}")


EVICTED = "after a page fault the kernel runs no queue"


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("keep", [False, True])
def test_a_kernel_that_evicts_after_a_fault(queue: str, keep: bool) -> None:
    """The fault is reported, then a clear refusal."""
    options = Options(evict_on_fault=True, close_ends_process=not keep)
    with t.rig_on(queue, options) as rig:
        bystander = t.Bystander(rig)
        t.unmapped_write(rig)
        error = t.reported(rig)
        check(isinstance(error, DeviceFault) and error.gpu_va == rig.nowhere, f"{error!r}")
        for use in (
            lambda: t.still_right(rig),
            rig.wait,
            lambda: bystander.done.wait(1, t.SHORT_S),
            lambda: rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1),
        ):
            with pytest.raises(DeviceGone, match=EVICTED) as caught:
                use()
            let_go(caught.value)
        check("start a new process" in str(caught.value) and "start a new process" in error.hint)
        check(frames(caught.value) == 0, "a refusal that is told again and again grows")
        for _ in range(20):
            with pytest.raises(DeviceGone) as caught:
                rig.device.launch(rig.program, [rig.x, rig.x, rig.big, N], 1)
        check(frames(caught.value) < 10, f"{frames(caught.value)} frames")
        let_go(caught.value)
        with pytest.raises(DeviceGone, match=EVICTED):
            open_on(rig.world)
        board = rig.board
    again = another_process(board) if keep else board
    world = ForeignWorld(again)
    with open_on(world) as device:
        a = np.arange(N, dtype=np.float32)
        np.testing.assert_array_equal(get(device, put(device, a)), a)
    close_session(world)


def frames(error: BaseException) -> int:
    """How many frames an error holds."""
    return sum(1 for _ in traceback.walk_tb(error.__traceback__))


@pytest.mark.parametrize("queue", QUEUES)
def test_a_hang_that_costs_the_gpu(queue: str) -> None:
    """A kernel that cannot reset one queue resets the GPU: the hang is told, then a refusal."""
    with t.rig_on(queue, Options(queue_reset=False)) as rig:
        t.hung_engine(rig)
        error = t.reported(rig)
        check(isinstance(error, Hang) and "start a new process" in error.hint, f"{error!r}")
        for use in (lambda: t.still_right(rig), rig.wait):
            with pytest.raises(DeviceGone, match="start a new process") as caught:
                use()
            let_go(caught.value)
        board = rig.board
    world = ForeignWorld(board)
    with open_on(world) as device:
        check(len(get(device, put(device, np.ones(N, np.float32)))) == N)
    close_session(world)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_on_the_kernels_own_terms_a_device_opens_again(queue: str) -> None:
    """The process outlives its files: devices come and go, a session that left stays away."""
    with t.rig_on(queue, Options(close_ends_process=False)) as rig:
        t.unmapped_write(rig)
        t.reported(rig)
        t.still_right(rig)
        rig.device.close()
        before = rig.board.baseline()
        for _ in range(3):
            with open_on(rig.world, queue) as device:
                a = np.arange(N, dtype=np.float32)
                np.testing.assert_array_equal(get(device, put(device, a)), a)
            check(rig.board.baseline() == before, f"{rig.board.baseline()}")
        world = rig.world
    with pytest.raises(DeviceError, match="start a new process"):
        open_on(world, queue)


def test_a_killed_process() -> None:
    """Its memory and its queue, with a kernel that does not end, are gone; the next one is fine."""

    def life() -> None:
        with t.rig_on("PM4") as rig:
            boards.append(rig.board)
            t.Bystander(rig)
            t.endless_kernel(rig)
            rig.board.panel.kill_process()

    boards: list[BoardWorld] = []
    with pytest.raises(DeviceError, match="Bad file descriptor") as caught:
        life()
    let_go(caught.value)
    (board,) = boards
    gc.collect()  # this test's own views of what the dead process had mapped
    fresh = another_process(board)
    check(not any(astuple(fresh.baseline())), f"{fresh.baseline()}")
    world = ForeignWorld(fresh)
    with open_on(world) as device:
        a = np.arange(N, dtype=np.float32)
        np.testing.assert_array_equal(get(device, put(device, a)), a)
    close_session(world)

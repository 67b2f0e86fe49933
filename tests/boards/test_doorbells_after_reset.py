"""A launch on a kernel that unmaps doorbells at a GPU reset: an error, and never a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.machine import Options, open_board
from drivers.amd.look import LOOK_S, Look
from drivers.base.errors import DeviceFault, DeviceGone, Hang
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import add, get, open_on, put
from tests.support import check

N = 64


def ways(device: Any) -> dict[str, Any]:
    """Everything that rings a doorbell."""
    ones = np.ones(N, np.float32)
    x, y = put(device, ones), device.alloc(4 * N)
    program = device.load(add(device.arch))
    graph = device.compute_queue().exec(program, [x, x, y, N]).bind()
    graph.replay()
    device.synchronize()
    return {
        "launch": lambda: device.launch(program, [x, x, y, N], 1),
        "queue": lambda: device.compute_queue().exec(program, [x, x, y, N]).submit(),
        "graph": graph.replay,
        "copy queue": lambda: device.copy_queue().copy(y, x, 4 * N).submit(),
        "copy in": lambda: device.copy_in(x, memoryview(ones).cast("B")),
        "copy out": lambda: get(device, y),
        "synchronize": device.synchronize,
    }


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize(
    "way", ["launch", "queue", "graph", "copy queue", "copy in", "copy out", "synchronize"]
)
def test_what_comes_after_a_reset_is_an_error(way: str, queue: str) -> None:
    board = open_board("gfx1100", vram_bytes=256 << 20, options=Options(kernel="7.3"))
    with open_on(ForeignWorld(board), queue) as device:
        work = ways(device)[way]
        work()
        board.hardware.clock.skip(2 * LOOK_S)
        board.panel.gpu_reset()
        with pytest.raises((DeviceFault, DeviceGone), match="reset"):
            work()
    check(not board.violations, f"{board.violations}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize(("release", "alone"), [("6.1", False), ("6.12", False), ("7.3", True)])
def test_a_hung_queue_by_release(release: str, alone: bool, queue: str) -> None:
    """7.3 resets a queue that MES schedules; older kernels the GPU: src: remove_queue_mes()"""
    board = open_board("gfx1100", vram_bytes=256 << 20, options=Options(kernel=release))
    with open_on(ForeignWorld(board), queue) as device:
        program, ones = device.load(add("gfx1100")), np.ones(N, np.float32)
        x, y = put(device, ones), device.alloc(4 * N)
        board.panel.hang(device.compute.hw.queue_id)
        device.launch(program, [x, x, y, N], 1)
        with pytest.raises(Hang) as hang:
            device.synchronize()
        if alone:
            device.launch(program, [x, x, y, N], 1)
            np.testing.assert_array_equal(get(device, y), ones + ones)
        else:
            check("new process" in str(hang.value), str(hang.value))
    check(not board.violations, f"{board.violations}")


class Clock:
    """An interface whose time is set."""

    def __init__(self, loses: bool) -> None:
        self.now_s, self.loses_doorbells, self.world = 5.0, loses, self

    def monotonic_s(self) -> float:
        return self.now_s


@pytest.mark.parametrize("loses", [True, False])
def test_a_look_is_rare(loses: bool) -> None:
    """Many launches within some milliseconds ask once; other kernels are never asked."""
    clock: Any = Clock(loses)
    asked: list[float] = []
    look = Look(clock, lambda: asked.append(clock.now_s))
    for _ in range(3):
        for _ in range(100):
            look()
        clock.now_s += LOOK_S
    check(asked == [5.0, 5.0 + LOOK_S, 5.0 + 2 * LOOK_S] * loses, f"{asked}")

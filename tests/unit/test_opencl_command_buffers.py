"""Graphs as command buffers: what a replay calls and computes. Intel's runtime has them; over PoCL
3.0, which has none, the extension is emulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np
import pytest

from drivers.base.contracts import Graph, Param
from drivers.base.errors import DeviceGone, OutOfMemory, UseAfterFree
from drivers.cl import abi
from drivers.cl.api import Api
from drivers.cl.device import ClDevice
from drivers.cl.errors import error_of
from drivers.cl.graph import CHAINED_AT
from drivers.cl.libraries import load
from drivers.cl.memory import BUFFER, COARSE
from drivers.cl.platforms import find
from drivers.cl.recorder import BASE, MUTABLE, read_recorder
from drivers.world.linux import LinuxWorld
from tests.contract.arrays import get, put, ramp
from tests.opencl import PLATFORMS, need, opencl
from tests.opencl_recorder import Emulated
from tests.opencl_watch import Watch, watched_world
from tests.support import check
from tests.unit.test_opencl_faults import BUSY, OUT
from tests.unit.test_opencl_graphs import COUNT, loaded

ENQUEUE, RUN, UPDATE = (
    "clEnqueueNDRangeKernel", "clEnqueueCommandBufferKHR", "clUpdateMutableCommandsKHR",
)  # fmt: skip
STEPS = 5
platforms = pytest.mark.parametrize("platform", PLATFORMS)


@contextmanager
def recording(
    platform: str, memory: str = COARSE, *, mutable: bool = True, simultaneous: bool = True,
    lanes: str = "0",
) -> Iterator[tuple[ClDevice, Watch]]:  # fmt: skip
    """An open device with command buffers, whose small kernels become no chain."""
    world, watch = watched_world()
    with opencl(platform, world, CL_MEMORY=memory, CL_LANES=lanes) as device:
        own = device.recorder
        check((own is None) == (platform == "pocl"), "who has them")
        own = own or Emulated(load(LinuxWorld(), device.api.name)).recorder(watch)
        check(own.mutable and own.simultaneous, "it has everything")
        device.recorder = replace(own, mutable=mutable, simultaneous=simultaneous)
        yield device, watch
    check(not watch.left, f"{watch.left}")


def bound(device: ClDevice, *, ends: bool = True) -> Graph:
    """x = Param 0, then x = 3 x + 1 in STEPS kernels; the last one's result is Param 1.

    Without `ends`, the first and the last kernel have no Params either.
    """
    program = loaded(device)
    ones = put(device, np.ones(COUNT, np.int32))
    first = Param(0) if ends else put(device, ramp(COUNT))
    last = Param(1) if ends else device.alloc(4 * COUNT)
    between = [device.alloc(4 * COUNT) for _ in range(STEPS - 1)]
    queue, places = device.compute_queue(), [first, *between, last]
    for source, target in pairwise(places):
        queue.exec(program, [source, ones, target], (-(-COUNT // max(program.block, 1)), 1, 1))
    return queue.bind()


def wanted(start: int) -> np.ndarray:
    x = ramp(COUNT, start)
    for _ in range(STEPS):
        x = 3 * x + np.int32(1)
    return x


def calls(watch: Watch) -> tuple[int, int, int]:
    """Kernels enqueued by themselves, command buffers, updates."""
    return watch.calls[ENQUEUE], watch.calls[RUN], watch.calls[UPDATE]


def since(watch: Watch, before: Sequence[int]) -> tuple[int, ...]:
    """The same since then."""
    return tuple(now - then for now, then in zip(calls(watch), before, strict=True))


def replayed(device: ClDevice, graph: Graph, starts: Sequence[int]) -> None:
    """Replays without waiting in between, each with buffers of its own; results are checked."""
    pairs = [(put(device, ramp(COUNT, start)), device.alloc(4 * COUNT)) for start in starts]
    for pair in pairs:
        graph.replay(pair)
    for start, (_, out) in zip(starts, pairs, strict=True):
        np.testing.assert_array_equal(get(device, out), wanted(start))


@platforms
@pytest.mark.parametrize(("memory", "lanes"), [(COARSE, "0"), (COARSE, "1"), (BUFFER, "0")])
def test_a_replay_is_one_call(platform: str, memory: str, lanes: str) -> None:
    """With an update before it where the values are others, also while earlier ones run."""
    with recording(platform, memory, lanes=lanes) as (device, watch):
        graph = bound(device)
        replayed(device, graph, range(CHAINED_AT))
        before = calls(watch)
        replayed(device, graph, [7, 8, 9])
        check(since(watch, before) == (0, 3, 3), f"{since(watch, before)}")
        before, pair = calls(watch), (put(device, ramp(COUNT, 5)), device.alloc(4 * COUNT))
        for _ in range(3):
            graph.replay(pair)
        check(since(watch, before) == (0, 3, 1), f"{since(watch, before)}")
        np.testing.assert_array_equal(get(device, pair[1]), wanted(5))
        graph.close()


@platforms
@pytest.mark.parametrize("memory", [COARSE, BUFFER])
def test_without_mutable_dispatch_open_launches_stay_outside(platform: str, memory: str) -> None:
    with recording(platform, memory, mutable=False) as (device, watch):
        graph = bound(device)
        replayed(device, graph, range(CHAINED_AT))
        before = calls(watch)
        replayed(device, graph, [7, 8, 9])
        check(since(watch, before) == (3 * 2, 3, 0), "the first and the last")


@platforms
@pytest.mark.parametrize("ends", [False, True])
def test_one_use_at_a_time(platform: str, ends: bool) -> None:
    """A run that may not be over is followed by single kernels, and then by the buffer again."""
    with recording(platform, simultaneous=False) as (device, watch):
        graph = bound(device, ends=ends)
        pairs = [(put(device, ramp(COUNT, n)), device.alloc(4 * COUNT)) for n in (3, 4)]
        values = pairs if ends else [(), ()]
        for _ in range(CHAINED_AT):
            graph.replay(values[0])
        device.synchronize()
        for _ in range(2):
            before = calls(watch)
            graph.replay(values[0])
            check(since(watch, before)[:2] == (0, 1), "idle: the command buffer")
            graph.replay(values[1])
            check(since(watch, before)[:2] == (STEPS, 1), "in use: kernels")
            for number, (_, out) in zip((3, 4), pairs if ends else (), strict=False):
                np.testing.assert_array_equal(get(device, out), wanted(number))
            device.synchronize()


@platforms
@pytest.mark.parametrize("status", [OUT, -59])
@pytest.mark.parametrize(
    "call",
    ["clCreateCommandBufferKHR", "clCommandNDRangeKernelKHR", "clFinalizeCommandBufferKHR"],
)
def test_a_driver_that_does_not_record_leaves_single_kernels(
    platform: str, call: str, status: int
) -> None:
    with recording(platform) as (device, watch):
        graph = bound(device)
        replayed(device, graph, range(CHAINED_AT - 1))
        watch.fail(status, 0, call)
        before = calls(watch)
        replayed(device, graph, [7, 8, 9])
        check(watch.failed == call, "it was reached")
        check(since(watch, before) == (3 * STEPS, 0, 0), "by themselves")


@platforms
@pytest.mark.parametrize("call", [RUN, UPDATE])
@pytest.mark.parametrize(("status", "kind"), [(OUT, OutOfMemory), (BUSY, DeviceGone)])
def test_a_replay_after_a_failed_one_is_right(
    platform: str, call: str, status: int, kind: type[Exception]
) -> None:
    with recording(platform) as (device, watch):
        graph = bound(device)
        replayed(device, graph, range(CHAINED_AT))
        pair = put(device, ramp(COUNT, 6)), device.alloc(4 * COUNT)
        watch.fail(status, 0, call)
        with pytest.raises(kind):
            graph.replay(pair)
        check(watch.failed == call, "it was reached")
        before = calls(watch)
        graph.replay(pair)
        np.testing.assert_array_equal(get(device, pair[1]), wanted(6))
        check(since(watch, before) == (0, 1, int(call == UPDATE)), "as a command buffer")
        pair[0].free()
        with pytest.raises(UseAfterFree):
            graph.replay(pair)


@platforms
@pytest.mark.parametrize("memory", [COARSE, BUFFER])
def test_a_wait_inside_parts_what_is_recorded(platform: str, memory: str) -> None:
    """What is before a wait runs as a command buffer, what is behind it as another."""
    with recording(platform, memory) as (device, watch):
        program, signal = loaded(device), device.new_signal()
        x, ones = put(device, ramp(COUNT)), put(device, np.ones(COUNT, np.int32))
        queue = device.compute_queue()
        for part in range(2):
            for _ in range(2):
                queue.exec(program, [x, ones, x], (COUNT, 1, 1))
            if not part:
                queue.wait(signal, 1)
        graph, expected = queue.bind(), ramp(COUNT)
        signal.set(1)
        for _ in range(CHAINED_AT + 2):
            graph.replay()
            for _ in range(4):
                expected = (3 * expected + 1).astype(np.int32)
        np.testing.assert_array_equal(get(device, x), expected)
        check(watch.calls[RUN] == 2 * 3, "two each")


def test_what_a_device_offers_is_asked() -> None:
    """Intel's offers all of it, in a version that takes arrays."""
    name = need("intel")
    found = next(one for one in find(LinuxWorld())[0] if one.platform_name == name)
    about = found.api, found.platform, found.device
    offered = found.api.text("clGetDeviceInfo", found.device, abi.DEVICE_EXTENSIONS)
    extensions = frozenset(offered.split())
    every = read_recorder(*about, extensions)
    check(every is not None and every.mutable and every.simultaneous, f"{every}")
    fixed = read_recorder(*about, extensions - {MUTABLE})
    check(fixed is not None and not fixed.mutable, f"{fixed}")
    check(read_recorder(*about, extensions - {BASE}) is None, "none")


def test_a_device_that_does_not_answer_has_no_command_buffers() -> None:
    asked = []

    class Mute:
        def number(self, call: str, *_: int) -> int:
            asked.append(call)
            raise error_of(call, BUSY)

    check(read_recorder(cast(Api, Mute()), 1, 2, frozenset({BASE})) is None, "and is used")
    check(asked == ["clGetDeviceInfo"], f"{asked}")

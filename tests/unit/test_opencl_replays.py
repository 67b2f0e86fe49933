"""Graphs and signals of OpenCL devices where a call fails, a wait is unmet, or nobody reads."""

from __future__ import annotations

import numpy as np
import pytest

from drivers.base.contracts import Buffer, Param
from drivers.base.errors import DeviceGone
from drivers.cl.chain import LEAST
from drivers.cl.device import ClDevice
from drivers.cl.graph import CHAINED_AT, ClGraph
from drivers.cl.memory import FINE
from drivers.cl.signal import MOST_MARKERS
from tests.contract.arrays import get, put, ramp
from tests.opencl import PLATFORMS, opencl
from tests.opencl_watch import watched_world
from tests.support import check
from tests.unit.test_opencl_faults import BUILD, BUSY, OUT
from tests.unit.test_opencl_graphs import COUNT, loaded

platforms = pytest.mark.parametrize("platform", PLATFORMS)


def recorded(device: ClDevice, base: Buffer) -> ClGraph:
    """LEAST times Param(1) = 3 Param(0) + base."""
    program, queue = loaded(device), device.compute_queue()
    for _ in range(LEAST):
        queue.exec(program, [Param(0), base, Param(1)], (COUNT, 1, 1))
    return queue.bind()


def wanted(start: int) -> np.ndarray:
    return 3 * ramp(COUNT, start) + ramp(COUNT)


def in_buffer(device: ClDevice, call: str) -> bool:
    """Whether kernels whose chain fails in this call are recorded in a command buffer instead."""
    return device.recorder is not None and call != "clSetKernelExecInfo"


@platforms
@pytest.mark.parametrize(
    ("call", "status"),
    [
        ("clBuildProgram", BUILD),
        ("clCreateProgramWithSource", OUT),
        ("clSetKernelArg", OUT),
        ("clSetKernelExecInfo", OUT),
    ],
)
def test_a_chain_that_fails_leaves_single_kernels(platform: str, call: str, status: int) -> None:
    world, watch = watched_world()
    with opencl(platform, world, CL_MEMORY=FINE) as device:
        graph = recorded(device, put(device, ramp(COUNT)))
        source, out = put(device, ramp(COUNT, 9)), device.alloc(4 * COUNT)
        for number in range(2 * CHAINED_AT):
            if number + 1 == CHAINED_AT:
                watch.fail(status, 0, call)
            device.copy_in(out, memoryview(bytes(4 * COUNT)))
            before = watch.calls["clEnqueueNDRangeKernel"]
            graph.replay([source, out])
            each = watch.calls["clEnqueueNDRangeKernel"] - before
            joined = number + 1 >= CHAINED_AT and in_buffer(device, call)
            check(each == LEAST * (not joined), f"replay {number}: {each} kernels")
            np.testing.assert_array_equal(get(device, out), wanted(9))
        check(watch.failed == call, "it was reached")
        graph.close()
    check(not watch.left, f"{watch.left}")


@platforms
def test_a_replay_after_a_failed_one_has_its_values(platform: str) -> None:
    """A list that names other memory cannot be set; the next replay sets it again."""
    world, watch = watched_world()
    with opencl(platform, world, CL_MEMORY=FINE) as device:
        graph = recorded(device, put(device, ramp(COUNT)))
        sources = [put(device, ramp(COUNT, start)) for start in (9, 30)]
        outs = [device.alloc(4 * COUNT) for _ in sources]
        for _ in range(CHAINED_AT + 1):
            graph.replay([sources[0], outs[0]])
        watch.fail(BUSY, 0, "clSetKernelExecInfo")
        with pytest.raises(DeviceGone):
            graph.replay([sources[1], outs[1]])
        check(watch.failed == "clSetKernelExecInfo", "it was reached")
        device.copy_in(outs[1], memoryview(bytes(4 * COUNT)))
        before = watch.calls["clEnqueueNDRangeKernel"]
        graph.replay([sources[1], outs[1]])
        check(watch.calls["clEnqueueNDRangeKernel"] == before + 1, "as one kernel again")
        np.testing.assert_array_equal(get(device, outs[1]), wanted(30))


@platforms
def test_what_is_before_an_unmet_wait_is_handed_over(platform: str) -> None:
    world, watch = watched_world()
    with opencl(platform, world) as device:
        program, signal = loaded(device), device.new_signal()
        buffers = [put(device, ramp(COUNT)) for _ in range(3)]
        queue = device.compute_queue().exec(program, buffers, (COUNT, 1, 1)).wait(signal, 1)
        graph = queue.exec(program, buffers, (COUNT, 1, 1)).bind()
        before = watch.calls["clFlush"]
        graph.replay()
        check(watch.calls["clEnqueueNDRangeKernel"] == 1, "the second one waits")
        check(watch.calls["clFlush"] == before + 1, "the first one runs")
        signal.set(1)
        device.synchronize()
        check(watch.calls["clEnqueueNDRangeKernel"] == 2, "both")


@platforms
def test_a_signal_that_is_closed_before_its_marker(platform: str) -> None:
    world, watch = watched_world()
    with opencl(platform, world) as device:
        gate, signal = device.new_signal(), device.new_signal()
        device.compute_queue().wait(gate, 1).signal(signal, 1).submit()
        signal.close()
        gate.set(1)
        device.synchronize()
        check(watch.calls["clEnqueueMarkerWithWaitList"] >= 1, "the marker came")
    check(not watch.left, f"{watch.left}")


@platforms
@pytest.mark.parametrize("timed", [False, True])
def test_markers_that_nobody_reads_are_bounded(platform: str, timed: bool) -> None:
    """And a value that they stand for is still there for a later wait of another queue."""
    world, watch = watched_world()
    with opencl(platform, world) as device:
        signal, last = device.new_signal(), device.new_signal()
        queue = device.compute_queue()
        graph = (queue.timestamp(signal) if timed else queue.signal(signal, 7)).bind()
        for _ in range(2 * MOST_MARKERS + 2):
            graph.replay()
            check(watch.live["event"] <= MOST_MARKERS + 2, f"{watch.live['event']} events")
        if not timed:
            device.copy_queue().wait(signal, 7).signal(last, 1).submit()
            last.wait(1, 2.0)
        check(signal.timestamp_ns > 0, "a time")

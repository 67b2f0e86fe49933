"""Graphs of OpenCL devices: small kernels in a row become one, and change nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import toolchains
from drivers.base.contracts import Buffer, Param, Program
from drivers.base.errors import UseAfterFree
from drivers.cl.chain import LEAST
from drivers.cl.device import ClDevice
from drivers.cl.graph import CHAINED_AT
from tests.contract.arrays import get, put, ramp
from tests.contract.kernels import combine
from tests.opencl import PLATFORMS, opencl
from tests.opencl_watch import watched_world
from tests.support import check

COUNT, STEPS = 50, 3 * LEAST
ENQUEUE = "clEnqueueNDRangeKernel"


def loaded(device: ClDevice, count: int = COUNT) -> Program:
    kernel = combine(device.limits, count)
    return device.load(toolchains.build(kernel, "OPENCL", device.arch, device.limits.features))


def after(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What STEPS rounds of x, y = y, 3 x + y leave in the last result."""
    for _ in range(STEPS):
        x, y = y, (3 * x + y).astype(np.int32)
    return y


def rounds(device: ClDevice, program: Program, a: Buffer | Param, others: list[Buffer]) -> object:
    """x, y, z in turn, with `a` as the first."""
    places = [a, *others]
    queue = device.compute_queue()
    for number in range(STEPS):
        x, y, z = (places[(number + shift) % 3] for shift in range(3))
        queue.exec(program, [x, y, z], (COUNT, 1, 1))
    return queue.bind()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_often_replayed_kernels_become_one(platform: str) -> None:
    world, watch = watched_world()
    with opencl(platform, world) as device:
        program = loaded(device)
        start = ramp(COUNT), ramp(COUNT, 7), np.zeros(COUNT, np.int32)
        buffers = [put(device, values) for values in start]
        graph = rounds(device, program, buffers[0], buffers[1:])
        for number in range(2 * CHAINED_AT):
            for buffer, values in zip(buffers, start, strict=True):
                device.copy_in(buffer, memoryview(values).cast("B"))
            before = watch.calls[ENQUEUE]
            graph.replay()
            device.synchronize()
            each = 1 if number + 1 >= CHAINED_AT else STEPS
            check(watch.calls[ENQUEUE] - before == each, f"replay {number}: not {each}")
            result = buffers[(STEPS + 1) % 3]
            np.testing.assert_array_equal(get(device, result), after(*start[:2]))
        graph.close()
    check(not watch.left, f"{watch.left}")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_params_of_a_chain_change_between_replays(platform: str) -> None:
    """Without waiting between them: no list is written that an earlier replay still reads."""
    with opencl(platform) as device:
        program = loaded(device)
        outs = [device.alloc(4 * COUNT) for _ in range(12)]
        given = [put(device, ramp(COUNT, 10 * number)) for number in range(12)]
        base, between = put(device, ramp(COUNT)), device.alloc(4 * COUNT)
        queue = device.compute_queue()
        for _ in range(LEAST):
            queue.exec(program, [Param(0), base, between], (COUNT, 1, 1))
        graph = queue.exec(program, [base, between, Param(1)], (COUNT, 1, 1)).bind()
        for values in [*zip(given, outs, strict=True)] * 3:
            graph.replay(values)
        for number, out in enumerate(outs):
            inner = 3 * ramp(COUNT, 10 * number) + ramp(COUNT)
            np.testing.assert_array_equal(get(device, out), 3 * ramp(COUNT) + inner)
        given[0].free()
        with pytest.raises(UseAfterFree):
            graph.replay([given[0], outs[0]])


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_large_kernel_is_in_no_chain(platform: str) -> None:
    """It stays alone, or is recorded in a command buffer where the device has them."""
    world, watch = watched_world()
    with opencl(platform, world) as device:
        large = 1 << 16
        program = loaded(device, large)
        buffers = [put(device, ramp(large)) for _ in range(3)]
        queue = device.compute_queue()
        for _ in range(LEAST):
            queue.exec(program, buffers, (large, 1, 1))
        graph = queue.bind()
        for _ in range(CHAINED_AT + 1):
            graph.replay()
        recorded = 2 if device.recorder is not None else 0
        check(watch.calls["clEnqueueCommandBufferKHR"] == recorded, "the last two replays")
        alone = LEAST * (CHAINED_AT + 1 - recorded)
        check(watch.calls[ENQUEUE] == alone, "each by itself")
        np.testing.assert_array_equal(get(device, buffers[2]), 4 * ramp(large))

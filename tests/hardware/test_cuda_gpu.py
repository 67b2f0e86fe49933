"""A real NVIDIA GPU through libcuda: numpy's results, memory, a fault in a child process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import drivers
import tensor as xp
from drivers.base.contracts import Device
from drivers.base.errors import DeviceFault, DeviceGone, NotFound
from tensor import engine
from tests.contract.arrays import get, put, ramp
from tests.contract.devices import built
from tests.contract.kernels import combine
from tests.support import check

COUNT = 300
NO_DEVICE = 3
"""What the child leaves with where there is none."""


def test_a_fault_in_a_child_process() -> None:
    """CUDA does not work after fork(): the child is the first to open the device."""
    child = os.fork()
    if not child:
        code = 9
        try:
            code = _faulty()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    left = os.waitstatus_to_exitcode(status)
    if left == NO_DEVICE:
        pytest.skip("no CUDA device in a child process")
    check(left == 0, f"the child left with {left}")


def _faulty() -> int:
    try:
        opened = drivers.open("CUDA")
    except NotFound:
        return NO_DEVICE
    kernel = opened.load(built(combine(opened.limits, COUNT), opened))
    a = put(opened, ramp(COUNT))
    opened.compute_queue().exec(kernel, [a, a, 64], (4, 1, 1)).submit()
    try:
        opened.synchronize()
    except DeviceFault as fault:
        if "ADDRESS" not in fault.kind or fault.kernel != "combine":
            return 4
    else:
        return 5
    try:
        opened.alloc(4)
    except DeviceGone:
        opened.close()
        return 0
    return 6


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    try:
        opened = drivers.open("CUDA")
    except NotFound as error:
        pytest.skip(f"no CUDA device: {error.message:.80}")
    with opened, engine.adopted("CUDA", opened):
        yield opened


def test_a_launch_and_a_graph(device: Device) -> None:
    kernel = device.load(built(combine(device.limits, COUNT), device))
    a, b, c = put(device, ramp(COUNT)), put(device, ramp(COUNT, 5)), device.alloc(4 * COUNT)
    device.launch(kernel, [a, b, c], -(-COUNT // 64))
    np.testing.assert_array_equal(get(device, c), 3 * ramp(COUNT) + ramp(COUNT, 5))
    queue, grid = device.compute_queue(), (-(-COUNT // 64), 1, 1)
    graph = queue.exec(kernel, [c, b, a], grid).exec(kernel, [a, b, c], grid).bind()
    wanted = 3 * ramp(COUNT) + ramp(COUNT, 5)
    for _ in range(3):
        graph.replay()
        for _ in range(2):
            wanted = 3 * wanted + ramp(COUNT, 5)
        np.testing.assert_array_equal(get(device, c), wanted)
    graph.close()


def test_times_and_queues(device: Device) -> None:
    done, (a, b) = device.new_signal(), (put(device, ramp(64)), device.alloc(256))
    device.copy_queue().copy(b, a, 256).signal(done, 1).submit()
    done.wait(1, 10.0)
    check(done.timestamp_ns > 0, "a time")
    np.testing.assert_array_equal(get(device, b), ramp(64))


def test_a_product_is_numpy_s(device: Device) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.random((256, 256), dtype=np.float32) for _ in range(2))
    found = xp.asarray(x, device="CUDA") @ xp.asarray(y, device="CUDA")
    np.testing.assert_allclose(found.numpy(), x @ y, rtol=1e-5)

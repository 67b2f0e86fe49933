"""Handlers of signals that use an OpenCL device in the middle of one of its calls."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import Unsupported
from drivers.cl.device import ClDevice
from tensor import engine
from tests.opencl import PLATFORMS, opencl
from tests.support import check

COUNT = 256
platforms = pytest.mark.parametrize("platform", PLATFORMS)


@contextmanager
def interrupted(device: ClDevice, work: Callable[[], object]) -> Iterator[list[Unsupported]]:
    """Inside, a signal arrives before each kernel is enqueued, and its handler does `work`."""
    refused: list[Unsupported] = []
    kept = dict(device.api.functions)
    enqueue = kept["clEnqueueNDRangeKernel"]

    def handler(*_: object) -> None:
        try:
            work()
        except Unsupported as error:
            refused.append(error)

    busy = False

    def interrupting(*args: int) -> int:
        nonlocal busy
        if not busy:
            busy = True
            signal.raise_signal(signal.SIGUSR1)
            busy = False
        return enqueue(*args)

    before = signal.signal(signal.SIGUSR1, handler)
    device.api.functions = {**kept, "clEnqueueNDRangeKernel": interrupting}
    try:
        yield refused
    finally:
        device.api.functions = kept
        signal.signal(signal.SIGUSR1, before)


@platforms
def test_a_launch_inside_of_a_launch(platform: str) -> None:
    with opencl(platform) as device, engine.adopted("CL", device):
        first, second = (xp.asarray(np.full(COUNT, n, np.float32), device="CL") for n in (1, 2))
        (first * 3).realize()
        program = next(iter(engine.runtime("CL").executables.values())).launches[0].program
        outs = [device.alloc(4 * COUNT) for _ in range(2)]
        args = [[out, x._node.storage.buffer] for out, x in zip(outs, (first, second), strict=True)]
        grid = next(iter(engine.runtime("CL").executables.values())).launches[0].grid
        works = {
            "launch": lambda: device.launch(program, args[1], grid),
            "alloc": lambda: device.alloc(64),
            "synchronize": device.synchronize,
            "close": device.close,
            "tensor": lambda: (second * 5).realize(),
        }
        for name, work in works.items():
            with interrupted(device, work) as refused:
                device.launch(program, args[0], grid)
            check(len(refused) == 1, f"{name}: {refused}")
            check("inside of one of its own calls" in str(refused[0]), name)
            found = np.zeros(COUNT, np.float32)
            device.copy_out(memoryview(found).cast("B"), outs[0])
            np.testing.assert_array_equal(found, np.full(COUNT, 3), name)
        device.launch(program, args[1], grid)
        device.copy_out(memoryview(found).cast("B"), outs[1])
        np.testing.assert_array_equal(found, np.full(COUNT, 6), "usable afterwards")
        first = second = None


@platforms
def test_a_replay_inside_of_a_replay(platform: str) -> None:
    """Commands one by one, then a chain or a command buffer."""
    with opencl(platform) as device, engine.adopted("CL", device):

        def body(x: xp.Tensor) -> xp.Tensor:
            for number in range(9):
                x = xp.contiguous(x * 2 - number)
            return x

        def expected(x: np.ndarray) -> np.ndarray:
            for number in range(9):
                x = x * 2 - number
            return x

        run = xp.jit(body)
        arrays = [np.full(COUNT, n, np.float32) for n in (1, 2)]
        first, second = (xp.asarray(array, device="CL") for array in arrays)
        run(first).realize()
        for number in range(8):
            with interrupted(device, lambda: run(second).realize()) as refused:
                found = run(first)
                found.realize()
            check(refused or number >= 3, f"call {number}")
            np.testing.assert_array_equal(found.numpy(), expected(arrays[0]), f"call {number}")
            np.testing.assert_array_equal(run(second).numpy(), expected(arrays[1]))
        first = second = found = run = None


@platforms
def test_handlers_of_a_host_that_waits(platform: str) -> None:
    """A signal between two calls finds the device free."""
    with opencl(platform) as device, engine.adopted("CL", device):
        results = []
        x = xp.asarray(np.arange(COUNT, dtype=np.float32), device="CL")
        before = signal.signal(signal.SIGUSR1, lambda *_: results.append((x + 1).numpy()))
        try:
            y = (x * 2).realize()
            signal.raise_signal(signal.SIGUSR1)
            np.testing.assert_array_equal(y.numpy(), np.arange(COUNT) * 2)
        finally:
            signal.signal(signal.SIGUSR1, before)
        np.testing.assert_array_equal(results, [np.arange(COUNT) + 1])
        x = y = None

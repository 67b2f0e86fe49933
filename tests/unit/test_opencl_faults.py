"""Every call of an OpenCL library fails once: our errors, right results, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from drivers.base.contracts import World
from drivers.base.errors import (
    CompileError,
    DeviceError,
    DeviceFault,
    DeviceGone,
    OutOfMemory,
)
from drivers.cl.building import builder
from drivers.cl.device import ClDevice
from drivers.world.native import memory_at
from tests.contract.arrays import get, put, ramp
from tests.contract.kernels import combine
from tests.opencl import PLATFORMS, opencl
from tests.opencl_watch import ENDS, Watch, watched_world
from tests.share import part
from tests.support import check

COUNT = 100
BUSY, OUT, LOST, BUILD, BINARY = -36, -5, -2, -11, -42
"""CL_INVALID_COMMAND_QUEUE, CL_OUT_OF_RESOURCES, CL_DEVICE_NOT_AVAILABLE,
CL_BUILD_PROGRAM_FAILURE, CL_INVALID_BINARY. # src: OpenCL-Headers CL/cl.h"""


def program(device: ClDevice) -> object:
    """Compiled anew each time: no cache is between it and the driver."""
    from compilers.opencl.family import PROCESSOR
    from compilers.opencl.render_host import render

    source = render(combine(device.limits, COUNT), device.limits.features)
    blob = builder(device.arch).build(source, 0).encode()
    return device.load(PROCESSOR.load(blob, "combine", device.arch))


def life(device: ClDevice) -> np.ndarray:
    """Everything that a device does, once."""
    a, b, c = put(device, ramp(COUNT)), put(device, ramp(COUNT, 5)), device.alloc(4 * COUNT)
    kernel = program(device)
    device.launch(kernel, [a, b, c], COUNT)
    signal = device.new_signal()
    graph = device.compute_queue().exec(kernel, [c, b, a], (COUNT, 1, 1)).signal(signal, 1).bind()
    graph.replay()
    device.copy_queue().wait(signal, 1).copy(b, a, 4 * COUNT).signal(signal, 2).submit()
    signal.wait(2, 2.0)
    check(signal.timestamp_ns > 0, "a time")
    found = get(device, b)
    graph.close()
    kernel.close()
    signal.close()
    return found


def wanted() -> np.ndarray:
    c = 3 * ramp(COUNT) + ramp(COUNT, 5)
    return 3 * c + ramp(COUNT, 5)


def lived(platform: str, world: World, **settings: str) -> np.ndarray | DeviceError:
    try:
        with opencl(platform, world, **settings) as device:
            return life(device)
    except DeviceError as error:
        return error


MEMORY = ["FINE", "BUFFER"]


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_life_leaves_nothing(platform: str, memory: str) -> None:
    world, watch = watched_world()
    np.testing.assert_array_equal(lived(platform, world, CL_MEMORY=memory), wanted())
    check(not watch.left, f"{watch.left}")
    check(watch.calls["clCreateContext"] == 1, "it was watched")


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("status", [OUT, LOST, BUILD, BUSY])
def test_each_call_fails_once(platform: str, memory: str, status: int) -> None:
    """Not a call of which a second try would be right: each is reported, and objects are gone."""
    world, watch = watched_world()
    lived(platform, world, CL_MEMORY=memory)
    names = list(watch.calls)
    for name in names[:: max(1, len(names) // part(len(names), 12))]:
        first = watch.calls[name] == 1
        for at in (0,) if first else (0, 2):
            world, watch_one = watched_world()
            watch_one.fail(status, at, name)
            outcome = lived(platform, world, CL_MEMORY=memory)
            judge(name, outcome, watch_one)


def judge(name: str, outcome: np.ndarray | DeviceError, watch: Watch) -> None:
    if isinstance(outcome, DeviceError):
        check(outcome.hint or outcome.__notes__, f"{name}: {outcome!r} without a hint")
    else:
        np.testing.assert_array_equal(outcome, wanted(), f"{name} failed unnoticed")
    left = watch.left
    if watch.failed in ENDS:  # the call was not made
        left = {kind: n for kind, n in left.items() if kind != ENDS[watch.failed]}
    check(not left, f"{name}: {outcome!r} leaves {left}")


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    ("call", "status", "kind"),
    [
        ("clEnqueueNDRangeKernel", OUT, OutOfMemory),
        ("clEnqueueNDRangeKernel", LOST, DeviceGone),
        ("clBuildProgram", BUILD, CompileError),
        ("clCreateCommandQueue", OUT, OutOfMemory),
        ("clFlush", BUSY, DeviceGone),
    ],
)
def test_what_fails_has_its_error(
    platform: str, call: str, status: int, kind: type[DeviceError]
) -> None:
    world, watch = watched_world()
    watch.fail(status, 0, call)
    outcome = lived(platform, world)
    check(type(outcome) is kind and watch.failed == call, f"{outcome!r}")
    check(kind is CompileError or f"({status})" in str(outcome), f"{outcome}")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_rejected_kernel_shows_log_and_source(platform: str) -> None:
    with opencl(platform) as device, pytest.raises(CompileError) as caught:
        builder(device.arch).build("__kernel void k_x(void) { no_such_name = 1; }", 0)
    check("no_such_name" in caught.value.log and "k_x" in caught.value.source, f"{caught.value}")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_command_that_fails_later(platform: str) -> None:
    """The status of an event turns negative: what waits for it gets DeviceFault."""
    world, _ = watched_world()
    with opencl(platform, world) as device:
        inner = device.api.functions["clGetEventInfo"]
        device.api.functions = {**device.api.functions, "clGetEventInfo": _aborted(inner)}
        signal = device.new_signal()
        device.compute_queue().signal(signal, 1).submit()
        with pytest.raises(DeviceFault, match="CL_OUT_OF_RESOURCES"):
            signal.wait(1, 1.0)
        device.api.functions = {**device.api.functions, "clGetEventInfo": inner}


def _aborted(call: Callable[..., int]) -> Callable[..., int]:
    def failing(*args: int) -> int:
        status = call(*args)
        if args[3]:
            memory_at(args[3], 4, lambda: None).cast("B").cast("i")[0] = OUT
        return status

    return failing


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_program_that_the_driver_does_not_take_back(platform: str) -> None:
    world, watch = watched_world()
    with opencl(platform, world) as device:
        watch.fail(BINARY, 0, "clCreateProgramWithBinary")
        with suppress(DeviceError), pytest.raises(DeviceError, match="CL_INVALID_BINARY"):
            program(device)
        check(watch.failed == "clCreateProgramWithBinary", "it was reached")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_ten_thousand_launches_keep_nothing(platform: str) -> None:
    world, watch = watched_world()
    with opencl(platform, world) as device:
        a, b, c = put(device, ramp(COUNT)), put(device, ramp(COUNT)), device.alloc(4 * COUNT)
        kernel = program(device)
        device.launch(kernel, [a, b, c], COUNT)
        device.synchronize()
        before, made = watch.left, watch.calls["clCreateKernel"]
        for number in range(part(10_000, 2_000)):
            device.launch(kernel, [a, b, c], COUNT)
            if number % 500 == 0:
                device.synchronize()
        device.synchronize()
        np.testing.assert_array_equal(get(device, c), 4 * ramp(COUNT))
        check(watch.left == before, f"{watch.left}, not {before}")
        check(watch.calls["clCreateKernel"] == made, "no object for a launch")
    check(not watch.left, f"{watch.left}")

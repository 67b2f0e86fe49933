"""Every call of a WebGPU library fails once: our errors, right results, and nothing is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drivers.base.contracts import Binary, World
from drivers.base.errors import CompileError, DeviceError, DeviceGone, MalformedInput, OutOfMemory
from drivers.webgpu.device import WebGpuDevice
from drivers.webgpu.modules import builder
from queues.webgpu.kernel_code import WgslCode
from tests.contract.arrays import get, put, ramp
from tests.contract.kernels import combine
from tests.share import part
from tests.support import check
from tests.webgpu import LIBRARIES, need, webgpu
from tests.webgpu_watch import ENDS, FAULTS, LOST, NULL, REPORT, Watch, watched_world

COUNT = 100
OUT = 3
"""WGPUErrorType_OutOfMemory. # src: webgpu.h"""


def binary(device: WebGpuDevice) -> Binary:
    """Compiled anew each time: no cache is between it and the library."""
    from compilers.wgsl import compiler
    from compilers.wgsl.family import FAMILY
    from compilers.wgsl.render import render

    source = render(combine(device.limits, COUNT), device.limits.features)
    blob = compiler.compile_object(source, device.arch, device.limits.features)
    return FAMILY.load(blob, "combine", device.arch)


def program(device: WebGpuDevice) -> object:
    """The same, loaded."""
    return device.load(binary(device))


def life(device: WebGpuDevice) -> np.ndarray:
    """Everything that a device does, once."""
    a, b, c = put(device, ramp(COUNT)), put(device, ramp(COUNT, 5)), device.alloc(4 * COUNT)
    kernel = program(device)
    device.launch(kernel, [a, b, c], 2)
    signal = device.new_signal()
    graph = device.compute_queue().exec(kernel, [c, b, a], (2, 1, 1)).signal(signal, 1).bind()
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


def lived(library: str, world: World) -> np.ndarray | DeviceError:
    try:
        with webgpu(library, world) as device:
            return life(device)
    except DeviceError as error:
        return error


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_life_leaves_nothing(library: str) -> None:
    need(library)
    world, watch = watched_world(library)
    np.testing.assert_array_equal(lived(library, world), wanted())
    check(not watch.left, f"{watch.left}")
    check(watch.calls["wgpuAdapterRequestDevice"] == 1, "it was watched")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_call_fails_once(library: str, fault: str) -> None:
    """Each is reported, and objects are gone."""
    need(library)
    world, watch = watched_world(library)
    lived(library, world)
    names = [name for name in watch.calls if name not in ENDS and name != "wgpuDeviceDestroy"]
    for name in names[:: max(1, len(names) // part(len(names), 12))]:
        for at in (0,) if watch.calls[name] == 1 else (0, 2):
            world, one = watched_world(library)
            one.fail(fault, at, name)
            judge(name, lived(library, world), one)


def judge(name: str, outcome: np.ndarray | DeviceError, watch: Watch) -> None:
    if isinstance(outcome, DeviceError):
        check(outcome.hint or outcome.__notes__, f"{name}: {outcome!r} without a hint")
    else:
        np.testing.assert_array_equal(outcome, wanted(), f"{name} failed unnoticed")
    check(not watch.left, f"{name} {watch.fault}: {outcome!r} leaves {watch.left}")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("call", "fault", "kind"),
    [
        ("wgpuDeviceCreateBuffer", REPORT, OutOfMemory),
        ("wgpuDeviceCreateComputePipeline", NULL, DeviceError),
        ("wgpuCommandEncoderFinish", LOST, DeviceGone),
        ("wgpuQueueSubmit", LOST, DeviceGone),
    ],
)
def test_what_fails_has_its_error(
    library: str, call: str, fault: str, kind: type[DeviceError]
) -> None:
    need(library)
    world, watch = watched_world(library)
    watch.fail(fault, 0, call, OUT)
    outcome = lived(library, world)
    check(type(outcome) is kind and watch.failed == call, f"{outcome!r}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_rejected_kernel_shows_log_source_and_line(library: str) -> None:
    source = "@compute @workgroup_size(1)\nfn k_x() {\nno_such_name = 1;\n}\n"
    with webgpu(library) as device:
        with pytest.raises(CompileError) as caught:
            builder(device.arch).check(source)
        np.testing.assert_array_equal(life(device), wanted())
    check("no_such_name" in caught.value.log and caught.value.source == source, "both")
    check("line 3: no_such_name" in str(caught.value), f"{caught.value}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_code_whose_source_has_another_block_is_refused(library: str) -> None:
    """Its lanes would be as many as the source says, and cover another part of the grid."""
    need(library)
    world, watch = watched_world(library)
    with webgpu(library, world) as device:
        made = binary(device)
        code = WgslCode.decode(made.image)
        other = replace(code, block=code.block // 2)
        needs = replace(made.resources, block=other.block)
        with pytest.raises(MalformedInput, match=r"has no @workgroup_size\(\d+, 1, 1\)"):
            device.load(replace(made, image=other.encode(), resources=needs))
    check(not watch.left, f"{watch.left}")

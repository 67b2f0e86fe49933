"""Parts, images and the host's memory on OpenCL: calls that fail once, and 10,000 launches."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

import numpy as np
import pytest

from drivers.base.contracts import Buffer, World
from drivers.base.errors import DeviceError, DeviceGone, OutOfMemory
from drivers.base.lent import Lent
from drivers.cl import abi
from drivers.cl.device import ClDevice
from drivers.cl.images import image
from drivers.cl.lent import borrow, lend
from drivers.cl.parts import part
from tests.contract.arrays import get, put, ramp
from tests.opencl import opencl
from tests.opencl_memory import DOUBLE, TEXELS, written
from tests.opencl_watch import Watch, watched_world
from tests.share import part as of_a_share
from tests.support import check
from tests.unit.test_opencl_faults import BUSY, LOST, OUT, judge
from tests.unit.test_opencl_images import PITCH, PIXELS, ROWS, shown, texels

FIRST, NBYTES = 128, 64
NEW = (
    "clCreateSubBuffer", "clCreateImage", "clGetSupportedImageFormats", "clGetDeviceInfo",
    "clCreateBuffer", "clReleaseMemObject", "clSetKernelArg",
)  # fmt: skip
memories = pytest.mark.parametrize("memory", ["FINE", "COARSE", "BUFFER"])


def life(device: ClDevice) -> np.ndarray:
    """A part, an image and an exported part, once each."""
    whole = put(device, ramp(100))
    out = device.alloc(NBYTES)
    device.launch(written(device, DOUBLE), [part(device, whole, FIRST, NBYTES), out], 1)
    handle, kept = lend(part(device, whole, 0, NBYTES))
    check(handle != 0, "a handle")
    del kept  # an error's traceback would keep it
    buffer, _ = shown(device, texels())
    texture = image(device, buffer, PIXELS, ROWS, PITCH, "rgba32float")
    read = device.alloc(ROWS * PIXELS * 16)
    device.launch(written(device, TEXELS, "texels"), [texture, read], 1)
    device.synchronize()
    return get(device, out)[:16]


def lived(world: World, memory: str) -> np.ndarray | DeviceError:
    try:
        with opencl("intel", world, CL_MEMORY=memory) as device:
            return life(device)
    except DeviceError as error:
        return error


@memories
@pytest.mark.parametrize("status", [OUT, LOST, BUSY])
def test_each_call_fails_once(memory: str, status: int) -> None:
    world, watch = watched_world()
    np.testing.assert_array_equal(lived(world, memory), 2 * ramp(100)[32:48])
    check(not watch.left, f"{watch.left}")
    named = [name for name in NEW if watch.calls[name]]
    check(("clCreateSubBuffer" in named) is (memory == "BUFFER"), f"{named}")
    check("clCreateImage" in named, f"{named}")
    for name in named:
        calls = watch.calls[name]
        for at in sorted({0, 1, calls // 2, calls - 2, calls - 1}):
            if not 0 <= at < calls:
                continue
            world, one = watched_world()
            one.fail(status, at, name)
            outcome = lived(world, memory)
            judged(name, outcome, one)


def judged(name: str, outcome: np.ndarray | DeviceError, watch: Watch) -> None:
    """As for every call; the result is another one."""
    if isinstance(outcome, DeviceError):
        judge(name, outcome, watch)
    else:
        np.testing.assert_array_equal(outcome, 2 * ramp(100)[32:48], f"{name} failed unnoticed")


@pytest.mark.parametrize("memory", ["BUFFER", "FINE"])
@pytest.mark.parametrize(
    ("call", "status", "kind"),
    [("clCreateImage", OUT, OutOfMemory), ("clCreateImage", LOST, DeviceGone),
     ("clGetSupportedImageFormats", OUT, OutOfMemory)],
)  # fmt: skip
def test_what_fails_has_its_error(
    memory: str, call: str, status: int, kind: type[DeviceError]
) -> None:
    world, watch = watched_world()
    watch.fail(status, 0, call)
    outcome = lived(world, memory)
    check(type(outcome) is kind and watch.failed == call, f"{outcome!r}")
    check(call in str(outcome) and not watch.left, f"{outcome}, {watch.left}")


def test_a_sub_buffer_that_is_not_made() -> None:
    world, watch = watched_world()
    watch.fail(OUT, 0, "clCreateSubBuffer")
    outcome = lived(world, "BUFFER")
    check(type(outcome) is OutOfMemory and not watch.left, f"{outcome!r}, {watch.left}")


def plain(device: ClDevice, _: np.ndarray) -> Buffer:
    return put(device, ramp(16))


def inside(device: ClDevice, _: np.ndarray) -> Buffer:
    whole = put(device, ramp(100))
    device.copy_in(whole, memoryview(np.tile(ramp(32), 3)[:100]).cast("B"))
    return part(device, whole, FIRST, NBYTES)


def hosts(device: ClDevice, array: np.ndarray) -> Buffer:
    lent = Lent(
        pointer=array.__array_interface__["data"][0], first=0, nbytes=array.nbytes,
        kind="address", owner=array,
    )  # fmt: skip
    return borrow(device, lent)[0]


@pytest.mark.parametrize(
    ("platform", "memory", "make"),
    [(platform, memory, make) for platform in ("pocl", "intel")
     for memory in ("FINE", "COARSE", "BUFFER") for make in (plain, inside)]
    + [("intel", "FINE", hosts)],
)  # fmt: skip
def test_ten_thousand_launches_keep_nothing(
    platform: str, memory: str, make: Callable[[ClDevice, np.ndarray], Buffer]
) -> None:
    world, watch = watched_world()
    array = ramp(16)
    with opencl(platform, world, CL_MEMORY=memory) as device:
        source, out, kernel = make(device, array), device.alloc(NBYTES), written(device, DOUBLE)
        launched(device, watch, lambda: device.launch(kernel, [source, out], 1))
        np.testing.assert_array_equal(get(device, out)[:16], 2 * ramp(16))
    check(not watch.left, f"{watch.left}")


@memories
def test_ten_thousand_launches_with_an_image_keep_nothing(memory: str) -> None:
    world, watch = watched_world()
    with opencl("intel", world, CL_MEMORY=memory) as device:
        buffer, _ = shown(device, texels())
        texture = image(device, buffer, PIXELS, ROWS, PITCH, "rgba32float")
        out, kernel = device.alloc(ROWS * PIXELS * 16), written(device, TEXELS)
        launched(device, watch, lambda: device.launch(kernel, [texture, out], 1))
        check(watch.calls["clCreateImage"] == 1, "no image for a launch")
    check(not watch.left, f"{watch.left}")


@memories
def test_parts_and_images_that_are_dropped_leave_nothing(memory: str) -> None:
    """Objects are made and dropped with their launches, by a caller that allocates nothing."""
    world, watch = watched_world()
    with opencl("intel", world, CL_MEMORY=memory) as device:
        buffer, _ = shown(device, texels())
        out, kernel = device.alloc(ROWS * PIXELS * 16), written(device, TEXELS)

        def one() -> None:
            shape = PIXELS, ROWS, PITCH, "rgba32float"
            texture = image(device, part(device, buffer, 0, ROWS * PITCH), *shape)
            device.launch(kernel, [texture, out], 1)

        launched(device, watch, one, 500)
    check(not watch.left, f"{watch.left}")


class Owner:
    """Somebody whose memory is lent."""


@memories
def test_lent_and_exported_memory_that_is_dropped_leaves_nothing(memory: str) -> None:
    """By a caller that allocates nothing: owners are let go, and no cl_mem stays."""
    world, watch = watched_world()
    with opencl("intel", world, CL_MEMORY=memory) as device:
        whole = put(device, ramp(100))
        handle, kept = lend(whole)
        before, owners = watch.live["memory"], []
        for _ in range(50):
            owner = Owner()
            owners.append(ref(owner))
            lent = Lent(pointer=handle, first=0, nbytes=NBYTES, kind="cl_mem", owner=owner)
            borrow(device, lent)
            lend(whole)
            del owner, lent
        alive = sum(owner() is not None for owner in owners)
        check(alive <= 1, f"{alive} owners are kept")
        left = watch.live["memory"] - before
        check(left <= len(("lent", "exported")), f"{left} objects stay")
        del kept
    check(not watch.left, f"{watch.left}")


def launched(device: ClDevice, watch: Watch, one: Callable[[], None], whole: int = 10_000) -> None:
    """Run it so often: as many objects as after the first time."""
    counts: list[dict[str, int]] = []
    for number in range(of_a_share(whole, whole // 10)):
        one()
        if number % 250 == 0:
            device.synchronize()
            counts.append(watch.left)
    device.synchronize()
    counts.append(watch.left)
    check(all(count == counts[0] for count in counts), f"{counts[0]}, then {counts[-1]}")


def test_the_numbers_of_the_calls() -> None:
    """# src: OpenCL-Headers 15b536b, CL/cl.h."""
    check(abi.BUFFER_CREATE_TYPE_REGION == 0x1220, "CL_BUFFER_CREATE_TYPE_REGION")
    check(abi.MEM_OBJECT_IMAGE2D == 0x10F1, "CL_MEM_OBJECT_IMAGE2D")
    check(abi.SVM_FINE_GRAIN_SYSTEM == 4, "CL_DEVICE_SVM_FINE_GRAIN_SYSTEM")

"""Images over buffers: what a sampler reads is what numpy put there; elsewhere the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drivers.base.contracts import Buffer
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.cl import images
from drivers.cl.device import ClDevice
from drivers.cl.images import image
from drivers.cl.memory import ClBuffer
from drivers.cl.parts import part
from tests.contract.arrays import put
from tests.opencl import opencl
from tests.opencl_memory import TEXELS, WRITES, written
from tests.opencl_watch import watched_world
from tests.support import check

ROWS, PIXELS, CHANNELS = 4, 8, 4
PITCH = 1024
"""# src: Intel's runtime, CL_DEVICE_IMAGE_PITCH_ALIGNMENT 64 pixels; 16 bytes each"""
ALIGN = 1024
memories = pytest.mark.parametrize("memory", ["FINE", "COARSE", "BUFFER"])


def texels() -> np.ndarray:
    """Rows of PITCH bytes, of which PIXELS pixels are used."""
    rows = np.full((ROWS, PITCH // 4), -1, np.float32)
    rows[:, : PIXELS * CHANNELS] = np.arange(ROWS * PIXELS * CHANNELS).reshape(ROWS, -1)
    return rows


def shown(device: ClDevice, rows: np.ndarray) -> tuple[ClBuffer, Buffer]:
    """Memory at an address that images may have, and the buffer that it lies in."""
    whole = device.alloc(rows.nbytes + ALIGN)
    skip = 0 if whole.block.handle else -whole.gpu_va % ALIGN
    inside = part(device, whole, skip, rows.nbytes)
    device.copy_in(inside, memoryview(rows).cast("B"))
    return inside, whole


def pixels(device: ClDevice, buffer: Buffer) -> np.ndarray:
    found = np.empty((ROWS, PIXELS * CHANNELS), np.float32)
    device.copy_out(memoryview(found).cast("B"), buffer)
    return found


@memories
def test_a_sampler_reads_what_the_buffer_has(memory: str) -> None:
    world, watch = watched_world()
    with opencl("intel", world, CL_MEMORY=memory) as device:
        rows = texels()
        buffer, _ = shown(device, rows)
        out = device.alloc(ROWS * PIXELS * CHANNELS * 4)
        texture = image(device, buffer, PIXELS, ROWS, PITCH, "rgba32float")
        kernel = written(device, TEXELS)
        device.launch(kernel, [texture, out], 1)
        used = rows[:, : PIXELS * CHANNELS]
        np.testing.assert_array_equal(pixels(device, out), used)
        device.copy_in(buffer, memoryview(rows * 3).cast("B"))
        graph = device.compute_queue().exec(kernel, [texture, out], (1, 1, 1)).bind()
        for _ in range(6):
            graph.replay()
        np.testing.assert_array_equal(pixels(device, out), used * 3)
        graph.close()
    check(watch.calls["clCreateImage"] == 1 and not watch.left, f"{watch.left}")


@memories
def test_a_kernel_writes_into_the_buffer_through_an_image(memory: str) -> None:
    with opencl("intel", CL_MEMORY=memory) as device:
        rows = texels()
        buffer, _ = shown(device, rows)
        values = np.ascontiguousarray(rows[:, : PIXELS * CHANNELS]) * 10
        source = put(device, values)
        texture = image(device, buffer, PIXELS, ROWS, PITCH, "rgba32float")
        device.launch(written(device, WRITES), [texture, source], 1)
        found = np.empty_like(rows)
        device.copy_out(memoryview(found).cast("B"), buffer)
        np.testing.assert_array_equal(found[:, : PIXELS * CHANNELS], values + 1)
        check((found[:, PIXELS * CHANNELS :] == -1).all(), "between the rows nothing is written")


@memories
def test_a_device_without_such_images_says_so(memory: str) -> None:
    with opencl("pocl", CL_MEMORY=memory) as device:
        buffer = device.alloc(ROWS * PITCH)
        with pytest.raises(Unsupported, match="no cl_khr_image2d_from_buffer"):
            image(device, buffer, PIXELS, ROWS, PITCH, "rgba32float")


@memories
def test_shapes_that_are_none(memory: str) -> None:
    with opencl("intel", CL_MEMORY=memory) as device:
        buffer, whole = shown(device, texels())
        shapes: list[tuple[Any, str]] = [
            ((PIXELS, ROWS, PITCH, "rgba"), "not a format"),
            ((0, ROWS, PITCH, "rgba32float"), "not a shape"),
            ((PIXELS, 1.0, PITCH, "rgba32float"), "not a shape"),
            ((PITCH, ROWS, PITCH, "rgba32float"), "do not fit"),
            ((PIXELS, ROWS + 1, PITCH, "rgba32float"), "outside of"),
        ]
        for wrong, why in shapes:
            with pytest.raises(BadArgument, match=why):
                image(device, buffer, *wrong)
        for odd, why in (
            ((PIXELS, 2, PITCH + 16, "rgba32float"), "PITCH_ALIGNMENT"),
            ((1 << 20, 1, 1 << 22, "r32float"), "at most 16384 x 16384"),
        ):
            big = device.alloc(1 << 22)
            with pytest.raises(Unsupported, match=why):
                image(device, big, *odd)
        texture = image(device, buffer, PIXELS, ROWS, PITCH, "rgba32float")
        for copy in (
            lambda: device.copy_in(texture, memoryview(bytes(4))),
            lambda: device.copy_queue().copy(texture, whole, 4),
            lambda: part(device, texture, 0, 128),
        ):
            with pytest.raises(Unsupported, match="an image is not copied"):
                copy()
        whole.free()
        with pytest.raises(UseAfterFree):
            device.launch(written(device, TEXELS), [texture, device.alloc(512)], 1)


def test_shared_memory_begins_at_an_aligned_pixel() -> None:
    with opencl("intel", CL_MEMORY="FINE") as device:
        buffer, _ = shown(device, texels())
        odd = part(device, buffer, 128, 2 * PITCH)
        with pytest.raises(Unsupported, match=r"from byte 896 on"):
            image(device, odd, PIXELS, 2, PITCH, "rgba32float")


def test_a_format_that_the_device_does_not_list(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = images.Format(order=0x10B0, kind=0x10D4, pixel_bytes=2)  # CL_R, CL_UNORM_SHORT_565
    monkeypatch.setattr(images, "FORMATS", {**images.FORMATS, "r565": strange})
    with opencl("intel") as device:
        buffer, _ = shown(device, texels())
        with pytest.raises(Unsupported, match="no images of r565"):
            image(device, buffer, PIXELS, ROWS, PITCH, "r565")

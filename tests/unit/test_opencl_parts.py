"""Parts of OpenCL buffers and the host's own memory: the same bytes, or the reason why not."""

from __future__ import annotations

import gc
import mmap
from typing import Any

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.base.lent import Lent
from drivers.cl import abi
from drivers.cl.device import ClDevice
from drivers.cl.lent import borrow, lend
from drivers.cl.memory import BUFFER, FINE
from drivers.cl.parts import part
from tensor import engine
from tests.contract.arrays import get, put, ramp
from tests.opencl import PLATFORMS, opencl
from tests.opencl_memory import DOUBLE, SETTINGS, written
from tests.opencl_watch import watched_world
from tests.support import check

COUNT, FIRST = 256, 512
NBYTES = 4 * 16
kinds = pytest.mark.parametrize(("platform", "memory"), SETTINGS)


def seen_by_numpy(first: int) -> np.ndarray:
    return ramp(COUNT)[first // 4 : first // 4 + 16]


@kinds
def test_kernels_and_copies_see_the_bytes_of_a_part(platform: str, memory: str) -> None:
    world, watch = watched_world()
    with opencl(platform, world, CL_MEMORY=memory) as device:
        whole, out = put(device, ramp(COUNT)), device.alloc(4 * COUNT)
        kernel = written(device, DOUBLE)
        source, target = part(device, whole, FIRST, NBYTES), part(device, out, 128, NBYTES)
        device.launch(kernel, [source, target], 1)
        expected = 2 * seen_by_numpy(FIRST)
        np.testing.assert_array_equal(get(device, target), expected)
        np.testing.assert_array_equal(get(device, out)[32:48], expected)
        device.copy_queue().copy(source, target, NBYTES).submit()
        np.testing.assert_array_equal(get(device, whole)[FIRST // 4 :][:16], expected)
        inner = part(device, source, 0, 8)
        np.testing.assert_array_equal(get(device, inner), expected[:2])
        if device.memory_kind == FINE:
            np.testing.assert_array_equal(np.frombuffer(source.view(), np.int32), expected)
        check((watch.calls["clCreateSubBuffer"] == 3) is (memory == BUFFER), "SVM has addresses")
    check(not watch.left, f"{watch.left}")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_sub_buffer_begins_where_the_device_allows_it(platform: str) -> None:
    with opencl(platform, CL_MEMORY=BUFFER) as device:
        bits = device.api.number(
            "clGetDeviceInfo", device.facts.found.device, abi.DEVICE_MEM_BASE_ADDR_ALIGN
        )
        whole = put(device, ramp(COUNT))
        with pytest.raises(Unsupported, match=rf"byte 4\..*multiple of {bits // 8} "):
            part(device, whole, 4, NBYTES)
    with opencl(platform, CL_MEMORY=FINE) as device:
        odd = part(device, put(device, ramp(COUNT)), 4, NBYTES)
        np.testing.assert_array_equal(get(device, odd), seen_by_numpy(4))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_sub_buffer_of_other_code_is_not_divided(platform: str) -> None:
    with opencl(platform, CL_MEMORY=BUFFER) as device:
        inside = part(device, put(device, ramp(COUNT)), FIRST, 256)
        handle, _ = lend(inside)
        lent = borrow(device, Lent(pointer=handle, first=0, nbytes=256, kind="cl_mem"))[0]
        np.testing.assert_array_equal(get(device, lent), ramp(COUNT)[FIRST // 4 :][:64])
        with pytest.raises(Unsupported, match=r"is a sub-buffer.*share the buffer"):
            part(device, lent, 128, NBYTES)


@kinds
def test_what_is_no_part(platform: str, memory: str) -> None:
    with opencl(platform, CL_MEMORY=memory) as device:
        whole = put(device, ramp(COUNT))
        wrong: list[tuple[Any, Any]] = [
            (0, 0),
            (-128, 8),
            (0, 4 * COUNT + 1),
            (4 * COUNT, 1),
            (0, 1.0),
            ("0", 8),
        ]
        for first, nbytes in wrong:
            with pytest.raises(BadArgument, match="inside of 1024"):
                part(device, whole, first, nbytes)
        low, high = part(device, whole, 0, 256), part(device, whole, 128, 256)
        with pytest.raises(BadArgument, match="overlap"):
            device.copy_queue().copy(low, high, 256)
        device.copy_queue().copy(high, low, 128).submit()
        np.testing.assert_array_equal(get(device, high)[:32], ramp(COUNT)[:32])
        whole.free()
        for use in (lambda: device.copy_in(low, memoryview(bytes(4))), lambda: low.block):
            with pytest.raises(UseAfterFree):
                use()
        low.free()
        with pytest.raises(UseAfterFree):
            low.free()


@kinds
def test_a_graph_and_a_queue_notice_that_a_part_was_freed(platform: str, memory: str) -> None:
    """Its cl_mem is released then, although the buffer that it lies in lives."""
    with opencl(platform, CL_MEMORY=memory) as device:
        whole, out = put(device, ramp(COUNT)), device.alloc(4 * COUNT)
        kernel, one = written(device, DOUBLE), part(device, whole, FIRST, NBYTES)
        graph = device.compute_queue().exec(kernel, [one, out], (1, 1, 1)).bind()
        graph.replay()
        queue = device.compute_queue().exec(kernel, [one, out], (1, 1, 1))
        one.free()
        for use in (graph.replay, queue.submit):
            with pytest.raises(UseAfterFree):
                use()
        np.testing.assert_array_equal(get(device, whole), ramp(COUNT))


@kinds
def test_a_part_lent_to_other_code_is_a_cl_mem_of_these_bytes(platform: str, memory: str) -> None:
    world, watch = watched_world()
    with opencl(platform, world, CL_MEMORY=memory) as device:
        whole = put(device, ramp(COUNT))
        device.synchronize()
        one = part(device, whole, FIRST, NBYTES)
        handle, kept = lend(one)
        size = device.api.number("clGetMemObjectInfo", handle, abi.MEM_SIZE)
        check(size == NBYTES, f"{size}")
        found = read(device, handle)
        np.testing.assert_array_equal(found, seen_by_numpy(FIRST))
        del one, kept, whole
        gc.collect()
    check(not watch.left, f"{watch.left}")


def read(device: ClDevice, handle: int) -> np.ndarray:
    """By OpenCL's own call, as other code would."""
    found = np.zeros(16, np.int32)
    at = found.__array_interface__["data"][0]
    queue = device.rings[1].handle
    device.api.do("clEnqueueReadBuffer", queue, handle, 1, 0, NBYTES, at, 0, 0, 0)
    return found


@kinds
def test_the_host_s_own_memory_is_used_where_the_device_reaches_it(
    platform: str, memory: str
) -> None:
    array = np.arange(COUNT, dtype=np.float32)
    at = array.__array_interface__["data"][0]
    with opencl(platform, CL_MEMORY=memory) as device, engine.adopted("CL", device):
        reached = device.facts.svm & abi.SVM_FINE_GRAIN_SYSTEM
        if not reached or memory == BUFFER:
            why = "CL_MEMORY=BUFFER" if reached else "CL_DEVICE_SVM_FINE_GRAIN_SYSTEM"
            with pytest.raises(Unsupported, match=why):
                xp.from_blob(at, COUNT, "float32", "CL", kind="address", owner=array)
            return
        x = xp.from_blob(at, COUNT, "float32", "CL", kind="address", owner=array)
        np.testing.assert_array_equal((x + 1).numpy(), array + 1)
        array[:] = 7
        np.testing.assert_array_equal((x * 2).numpy(), np.full(COUNT, 14, np.float32))
        device.copy_in(x._node.storage.buffer, memoryview(bytes(4 * COUNT)))
        check(not array.any(), "the device's copy is in numpy's memory")
        with pytest.raises(BadArgument, match="memory"):
            xp.from_blob(1 << 20, COUNT, "float32", "CL", kind="address")
        del x


def test_read_only_memory_of_the_host_is_not_written() -> None:
    """A copy to such a page would end the process."""
    locked = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    at = np.frombuffer(locked, np.uint8).__array_interface__["data"][0]
    lent = Lent(
        pointer=at, first=0, nbytes=mmap.PAGESIZE, kind="address", owner=locked, readonly=True
    )
    with opencl("intel", CL_MEMORY=FINE) as device:
        whole = borrow(device, lent)[0]
        source = put(device, ramp(COUNT))
        for one in (whole, part(device, whole, 128, NBYTES)):
            check(one.readonly and one.view().readonly, "as it was lent")
            with pytest.raises(BadArgument, match="cannot be written"):
                device.copy_in(one, memoryview(bytes(4)))
            with pytest.raises(BadArgument, match="cannot be written"):
                device.copy_queue().copy(one, source, 4)
            check(not get(device, one).any(), "it is read")


def test_which_devices_reach_all_host_memory() -> None:
    """As clinfo reports of these two."""
    found = {}
    for platform in PLATFORMS:
        with opencl(platform) as device:
            found[platform] = bool(device.facts.svm & abi.SVM_FINE_GRAIN_SYSTEM)
    check(found == {"pocl": False, "intel": True}, f"{found}")

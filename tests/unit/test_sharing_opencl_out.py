"""What an OpenCL device exports: read-only memory, copies, memory behind a closed device."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import BadArgument
from drivers.cl import abi
from drivers.cl.memory import FINE
from tensor import engine
from tests.dlpack_maker import CPU, FLAG_READ_ONLY, OPENCL, Producer, managed
from tests.opencl import opencl
from tests.opencl_watch import watched_world
from tests.support import check
from tests.unit.test_sharing_opencl import (
    COUNT,
    F32,
    _bytes,
    client,
    everywhere,
    forgotten,
    numbers,
    platforms,
)


@everywhere
def test_memory_that_kernels_may_not_write(platform: str, settings: dict[str, str]) -> None:
    with client(platform, **settings) as other:
        handle = other.buffer(numbers(), abi.MEM_READ_ONLY)
        with pytest.raises(BadArgument, match=r"may not write .*readonly=True"):
            xp.from_blob(handle, COUNT, "float32", "CL")
        x = xp.from_blob(handle, COUNT, "float32", "CL", readonly=True)
        for one in (x, xp.reshape(x, (32, 32))):
            struct = managed(one.__dlpack__(max_version=(1, 1)))
            check((struct.flags, struct.dl_tensor.data) == (FLAG_READ_ONLY, handle), "as it came")
            copied = managed(one.__dlpack__())
            check(copied.dl_tensor.data != handle, "a legacy capsule cannot say so")
            np.testing.assert_array_equal((one + 1).numpy().ravel(), numbers() + 1)
        del x, one, struct, copied
        forgotten()
        other.release(handle)


@everywhere
def test_copies_that_are_asked_for(platform: str, settings: dict[str, str]) -> None:
    with client(platform, **settings) as other:
        handle = other.buffer(numbers())
        source = Producer(handle, (COUNT,), F32, device=(OPENCL, 0))
        x = xp.from_dlpack(source, copy=True)
        other.write(handle, numbers() * 2)
        np.testing.assert_array_equal(x.numpy(), numbers(), "its library made none")
        turned = xp.from_blob(handle, (32, 32), "float32", "CL").T
        host = managed(turned.__dlpack__(dl_device=(CPU, 0)))
        floats = np.frombuffer(_bytes(host.dl_tensor.data, 4 * COUNT), np.float32)
        np.testing.assert_array_equal(floats.reshape(32, 32).T.ravel(), numbers() * 2)
        del x, turned, host, floats
        forgotten()
        other.release(handle)


@platforms
def test_a_released_cl_mem(platform: str) -> None:
    """Its first word, freed, is no dispatch table any more."""
    with client(platform) as other:
        handle = other.buffer(numbers())
        other.release(handle)
        with pytest.raises(BadArgument, match="is not a cl_mem"):
            xp.from_blob(handle, 4, "float32", "CL")


@platforms
def test_exported_memory_outlives_the_device(platform: str) -> None:
    """Memory under a cl_mem that other code has stays until that is released."""
    world, watch = watched_world()
    with opencl(platform, world) as device:
        if device.memory_kind != FINE:
            return  # a cl_mem of its own, which OpenCL counts
        with engine.adopted("CL", device):
            x = xp.asarray(numbers(), device="CL") * 2
            struct = managed(x.__dlpack__(max_version=(1, 1)))
            del x
            gc.collect()
    allocs, frees = (watch.calls[name] for name in ("clSVMAlloc", "clSVMFree"))
    check(allocs - frees == 1, f"{allocs} allocated, {frees} freed under a live cl_mem")
    check(watch.left.get("context") == 1, f"{watch.left}")
    del struct
    gc.collect()
    check(not watch.left, f"{watch.left}")


def test_what_is_given_back_while_the_device_closes() -> None:
    with client("pocl") as other:
        device, ended = other.device, []
        finish = device.heap.close

        def close() -> None:
            device.drop_lent(lambda: ended.append(1))  # by a finaliser, past the last collection
            finish()

        vars(device.heap)["close"] = close
    check(ended == [1], f"{ended}")

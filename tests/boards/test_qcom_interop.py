"""Memory of Qualcomm's OpenCL on a board over KGSL: a made-up cl_mem, lent to tensors."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import BadArgument, Unsupported
from drivers.gpu.iface import Use
from drivers.qcom.interop import ADDRESS_OFF, gpu_address
from drivers.world import native
from drivers.world.linux import LinuxWorld
from tensor import engine
from tests.qcom_devices import qcom_device
from tests.support import check

N = 64


def made_up(gpu_va: int) -> tuple[int, Any]:
    """A cl_mem, and what keeps it."""
    thing, handle = bytearray(256), bytearray(16)
    struct.pack_into("<Q", thing, ADDRESS_OFF, gpu_va)
    struct.pack_into("<Q", handle, 0, native.address_of(memoryview(thing)))
    return native.address_of(memoryview(handle)), (thing, handle)


def test_a_buffer_of_opencl_is_a_tensor() -> None:
    with qcom_device("a630") as device, engine.adopted("QCOM", device):
        theirs = device.iface.allocate(4096, Use.DEVICE, "OpenCL's", host=True)
        data = np.arange(N, dtype=np.float32)
        theirs.view()[: data.nbytes] = memoryview(data).cast("B")
        cl_mem, kept = made_up(theirs.gpu_va)
        pointer = gpu_address(cl_mem, LinuxWorld())
        check(pointer == theirs.gpu_va, hex(pointer))
        lent = xp.from_blob(pointer, (N,), "float32", "QCOM", owner=kept)
        np.testing.assert_array_equal((lent * 2).numpy(), 2 * data)
        with pytest.raises(BadArgument, match="outside"):
            xp.from_blob(pointer, (4096,), "float32", "QCOM", owner=kept)
        with pytest.raises(BadArgument, match="no GPU address"):
            xp.from_blob(0x1000, (4,), "float32", "QCOM", owner=kept)
        del lent
        device.synchronize()
        theirs.free()


def test_over_msm_nothing_is_lent() -> None:
    with (
        qcom_device("a660", "MSM") as device,
        engine.adopted("QCOM", device),
        pytest.raises(Unsupported, match="msm"),
    ):
        xp.from_blob(0x1000, (4,), "float32", "QCOM", owner=device)


@pytest.mark.parametrize("wrong", [0x10, 0x13, 1 << 46])
def test_what_is_no_cl_mem(wrong: int) -> None:
    with pytest.raises(BadArgument, match="cl_mem"):
        gpu_address(wrong, LinuxWorld())
    cl_mem, kept = made_up(0)
    with pytest.raises(BadArgument, match="no address yet"):
        gpu_address(cl_mem, LinuxWorld())
    del kept

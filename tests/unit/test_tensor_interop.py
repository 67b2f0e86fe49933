"""DLPack, the buffer protocol and numpy, both ways."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tensor as xp
from tensor.interop import device_code
from tests.support import check

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
]  # fmt: skip


class Legacy:
    """A producer from before DLPack 1.0: it knows no argument but the stream."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.host_memory
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)])
def test_numpy_both_ways(dtype, shape):
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    x = xp.from_dlpack(values)
    np.testing.assert_array_equal(x.numpy(), values)
    np.testing.assert_equal(x.dtype.name, dtype)
    back = np.from_dlpack(x + xp.zeros_like(x))
    np.testing.assert_array_equal(back, values)
    np.testing.assert_equal(back.dtype.name, dtype)


@pytest.mark.host_memory
def test_memory_is_shared_or_copied():
    values = np.arange(4.0)
    check(np.shares_memory(xp.from_dlpack(values).numpy(), values))
    check(not np.shares_memory(xp.from_dlpack(values, copy=True).numpy(), values))
    x = xp.asarray(values) * 2
    check(np.shares_memory(np.from_dlpack(x), x.numpy()))
    check(not np.from_dlpack(x).flags.writeable, "a tensor is a value")
    check(not np.shares_memory(np.from_dlpack(x, copy=True), x.numpy()))
    check(np.shares_memory(np.asarray(x), x.numpy()))
    same = xp.from_dlpack(x)
    np.testing.assert_array_equal(same.numpy(), values * 2)


@pytest.mark.host_memory
def test_memory_outlives_its_producer():
    x = xp.from_dlpack(np.arange(1000.0))
    y = np.from_dlpack(xp.asarray(np.arange(1000.0)) + 1.0)
    np.testing.assert_array_equal(x.numpy(), np.arange(1000.0))
    np.testing.assert_array_equal(y, np.arange(1000.0) + 1.0)


def test_strided_producer():
    values = np.arange(24).reshape(4, 6)
    for view in (values.T, values[::2, ::-1], values[:, 1]):
        np.testing.assert_array_equal(xp.from_dlpack(view).numpy(), view)


@pytest.mark.host_memory
def test_legacy_and_versioned_capsules():
    x = xp.asarray([1.0, 2.0])
    check('"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 1))))
    check('"dltensor"' in repr(x.__dlpack__()))
    np.testing.assert_array_equal(xp.from_dlpack(Legacy(np.arange(3))).numpy(), [0, 1, 2])
    with pytest.raises(BufferError, match="legacy"):
        x.__dlpack__(copy=False)


@pytest.mark.host_memory
def test_a_capsule_is_consumed_once():
    capsule = xp.asarray([1.0, 2.0]).__dlpack__(max_version=(1, 1))

    class Once:
        def __dlpack__(self, **_):
            return capsule

        def __dlpack_device__(self):
            return (1, 0)

    np.testing.assert_array_equal(xp.from_dlpack(Once()).numpy(), [1.0, 2.0])
    check('"used_dltensor_versioned"' in repr(capsule))


@pytest.mark.host_memory
@pytest.mark.parametrize("version", [None, (1, 1)])
def test_bfloat16_travels_with_its_type_code(version):
    x = xp.asarray([1.0, -2.5, np.nan, np.inf], dtype=xp.bfloat16)
    y = xp.from_dlpack(Forward(x, version))
    check(y.dtype is xp.bfloat16)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(x)  # numpy knows no bfloat16: it must see the type code and refuse


class Forward:
    """Hands on a tensor's capsule of a chosen version."""

    def __init__(self, x, version):
        self.x, self.version = x, version

    def __dlpack__(self, **_):
        return self.x.__dlpack__(max_version=self.version)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("device", ["AMD", "AMD:1", "NV", "WEBGPU"])
def test_a_device_whose_memory_is_not_exported(device):
    with pytest.raises(BufferError, match=rf"{device} does not export DLPack; use .to\('CPU'\)"):
        device_code(device)
    np.testing.assert_equal(device_code("CPU"), (1, 0))
    np.testing.assert_equal(device_code("CL:2"), (4, 2))


@pytest.mark.host_memory
def test_refusals():
    x = xp.asarray([1.0])
    np.testing.assert_equal(x.__dlpack_device__(), (1, 0))
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="asarray"):
        xp.from_dlpack([1, 2])

    class Elsewhere:
        def __dlpack__(self, **_):
            return None

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match="host"):
        xp.from_dlpack(Elsewhere())


@pytest.mark.host_memory
def test_torch_both_ways():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    y = xp.from_dlpack(x)
    check(y.dtype is xp.bfloat16)
    np.testing.assert_array_equal(y.numpy(), np.arange(6.0).reshape(2, 3))
    back = torch.from_dlpack(y)
    check(back.dtype is torch.bfloat16)
    for dtype in DTYPES:
        check(xp.dtype_from(xp.torch_dtype(getattr(xp, dtype))) is getattr(xp, dtype))
    for theirs in (torch.complex64, torch.qint8, torch.float8_e5m2):
        with pytest.raises(TypeError, match="is not a dtype here"):
            xp.dtype_from(theirs)
    with pytest.raises(BufferError, match="complex of 64 bits"):
        xp.from_dlpack(torch.zeros(2, dtype=torch.complex64))


@pytest.mark.host_memory
def test_torch_shares_memory():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    a = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    for whole in (
        xp.from_dlpack(a, device="CPU"),
        xp.from_blob(a.data_ptr(), (3, 4), a.dtype, "CPU", owner=a),
    ):
        back = torch.from_dlpack(whole)
        check(back.data_ptr() == a.data_ptr())
        a += 10
        np.testing.assert_array_equal(whole.numpy(), a.numpy())
        back[0, 0] = -1
        check(float(a[0, 0]) == float(whole[0, 0]) == -1.0)
    view = a.T[1:, ::2]
    x = xp.from_dlpack(view, device="CPU")
    y = xp.from_blob(a.untyped_storage().data_ptr(), tuple(view.shape), view.dtype, "CPU",
                     view.stride(), view.storage_offset(), view)  # fmt: skip
    a *= 3
    for one in (x, y):
        np.testing.assert_array_equal(one.numpy(), view.numpy())
    with pytest.raises(ValueError, match="outside of the 48"):
        xp.from_blob(a.data_ptr(), 13, a.dtype, "CPU", owner=a)


def test_numpy_conversion():
    x = xp.asarray([1.5, 2.5])
    np.testing.assert_array_equal(np.asarray(x), [1.5, 2.5])
    np.testing.assert_equal(np.asarray(x, dtype=np.float64).dtype.name, "float64")
    check(np.array(x, copy=True).flags.writeable)
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype=np.float64, copy=False)
    np.testing.assert_array_equal(np.asarray(xp.asarray([1.5], dtype=xp.bfloat16)), [1.5])


def test_buffer_protocol():
    x = xp.asarray([[1, 2], [3, 4]], dtype=xp.int16)
    view = memoryview(x) if sys.version_info >= (3, 12) else x.__buffer__(0)
    np.testing.assert_equal((view.format, view.shape, view.readonly), ("h", (2, 2), True))
    np.testing.assert_equal(view.tolist(), [[1, 2], [3, 4]])
    with pytest.raises(BufferError, match="bfloat16"):
        xp.ones(2, dtype=xp.bfloat16).__buffer__(0)

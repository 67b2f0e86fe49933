"""Tensors by the buffer protocol (PEP 688): flags of the request, the owner's right to write."""

from __future__ import annotations

import io
import struct
import sys
from typing import Any, Final

import numpy as np
import pytest

import tensor as xp
from tests.dlpack_maker import FLAG_READ_ONLY, Producer
from tests.support import check

SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 0x1, 0x4, 0x8, 0x18
C_ORDER, F_ORDER, ANY_ORDER, INDIRECT = 0x38, 0x58, 0x98, 0x118
"""# src: CPython Include/pybuffer.h"""
F32: Final = (2, 32, 1)
HAS_BUFFERS: Final = sys.version_info >= (3, 12)


def place(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def lent(array: Any) -> Any:
    return xp.from_blob(place(array), array.shape, array.dtype, "CPU", owner=array)


def views(x: Any) -> dict[str, Any]:
    """The ways to one buffer."""
    found = {"__buffer__": x.__buffer__(SIMPLE), "to_memoryview": xp.to_memoryview(x)}
    return found | ({"memoryview": memoryview(x)} if HAS_BUFFERS else {})


def test_lent_writable_memory_is_written_through_every_view() -> None:
    array = np.arange(6, dtype=np.float32)
    x = lent(array)
    back = np.asarray(x)
    check(back.flags.writeable and place(back) == place(array), "numpy's is the owner's memory")
    for number, (name, view) in enumerate(views(x).items(), 7):
        check(not view.readonly and view.format == "f" and view.shape == (6,), name)
        view[2] = number
        check(array[2] == number == x.numpy()[2], name)
    check(not x.numpy().flags.writeable, "a reader's")


def read_only() -> dict[str, Any]:
    """Tensors that nobody may write."""
    locked = np.arange(6, dtype=np.float32)
    locked.flags.writeable = False
    array = np.arange(6, dtype=np.float32)
    capsule = Producer(place(array), (6,), F32, flags=FLAG_READ_ONLY)
    return {
        "a result": xp.arange(6, dtype=xp.float32, device="CPU") + 0,
        "of a locked array": lent(locked),
        "of a read-only capsule": xp.from_dlpack(capsule, device="CPU"),
        "declared so": xp.from_blob(place(array), 6, "float32", "CPU", owner=array, readonly=True),
        "a copy of a view": lent(array.copy())[::-1],
        "nothing": xp.zeros((0, 3), device="CPU"),
    }


def test_read_only_memory_stays_so() -> None:
    for name, x in read_only().items():
        check(not np.asarray(x).flags.writeable, f"{name}: numpy's")
        for way, view in views(x).items():
            check(view.readonly, f"{name}: {way}")
        for flags in (WRITABLE, WRITABLE | ND, WRITABLE | FORMAT | INDIRECT):
            with pytest.raises(BufferError, match="read-only; write to a copy"):
                x.__buffer__(flags)
        copied = np.array(x)
        copied += 1
    check(float(xp.sum(xp.ones(2, device="CPU"))) == 2, "nothing else was written")


def test_each_request() -> None:
    rows = lent(np.arange(6, dtype=np.int16).reshape(2, 3))
    for flags in (SIMPLE, WRITABLE, FORMAT | ND, STRIDES, C_ORDER, ANY_ORDER, INDIRECT | WRITABLE):
        check(rows.__buffer__(flags).tolist() == [[0, 1, 2], [3, 4, 5]], f"{flags:#x}")
    for flags in (F_ORDER, F_ORDER | WRITABLE):
        with pytest.raises(BufferError, match="C order; copy it"):
            rows.__buffer__(flags)
        check(lent(np.arange(3)).__buffer__(flags).tolist() == [0, 1, 2], "one axis has both")
    with pytest.raises(TypeError):
        rows.__buffer__("r")
    with pytest.raises(BufferError, match="bfloat16"):
        xp.ones(2, dtype=xp.bfloat16, device="CPU").__buffer__(SIMPLE)


def test_consumers_of_buffers() -> None:
    array = np.zeros(4, np.float32)
    x, result = lent(array), xp.ones(4, dtype=xp.float32, device="CPU")
    if not HAS_BUFFERS:  # docs/sharing.md says so
        with pytest.raises(TypeError):
            memoryview(x)
        return
    check(bytes(result) == np.ones(4, np.float32).tobytes(), "read")
    check(np.frombuffer(result, np.float32).tolist() == [1, 1, 1, 1], "read by numpy")
    struct.pack_into("f", x, 4, 2.5)
    check(io.BytesIO(np.full(1, 9, np.float32).tobytes()).readinto(x) == 4, "written by a file")
    check(array.tolist() == [9, 2.5, 0, 0], f"{array}")
    with pytest.raises((BufferError, TypeError)):
        struct.pack_into("f", result, 0, 1.0)
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(b"abcd").readinto(result)


def test_half_floats_and_other_dtypes_come_as_numpy_has_them() -> None:
    for name in ("bool", "int8", "uint64", "float16", "float64"):
        array = np.ones(3, name)
        view = lent(array).__buffer__(SIMPLE)
        check(view.format == memoryview(array).format, name)
        np.testing.assert_array_equal(np.asarray(view), array, name)
    bf = xp.asarray([1.5, -2], dtype=xp.bfloat16, device="CPU")
    np.testing.assert_array_equal(np.asarray(bf), [1.5, -2], "float32 by __array__")


def test_a_tensor_as_owner() -> None:
    """It keeps its memory, which nobody may write, on every version of Python alike."""
    x = (xp.arange(6, dtype=xp.float32, device="CPU") + 1).realize()
    y = xp.from_blob(place(x.numpy()), 6, "float32", "CPU", owner=x)
    check(not np.asarray(y).flags.writeable, "as its owner")
    array = np.zeros(6, np.float32)
    z = xp.from_blob(place(array), 6, "float32", "CPU", owner=lent(array))
    check(np.asarray(z).flags.writeable, "as its owner")

"""Creation functions against numpy."""

from __future__ import annotations

import array

import numpy as np
import pytest

import tensor as xp
from tests.array_api.compare import same
from tests.support import check

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_constant_arrays(dtype, shape):
    kind = getattr(xp, dtype)
    for name, value in (("zeros", 0), ("ones", 1), ("empty", 0)):
        x = getattr(xp, name)(shape, dtype=kind)
        same(x, np.full(shape, value, "float32" if dtype == "bfloat16" else dtype))
        check(x.dtype is kind)
        like = getattr(xp, f"{name}_like")(x)
        check(like.dtype is kind and like.shape == shape)
    same(xp.full(shape, 1, dtype=kind), xp.full_like(xp.zeros(shape, dtype=kind), 1).numpy())


def test_default_dtypes():
    check(xp.zeros(2).dtype is xp.float32)
    check(xp.full(2, 7).dtype is xp.int64)
    check(xp.full(2, 7.0).dtype is xp.float32)
    check(xp.full(2, True).dtype is xp.bool)
    check(xp.asarray([1.5]).dtype is xp.float32)
    check(xp.asarray([1, 2]).dtype is xp.int64)
    check(xp.asarray([True]).dtype is xp.bool)
    check(xp.asarray(np.ones(1)).dtype is xp.float64)
    check(xp.asarray(2.0).dtype is xp.float32)
    check(xp.arange(3).dtype is xp.int64)
    check(xp.arange(3.0).dtype is xp.float32)
    check(xp.linspace(0, 1, 3).dtype is xp.float32)
    check(xp.eye(2).dtype is xp.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_of_numpy(dtype):
    values = np.arange(12).reshape(3, 4).astype(dtype)
    for view in (values, values[::2, ::-1], values.T, values[1:1], values[0, 0]):
        x = xp.asarray(view)
        same(x, view)
        np.testing.assert_equal(x.dtype.name, dtype)
        np.testing.assert_equal(x.numpy().dtype.name, dtype)


@pytest.mark.host_memory
def test_asarray_shares():
    values = np.arange(4.0)
    shared = xp.asarray(values)
    values[0] = 9.0
    np.testing.assert_equal(shared.numpy()[0], 9.0)
    check(np.shares_memory(xp.asarray(values, copy=False).numpy(), values))


def test_asarray_copies():
    values = np.arange(4.0)
    copied = xp.asarray(values, copy=True)
    values[0] = 9.0
    shared = xp.asarray(values)
    np.testing.assert_equal(float(copied[0]), 0.0)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray(values, dtype=xp.float32, copy=False)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray(shared, dtype=xp.float32, copy=False)
    same(xp.asarray(shared), values)


def test_asarray_of_other_things():
    same(xp.asarray([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    same(xp.asarray([]), np.empty((0,)))
    same(xp.asarray(array.array("i", [3, 1])), [3, 1])
    same(xp.asarray(memoryview(bytes([7, 9]))), [7, 9])
    same(xp.asarray(np.float64(2.5)), 2.5)
    same(xp.asarray([xp.asarray(1), xp.asarray(5)]), [1, 5])
    same(xp.asarray(-1, dtype=xp.float64), -1.0)
    same(xp.asarray([1, 2], dtype=xp.bfloat16), [1.0, 2.0])
    for wrong in (np.array(["a"]), np.array([1j]), np.array([object()])):
        with pytest.raises(TypeError, match="numpy dtype"):
            xp.asarray(wrong)
    with pytest.raises(OverflowError):
        xp.asarray([300], dtype=xp.uint8)
    with pytest.raises(TypeError, match="not a dtype"):
        xp.asarray(1, dtype="float32")


@pytest.mark.parametrize(
    "args", [(5,), (2, 7), (7, 2), (0, 10, 3), (10, 0, -3), (0,), (-5, 5, 2), (3, 3)]
)
def test_arange(args):
    same(xp.arange(*args), np.arange(*args))
    same(xp.arange(*args, dtype=xp.float64), np.arange(*args, dtype=np.float64))
    same(xp.arange(*map(float, args), dtype=xp.float64), np.arange(*map(float, args)))
    same(xp.arange(*args, dtype=xp.int8), np.arange(*args, dtype=np.int8))


def test_arange_by_fractions():
    same(xp.arange(0.0, 1.0, 0.1, dtype=xp.float64), np.arange(0.0, 1.0, 0.1), 2)
    same(xp.arange(1, 2, 0.25), np.arange(1, 2, 0.25))
    with pytest.raises(ValueError, match="step"):
        xp.arange(0, 1, 0)


@pytest.mark.parametrize("num", [0, 1, 2, 5, 50])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(num, endpoint):
    got = xp.linspace(-1.0, 3.3, num, dtype=xp.float64, endpoint=endpoint)
    want = np.linspace(-1.0, 3.3, num, endpoint=endpoint)
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=1e-15 * 8)
    if num > 1 and endpoint:
        np.testing.assert_equal(got.numpy()[-1], 3.3)
    same(xp.linspace(5, 5, num), np.full(num, 5.0))


@pytest.mark.parametrize("args", [(3,), (2, 4), (4, 2), (0, 3)])
@pytest.mark.parametrize("k", [0, 1, -1, 5, -5])
def test_eye(args, k):
    same(xp.eye(*args, k=k), np.eye(*args, k=k))


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (2, 3, 2), (0, 2)])
@pytest.mark.parametrize("k", [0, 1, -1, 4])
def test_triangles(shape, k):
    values = np.arange(1, np.prod(shape) + 1).reshape(shape)
    same(xp.tril(xp.asarray(values), k=k), np.tril(values, k))
    same(xp.triu(xp.asarray(values), k=k), np.triu(values, k))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing):
    lines = [np.arange(2), np.arange(3), np.arange(4)]
    for count in (1, 2, 3):
        got = xp.meshgrid(*map(xp.asarray, lines[:count]), indexing=indexing)
        want = np.meshgrid(*lines[:count], indexing=indexing)
        check(len(got) == len(want))
        for g, w in zip(got, want, strict=True):
            same(g, w)
    with pytest.raises(ValueError, match="indexing"):
        xp.meshgrid(xp.arange(2), indexing="no")


def test_negative_shape():
    with pytest.raises(ValueError, match="negative"):
        xp.zeros((2, -1))

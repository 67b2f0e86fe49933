"""Python's own protocol: operators, conversions, iteration, printing, laziness."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tensor as xp
from tests.support import check

ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
BITS = ["and_", "or_", "xor", "lshift", "rshift"]
COMPARE = ["lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", ARITHMETIC + COMPARE)
def test_operators_of_floats(name):
    function = getattr(operator, name)
    a, b = np.array([1.5, -2.25, 4.0]), np.array([2.0, 3.0, -0.5])
    x, y = xp.asarray(a), xp.asarray(b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(function(x, y).numpy(), function(a, b), rtol=1e-15)
        np.testing.assert_allclose(function(x, 2.0).numpy(), function(a, 2.0), rtol=1e-15)
        np.testing.assert_allclose(function(3.0, y).numpy(), function(3.0, b), rtol=1e-15)
        np.testing.assert_allclose(function(x, y[:1]).numpy(), function(a, b[:1]), rtol=1e-15)


@pytest.mark.parametrize("name", [*ARITHMETIC, *BITS, *COMPARE])
def test_operators_of_integers(name):
    function = getattr(operator, name)
    a, b = np.array([5, 7, 9], np.int32), np.array([2, 3, 1], np.int32)
    x, y = xp.asarray(a), xp.asarray(b)
    np.testing.assert_array_equal(function(x, y).numpy(), function(a, b))
    np.testing.assert_array_equal(function(x, 2).numpy(), function(a, 2))
    np.testing.assert_array_equal(function(6, y).numpy(), function(6, b))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "pow", *BITS, "truediv"])
def test_in_place(name):
    function = getattr(operator, "i" + name.strip("_") if name != "truediv" else "itruediv")
    dtype = np.float32 if name == "truediv" else np.int16
    want = np.array([5, 7, 9], dtype)
    x = kept = xp.asarray(want.copy())
    x = function(x, 2)
    want = function(want, 2)
    check(x is kept, "in place means the same object")
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_equal(x.dtype.name, want.dtype.name)


def test_in_place_keeps_dtype_and_shape():
    x = xp.asarray([1, 2])
    with pytest.raises(TypeError, match="in-place"):
        x += 1.5
    with pytest.raises(TypeError, match="in-place"):
        x += xp.ones((2, 2), dtype=xp.int64)
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    x @= x
    np.testing.assert_array_equal(x.numpy(), [[7.0, 10.0], [15.0, 22.0]])


def test_unary_operators():
    x = xp.asarray([1, -2, 3])
    np.testing.assert_array_equal((-x).numpy(), [-1, 2, -3])
    np.testing.assert_array_equal((+x).numpy(), [1, -2, 3])
    np.testing.assert_array_equal(abs(x).numpy(), [1, 2, 3])
    np.testing.assert_array_equal((~x).numpy(), [-2, 1, -4])
    for bad in (lambda: -xp.asarray([True]), lambda: ~xp.asarray([1.0])):
        with pytest.raises(TypeError):
            bad()


@pytest.mark.parametrize("other", ["a", None, [1, 2], 1j, b"x"], ids=repr)
def test_foreign_operands(other):
    x = xp.asarray([1.0, 2.0])
    for function in (operator.add, operator.lt, operator.matmul, operator.iadd):
        with pytest.raises(TypeError):
            function(x, other)


def test_conversions():
    np.testing.assert_equal(float(xp.asarray(2.5)), 2.5)
    np.testing.assert_equal(int(xp.asarray(-2.5)), -2)
    np.testing.assert_equal(complex(xp.asarray(2.5)), 2.5 + 0j)
    np.testing.assert_equal([1, 2, 3][xp.asarray(1)], 2)
    check(bool(xp.asarray(np.nan)) and not bool(xp.asarray(0)))
    np.testing.assert_equal(xp.asarray([[7]]).item(), 7)
    np.testing.assert_equal(xp.asarray([[1, 2], [3, 4]]).tolist(), [[1, 2], [3, 4]])
    for function in (bool, int, float, complex, operator.index):
        with pytest.raises(TypeError):
            function(xp.asarray([1, 2]))
    with pytest.raises(TypeError, match="integer"):
        operator.index(xp.asarray(1.0))
    with pytest.raises(ValueError, match="size"):
        xp.asarray([1, 2]).item()


def test_attributes():
    x = xp.ones((2, 3, 4), dtype=xp.float16)
    np.testing.assert_equal((x.shape, x.ndim, x.size, x.nbytes), ((2, 3, 4), 3, 24, 48))
    np.testing.assert_equal((x.dtype.name, x.device), ("float16", xp.zeros(1).device))
    np.testing.assert_equal(xp.asarray(1).shape, ())


def test_length_and_iteration():
    x = xp.asarray([[1, 2], [3, 4], [5, 6]])
    np.testing.assert_equal(len(x), 3)
    np.testing.assert_equal([row.tolist() for row in x], [[1, 2], [3, 4], [5, 6]])
    for function in (len, iter):
        with pytest.raises(TypeError, match="rank 0"):
            function(xp.asarray(1))
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


def test_printing():
    np.testing.assert_equal(
        repr(xp.asarray([1.0, 2.5], device="CPU")),
        "Tensor([1. , 2.5], dtype=float32, device='CPU')",
    )
    check("bfloat16" in repr(xp.ones(2, dtype=xp.bfloat16)))


def test_numpy_arrays_are_not_tensors():
    x = xp.asarray([1.0, 2.0])
    for function in (lambda: x + np.ones(2), lambda: np.ones(2) + x):
        with pytest.raises(TypeError):
            function()
    np.testing.assert_equal((np.float64(2.0) * x).dtype.name, "float32")


def test_realize_and_laziness():
    x = xp.asarray([1.0, 2.0]) + 1.0
    y = x * 2.0
    check(x.realize() is x)
    np.testing.assert_array_equal(y.numpy(), [4.0, 6.0])
    np.testing.assert_array_equal(x.numpy(), [2.0, 3.0])
    first = x.numpy()
    del x, y
    np.testing.assert_array_equal(first, [2.0, 3.0])
    check(not first.flags.writeable)


@pytest.mark.host_memory
def test_the_same_device_is_no_copy():
    x = xp.asarray([1.0])
    check(np.shares_memory(x.to(x.device).numpy(), x.numpy()))
    check(np.shares_memory(x.to_device(x.device).numpy(), x.numpy()))


def test_devices():
    x = xp.asarray([1.0])
    with pytest.raises(ValueError, match="stream"):
        x.to_device(x.device, stream=3)
    y = xp.Tensor(x._node, "elsewhere")
    with pytest.raises(ValueError, match="elsewhere"):
        x + y
    with pytest.raises(ValueError, match="elsewhere"):
        xp.concat([x, y])


def test_a_deep_graph_does_not_recurse():
    x = xp.asarray([0.0])
    for _ in range(3000):
        x = x + 1.0
    np.testing.assert_array_equal(x.numpy(), [3000.0])

"""Every function's special cases, in every floating dtype."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from tests.array_api import tables
from tests.array_api.compare import FLOATS, same

ULPS = 4.0


def names(dtype):
    return dtype.name


@pytest.mark.parametrize("dtype", FLOATS, ids=names)
@pytest.mark.parametrize("name", tables.UNARY)
def test_unary(name, dtype):
    given, wanted = zip(*tables.UNARY[name], strict=True)
    same(getattr(xp, name)(xp.asarray(list(given), dtype=dtype)), wanted, ULPS, name)


@pytest.mark.parametrize("dtype", FLOATS, ids=names)
@pytest.mark.parametrize("name", tables.PREDICATES)
def test_predicates(name, dtype):
    given, wanted = zip(*tables.PREDICATES[name], strict=True)
    values = np.array(given)
    if name == "signbit":
        values = np.copysign(np.where(np.isnan(values), np.nan, values), np.where(wanted, -1, 1))
    result = getattr(xp, name)(xp.asarray(values, dtype=dtype))
    np.testing.assert_array_equal(result.numpy(), wanted)
    np.testing.assert_equal(result.dtype.name, "bool")


@pytest.mark.parametrize("dtype", FLOATS, ids=names)
@pytest.mark.parametrize("name", tables.BINARY)
def test_binary(name, dtype):
    first, second, wanted = zip(*tables.BINARY[name], strict=True)
    a, b = xp.asarray(list(first), dtype=dtype), xp.asarray(list(second), dtype=dtype)
    same(getattr(xp, name)(a, b), wanted, ULPS, name)


@pytest.mark.parametrize("dtype", FLOATS, ids=names)
@pytest.mark.parametrize("name", tables.COMPARISONS)
def test_comparisons(name, dtype):
    first, second, wanted = zip(*tables.COMPARISONS[name], strict=True)
    a, b = xp.asarray(list(first), dtype=dtype), xp.asarray(list(second), dtype=dtype)
    np.testing.assert_array_equal(getattr(xp, name)(a, b).numpy(), wanted)


INTEGERS = (xp.int8, xp.int16, xp.int32, xp.int64, xp.uint8, xp.uint16, xp.uint32, xp.uint64)


@pytest.mark.parametrize("dtype", INTEGERS, ids=names)
def test_integer_overflow_wraps(dtype):
    info = np.iinfo(dtype.name)
    edges = np.array([info.min, info.min + 1, info.max - 1, info.max, 1, 3], dtype.name)
    x = xp.asarray(edges)
    with np.errstate(over="ignore"):
        for name in ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_xor"):
            want = getattr(np, name)(edges, edges[::-1])
            same(getattr(xp, name)(x, xp.flip(x)), want, context=name)
        same(xp.abs(x), np.abs(edges))
        same(xp.negative(x), np.negative(edges))
        same(xp.square(x), np.square(edges))
        same(xp.sign(x), np.sign(edges))
        same(xp.bitwise_invert(x), np.invert(edges))


@pytest.mark.parametrize("dtype", INTEGERS, ids=names)
def test_integer_division(dtype):
    info = np.iinfo(dtype.name)
    first = np.array([info.min, info.max, 7, 7, info.max, 0, 5], dtype.name)
    second = np.array([2, 3, 2, 5, 1, 4, 0], dtype.name)
    if info.min < 0:
        first = np.append(first, [-7, 7, -7, info.min]).astype(dtype.name)
        second = np.append(second, [2, -2, -2, -1]).astype(dtype.name)
    a, b = xp.asarray(first), xp.asarray(second)
    with np.errstate(all="ignore"):
        same(xp.floor_divide(a, b), np.floor_divide(first, second))
        same(xp.remainder(a, b), np.remainder(first, second))
        same(xp.divide(a, b), np.divide(first, second).astype(np.float64), ULPS)


@pytest.mark.parametrize("dtype", INTEGERS, ids=names)
def test_shifts(dtype):
    bits = 8 * np.dtype(dtype.name).itemsize
    value = np.array([3] * (bits - 1), dtype.name)
    by = np.arange(bits - 1).astype(dtype.name)
    a, b = xp.asarray(value), xp.asarray(by)
    same(xp.bitwise_left_shift(a, b), np.left_shift(value, by))
    top = np.full_like(value, np.iinfo(dtype.name).min or np.iinfo(dtype.name).max)
    same(xp.bitwise_right_shift(xp.asarray(top), b), np.right_shift(top, by))


def test_shift_by_the_width_or_more():
    x = xp.asarray([-8, 8], dtype=xp.int32)
    by = xp.asarray([32, 40], dtype=xp.int32)
    same(x << by, [0, 0])
    same(x >> by, [-1, 0])


def test_truth_tables():
    a, b = xp.asarray([False, False, True, True]), xp.asarray([False, True, False, True])
    same(xp.logical_and(a, b), [False, False, False, True])
    same(xp.logical_or(a, b), [False, True, True, True])
    same(xp.logical_xor(a, b), [False, True, True, False])
    same(xp.logical_not(a), [True, True, False, False])
    for op in ("and", "or", "xor"):
        same(getattr(xp, f"bitwise_{op}")(a, b), getattr(xp, f"logical_{op}")(a, b).numpy())


def test_integers_are_finite_and_never_nan():
    x = xp.asarray([0, -3, 9])
    same(xp.isfinite(x), [True] * 3)
    same(xp.isinf(x), [False] * 3)
    same(xp.isnan(x), [False] * 3)


def test_rounding_leaves_integers():
    x = xp.asarray([-3, 4], dtype=xp.int16)
    for name in ("ceil", "floor", "trunc", "round"):
        result = getattr(xp, name)(x)
        same(result, [-3, 4])
        np.testing.assert_equal(result.dtype.name, "int16")


def test_clip():
    x = xp.asarray([np.nan, -2.0, 0.5, 3.0, np.inf])
    same(xp.clip(x, 0.0, 1.0), [np.nan, 0.0, 0.5, 1.0, 1.0])
    same(xp.clip(x, min=0.0), [np.nan, 0.0, 0.5, 3.0, np.inf])
    same(xp.clip(x, max=1.0), [np.nan, -2.0, 0.5, 1.0, 1.0])
    same(xp.clip(x), x.numpy())
    bounds = xp.asarray([[0.0], [1.0]], dtype=xp.float32)
    same(xp.clip(xp.asarray([0.5, 2.0]), bounds, 1.5), [[0.5, 1.5], [1.0, 1.5]])
    same(xp.clip(xp.asarray([1, 200], dtype=xp.uint8), -5, 300), [1, 200])


def test_where_and_its_scalars():
    c = xp.asarray([True, False])
    result = xp.where(c, xp.asarray([1, 2], dtype=xp.int8), 7)
    same(result, [1, 7])
    np.testing.assert_equal(result.dtype.name, "int8")
    same(xp.where(c, 1.5, np.nan), [1.5, np.nan])
    same(xp.where(c, xp.asarray([[1.0], [2.0]]), -0.0), [[1.0, -0.0], [2.0, -0.0]])
    with pytest.raises(TypeError, match="bool"):
        xp.where(xp.asarray([1, 0]), 1, 2)


@pytest.mark.parametrize("name", ["subtract", "floor_divide", "remainder", "pow"])
def test_arithmetic_that_bool_has_not(name):
    x = xp.asarray([True, False])
    with pytest.raises(TypeError, match="bool"):
        getattr(xp, name)(x, x)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "logical_and"])
def test_bits_that_floats_have_not(name):
    x = xp.asarray([1.0])
    with pytest.raises(TypeError, match="float32"):
        getattr(xp, name)(x, x)

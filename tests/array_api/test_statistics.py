"""Reductions, running reductions, searching and sorting against numpy and the standard."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from tests.array_api.compare import same
from tests.support import check

AXES = [None, 0, 1, -1, (0, 2), (0, 1, 2)]
X = np.random.default_rng(7).integers(-9, 9, (3, 4, 5))
F = np.random.default_rng(8).normal(size=(3, 4, 5))
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_of_floats(axis, keepdims):
    x, how = xp.asarray(F), {"axis": axis, "keepdims": keepdims}
    for name in ("sum", "prod", "mean", "var", "std"):
        got, want = getattr(xp, name)(x, **how), getattr(np, name)(F, **how)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-14)
        np.testing.assert_equal(got.shape, np.shape(want))
    for name in ("max", "min", "any", "all", "count_nonzero"):
        same(getattr(xp, name)(x, **how), getattr(np, name)(F, **how), context=name)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_sums_of_integers_widen(dtype):
    values = X.astype(dtype)
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
        got = getattr(xp, name)(xp.asarray(values), axis=0)
        want = getattr(np, name)(values, axis=0)
        same(got, want, context=name)
        np.testing.assert_equal(got.dtype.name, "uint64" if dtype[0] == "u" else "int64")
    same(xp.sum(xp.asarray(values), dtype=xp.int8), np.sum(values, dtype=np.int8))
    for name in ("max", "min"):
        got = getattr(xp, name)(xp.asarray(values), axis=1)
        same(got, getattr(values, name)(axis=1))
        np.testing.assert_equal(got.dtype.name, dtype)


def test_sum_of_bool_and_dtype():
    x = xp.asarray([True, True, False])
    same(xp.sum(x), 2)
    check(xp.sum(x).dtype is xp.int64)
    check(xp.sum(x, dtype=xp.float64).dtype is xp.float64)
    same(xp.max(x), True)
    same(xp.min(x), False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_accumulates_in_float32(dtype):
    x = xp.ones(4096, dtype=getattr(xp, dtype))
    total = xp.sum(x)
    check(total.dtype is getattr(xp, dtype))
    same(total, 4096.0)
    same(xp.mean(x), 1.0)
    same(xp.var(x), 0.0)


def test_half_precision_overflows_only_at_the_end():
    same(xp.sum(xp.asarray([6e4, 6e4, -6e4, -49984.0], dtype=xp.float16)), 10016.0)
    same(xp.mean(xp.asarray([6e4, 6e4], dtype=xp.float16)), np.float16(6e4))
    got = xp.cumulative_sum(xp.asarray([6e4, 6e4, -6e4], dtype=xp.float16))
    same(got, [np.float16(6e4), np.inf, np.float16(6e4)])


def test_nothing():
    x = xp.zeros((0, 3))
    same(xp.sum(x), 0.0)
    same(xp.prod(x), 1.0)
    same(xp.sum(x, axis=0), [0.0] * 3)
    same(xp.sum(x, axis=1), np.zeros(0))
    same(xp.prod(x, axis=0), [1.0] * 3)
    same(xp.any(x), False)
    same(xp.all(x), True)
    same(xp.all(x, axis=0), [True] * 3)
    same(xp.mean(x), np.nan)
    same(xp.var(x, axis=0), [np.nan] * 3)
    same(xp.count_nonzero(x), 0)
    same(xp.max(x, axis=1), np.zeros(0))
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match="nothing"):
            getattr(xp, name)(x)
        with pytest.raises(ValueError, match="nothing"):
            getattr(xp, name)(x, axis=0)


def test_nan_and_infinities():
    x = xp.asarray([[1.0, np.nan, 3.0], [np.inf, 2.0, -np.inf]])
    for name in ("sum", "mean", "var", "std", "prod"):
        check(np.isnan(getattr(xp, name)(x).numpy()), name)
    same(xp.max(x, axis=1), [np.nan, np.inf])
    same(xp.min(x, axis=1), [np.nan, -np.inf])
    same(xp.argmax(x, axis=1), [1, 0])
    same(xp.argmin(x, axis=1), [1, 2])
    same(xp.any(xp.asarray([np.nan])), True)
    same(xp.all(xp.asarray([np.nan, np.inf, -1.0])), True)
    same(xp.any(xp.asarray([0.0, -0.0])), False)


@pytest.mark.parametrize("correction", [0, 1, 0.5, 5, 7])
def test_variance_correction(correction):
    x = F[0, 0]
    want = np.sum((x - x.mean()) ** 2) / (5 - correction) if correction < 5 else np.nan
    np.testing.assert_allclose(float(xp.var(xp.asarray(x), correction=correction)), want, 1e-12)
    np.testing.assert_allclose(
        float(xp.std(xp.asarray(x), correction=correction)), np.sqrt(want), 1e-12
    )


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_places_of_extremes(axis, keepdims):
    for values in (X, F, X > 0, X.astype(np.uint8)):
        for name in ("argmax", "argmin"):
            got = getattr(xp, name)(xp.asarray(values), axis=axis, keepdims=keepdims)
            same(got, getattr(np, name)(values, axis=axis, keepdims=keepdims), context=name)
            check(got.dtype is xp.int64)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_reductions(axis):
    for values in (X, F, X[:, :0]):
        x = xp.asarray(values)
        for name in ("cumulative_sum", "cumulative_prod"):
            for initial in (False, True):
                got = getattr(xp, name)(x, axis=axis, include_initial=initial)
                want = getattr(np, name)(values, axis=axis, include_initial=initial)
                np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
                np.testing.assert_equal(got.shape, want.shape)


def test_running_sum_needs_an_axis():
    same(xp.cumulative_sum(xp.asarray([1, 2, 3])), [1, 3, 6])
    with pytest.raises(ValueError, match="axis"):
        xp.cumulative_sum(xp.ones((2, 2)))


@pytest.mark.parametrize("n", [0, 1, 2, 9])
@pytest.mark.parametrize("axis", [0, -1])
def test_diff(n, axis):
    same(xp.diff(xp.asarray(X), n=n, axis=axis), np.diff(X, n=n, axis=axis))


def test_diff_of_more():
    x, edge = np.array([1, 4, 9]), np.array([0])
    got = xp.diff(xp.asarray(x), prepend=xp.asarray(edge), append=xp.asarray(edge))
    same(got, np.diff(x, prepend=edge, append=edge))
    same(xp.diff(xp.asarray([True, False, False])), [True, False])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["int64", "float32", "uint8"])
def test_searchsorted(side, dtype):
    line = np.array([1, 2, 2, 5, 9]).astype(dtype)
    wanted = np.array([[0, 1, 2], [5, 9, 10]]).astype(dtype)
    got = xp.searchsorted(xp.asarray(line), xp.asarray(wanted), side=side)
    same(got, np.searchsorted(line, wanted, side))
    check(got.dtype is xp.int64)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_with_nan_and_sorter(side):
    line = np.array([-np.inf, 1.0, np.inf, np.nan, np.nan])
    wanted = np.array([np.nan, np.inf, -np.inf, 2.0])
    got = xp.searchsorted(xp.asarray(line), xp.asarray(wanted), side=side)
    same(got, np.searchsorted(line, wanted, side))
    mixed, order = np.array([3.0, 1.0, 2.0]), np.array([1, 2, 0])
    got = xp.searchsorted(xp.asarray(mixed), xp.asarray([2.0]), side=side, sorter=xp.asarray(order))
    same(got, np.searchsorted(mixed, [2.0], side, sorter=order))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64", "bool"])
def test_sorting(axis, dtype):
    values = (X > 0) if dtype == "bool" else X.astype(dtype)
    x = xp.asarray(values)
    same(xp.sort(x, axis=axis), np.sort(values, axis=axis))
    same(xp.sort(x, axis=axis, descending=True), np.flip(np.sort(values, axis=axis), axis))
    same(xp.argsort(x, axis=axis), np.argsort(values, axis=axis, stable=True))


def test_sorting_is_stable_both_ways_and_puts_nan_last():
    x = xp.asarray([2.0, np.nan, 1.0, 2.0, -np.inf, np.inf, 1.0])
    same(xp.argsort(x), [4, 2, 6, 0, 3, 5, 1])
    same(xp.sort(x), [-np.inf, 1.0, 1.0, 2.0, 2.0, np.inf, np.nan])
    same(xp.argsort(x, descending=True), [1, 5, 0, 3, 2, 6, 4])
    same(xp.sort(xp.zeros((3, 0))), np.zeros((3, 0)))


@pytest.mark.parametrize("k", [0, 1, 3, 5])
def test_topk(k):
    for axis, largest in ((-1, True), (-1, False), (0, True)):
        k_here = min(k, F.shape[axis])
        values, places = xp.topk(xp.asarray(F), k_here, axis=axis, largest=largest)
        order = np.take(np.argsort(-F if largest else F, axis=axis), range(k_here), axis=axis)
        same(places, order)
        same(values, np.take_along_axis(F, order, axis))
    with pytest.raises(ValueError, match="topk"):
        xp.topk(xp.asarray(F), 6)

"""Moving, joining, repeating and splitting against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from tests.array_api.compare import same

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_reshape():
    for shape in [(24,), (6, 4), (-1, 2), (2, -1), (2, 3, 2, 2), -1]:
        same(xp.reshape(xp.asarray(X), shape), X.reshape(shape))
    same(xp.reshape(xp.zeros((0, 3)), (3, 0)), np.zeros((3, 0)))
    same(xp.reshape(xp.asarray(2.0), (1, 1)), [[2.0]])
    for bad in [(5,), (-1, 5), (-1, -1), (-2, 12)]:
        with pytest.raises(ValueError, match="shape"):
            xp.reshape(xp.asarray(X), bad)


def test_axes():
    x = xp.asarray(X)
    same(xp.permute_dims(x, (2, 0, 1)), X.transpose(2, 0, 1))
    same(xp.permute_dims(x, (-1, 0, 1)), X.transpose(2, 0, 1))
    same(xp.matrix_transpose(x), X.swapaxes(1, 2))
    same(x.mT, X.swapaxes(1, 2))
    same(x[0].T, X[0].T)
    same(xp.moveaxis(x, 0, -1), np.moveaxis(X, 0, -1))
    same(xp.moveaxis(x, (0, 2), (1, 0)), np.moveaxis(X, (0, 2), (1, 0)))
    for axis in (0, 2, 3, -1, -4):
        same(xp.expand_dims(x, axis=axis), np.expand_dims(X, axis))
    same(xp.squeeze(xp.asarray(X[:1, :, :1]), (0, 2)), X[0, :, 0])
    with pytest.raises(ValueError, match="size 3"):
        xp.squeeze(x, 1)
    with pytest.raises(IndexError, match="axis 4"):
        xp.expand_dims(x, axis=4)
    with pytest.raises(ValueError, match="rank 2"):
        _ = x.T
    with pytest.raises(ValueError, match="axes"):
        xp.permute_dims(x, (0, 1))
    with pytest.raises(ValueError, match="repeated"):
        xp.permute_dims(x, (0, 0, 1))


def test_broadcasting():
    same(xp.broadcast_to(xp.asarray([1.0, 2.0]), (3, 2)), [[1.0, 2.0]] * 3)
    a, b = xp.broadcast_arrays(xp.ones((3, 1)), xp.zeros((1, 2)))
    same(a, np.ones((3, 2)))
    same(b, np.zeros((3, 2)))
    np.testing.assert_equal(xp.broadcast_shapes((2, 1), (3,), ()), (2, 3))
    same(xp.ones((0, 1)) + xp.ones((1, 4)), np.ones((0, 4)))
    with pytest.raises(ValueError, match="broadcast"):
        xp.ones((2, 3)) + xp.ones((2,))
    with pytest.raises(ValueError, match="broadcast"):
        xp.broadcast_to(xp.ones((2, 3)), (3,))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2)])
def test_flip(axis):
    same(xp.flip(xp.asarray(X), axis=axis), np.flip(X, axis))
    same(xp.flip(xp.zeros((2, 0, 3)), axis=axis), np.zeros((2, 0, 3)))


@pytest.mark.parametrize(
    ("shift", "axis"), [(1, None), (-5, None), (30, None), (1, 0), (-1, 2), ((1, 2), (0, 1)),
                        (2, (1, 2)), (0, 1), ((1, 1), (1, 1))],
)  # fmt: skip
def test_roll(shift, axis):
    same(xp.roll(xp.asarray(X), shift, axis=axis), np.roll(X, shift, axis))


def test_roll_keeps_special_values():
    x = np.array([np.nan, -0.0, np.inf])
    same(xp.roll(xp.asarray(x), 1), np.roll(x, 1))
    same(xp.roll(xp.zeros((0,)), 3), np.zeros(0))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_concat_and_stack(axis, count):
    parts = [X + 100 * i for i in range(count)]
    same(xp.concat([xp.asarray(p) for p in parts], axis=axis), np.concatenate(parts, axis))
    if axis is not None:
        same(xp.stack([xp.asarray(p) for p in parts], axis=axis), np.stack(parts, axis))


def test_concat_of_differing_parts():
    a, b = np.array([-0.0, np.nan], np.float32), np.array([], np.float32)
    c = np.array([7, 8], np.int8)
    got = xp.concat([xp.asarray(v) for v in (a, b, c)])
    same(got, np.concatenate([a, b, c]))
    np.testing.assert_equal(got.dtype.name, "float32")
    with pytest.raises(ValueError, match="join"):
        xp.concat([xp.ones((2, 2)), xp.ones((3, 3))])
    with pytest.raises(ValueError, match="at least one"):
        xp.concat([])


def test_unstack_and_split():
    x = xp.asarray(X)
    for axis in (0, 1, -1):
        for got, want in zip(xp.unstack(x, axis=axis), np.unstack(X, axis=axis), strict=True):
            same(got, want)
    for parts in (2, [1], [1, 3], [3, 1], [0, 9]):
        wants = np.split(X, parts, axis=2)
        for got, want in zip(xp.split(x, parts, axis=2), wants, strict=True):
            same(got, want)
    with pytest.raises(ValueError, match="equal parts"):
        xp.split(x, 3, axis=2)


@pytest.mark.parametrize("times", [(2,), (1, 2), (2, 1, 3), (2, 1, 2, 1), (0,), ()])
def test_tile(times):
    same(xp.tile(xp.asarray(X), times), np.tile(X, times))


def test_repeat():
    x = xp.asarray(X)
    for axis in (None, 0, 1, -1):
        same(xp.repeat(x, 2, axis=axis), np.repeat(X, 2, axis))
        same(xp.repeat(x, 0, axis=axis), np.repeat(X, 0, axis))
    same(xp.repeat(x, xp.asarray([2, 0, 1]), axis=1), np.repeat(X, [2, 0, 1], axis=1))
    same(xp.repeat(x, [3], axis=0), np.repeat(X, [3], axis=0))


def test_pad():
    widths = [(1, 0), (0, 2), (3, 1)]
    same(xp.pad(xp.asarray(X), widths), np.pad(X, widths))
    for value in (2.5, np.nan, -np.inf, -0.0):
        got = xp.pad(xp.asarray(X), widths, constant_values=value)
        same(got, np.pad(X, widths, constant_values=value))
    with pytest.raises(ValueError, match="pad_width"):
        xp.pad(xp.asarray(X), [(1, 1)])

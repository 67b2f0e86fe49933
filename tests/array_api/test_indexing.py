"""Indexing and assignment against numpy, key by key."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from tests.array_api.compare import same

VALUES = np.arange(60).reshape(3, 4, 5)
BASIC = [
    0, -1, (1, 2), (1, 2, 3), ..., None, slice(None), slice(1, None), slice(None, None, -1),
    slice(5, 1), slice(-2, None), slice(None, None, 2), (slice(None), 1), (..., 1), (..., None),
    (None, 1, None, ..., slice(None, None, -2)), (slice(2, None, -2), slice(1, 4, 2), 0),
    (1, ..., slice(4, None, -3)), (slice(0, 0),), (), (Ellipsis, slice(1, 2), None),
]  # fmt: skip
I1, I2, I3 = np.array([0, 2, -1]), np.array([[1], [-2]]), np.array(2)
ADVANCED = [
    I1, I2, I3, (I1, I1), (I1, 1), (1, I1), (slice(None), I1), (slice(None), I2),
    (slice(1, None), I1, I1), (I1, slice(None), I1), (I1, slice(None, None, -1)), (..., I1),
    (I1, ...), (None, I1), (I1, None), (I1, None, I1), (I1, I2), (I2, I1, I1), (0, slice(None), I1),
    (slice(None), I1, None, slice(0, 2)), (slice(None), slice(None), I2), (I1, ..., 0),
    (slice(None), I1, None, I1),
    (None, I1, slice(None), I1),
    (slice(None), I2, None, 1),
    np.empty((0,), np.int64), (slice(None), None, I1, I1),
]  # fmt: skip


def ours(key):
    """The same key with tensors for numpy arrays."""
    if isinstance(key, tuple):
        return tuple(ours(part) for part in key)
    return xp.asarray(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", BASIC, ids=repr)
def test_basic(key):
    same(xp.asarray(VALUES)[key], VALUES[key])


@pytest.mark.parametrize("number", range(len(ADVANCED)))
def test_integer_arrays(number):
    key = ADVANCED[number]
    want = VALUES[key]
    same(xp.asarray(VALUES)[key], want, context="host index")
    same(xp.asarray(VALUES)[ours(key)], want, context="tensor index")


def test_lists_and_tensor_scalars():
    x = xp.asarray(VALUES)
    same(x[[2, 0]], VALUES[[2, 0]])
    same(x[:, [-1, 0]], VALUES[:, [-1, 0]])
    same(x[xp.asarray(1)], VALUES[1])
    same(x[xp.asarray([1, 0], dtype=xp.uint8)], VALUES[[1, 0]])


@pytest.mark.parametrize(
    "key",
    [3, -4, (0, 4), (0, 0, 0, 0), [3], [-4], (..., ...), 1.5, "a", True, (0, [0, 9])],
    ids=repr,
)
def test_wrong_keys(key):
    with pytest.raises(IndexError):
        xp.asarray(VALUES)[key]


def test_boolean_masks_are_refused_with_a_hint():
    x = xp.asarray([1, 2, 3])
    with pytest.raises(IndexError, match="where"):
        x[x > 1]


@pytest.mark.parametrize("key", BASIC, ids=repr)
def test_assignment(key):
    want = VALUES.copy()
    x = xp.asarray(VALUES)
    value = -1 - np.arange(want[key].size).reshape(want[key].shape)
    want[key] = value
    x[key] = xp.asarray(value)
    same(x, want)
    want[key] = 7
    x[key] = 7
    same(x, want)


def test_assignment_broadcasts_casts_and_chains():
    x, want = xp.zeros((3, 4)), np.zeros((3, 4), np.float32)
    x[1:] = xp.asarray([1, 2, 3, 4])
    want[1:] = [1, 2, 3, 4]
    x[:, ::3] += 10
    want[:, ::3] += 10
    x[0, 0] = np.nan
    want[0, 0] = np.nan
    same(x, want)
    y = x
    x[...] = 5
    same(y, np.full((3, 4), 5.0))


def test_assignment_leaves_other_tensors_alone():
    x = xp.asarray([1, 2, 3])
    y = x + 0
    x[0] = 9
    same(y, [1, 2, 3])
    same(x, [9, 2, 3])


def test_assignment_that_does_not_fit():
    x = xp.zeros((2, 3))
    with pytest.raises(ValueError, match="fit"):
        x[0] = xp.ones(2)
    with pytest.raises(IndexError, match="where"):
        x[xp.asarray([0, 1])] = 1


def test_take():
    x = xp.asarray(VALUES)
    for axis in (0, 1, 2, -1):
        same(xp.take(x, xp.asarray([2, 0, -1]), axis=axis), np.take(VALUES, [2, 0, -1], axis=axis))
        same(xp.take(x, xp.asarray(I2), axis=axis), np.take(VALUES, I2, axis=axis))
    same(xp.take(xp.arange(5), xp.asarray([[1, 1], [4, 0]])), [[1, 1], [4, 0]])
    with pytest.raises(ValueError, match="axis"):
        xp.take(x, xp.asarray([0]))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_take_along_axis(axis):
    places = np.argsort(-VALUES, axis=axis)
    got = xp.take_along_axis(xp.asarray(VALUES), xp.asarray(places), axis=axis)
    same(got, np.take_along_axis(VALUES, places, axis))
    short = np.take(places, [0], axis=axis)
    got = xp.take_along_axis(xp.asarray(VALUES), xp.asarray(short), axis=axis)
    same(got, np.take_along_axis(VALUES, short, axis))

"""Whose memory a tensor shows: functions that return their argument, copies, pickles."""

from __future__ import annotations

import array
import copy
import pickle

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import NotFound
from tests.support import check

SAME = {
    "plus": lambda x: +x,
    "positive": xp.positive,
    "abs": abs,
    "floor": xp.floor,
    "round": xp.round,
    "to": lambda x: x.to(x.device),
    "asarray": xp.asarray,
    "astype": lambda x: xp.astype(x, x.dtype),
    "reshape": lambda x: xp.reshape(x, x.shape),
    "clip": xp.clip,
    "contiguous": xp.contiguous,
    "squeeze": lambda x: xp.squeeze(x, axis=()),
}


@pytest.mark.parametrize("name", SAME)
def test_assigning_to_a_result_leaves_the_argument(name):
    x = xp.asarray([1, 2], dtype=xp.uint8)
    y = SAME[name](x)
    y += 5
    z = SAME[name](x)
    z[0] = 9
    np.testing.assert_array_equal(x.numpy(), [1, 2])
    np.testing.assert_array_equal(y.numpy(), [6, 7])
    np.testing.assert_array_equal(z.numpy(), [9, 2])


@pytest.mark.host_memory
@pytest.mark.parametrize("source", [np.arange(3.0), array.array("d", [0, 1, 2])])
def test_copy_true_never_shares_and_none_shares(source):
    shared, copied = xp.asarray(source), xp.asarray(source, copy=True)
    again = xp.asarray(shared, copy=True)
    lazy = shared * 1
    check(xp.asarray(source, copy=False).dtype is xp.float64)
    source[0] = 9.0
    np.testing.assert_array_equal(copied.numpy(), [0, 1, 2])
    np.testing.assert_array_equal(again.numpy(), [0, 1, 2])
    np.testing.assert_array_equal(shared.numpy(), [9, 1, 2])
    np.testing.assert_array_equal(lazy.numpy(), [9, 1, 2])


def test_bytes_are_a_buffer():
    data = b"abc"
    for source in (data, bytearray(data), memoryview(data)):
        np.testing.assert_array_equal(xp.asarray(source).numpy(), [97, 98, 99])
        np.testing.assert_array_equal(xp.asarray(source, dtype=xp.int32).numpy(), [97, 98, 99])


def test_assignment_from_a_numpy_array_keeps_the_values_of_now():
    x, source = xp.zeros(4), np.array([1.0, 2.0])
    x[1:3] = source
    source[:] = 7
    np.testing.assert_array_equal(x.numpy(), [0, 1, 2, 0])


@pytest.mark.parametrize("dtype", [xp.float32, xp.bfloat16, xp.bool])
def test_pickle_and_copy(dtype):
    x = xp.asarray([[1, 0, 1]], dtype=dtype)
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        check(y.dtype is dtype)
        np.testing.assert_array_equal(y.numpy(), x.numpy())
    check(not np.shares_memory(copy.deepcopy(x).numpy(), x.numpy()))


def test_one_device_has_one_name():
    for name in ("CPU", "cpu", "CPU:0", "cpu:0"):
        x = xp.zeros(2, device=name)
        np.testing.assert_equal((x.device, x.to(name).device), ("CPU", "CPU"))
        np.testing.assert_array_equal((x + xp.ones(2, device="CPU")).numpy(), [1, 1])
    with pytest.raises(NotFound, match="Names are"):
        xp.zeros(2, device="FOO")
    with pytest.raises(TypeError, match="a device is a name"):
        xp.zeros(2, device=1)

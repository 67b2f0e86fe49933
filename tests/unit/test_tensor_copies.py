"""pickle, copy and deepcopy: a dtype and a jitted function stay themselves, a tensor its values."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import tensor as xp
from tests.support import check

DTYPES = list(xp.__array_namespace_info__().dtypes().values())
COPIERS = [copy.copy, copy.deepcopy] + [
    lambda x, protocol=protocol: pickle.loads(pickle.dumps(x, protocol))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
]
NAN_BITS = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 1], np.uint32)


@pytest.mark.parametrize("copier", COPIERS)
def test_a_dtype_stays_itself(copier):
    for dtype in DTYPES:
        check(copier(dtype) is dtype, dtype.name)
    check(copier({"a": [xp.bool]})["a"][0] is xp.bool)
    limits = copier(xp.finfo(xp.float32))
    check(limits == xp.finfo(xp.float32) and limits.dtype is xp.float32)


def test_a_copied_dtype_computes():
    dtype = pickle.loads(pickle.dumps(xp.float32))
    np.testing.assert_array_equal(xp.zeros(2, dtype=dtype).numpy(), [0, 0])
    check((xp.zeros(2, dtype=dtype) + xp.ones(2)).dtype is xp.float32)
    check(pickle.loads(b"ccompilers.dtype\nfloat32\n.") is xp.float32, "one of another process")


def test_there_is_no_second_dtype():
    for call in (
        lambda: xp.DType("float32", 4, "f"),
        lambda: xp.DType("float8", 1, "f"),
        lambda: dataclasses.replace(xp.float32, itemsize=8),
    ):
        with pytest.raises(TypeError, match="one of bool"):
            call()


@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_a_tensor_keeps_its_values(copier, dtype):
    grid = np.arange(6).reshape(2, 3)
    for values in (grid, grid[0, 0], grid[:, :0], grid.T):
        x = (
            xp.asarray(values.tolist(), dtype=dtype)
            if values.size
            else xp.zeros((2, 0), dtype=dtype)
        )
        made = copier(x)
        np.testing.assert_array_equal(made.numpy(), x.numpy())
        check(made.dtype is dtype and made.shape == x.shape and made.device == x.device)


@pytest.mark.parametrize("copier", COPIERS)
def test_bits_that_are_no_number_survive(copier):
    x = xp.bitcast(xp.asarray(NAN_BITS), xp.float32)
    np.testing.assert_array_equal(copier(x).numpy().view(np.uint32), NAN_BITS)
    half = xp.bitcast(xp.asarray(NAN_BITS.astype(np.uint16)), xp.bfloat16)
    np.testing.assert_array_equal(
        xp.bitcast(copier(half), xp.uint16).numpy(), NAN_BITS.astype(np.uint16)
    )


@pytest.mark.parametrize("copier", COPIERS)
def test_a_copy_goes_its_own_way(copier):
    x = xp.asarray([1.0, 2.0]) * 2.0
    made = copier(x)
    made += 1.0
    made[0] = 9.0
    np.testing.assert_array_equal(x.numpy(), [2.0, 4.0])
    np.testing.assert_array_equal(made.numpy(), [9.0, 5.0])


@pytest.mark.host_memory
def test_only_a_shallow_copy_shares_memory():
    values = np.array([1.0, 2.0])
    x = xp.asarray(values)
    deep, shallow = copy.deepcopy(x), copy.copy(x)
    values[0] = 7.0
    np.testing.assert_array_equal(deep.numpy(), [1.0, 2.0])
    np.testing.assert_array_equal(shallow.numpy(), [7.0, 2.0])


def test_a_device_that_is_not_here():
    maker, (bits, _, dtype) = xp.ones(2).__reduce__()
    with pytest.raises(Exception, match="NOWHERE"):
        maker(bits, "NOWHERE", dtype)


@xp.jit
def doubled(x):
    return x * 2


@pytest.mark.parametrize("copier", COPIERS)
def test_a_jitted_function_stays_itself(copier):
    np.testing.assert_array_equal(doubled(xp.asarray([1, 2])).numpy(), [2, 4])
    check(copier(doubled) is doubled)


def test_a_jitted_lambda_is_pickled_no_more_than_a_lambda():
    nameless = xp.jit(lambda x: x)
    check(copy.deepcopy(nameless) is nameless)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(nameless)

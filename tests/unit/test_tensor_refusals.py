"""Wrong calls: the error is of the expected class and says what to do."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from tests.support import check

ONES = xp.ones((2, 3))
IMAGE, KERNEL = xp.ones((1, 1, 3, 3)), xp.ones((1, 1, 2, 2))

CASES = [
    (lambda: xp.sin(1.0), TypeError, "asarray"),
    (lambda: xp.floor(np.ones(2)), TypeError, "asarray"),
    (lambda: xp.concat([ONES, 1]), TypeError, "asarray"),
    (lambda: xp.concat([1], axis=None), TypeError, "asarray"),
    (lambda: xp.take(xp.ones(2), [0]), TypeError, "asarray"),
    (lambda: xp.where(True, ONES, ONES), TypeError, "asarray"),
    (lambda: xp.where(ONES > 0, np.ones(3), ONES), TypeError, "asarray"),
    (lambda: xp.full(2, "a"), TypeError, "asarray"),
    (lambda: xp.full(2, 1j), TypeError, "asarray"),
    (lambda: ONES.__setitem__(0, [1.0]), TypeError, "asarray"),
    (lambda: xp.result_type(np.float32, xp.int32), TypeError, "asarray"),
    (lambda: xp.arange(2, dtype=np.float32), TypeError, "one of bool"),
    (lambda: xp.eye(2, dtype="float32"), TypeError, "one of bool"),
    (lambda: xp.linspace(0, 1, 2, dtype=float), TypeError, "one of bool"),
    (lambda: xp.sum(ONES, dtype=np.int32), TypeError, "one of bool"),
    (lambda: xp.asarray(np.ones(2), dtype=np.float32), TypeError, "one of bool"),
    (lambda: xp.bitcast(ONES, np.int32), TypeError, "one of bool"),
    (lambda: xp.isdtype(np.int32, "integral"), TypeError, "one of bool"),
    (lambda: xp.finfo(np.float32), TypeError, "one of bool"),
    (lambda: xp.zeros((2.5,)), TypeError, "integer"),
    (lambda: xp.reshape(ONES, (2.0, 3)), TypeError, "integer"),
    (lambda: xp.sum(ONES, axis=1.0), TypeError, "integer"),
    (lambda: xp.linspace(0, 1, 2.5), TypeError, "integer"),
    (lambda: xp.eye(-1), ValueError, "negative"),
    (lambda: xp.broadcast_to(xp.ones(1), (-1,)), ValueError, "negative"),
    (lambda: xp.tile(ONES, (-1,)), ValueError, "negative"),
    (lambda: xp.repeat(ONES, -1), ValueError, "0 or more"),
    (lambda: xp.meshgrid(xp.asarray(1.0)), ValueError, "rank 1"),
    (lambda: xp.roll(ONES, (1, 2), axis=0), ValueError, "one for each"),
    (lambda: xp.conv2d(xp.ones(3), KERNEL), ValueError, "rank 4"),
    (lambda: xp.conv2d(IMAGE, KERNEL, stride=0), ValueError, "stride"),
    (lambda: xp.conv2d(IMAGE, KERNEL, padding=-1), ValueError, "padding"),
    (lambda: xp.conv2d(IMAGE, KERNEL, dilation=0), ValueError, "dilation"),
    (lambda: xp.conv2d(IMAGE, KERNEL, groups=0), ValueError, "groups"),
    (lambda: xp.conv2d(IMAGE, KERNEL, xp.ones(3)), ValueError, "bias"),
    (lambda: xp.max_pool2d(xp.ones(3), 2), ValueError, "rank 2"),
    (lambda: xp.max_pool2d(IMAGE, 0), ValueError, "size"),
    (lambda: xp.max_pool2d(IMAGE, 2, stride=0), ValueError, "stride"),
    (lambda: xp.random.uniform(xp.random.key(0), 2, low=1, high=1), ValueError, "low < high"),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_wrong_call(number):
    call, error, says = CASES[number]
    with pytest.raises(error, match=says):
        call()


def test_numpy_integers_are_sizes_axes_and_values():
    three = np.int64(3)
    np.testing.assert_equal(xp.zeros(three).shape, (3,))
    np.testing.assert_equal(xp.reshape(xp.zeros(6), (three, -1)).shape, (3, 2))
    np.testing.assert_equal(xp.sum(ONES, axis=np.int64(1)).shape, (2,))
    np.testing.assert_equal(xp.broadcast_to(xp.ones(1), three).shape, (3,))
    check(xp.full(2, np.int64(5)).dtype is xp.int64)
    check(xp.full(2, np.float32(5)).dtype is xp.float32)
    np.testing.assert_array_equal(xp.full(2, np.int64(5)).numpy(), [5, 5])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint64"])
def test_logaddexp_of_integers(dtype):
    x = np.array([0, 3, 100], dtype)
    a, b = np.meshgrid(x, x)
    want = np.logaddexp(a.astype(np.float64), b.astype(np.float64))
    got = xp.logaddexp(xp.asarray(a), xp.asarray(b)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_uniform_never_gives_its_upper_end():
    for dtype in (xp.float16, xp.bfloat16, xp.float32):
        x = xp.random.uniform(xp.random.key(0), 1 << 16, low=1, high=2, dtype=dtype)
        check(x.dtype is dtype)
        check(float(xp.max(x)) < 2 and float(xp.min(x)) >= 1)

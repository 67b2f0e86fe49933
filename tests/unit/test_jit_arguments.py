"""jit: what is an argument, what is a constant, and what a call leaves behind."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import tensor as xp
from tests.support import check, patience


def line(*values: float) -> xp.Tensor:
    return xp.asarray(np.array(values, np.float32))


def test_equal_python_numbers_of_other_types_are_other_captures():
    scale = xp.jit(lambda x, n: x * n)
    x = xp.asarray([1, 2])
    check(scale(x, 2).dtype is xp.int64)
    check(scale(x, 2.0).dtype is xp.float64)
    check(scale(x, True).dtype is xp.int64)
    np.testing.assert_array_equal(scale(x, True).numpy(), [1, 2])
    signed = xp.jit(lambda x, z: xp.copysign(x, z))
    np.testing.assert_array_equal(signed(line(1), 0.0).numpy(), [1])
    np.testing.assert_array_equal(signed(line(1), -0.0).numpy(), [-1])


def test_nan_is_one_capture():
    runs = []
    add = xp.jit(lambda x, z: (runs.append(1), x + z)[1])
    for _ in range(3):
        check(math.isnan(add(line(1), float("nan")).numpy()[0]))
    np.testing.assert_equal(len(runs), 1)


def test_a_captured_function_inside_another():
    inner = xp.jit(lambda x: x + 1)
    inner(line(5))
    outer = xp.jit(lambda x: inner(x) * 2)
    for value in (1, 2, 3):
        np.testing.assert_array_equal(outer(line(value)).numpy(), [(value + 1) * 2])


def test_a_constant_that_is_the_first_argument_too():
    weight = line(10)
    add = xp.jit(lambda x: x + weight)
    np.testing.assert_array_equal(add(weight).numpy(), [20])
    np.testing.assert_array_equal(add(line(1)).numpy(), [11])


def test_an_argument_is_not_assigned_for_the_caller():
    def function(x, rest):
        x += 1
        rest.append(x)
        return x * 2

    captured, x, rest = xp.jit(function), line(1), [line(2)]
    for _ in range(3):
        np.testing.assert_array_equal(captured(x, rest).numpy(), [4])
    np.testing.assert_array_equal(x.numpy(), [1])
    np.testing.assert_equal(len(rest), 1)


@pytest.mark.parametrize("function", [lambda x, y: x, lambda x, y: None, lambda x, y: x + 1])
def test_arguments_that_nothing_uses(function):
    captured = xp.jit(function)
    for value in (1, 2, 3):
        want, got = function(line(value), line(7)), captured(line(value), line(7))
        if want is None:
            check(got is None)
        else:
            np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_a_tensor_that_leaks_out_keeps_its_value():
    leaked = []

    def function(x):
        leaked.append((x + 1).realize())
        return leaked[-1] * 2

    captured = xp.jit(function)
    for value in (1, 5, 9):
        np.testing.assert_array_equal(captured(line(value)).numpy(), [(value + 1) * 2])
    np.testing.assert_array_equal(leaked[0].numpy(), [2])


def test_empty_tensors_and_results_that_are_views():
    both = xp.jit(lambda x: (xp.sum(x), xp.reshape(x, (x.size,)), x * 2))
    for value in (1.0, 2.0):
        for shape in ((0, 3), (2, 3)):
            x = np.full(shape, value, np.float32)
            total, flat, double = both(xp.asarray(x))
            np.testing.assert_array_equal(total.numpy(), x.sum())
            np.testing.assert_array_equal(flat.numpy(), x.reshape(-1))
            np.testing.assert_array_equal(double.numpy(), x * 2)


def test_an_exception_inside_leaves_nothing_behind():
    fail = [True]

    def function(x):
        y = (x + 1).realize()
        if fail[0]:
            raise KeyError("mine")
        return y

    captured = xp.jit(function)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            captured(line(1))
    fail[0] = False
    for value in (1, 2, 3):
        np.testing.assert_array_equal(captured(line(value)).numpy(), [value + 1])


@pytest.mark.parametrize("bad", [{1}, np.ones(2), bytearray(b"a")])
def test_an_argument_that_has_no_hash(bad):
    with pytest.raises(TypeError, match="asarray"):
        xp.jit(lambda x, y: x)(line(1), bad)


def test_recordings_are_bounded():
    scale = xp.jit(lambda x, n: x * n)
    for number in range(300):
        np.testing.assert_array_equal(scale(line(1), number).numpy(), [number])
    check(len(scale._captures) <= 256)


def test_threads_share_a_captured_function():
    product = xp.jit(lambda x: (x + 1) @ x.mT)
    wrong: list[object] = []

    def work(offset: int) -> None:
        for step in range(50):
            x = np.full((4, 4), offset + step, np.float32)
            if not np.array_equal(product(xp.asarray(x)).numpy(), (x + 1) @ x.T):
                wrong.append((offset, step))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=patience(60))
    np.testing.assert_equal(wrong, [])

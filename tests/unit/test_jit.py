"""jit: the recorded graph computes what the function computes, on every call."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import Unsupported
from tests.support import check, patience

RNG = np.random.default_rng(11)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_replay_uses_the_new_arguments_and_runs_python_once():
    calls = []

    @xp.jit
    def step(x, y):
        calls.append(1)
        middle = (x + y).realize()
        return {"product": middle * y, "pair": (x - y, middle)}

    for _ in range(4):
        x, y = numbers(5, 7), numbers(5, 7)
        out = step(xp.asarray(x), xp.asarray(y))
        np.testing.assert_array_equal(out["product"].numpy(), (x + y) * y)
        np.testing.assert_array_equal(out["pair"][0].numpy(), x - y)
        np.testing.assert_array_equal(out["pair"][1].numpy(), x + y)
    check(len(calls) == 1)


def test_results_of_earlier_calls_stay():
    double = xp.jit(lambda x: x * 2)
    inputs = [numbers(33) for _ in range(5)]
    outputs = [double(xp.asarray(x)) for x in inputs]
    for x, out in zip(inputs, outputs, strict=True):
        np.testing.assert_array_equal(out.numpy(), x * 2)


def test_captured_weights_shapes_and_static_arguments():
    weights = numbers(8, 8)
    held = xp.asarray(weights)

    @xp.jit
    def apply(x, power):
        return (x @ held) ** power

    for rows in (3, 3, 5, 5):
        for power in (1.0, 2.0):
            x = numbers(rows, 8)
            expected = (x.astype(np.float64) @ weights) ** power
            out = apply(xp.asarray(x), power).numpy()
            np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_feeding_a_result_back_and_returning_an_input():
    advance = xp.jit(lambda state, step: (state + step, step))
    state, expected = xp.asarray(np.zeros(9, np.float32)), np.zeros(9, np.float32)
    for _ in range(6):
        step = numbers(9)
        state, same = advance(state, xp.asarray(step))
        expected = expected + step
        np.testing.assert_array_equal(same.numpy(), step)
    np.testing.assert_array_equal(state.numpy(), expected)


def test_one_tensor_for_two_parameters_is_another_capture():
    add = xp.jit(lambda x, y: x + y)
    x, y = numbers(4), numbers(4)
    left, right = xp.asarray(x), xp.asarray(y)
    np.testing.assert_array_equal(add(left, left).numpy(), x + x)
    np.testing.assert_array_equal(add(left, right).numpy(), x + y)
    np.testing.assert_array_equal(add(right, right).numpy(), y + y)


def test_nested_jit_and_reading_values_inside():
    inner = xp.jit(lambda x: x + 1)
    outer = xp.jit(lambda x: inner(x) * 2)
    for _ in range(2):
        x = numbers(6)
        np.testing.assert_array_equal(outer(xp.asarray(x)).numpy(), (x + 1) * 2)
    with pytest.raises(Unsupported, match="while jit records"):
        xp.jit(lambda x: x + float(xp.sum(x)))(xp.asarray(numbers(3)))
    np.testing.assert_array_equal(xp.asarray(x).numpy(), x)


def test_without_a_tensor_argument():
    with pytest.raises(Unsupported, match="at least one tensor"):
        xp.jit(lambda n: n)(3)


def test_another_thread_is_not_recorded():
    seen = []
    bystander = xp.asarray(numbers(4))

    def elsewhere():
        seen.append((bystander * 3).numpy().copy())

    def function(x):
        worker = threading.Thread(target=elsewhere)
        worker.start()
        worker.join(timeout=patience(30))
        return x + 1

    captured = xp.jit(function)
    for _ in range(2):
        x = numbers(4)
        np.testing.assert_array_equal(captured(xp.asarray(x)).numpy(), x + 1)
    check(len(seen) == 1)
    np.testing.assert_array_equal(seen[0], bystander.numpy() * 3)

"""Random programs of many fused operations give, at every step, what numpy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor as xp

MAX_SIZE = 200
PROGRAMS = 30

Pair = tuple[Any, xp.Tensor]
Rule = Callable[[Any, xp.Tensor, int, np.random.Generator], Pair]


def taken(a: Any, x: xp.Tensor, at: int, rng: np.random.Generator) -> Pair:
    places = rng.integers(-a.shape[at], a.shape[at], 3)
    return np.take(a, places, at), xp.take(x, xp.asarray(places), axis=at)


def sliced(a: Any, x: xp.Tensor, at: int, rng: np.random.Generator) -> Pair:
    ends = [None if rng.random() < 0.4 else int(n) for n in rng.integers(-5, 5, 2 * a.ndim)]
    steps = rng.choice([1, 2, -1, -2], a.ndim).tolist()
    key = tuple(slice(*ends[2 * i : 2 * i + 2], step) for i, step in enumerate(steps))
    return a[key], x[key]


def padded(a: Any, x: xp.Tensor, at: int, rng: np.random.Generator) -> Pair:
    widths = rng.integers(0, 3, (a.ndim, 2)).tolist()
    return np.pad(a, widths, constant_values=5), xp.pad(x, widths, constant_values=5)


def rolled(a: Any, x: xp.Tensor, at: int, rng: np.random.Generator) -> Pair:
    by = int(rng.integers(-7, 7))
    return np.roll(a, by, at), xp.roll(x, by, axis=at)


def permuted(a: Any, x: xp.Tensor, at: int, rng: np.random.Generator) -> Pair:
    order = rng.permutation(a.ndim).tolist()
    return a.transpose(order), xp.permute_dims(x, order)


RULES: list[Rule] = [
    taken,
    sliced,
    padded,
    rolled,
    permuted,
    lambda a, x, at, _: (a * 3 - 1, x * 3 - 1),
    lambda a, x, at, _: (np.where(a > 0, a, -a), xp.where(x > 0, x, -x)),
    lambda a, x, at, _: (np.flip(a, at), xp.flip(x, axis=at)),
    lambda a, x, at, _: (np.sort(a, at), xp.sort(x, axis=at)),
    lambda a, x, at, _: (np.cumsum(a, at), xp.cumulative_sum(x, axis=at)),
    lambda a, x, at, _: (a + a.sum(at, keepdims=True), x + xp.sum(x, axis=at, keepdims=True)),
    lambda a, x, at, _: (a - a.max(at, keepdims=True), x - xp.max(x, axis=at, keepdims=True)),
    lambda a, x, at, _: (a.argmax(at, keepdims=True), xp.argmax(x, axis=at, keepdims=True)),
    lambda a, x, at, _: (np.concatenate([a, -a, a], at), xp.concat([x, -x, x], axis=at)),
    lambda a, x, at, _: (np.repeat(a, 2, at), xp.repeat(x, 2, axis=at)),
    lambda a, x, at, _: (a.reshape(a.shape[0], -1), xp.reshape(x, (a.shape[0], -1))),
]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_program(seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(-9, 9, rng.integers(1, 5, rng.integers(1, 4)))
    pool: list[Pair] = [(first, xp.asarray(first))]
    for _ in range(12):
        a, x = pool[rng.integers(len(pool))]
        if 0 < a.size <= MAX_SIZE:
            rule = RULES[rng.integers(len(RULES))]
            pool.append(rule(a, x, int(rng.integers(-a.ndim, a.ndim)), rng))
    for want, got in reversed(pool):
        np.testing.assert_array_equal(got.numpy(), want)

"""A stencil of a stencil is computed step by step; what is cheap or used once stays fused."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from tests.compilers.lowering import interpret, leaf, planned, rows, softmax
from tests.support import check


def source(shape: tuple[int, ...]) -> Node:
    return graph.buffer(object(), dt.float32, shape)


def shifted(x: Node, by: int) -> Node:
    """All but the last (0) or the first (1) row."""
    n, *others = x.shape
    steps = [(by, 1), *((0, 1) for _ in others)]
    return graph.slice_(x, steps, (n - 1, *others))


def differences(x: Node, count: int) -> Node:
    for _ in range(count):
        x = graph.unary("sin", graph.binary("sub", shifted(x, 1), shifted(x, 0)))
    return x


def kernels(root: Node) -> int:
    return len(planned(root, vector_bytes=64).steps)


@pytest.mark.parametrize("count", [2, 5, 9])
def test_every_costly_step_of_a_stencil_is_one_kernel(count):
    np.testing.assert_equal(kernels(differences(source((300, 100)), count)), count)


def test_small_stencils_are_one_kernel():
    np.testing.assert_equal(kernels(differences(source((30, 10)), 3)), 1)


def test_a_cheap_stencil_of_a_stencil_is_one_kernel():
    x = source((300, 100))
    once = graph.binary("sub", shifted(x, 1), shifted(x, 0))
    np.testing.assert_equal(kernels(graph.binary("sub", shifted(once, 1), shifted(once, 0))), 1)


def test_the_passes_of_a_softmax_stay_together():
    x = graph.unary("tanh", source((300, 100)))
    np.testing.assert_equal(kernels(softmax(x)), 1)
    spread = graph.binary("sub", x, rows(x, "max"))
    np.testing.assert_equal(kernels(graph.binary("mul", spread, spread)), 1)


@pytest.mark.parametrize(("rows_of_it", "count"), [(4, 1), (1000, 2)])
def test_a_costly_vector_is_computed_before_it_is_spread(rows_of_it, count):
    shape = (rows_of_it, 1000)
    gate = graph.unary("tanh", graph.unary("exp", source((1000,))))
    total = graph.binary("add", source(shape), graph.broadcast(gate, shape))
    np.testing.assert_equal(kernels(total), count)


def test_many_steps_do_not_multiply():
    x = source((200, 200))
    for _ in range(12):
        taps = [graph.permute(x, (1, 0)), graph.slice_(x, ((199, -1), (0, 1)), x.shape)]
        x = graph.unary("neg", graph.binary("add", x, graph.binary("mul", *taps)))
    check(2 < kernels(x) <= 12)


def test_the_steps_compute_what_numpy_does():
    array = np.random.default_rng(0).random((150, 120), np.float32)
    want = array.astype(np.float64)
    for _ in range(2):
        want = np.sin(want[1:] - want[:-1])
    np.testing.assert_allclose(interpret(differences(leaf(array), 2)), want, atol=1e-6)

"""What is fused and what is not, and that signatures tell graphs apart."""

from __future__ import annotations

import numpy as np

from compilers import dtype as dt
from compilers import graph
from compilers.plan.signature import rebuild, signature
from tests.compilers.lowering import leaf, matmul, planned, rows, softmax
from tests.support import check

X = leaf(np.ones((48, 64), np.float32))
Y = leaf(np.ones((64, 32), np.float32))


def kernels(root: graph.Node) -> int:
    return len(planned(root).steps)


def test_elementwise_and_movement_are_one_kernel():
    shifted = graph.pad(graph.slice_(X, ((0, 1), (1, 1)), (48, 63)), ((0, 0), (0, 1)))
    check(kernels(graph.permute(graph.binary("add", X, shifted), (1, 0))) == 1)


def test_softmax_and_layer_norm_are_one_kernel():
    check(kernels(softmax(X)) == 1)
    mean = graph.binary("mul", rows(X, "add"), graph.const(1 / 64, dt.float32, X.shape))
    centred = graph.binary("sub", X, mean)
    spread = rows(graph.binary("mul", centred, centred), "add")
    check(kernels(graph.binary("div", centred, graph.unary("sqrt", spread))) == 1)


def test_an_epilogue_joins_a_contraction_and_a_softmax_does_not():
    product = matmul(X, Y)
    zero = graph.const(0, dt.float32, product.shape)
    check(kernels(graph.binary("max", product, zero)) == 1)
    check(kernels(softmax(product)) == 2)


def test_a_contraction_of_normalised_rows_is_two_kernels():
    check(kernels(matmul(softmax(X), Y)) == 2)
    check(kernels(matmul(graph.binary("sub", X, rows(X, "max")), Y)) == 2)


def test_a_reduction_two_kernels_need_is_computed_once():
    total = graph.reduce("add", X, (1,))
    other = graph.reduce("max", graph.binary("sub", X, rows(X, "add")), (0,))
    key, _ = signature([graph.unary("neg", total), other])
    from compilers.lower.choose import Target
    from compilers.plan.schedule import plan

    steps = plan(rebuild(key).roots, Target(16)).steps
    check(len(steps) == 3, f"{[step.kernel.name for step in steps]}")


def test_a_long_chain_is_cut_and_a_shared_one_does_not_explode():
    chain = X
    for _ in range(300):
        chain = graph.unary("neg", chain)
    check(2 <= kernels(chain) <= 10)
    doubling = leaf(np.ones(64, np.float32))
    for step in range(12):
        rolled = (
            graph.slice_(doubling, ((63, -1),), (64,))
            if step % 2
            else graph.pad(graph.slice_(doubling, ((step + 1, 1),), (63 - step,)), ((0, step + 1),))
        )
        doubling = graph.binary("add", doubling, rolled)
    check(kernels(doubling) >= 2)


def test_a_long_chain_of_movement_is_cut():
    turned = X
    for _ in range(400):
        turned = graph.slice_(turned, ((47, -1), (0, 1)), (48, 64))
    check(1 <= kernels(turned) <= 20)


def test_reshape_of_a_result_costs_no_kernel():
    check(kernels(graph.reshape(matmul(X, Y), (48 * 32,))) == 1)
    alias = planned(graph.reshape(X, (64, 48)))
    check(not alias.steps and alias.roots == (0,))


def test_signatures_tell_apart_what_differs():
    zero, minus = (
        graph.binary("add", X, graph.const(value, dt.float32, X.shape)) for value in (0.0, -0.0)
    )
    check(signature([zero])[0] != signature([minus])[0], "0.0 and -0.0")
    z = leaf(np.ones((48, 64), np.float32))
    check(signature([graph.binary("add", X, X)])[0] != signature([graph.binary("add", X, z)])[0])
    check(signature([graph.binary("add", X, z)])[0] == signature([graph.binary("add", z, X)])[0])
    one, true = graph.const(1, dt.int64), graph.const(True, dt.bool_)
    check(signature([one])[0] != signature([true])[0])


def test_equal_subexpressions_become_one():
    a, b = (graph.unary("neg", X) for _ in range(2))
    key, leaves = signature([graph.binary("mul", a, b)])
    root = rebuild(key).roots[0]
    check(root.src[0] is root.src[1])
    check(len(leaves) == 1)


def test_nan_constants_survive_the_signature():
    key, _ = signature([graph.const(float("nan"), dt.float32)])
    value = rebuild(key).roots[0].arg
    check(value != value)


def test_a_long_reduction_is_split_for_threads():
    long = graph.reduce("add", leaf(np.ones((1024, 1024), np.float32)), (0, 1))
    check(len(planned(long).steps) == 1)
    steps = planned(long, threads=2).steps
    check([step.kernel.grid for step in steps] == [64, 1])

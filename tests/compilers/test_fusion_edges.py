"""Fusions that once went wrong, each against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.index import Var, var
from compilers.ir import Expr, Kernel, Loop, Ref, Store
from compilers.render_c import render
from tests.compilers.lowering import interpret, leaf
from tests.support import check

X = np.arange(4 * 4 * 3, dtype=np.float32).reshape(4, 4, 3)


def test_a_reduction_and_its_transpose_are_two_values():
    rows = graph.reduce("add", leaf(X), (2,))
    total = graph.binary("add", rows, graph.permute(rows, (1, 0)))
    want = X.sum(2) + X.sum(2).T
    np.testing.assert_array_equal(interpret(total), want)


def test_a_row_and_a_column_of_one_reduction():
    sums = graph.reduce("add", leaf(X), (2,))
    row = graph.reshape(graph.slice_(sums, ((0, 1), (0, 1)), (1, 4)), (4,))
    column = graph.reshape(graph.slice_(sums, ((0, 1), (0, 1)), (4, 1)), (4,))
    want = X.sum(2)[0] - X.sum(2)[:, 0]
    np.testing.assert_array_equal(interpret(graph.binary("sub", row, column)), want)


def test_a_padded_reduction_reads_only_rows_that_exist():
    sums = graph.reduce("add", leaf(X), (1, 2))
    padded = graph.pad(sums, ((0, 5),))
    np.testing.assert_array_equal(interpret(padded), np.pad(X.sum((1, 2)), (0, 5)))


@pytest.mark.parametrize("batch", [2, 3])
def test_columns_of_a_batched_product_leave_a_remainder(batch):
    random = np.random.default_rng(0)
    a = random.integers(-3, 4, (batch, 13, 17)).astype(np.float32)
    b = random.integers(-3, 4, (batch, 17, 70)).astype(np.float32)
    shape = (batch, 13, 70, 17)
    left = graph.expand(graph.reshape(leaf(a), (batch, 13, 1, 17)), shape)
    right = graph.reshape(graph.permute(leaf(b), (0, 2, 1)), (batch, 1, 70, 17))
    product = graph.binary("mul", left, graph.expand(right, shape))
    got = interpret(graph.reduce("add", product, (3,)), vector_bytes=64)
    np.testing.assert_array_equal(got, a @ b)


def test_loop_variables_in_c_are_not_named_like_types():
    out = Ref("out", dt.float32, 2, "global")
    one = Expr("const", dt.float32, (), 1.0)
    loops = [Var("l", 2) for _ in range(70)]
    body = tuple(Loop(loop, "serial", (Store(out, var(loop), one),)) for loop in loops)
    text = render(Kernel("many", (out,), (), Loop(Var("g", 1), "grid", body)), frozenset())
    check(text.count("for (") > len(loops))
    for name in ("i8", "i16", "i32", "i64"):
        check(f"i64 {name} = " not in text, f"a loop variable hides the type {name}")

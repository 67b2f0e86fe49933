"""Fusions that once went wrong, each against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.expr import loads as loads_of
from compilers.index import Var, var
from compilers.ir import Expr, Kernel, Load, Loop, Ref, Store
from compilers.render import llvm as render_llvm
from compilers.render.c import render
from tests.compilers.lowering import interpret, leaf, planned
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


@pytest.mark.parametrize(("before", "size", "selects"), [(3, 64, False), (32, 128, True)])
def test_a_vector_with_no_element_to_read_goes_to_the_start_of_its_buffer(before, size, selects):
    source, out = Ref("in", dt.float32, 64, "global"), Ref("out", dt.float32, size, "global", 1)
    step, lane = Var("s", size // 16), Var("l", 16)
    at = var(step) * 16 + var(lane)
    value = Expr("load", dt.float32, (), Load(source, at - before, ((at - before, 0, 64),)))
    body = Loop(step, "serial", (Loop(lane, "vector", (Store(out, at, value),)),))
    text = render_llvm.render(
        Kernel("shift", (source, out), (), Loop(Var("g", 1), "grid", (body,))), frozenset()
    )
    np.testing.assert_equal(text.count("select i1"), int(selects))


def test_a_row_times_a_matrix_walks_the_matrix_in_its_own_order():
    random = np.random.default_rng(0)
    x, a = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((40,), (40, 24)))
    wide = graph.expand(graph.reshape(leaf(x), (40, 1)), (40, 24))
    product = graph.reduce("add", graph.binary("mul", wide, leaf(a)), (0,))
    np.testing.assert_array_equal(interpret(product), x @ a)
    body = planned(product, vector_bytes=32).steps[0].kernel.body
    stores = [stmt for stmt in statements(body) if isinstance(stmt, Store)]
    loads = [read.index for stmt in stores for read in loads_of(stmt.value) if read.ref.size == 960]
    check(loads)
    lanes = {s.var for s in statements(body) if isinstance(s, Loop) and s.kind == "vector"}
    check(all(any(index.terms.get(v) == 1 for v in lanes) for index in loads))


def test_a_reduction_is_one_factor_and_inside_the_other():
    x = np.random.default_rng(1).integers(-3, 4, (6, 8, 5)).astype(np.int32)
    sums = graph.reduce("add", leaf(x), (2,))
    square = graph.binary("mul", sums, sums)
    first, second = (graph.slice_(n, ((0, 1), (0, 1)), (6, 1)) for n in (sums, square))
    left = graph.expand(graph.reshape(first, (6, 1, 1)), (6, 6, 1))
    right = graph.expand(graph.reshape(second, (1, 6, 1)), (6, 6, 1))
    got = interpret(graph.reduce("add", graph.binary("mul", left, right), (2,)))
    want = x.sum(2)[:, :1]
    np.testing.assert_array_equal(got, want @ (want * want).T)


@pytest.mark.parametrize("depth", [4096, 1 << 20])
def test_a_deep_product_rounded_to_bfloat16_needs_little_scratch(depth):
    a, b = (graph.buffer(object(), dt.bfloat16, (64, depth)) for _ in range(2))
    left, right = (graph.cast(x, dt.float32) for x in (a, b))
    left = graph.expand(graph.reshape(left, (64, 1, depth)), (64, 64, depth))
    right = graph.expand(graph.reshape(right, (1, 64, depth)), (64, 64, depth))
    total = graph.reduce("add", graph.binary("mul", left, right), (2,))
    steps = planned(graph.cast(total, dt.bfloat16), vector_bytes=64).steps
    check(max(step.kernel.scratch_bytes for step in steps) <= 16 << 20)
    check(any(step.kernel.scratch_bytes for step in steps), "a packed product")


def statements(stmt):
    """A statement and everything inside it."""
    return [stmt] + [s for inner in getattr(stmt, "body", ()) for s in statements(inner)]

"""Every lowering against numpy, interpreted, over shapes that do not divide anything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilers import dtype as dt
from compilers import graph
from tests.compilers.lowering import interpret, leaf, matmul, planned, softmax
from tests.support import check

RNG = np.random.default_rng(7)
VECTORS = pytest.mark.parametrize("vector_bytes", [4, 16, 64])


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@VECTORS
@pytest.mark.parametrize("shape", [(1,), (3,), (17,), (5, 7), (2, 3, 4), (130,)])
def test_map(shape, vector_bytes):
    x, y = random(*shape), random(*shape)
    out = interpret(graph.binary("add", leaf(x), leaf(y)), vector_bytes)
    np.testing.assert_array_equal(out, x + y)


@VECTORS
@pytest.mark.parametrize(("shape", "axes"), [
    ((9,), (0,)), ((5, 13), (1,)), ((5, 13), (0,)), ((13, 5), (0,)), ((4, 5, 6), (0, 2)),
    ((4, 5, 6), (1,)), ((3, 300), (1,)), ((11, 37), (0,)), ((6, 150), (0,)), ((1, 1), (0, 1)),
])  # fmt: skip
def test_reduce(shape, axes, vector_bytes):
    x = random(*shape)
    for kind, expected in (("add", np.sum), ("max", np.max), ("mul", np.prod)):
        out = interpret(graph.reduce(kind, leaf(x), axes), vector_bytes)
        np.testing.assert_allclose(
            out, expected(x.astype(np.float64), axis=axes), rtol=3e-5, atol=1e-5
        )


def test_reduce_of_nothing_and_of_negative_zero():
    empty = graph.reduce("add", leaf(np.zeros((3, 0), np.float32)), (1,))
    np.testing.assert_array_equal(interpret(empty), np.zeros(3, np.float32))
    least = graph.reduce("max", leaf(np.zeros((2, 0), np.float32)), (1,))
    np.testing.assert_array_equal(interpret(least), np.full(2, -np.inf, np.float32))
    zero = interpret(graph.reduce("add", leaf(np.full(3, -0.0, np.float32)), (0,)))
    np.testing.assert_array_equal(np.signbit(zero), np.array(True))


@pytest.mark.parametrize(
    ("columns", "threads", "blocks"),
    [(4096, 1, 1), (4096, 2, 2), (5000, 8, 2), (11008, 1, 1), (32000, 1, 2), (32000, 8, 8)],
)
def test_a_row_by_a_matrix_reads_whole_rows(columns, threads, blocks):
    """Blocks of at most 64 KiB of float32 sums, of 2,048 columns at least where they are made for
    other threads."""
    x, w = (leaf(np.zeros(shape, np.float32)) for shape in ((1, 64), (64, columns)))
    (step,) = planned(matmul(x, w), 64, threads).steps
    check(step.kernel.grid == blocks, f"{step.kernel.grid} blocks")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_blocks_of_columns_join_several_rows(dtype):
    """Six or eight rows at once, then one by one; two blocks, of which the second is narrower."""
    x, w = RNG.integers(-4, 5, (1, 9)), RNG.integers(-4, 5, (9, 4101))
    out = interpret(matmul(leaf(x.astype(dtype)), leaf(w.astype(dtype))), 64, threads=2)
    np.testing.assert_array_equal(out, x @ w)


@VECTORS
def test_rows_and_columns_with_an_epilogue(vector_bytes):
    for shape in ((5, 21), (3, 4, 9)):
        x = random(*shape)
        powers = np.exp(x - x.max(-1, keepdims=True))
        expected = powers / powers.sum(-1, keepdims=True)
        np.testing.assert_allclose(interpret(softmax(leaf(x)), vector_bytes), expected, rtol=1e-5)
    x = random(6, 21)
    down = graph.permute(softmax(graph.permute(leaf(x), (1, 0))), (1, 0))
    powers = np.exp(x - x.max(0))
    np.testing.assert_allclose(interpret(down, vector_bytes), powers / powers.sum(0), rtol=1e-5)


@pytest.mark.parametrize(("m", "k", "n"), [(29, 19, 23), (12, 16, 64), (4, 72, 40), (65, 7, 19)])
@VECTORS
def test_contraction(m, k, n, vector_bytes):
    a, b, bias = random(m, k), random(k, n), random(n)
    expected = a.astype(np.float64) @ b
    for left, right in (
        (leaf(a), leaf(b)),
        (graph.permute(leaf(a.T), (1, 0)), leaf(b)),
        (leaf(a), graph.permute(leaf(b.T), (1, 0))),
    ):
        product = matmul(left, right)
        for features in (frozenset({"fma"}), frozenset()):
            out = interpret(product, vector_bytes, features=features)
            np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    shifted = graph.binary("add", product, graph.broadcast(leaf(bias), (m, n)))
    np.testing.assert_allclose(
        interpret(shifted, vector_bytes, threads=2), expected + bias, rtol=1e-4, atol=1e-4
    )


def test_batched_contraction_and_convolution():
    a, b = random(3, 17, 9), random(3, 9, 33)
    left = graph.expand(graph.reshape(leaf(a), (3, 17, 1, 9)), (3, 17, 33, 9))
    turned = graph.reshape(graph.permute(leaf(b), (0, 2, 1)), (3, 1, 33, 9))
    right = graph.expand(turned, (3, 17, 33, 9))
    product = graph.reduce("add", graph.binary("mul", left, right), (3,))
    np.testing.assert_allclose(interpret(product), a @ b, rtol=1e-4, atol=1e-5)
    image, kernel = random(64), random(5, 4)
    windows = graph.gather(
        leaf(image),
        (
            graph.binary(
                "add",
                graph.broadcast(graph.reshape(graph.iota(60), (60, 1)), (60, 4)),
                graph.broadcast(graph.iota(4), (60, 4)),
            ),
        ),
    )
    wide = graph.expand(graph.reshape(windows, (60, 1, 4)), (60, 5, 4))
    weights = graph.expand(graph.reshape(leaf(kernel), (1, 5, 4)), (60, 5, 4))
    out = interpret(graph.reduce("add", graph.binary("mul", wide, weights), (2,)))
    expected = np.lib.stride_tricks.sliding_window_view(image, 4)[:60] @ kernel.T
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_infinity_times_padding_is_not_a_number_of_ours():
    a, b = random(21, 19), random(19, 23)
    a[0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ b
    np.testing.assert_allclose(
        interpret(matmul(leaf(a), leaf(b)), 64), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_scan_and_argsort(axis):
    x = RNG.integers(0, 6, (7, 23))
    np.testing.assert_array_equal(interpret(graph.scan("add", leaf(x), axis)), x.cumsum(axis))
    np.testing.assert_array_equal(
        interpret(graph.argsort(leaf(x), axis, False)), np.argsort(x, axis, kind="stable")
    )
    np.testing.assert_array_equal(
        interpret(graph.argsort(leaf(x), axis, True)), np.argsort(-x, axis, kind="stable")
    )
    y = random(7, 23)
    y[2, 3] = y[5, 1] = np.nan
    np.testing.assert_array_equal(
        interpret(graph.argsort(leaf(y), axis, False)), np.argsort(y, axis, kind="stable")
    )


def test_gather_clamps_what_is_outside():
    x, at = random(9), np.array([3, -5, 100, 8])
    out = interpret(graph.gather(leaf(x), (leaf(at),)))
    np.testing.assert_array_equal(out, x[[3, 0, 8, 8]])


@settings(max_examples=40)
@given(st.data())
def test_random_views(data):
    x = np.arange(60, dtype=np.int64).reshape(3, 4, 5)
    node, expected = leaf(x), x
    for _ in range(data.draw(st.integers(1, 5))):
        node, expected = step(data, node, expected)
    np.testing.assert_array_equal(interpret(node), expected)


def step(data, node, expected):
    """One random movement, on both sides."""
    rank = expected.ndim
    match data.draw(st.sampled_from(["permute", "slice", "pad", "flat", "add"])):
        case "permute":
            axes = tuple(data.draw(st.permutations(range(rank))))
            return graph.permute(node, axes), expected.transpose(axes)
        case "slice":
            back = data.draw(st.booleans())
            step = -1 if back else data.draw(st.integers(1, 2))
            parts = tuple(slice(None, None, step) for _ in range(rank))
            taken = expected[parts]
            starts = tuple((n - 1 if back else 0, step) for n in expected.shape)
            return graph.slice_(node, starts, taken.shape), taken
        case "pad":
            widths = [
                (data.draw(st.integers(0, 2)), data.draw(st.integers(0, 1))) for _ in range(rank)
            ]
            return graph.pad(node, widths), np.pad(expected, widths)
        case "flat":
            return graph.reshape(node, (expected.size,)), expected.reshape(-1)
        case _:
            one = graph.const(1, dt.int64, node.shape)
            return graph.binary("add", node, one), expected + 1

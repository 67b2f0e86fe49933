"""Products of a few rows with a large matrix, on the machine-code executor, against numpy.

Whole numbers are exact in float32 in any order. Each case checks that the schedule for such
products made its kernel.
"""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from compilers.report.expression import matmul
from queues.amd.kernel_code import AmdCode
from tests.amd_toolbox import needs_comgr
from tests.boards.kernel_runner import TARGETS, compute
from tests.compilers.lowering import leaf, softmax
from tests.oracle import round_bfloat16
from tests.support import check

ARCHES = tuple(TARGETS)


def stored(values: np.ndarray, dtype: DType) -> Node:
    """A buffer of values that its dtype holds exactly."""
    if dtype is dt.bfloat16:
        held = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        held = values.astype(dtype.storage)
    return graph.buffer(np.ascontiguousarray(held), dtype, values.shape)


def whole(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def rounded(exact: np.ndarray, dtype: DType) -> np.ndarray:
    """float32 or wider values as `dtype` holds them, in float32 or wider."""
    if dtype is dt.bfloat16:
        return round_bfloat16(exact)
    kept = exact.astype(dtype.storage)
    return kept.astype(np.float32) if dtype is dt.float16 else kept


def ran(root: Node, arch: str, compiler: str = "LLVM") -> np.ndarray:
    """A result, after a look at what the strict checks reported; bfloat16 as float32."""
    found = compute([root], arch, compiler, strict=Strict())
    check(not found.violations, f"{[str(violation) for violation in found.violations[:3]]}")
    check(found.plan is not None and len(found.plan.steps) <= 2, f"{found.plan}")
    if found.plan is not None:
        names = {ref.name for ref in found.plan.steps[0].kernel.locals if ref.space == "shared"}
        check(names == {"sums"}, f"another schedule made it: {names}")
    for binary in found.binaries:
        check(not AmdCode.of(binary).vgpr_spills, "spilled")
        check(not binary.resources.scratch_bytes, "registers went to memory")
    (array,) = found.arrays
    if root.dtype is dt.bfloat16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def turned(node: Node) -> Node:
    """The transposed matrix."""
    return graph.permute(node, (1, 0))


def product(m: int, k: int, n: int, dtype: DType, *, along: bool) -> tuple[Node, np.ndarray]:
    """A product and numpy's, before it is rounded; `along`: the matrix is stored [n, k]."""
    x, w = whole(m, m, k), whole(n, k, n)
    right = turned(stored(w.T, dtype)) if along else stored(w, dtype)
    return matmul(stored(x, dtype), right), x.astype(np.float64) @ w


SHAPES = [(1, 512, 128), (1, 1030, 200), (1, 77, 131), (2, 300, 72), (3, 129, 257), (8, 264, 64),
          (5, 1000, 66)]  # fmt: skip
"""Rows, depth, columns: whole turns, remainders, rows that begin at odd elements."""


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_few_rows_by_a_matrix(shape: tuple[int, int, int], along: bool, arch: str) -> None:
    root, want = product(*shape, dt.float16, along=along)
    np.testing.assert_array_equal(ran(root, arch), rounded(want, dt.float16))


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize(
    ("dtype", "arch"),
    [(dt.bfloat16, "gfx1100"), (dt.bfloat16, "gfx1201"), (dt.bfloat16, "gfx942"),
     (dt.float32, "gfx1100"), (dt.float32, "gfx942"), (dt.float64, "gfx1201"),
     (dt.int32, "gfx1100"), (dt.int64, "gfx942")],
)  # fmt: skip
def test_every_dtype_of_weights(dtype: DType, along: bool, arch: str) -> None:
    root, want = product(2, 301, 136, dtype, along=along)
    np.testing.assert_array_equal(ran(root, arch), rounded(want, dtype))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx942"])
@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize(
    ("dtype", "group", "weights_move"),
    [(dt.float16, 0, False), (dt.bfloat16, 0, False), (dt.float16, 32, False),
     (dt.float16, 32, True)],
)  # fmt: skip
def test_weights_of_int8_with_scales(
    dtype: DType, group: int, weights_move: bool, along: bool, arch: str
) -> None:
    """A scale for each column, or for each group of 32 along depth: repeated, or the weights seen
    in groups. The scales are powers of two: every product is exact, and only the result rounded."""
    k, n = 320, 256
    x, q = whole(1, 2, k), np.random.default_rng(2).integers(-127, 128, (k, n)).astype(np.float64)
    powers = np.random.default_rng(3).integers(-3, 3, (k // group if group else 1, n))
    scale = np.exp2(powers)
    wide = np.repeat(scale, group or k, axis=0)
    want = rounded(x.astype(np.float64) @ (q * wide), dtype)
    order = (1, 0) if along else (0, 1)
    held = stored(q.transpose(order), dt.int8)
    scales = stored(scale.transpose(order), dtype)
    if group:  # (k, n) or (n, k): each scale for `group` neighbours along depth
        rows, columns = scales.shape
        spread = (rows, columns, group) if along else (rows, group, columns)
        one = (rows, columns, 1) if along else (rows, 1, columns)
        scales = graph.expand(graph.reshape(scales, one), spread)
    else:
        spread, scales = held.shape, graph.broadcast(scales, held.shape)
    if weights_move:
        weights = graph.binary("mul", graph.cast(graph.reshape(held, spread), dtype), scales)
        weights = graph.reshape(weights, held.shape)
    else:
        scales = graph.reshape(scales, held.shape)
        weights = graph.binary("mul", graph.cast(held, dtype), scales)
    root = matmul(stored(x, dtype), turned(weights) if along else weights)
    np.testing.assert_array_equal(ran(root, arch), want)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
@pytest.mark.parametrize("along", [False, True])
def test_an_epilogue_is_part_of_the_kernel(along: bool, arch: str) -> None:
    """Bias, activation, residual; columns that no workgroup's share divides."""
    root, exact = product(3, 260, 150, dt.float32, along=along)
    bias, residual = whole(5, 150), whole(6, 3, 150)
    biased = graph.binary("add", root, graph.broadcast(stored(bias, dt.float32), (3, 150)))
    zero = graph.const(0, dt.float32, (3, 150))
    active = graph.binary("max", biased, zero)
    total = graph.binary("add", active, stored(residual, dt.float32))
    want = np.maximum(exact + bias, 0) + residual
    np.testing.assert_array_equal(ran(total, arch), want.astype(np.float32))


@pytest.mark.parametrize("arch", ["gfx1201", "gfx942"])
@pytest.mark.parametrize("along", [False, True])
def test_batches_have_matrices_of_their_own(along: bool, arch: str) -> None:
    """As attention has them: one query for each head; scores are along, values across."""
    heads, k, n = 3, 96, 128
    x, w = whole(7, heads, 1, k), whole(8, heads, k, n)
    held = stored(w.transpose(0, 2, 1) if along else w, dt.float16)
    right = held if along else graph.permute(held, (0, 2, 1))
    shape = (heads, 1, n, k)
    left = graph.reshape(graph.cast(stored(x, dt.float16), dt.float32), (heads, 1, 1, k))
    right = graph.reshape(graph.cast(right, dt.float32), (heads, 1, n, k))
    pairs = graph.binary("mul", graph.expand(left, shape), right)
    root = graph.cast(graph.reduce("add", pairs, (3,)), dt.float16)
    np.testing.assert_array_equal(ran(root, arch), rounded(x @ w, dt.float16))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_attention_of_one_word(arch: str) -> None:
    """Scores along the keys, a softmax of its own, values across: no product inside of another
    kernel. Off by less than the additions of both sums may be."""
    heads, words, width = 2, 80, 64
    random = np.random.default_rng(9)
    q, keys, values = (
        random.uniform(-1, 1, (heads, n, width)).astype(np.float32) for n in (1, words, words)
    )
    shape = (heads, words, width)
    pairs = graph.binary("mul", graph.expand(leaf(q), shape), leaf(keys))
    powers = softmax(graph.reduce("add", pairs, (2,)))
    weights = graph.expand(graph.reshape(powers, (heads, words, 1)), shape)
    root = graph.reduce("add", graph.binary("mul", weights, leaf(values)), (1,))
    found = compute([root], arch, strict=Strict())
    check(not found.violations, f"{[str(violation) for violation in found.violations[:3]]}")
    kernels = [step.kernel for step in found.plan.steps] if found.plan else []
    made = [any(ref.name == "sums" for ref in kernel.locals) for kernel in kernels]
    check(made == [True, False, True], f"{made}")
    scores = np.einsum("hkd,hld->hl", q.astype(np.float64), keys)
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    want = np.einsum("hl,hld->hd", shares, values)
    np.testing.assert_allclose(found.arrays[0], want, rtol=0, atol=(words + width) * 2.0**-23)


@pytest.mark.parametrize("along", [False, True])
def test_what_is_past_the_depth_is_no_part_of_the_sum(along: bool) -> None:
    """Past it a weight reads as 0, and its inverse, by a row that reads as 0, is nan."""
    k, n = 100, 128
    x, w = whole(1, 1, k), whole(2, k, n)
    w[w == 0] = 3
    held = stored(w.T if along else w, dt.float32)
    inverse = graph.binary("div", graph.const(1, dt.float32, held.shape), held)
    root = matmul(stored(x, dt.float32), turned(inverse) if along else inverse)
    exact = x.astype(np.float64) @ (1 / w.astype(np.float64))
    bound = k * 2.0**-23 * (np.abs(x) @ np.abs(1 / w))
    error = np.abs(ran(root, "gfx1100") - exact)
    check(bool((error <= bound).all()), f"{error.max()}")


def test_a_narrow_matrix_is_summed_in_parts() -> None:
    """64 columns are one workgroup's: 16 parts of 128 along depth, and a second kernel."""
    root, want = product(1, 2048, 64, dt.float16, along=False)
    found = compute([root], "gfx1100", strict=Strict())
    check(not found.violations, f"{found.violations[:3]}")
    steps = found.plan.steps if found.plan else ()
    check([step.kernel.grid for step in steps][:1] == [16] and len(steps) == 2, f"{steps}")
    np.testing.assert_array_equal(found.arrays[0], rounded(want, dt.float16))


@needs_comgr
@pytest.mark.parametrize("along", [False, True])
def test_the_other_compiler_makes_the_same(along: bool) -> None:
    root, want = product(2, 300, 200, dt.float16, along=along)
    np.testing.assert_array_equal(ran(root, "gfx1030", "HIP"), rounded(want, dt.float16))

"""Kernels of every kind on the machine-code executor, against numpy, with all strict checks on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.dtype import DType
from compilers.graph import BINARY, MATH1, MATH2, UNARY, Node
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from tests import oracle
from tests.amd_toolbox import needs_comgr
from tests.boards.kernel_runner import TARGETS, compute
from tests.boards.kernel_runner import run as launch
from tests.compilers.lowering import leaf, matmul, softmax
from tests.graph_maker import Maker
from tests.graph_runner import compare
from tests.support import check

ARCHES = tuple(TARGETS)
ULPS = 4.0
"""What float functions may differ from numpy's, in units in the last place."""
WAYS = [("gfx1100", "LLVM"), pytest.param("gfx1030", "HIP", marks=needs_comgr)]


def run(roots: list[Node], arch: str = "gfx1100", compiler: str = "LLVM") -> list[np.ndarray]:
    """Results, after a look at what the strict checks found."""
    ran = compute(roots, arch, compiler, Strict())
    check(not ran.violations, f"{[str(violation) for violation in ran.violations[:3]]}")
    return ran.arrays


def numbers(seed: int, *shape: int) -> Node:
    """Small integers as float32: exact in any order of additions."""
    values = np.random.default_rng(seed).integers(-9, 9, shape)
    return leaf(values.astype(np.float32))


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
@pytest.mark.parametrize("first", range(0, 24, 6))
def test_random_graphs(first: int, arch: str, compiler: str) -> None:
    for seed in range(first, first + 6):
        values = Maker(seed).roots(12)
        wanted = [oracle.evaluate(value.node) for value in values]
        found = run([value.node for value in values], arch, compiler)
        for value, got, want in zip(values, found, wanted, strict=True):
            compare(value, got, want)


@pytest.mark.parametrize("arch", [arch for arch in ARCHES if arch != "gfx1100"])
def test_random_graphs_on_other_chips(arch: str) -> None:
    for seed in range(30, 36):
        values = Maker(seed).roots(12)
        wanted = [oracle.evaluate(value.node) for value in values]
        for value, got, want in zip(
            values, run([value.node for value in values], arch), wanted, strict=True
        ):
            compare(value, got, want)


def special(dtype: str) -> np.ndarray:
    """Ordinary values and every kind of special one."""
    random = np.random.default_rng(5)
    odd = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 1e4, -3e4, 2, -2, 3e6, -1e30]
    values = [*random.uniform(-1, 1, 40), *random.uniform(-20, 20, 40), *odd]
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype)


def close(got: np.ndarray, want: np.ndarray) -> None:
    """Special values alike, the others within `ULPS`."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want) & (np.abs(want) < np.finfo(want.dtype).max)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    error = np.abs(got[finite].astype(np.float64) - want[finite])
    unit = np.spacing(np.abs(want[finite])).astype(np.float64)
    check(bool((error <= ULPS * unit).all()), f"{(error / unit).max()} units")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", sorted(MATH1 | MATH2 | {"mod", "floordiv", "max", "rint", "sqrt"}))
def test_float_functions(op: str, dtype: str) -> None:
    x = special(dtype)
    if op in UNARY:
        node = graph.unary(op, leaf(x))
    else:
        node = graph.binary(op, leaf(x), leaf(np.random.default_rng(6).permutation(x)))
    want = oracle.evaluate(node)
    got = run([node])[0]
    if node.dtype.kind == "f":
        close(got, want)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
def test_remainders_of_every_distance(arch: str, compiler: str) -> None:
    """Quotients from 2**-30 to 2**120, whole ones too: what is left is exact."""
    random = np.random.default_rng(12)
    y = random.uniform(1, 2, 600).astype(np.float32) * random.choice([-1, 1, 1e-39, 1e9], 600)
    x = y * np.exp2(random.integers(-30, 60, 600)) * random.uniform(1, 2, 600)
    x[::3] = y[::3] * random.integers(-(2**24), 2**24, 200)
    x, y = x.astype(np.float32), y.astype(np.float32)
    found = run([graph.binary("fmod", leaf(x), leaf(y))], arch, compiler)[0]
    np.testing.assert_array_equal(found, np.fmod(x, y))


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
def test_two_functions_with_rare_parts_in_one_kernel(arch: str, compiler: str) -> None:
    """What is computed in one branch is not there in the other."""
    x = special("float32")
    node = graph.binary("max", graph.unary("sin", leaf(x)), graph.unary("cos", leaf(x)))
    close(run([node], arch, compiler)[0], oracle.evaluate(node))


def test_sixteen_bit_floats() -> None:
    x = special("float16")
    nodes = [graph.unary(op, leaf(x)) for op in ("exp", "log", "tanh", "neg", "floor")]
    nodes += [graph.binary(op, leaf(x), leaf(x[::-1].copy())) for op in ("add", "div", "mod")]
    for got, node in zip(run(nodes), nodes, strict=True):
        close(got, oracle.evaluate(node))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integer_operations(dtype: str) -> None:
    kind, random = np.dtype(dtype), np.random.default_rng(7)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    x = random.integers(low, high, 70, kind, endpoint=True)
    small = random.integers(max(low, -5), 9, 35).astype(kind)
    y = np.concatenate([small, random.integers(low, high, 35, kind, endpoint=True)])
    ops = sorted(BINARY - MATH2 - {"div"} | {"pow"})
    nodes = [graph.binary(op, leaf(x), leaf(y)) for op in ops]
    for op, got, node in zip(ops, run(nodes), nodes, strict=True):
        np.testing.assert_array_equal(got, oracle.evaluate(node), op)


ROWS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 1), (1,)), ((5, 3), (1,)), ((37, 65), (1,)), ((37, 65), (0,)), ((1, 4099), (1,)),
    ((3, 2048), (1,)), ((70, 3, 9), (0, 2)), ((300, 5), (0,)), ((9, 130), (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
@pytest.mark.parametrize("kind", ["add", "max"])
def test_reductions_of_every_team(kind: str, arch: str) -> None:
    nodes = [graph.reduce(kind, numbers(n, *shape), axes) for n, (shape, axes) in enumerate(ROWS)]
    for got, node in zip(run(nodes, arch), nodes, strict=True):
        np.testing.assert_array_equal(got, oracle.evaluate(node))


@pytest.mark.parametrize("kind", ["add", "max"])
def test_long_reductions_keep_every_unit_busy(kind: str) -> None:
    """The chip of these tests has 48 compute units."""
    cases = [
        ((1 << 19,), (0,), 48),
        ((3, 70_000), (1,), 24),
        ((70_000, 6), (0,), 48),
        ((5, 2, 30_000), (0, 2), 32),
    ]
    for shape, axes, groups in cases:
        node = graph.reduce(kind, numbers(5, *shape), axes)
        ran = compute([node], strict=Strict())
        check(not ran.violations, f"{ran.violations[:3]}")
        np.testing.assert_array_equal(ran.arrays[0], oracle.evaluate(node))
        check(ran.plan is not None and ran.plan.steps[0].kernel.grid >= groups, f"{shape}")


def test_a_deep_product_of_few_tiles_is_summed_in_parts() -> None:
    random = np.random.default_rng(14)
    a, b = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((8, 9000), (9000, 12)))
    ran = compute([matmul(leaf(a), leaf(b))])
    np.testing.assert_array_equal(ran.arrays[0], a @ b)
    check(ran.plan is not None and ran.plan.steps[0].kernel.grid == 8, "idle units")


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
def test_offsets_of_more_than_32_bits(arch: str, compiler: str, tmp_path: Path) -> None:
    """Every 2**30 bytes of a buffer of 8 GiB, of which only what is touched exists."""
    rows, row = 8, 1 << 28
    table = np.memmap(tmp_path / "sparse", np.float32, "w+", shape=(rows, row))
    table[:, 5] = np.arange(1, 1 + rows)
    source = graph.buffer(np.zeros(1, np.float32), dt.float32, (rows, row))
    key, _ = signature([graph.slice_(source, ((0, 1), (5, 1)), (rows, 1))])
    (step,) = plan(rebuild(key).roots, TARGETS[arch]).steps
    binary = toolchains.build(step.kernel, compiler, arch, frozenset())
    found = np.zeros(rows, np.float32)
    launch(binary, [found, table], step.kernel.grid)
    np.testing.assert_array_equal(found, np.arange(1, 1 + rows))


@pytest.mark.parametrize("dtype", [dt.int64, dt.float64, dt.float16, dt.uint8, dt.bool_])
def test_reductions_of_every_width(dtype: DType) -> None:
    random = np.random.default_rng(1)
    values = random.integers(0, 250, (5, 200)).astype(dtype.name)
    if dtype is dt.bool_:
        values = random.integers(0, 300, (5, 200)) == 0
    if dtype.itemsize == 8:
        values *= values.dtype.type(2**30)  # what counts is in the upper half too
    for axis in (0, 1):
        for kind, want in (("max", values.max(axis=axis)), ("min", values.min(axis=axis))):
            node = graph.reduce(kind, leaf(values), (axis,))
            np.testing.assert_array_equal(run([node])[0], want)


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
def test_rows_with_several_reductions(arch: str, compiler: str) -> None:
    for shape in ((7, 33), (2, 3000)):
        node = softmax(numbers(3, *shape))
        want = oracle.evaluate(node)
        np.testing.assert_allclose(run([node], arch, compiler)[0], want, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("arch", ARCHES)
def test_sort_and_scan(arch: str) -> None:
    x = numbers(4, 5, 37)
    nodes = [graph.argsort(x, 1, False), graph.argsort(x, 0, True), graph.scan("add", x, 1)]
    for got, node in zip(run(nodes, arch), nodes, strict=True):
        np.testing.assert_array_equal(got, oracle.evaluate(node))


SIZES = [(32, 32, 32), (33, 35, 37), (64, 130, 20), (200, 70, 9)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_products_of_every_edge(dtype: str) -> None:
    random = np.random.default_rng(8)
    for m, n, k in SIZES:
        a, b = (random.integers(-9, 9, shape).astype(dtype) for shape in ((m, k), (k, n)))
        flipped = graph.permute(leaf(np.ascontiguousarray(a.T)), (1, 0))
        for left in (leaf(a), flipped) if dtype == "float32" else (leaf(a),):
            np.testing.assert_array_equal(run([matmul(left, leaf(b))])[0], a @ b)


def test_large_tiles_of_a_product() -> None:
    random = np.random.default_rng(9)
    a, b = (random.integers(-3, 3, shape).astype(np.float32) for shape in ((640, 24), (24, 640)))
    np.testing.assert_array_equal(compute([matmul(leaf(a), leaf(b))]).arrays[0], a @ b)


def halves(dtype: DType) -> Callable[..., tuple[Node, np.ndarray]]:
    """Makes 16-bit operands as float32 nodes, and their values."""

    def make(seed: int, *shape: int) -> tuple[Node, np.ndarray]:
        values = np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)
        stored = values.astype(np.float16)
        if dtype is dt.bfloat16:
            stored = (values.view(np.uint32) >> 16).astype(np.uint16)
        return graph.cast(graph.buffer(stored, dtype, shape), dt.float32), values

    return make


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=["float16", "bfloat16"])
def test_products_on_matrix_units(dtype: DType, arch: str) -> None:
    make = halves(dtype)
    for m, n, k in ((32, 32, 32), (50, 33, 70), (160, 16, 16)):
        (a, left), (b, right) = make(1, m, k), make(2, k, n)
        np.testing.assert_array_equal(run([matmul(a, b)], arch)[0], left @ right)


@needs_comgr
def test_a_product_in_hip() -> None:
    random = np.random.default_rng(11)
    a, b = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((33, 40), (40, 35)))
    found = run([matmul(leaf(a), leaf(b))], "gfx1030", "HIP")[0]
    np.testing.assert_array_equal(found, a @ b)

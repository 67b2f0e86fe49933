"""Products on matrix units, beside numpy: every tile, layout and edge, with strict boards."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from queues.amd.kernel_code import AmdCode
from tests.boards.kernel_runner import compute
from tests.compilers.lowering import matmul
from tests.oracle import round_bfloat16
from tests.share import part
from tests.support import check

ARCHES = ("gfx1100", "gfx1201", "gfx942")
DTYPES = (dt.float16, dt.bfloat16)
UNITS = {"largest": 1, "second": 7, "third": 9, "smallest": 48}
"""Compute units of a made-up chip for which a product of 130 rows and columns has such tiles."""
EDGES = ((150, 133, 70), (128, 128, 64), (257, 136, 32), (130, 200, 97), (130, 132, 40))
"""Nothing, everything and this and that a multiple of the tile; one step, and an odd number."""


@cache
def whole(seed: int, rows: int, columns: int) -> np.ndarray:
    """Small integers as float32: exact in any order of additions, and exact as 16-bit floats."""
    return np.random.default_rng(seed).integers(-9, 9, (rows, columns)).astype(np.float32)


def half(dtype: DType, values: np.ndarray, *, turned: bool = False) -> Node:
    """A float32 node over stored 16-bit floats, row-major or transposed."""
    values = np.ascontiguousarray(values.T if turned else values)
    stored = values.astype(np.float16)
    if dtype is dt.bfloat16:
        stored = (values.view(np.uint32) >> 16).astype(np.uint16)
    node = graph.cast(graph.buffer(stored, dtype, values.shape), dt.float32)
    return graph.permute(node, (1, 0)) if turned else node


def run(root: Node, arch: str, threads: int) -> np.ndarray:
    ran = compute([root], arch, "LLVM", Strict(), threads)
    check(not ran.violations, f"{[str(violation) for violation in ran.violations[:3]]}")
    check(not any(AmdCode.of(binary).vgpr_spills for binary in ran.binaries), "spills")
    return ran.arrays[0]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_every_layout_and_edge(layout: str, dtype: DType, arch: str) -> None:
    for m, n, k in EDGES[: part(len(EDGES), 1)]:
        left, right = whole(1, m, k), whole(2, k, n)
        a = half(dtype, left, turned=layout[0] == "t")
        b = half(dtype, right, turned=layout[1] == "t")
        found = run(matmul(a, b), arch, UNITS["largest"])
        np.testing.assert_array_equal(found, left @ right, f"{m} {n} {k}")


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("tile", UNITS)
def test_every_tile(tile: str, arch: str) -> None:
    left, right = whole(3, 130, 72), whole(4, 72, 130)
    grids = set()
    for turned in (False, True):
        a, b = half(dt.float16, left, turned=turned), half(dt.float16, right, turned=turned)
        ran = compute([matmul(a, b)], arch, "LLVM", Strict(), UNITS[tile])
        check(not ran.violations, f"{[str(violation) for violation in ran.violations[:3]]}")
        np.testing.assert_array_equal(ran.arrays[0], left @ right)
        check(ran.plan is not None, "no plan")
        grids |= {step.kernel.grid for step in ran.plan.steps} if ran.plan else set()
    sides = {"largest": 128, "second": 128, "third": 64, "smallest": 32}
    rows = 256 if tile == "largest" and arch == "gfx942" else sides[tile]
    columns = sides[tile]
    check(grids == {-(-130 // rows) * -(-130 // columns)}, f"{grids}")


@pytest.mark.parametrize("tile", ["second", "third", "smallest"])
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_steps_of_several_panels(layout: str, tile: str) -> None:
    """MFMA stages two or four panels of 32 along k at once; 300 is no multiple of either, and 256
    of both."""
    for k in (300, 256, 33)[: part(3, 1)]:
        left, right = whole(3, 130, k), whole(4, k, 130)
        a = half(dt.float16, left, turned=layout[0] == "t")
        b = half(dt.float16, right, turned=layout[1] == "t")
        found = run(matmul(a, b), "gfx942", UNITS[tile])
        np.testing.assert_array_equal(found, left @ right, f"{k}")


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float16", "bfloat16"])
def test_what_follows_a_product_in_its_kernel(dtype: DType, arch: str) -> None:
    """A bias and a bound, rounded to the operands' dtype; columns of which four are, or are not,
    stored at once."""
    for n in (132, 131)[: part(2, 1)]:
        left, right, bias = whole(5, 140, 50), whole(6, 50, n), whole(7, 1, n)
        total = matmul(half(dtype, left), half(dtype, right))
        total = graph.binary("add", total, graph.expand(half(dtype, bias), (140, n)))
        zero = graph.expand(half(dtype, np.zeros((1, 1), np.float32)), (140, n))
        root = graph.cast(graph.binary("max", total, zero), dtype)
        want = np.maximum(left @ right + bias, 0)
        want = round_bfloat16(want) if dtype is dt.bfloat16 else want.astype(np.float16)
        found = run(root, arch, UNITS["largest"])
        if dtype is dt.bfloat16:
            found = (found.astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("arch", ARCHES)
def test_batches_of_products(arch: str) -> None:
    left = np.stack([whole(8 + i, 66, 40) for i in range(3)])
    right = np.stack([whole(12 + i, 40, 70) for i in range(3)])

    def batch(values: np.ndarray, shape: tuple[int, ...], spread: tuple[int, ...]) -> Node:
        stored = graph.buffer(values.astype(np.float16), dt.float16, values.shape)
        return graph.expand(graph.reshape(graph.cast(stored, dt.float32), shape), spread)

    a = batch(left, (3, 66, 1, 40), (3, 66, 70, 40))
    turned = np.ascontiguousarray(right.transpose(0, 2, 1))
    b = batch(turned, (3, 1, 70, 40), (3, 66, 70, 40))
    total = graph.reduce("add", graph.binary("mul", a, b), (3,))
    np.testing.assert_array_equal(run(total, arch, UNITS["largest"]), left @ right)

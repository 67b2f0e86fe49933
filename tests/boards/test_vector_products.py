"""Products of a few rows with a large matrix, on the machine-code executor, against numpy.

Whole numbers are exact in float32 in any order; other values are compared by the error that float32
additions in any order may have.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from boards.amd.wave_types import Strict
from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from compilers.report_expression import matmul
from tests.boards.kernel_runner import TARGETS, Ran, compute
from tests.oracle import round_bfloat16
from tests.support import check

ARCHES = tuple(arch for arch in TARGETS if arch != "gfx1030")


def stored(values: np.ndarray, dtype: DType) -> Node:
    """A buffer of whole numbers in any dtype."""
    held = values.astype(np.float32)
    if dtype is dt.bfloat16:
        held = (held.view(np.uint32) >> 16).astype(np.uint16)
    return graph.buffer(np.ascontiguousarray(held.astype(dtype.storage)), dtype, values.shape)


def whole(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def ran(root: Node, arch: str) -> Ran:
    """A result, after a look at what the strict checks reported."""
    found = compute([root], arch, strict=Strict())
    check(not found.findings, f"{[str(finding) for finding in found.findings[:3]]}")
    check(len(found.binaries) <= 2, f"{len(found.binaries)} kernels")
    for binary in found.binaries:
        check(not binary.resources["vgpr_spills"], "spilled")
        check(not binary.resources["private_bytes"], "registers went to memory")
    return found


def product(m: int, k: int, n: int, dtype: DType, *, turned: bool) -> tuple[Node, np.ndarray]:
    """A product and numpy's; `turned`: the matrix is stored [n, k]."""
    x, w = whole(m, m, k), whole(n, k, n)
    matrix = stored(w.T if turned else w, dtype)
    right = graph.permute(matrix, (1, 0)) if turned else matrix
    want = x @ w
    if dtype is dt.float16:
        want = want.astype(np.float16).astype(np.float32)
    return matmul(stored(x, dtype), right), want if dtype is not dt.bfloat16 else round_bfloat16(
        want
    )


def values(found: Ran, dtype: DType) -> np.ndarray:
    (array,) = found.arrays
    if dtype is dt.bfloat16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


SHAPES = [(1, 512, 128), (1, 1030, 200), (1, 77, 131), (2, 300, 72), (3, 129, 257), (8, 264, 64),
          (5, 1000, 16)]  # fmt: skip
"""Rows, depth, columns: whole turns, remainders, odd rows that begin anywhere."""


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_few_rows_by_a_matrix(shape: tuple[int, int, int], turned: bool, arch: str) -> None:
    root, want = product(*shape, dt.float16, turned=turned)
    np.testing.assert_array_equal(values(ran(root, arch), dt.float16), want)

"""Transposed copies go tile by tile: every size of the last tile, against numpy, at page ends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.ir import Loop
from compilers.lower.choose import MIN_TILED_BYTES, TILE_ROWS, Target
from drivers.cpu import CpuDevice
from tests.compilers.lowering import planned
from tests.cpu_harness import open_device
from tests.graph_runner import compute
from tests.support import check


@pytest.fixture(scope="module")
def device() -> Iterator[CpuDevice]:
    with open_device(1) as opened:
        yield opened


CASES = [
    ((256, 256), (1, 0)), ((257, 261), (1, 0)), ((1024, 67), (1, 0)), ((65, 1100), (1, 0)),
    ((5, 129, 130), (0, 2, 1)), ((33, 41, 70), (2, 0, 1)), ((70, 8, 9, 40), (3, 2, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), CASES)
@pytest.mark.parametrize("dtype", [dt.float32, dt.uint8, dt.int64])
def test_transposed_copies(shape, axes, dtype, device):
    array = np.arange(np.prod(shape), dtype=dtype.name).reshape(shape)
    moved = graph.permute(graph.buffer(array, dtype, shape), axes)
    (got,) = compute([graph.contiguous(moved)], device, Target(device.limits.vector_bytes))
    np.testing.assert_array_equal(got, array.transpose(axes))


def test_a_sum_with_the_transpose_reads_both(device):
    array = np.arange(300 * 300, dtype=np.float32).reshape(300, 300)
    x = graph.buffer(array, dt.float32, array.shape)
    total = graph.binary("add", x, graph.permute(x, (1, 0)))
    (got,) = compute([total], device, Target(device.limits.vector_bytes))
    np.testing.assert_array_equal(got, array + array.T)


def rows_of_tiles(loop):
    """Whether the loop nest goes down a tile's rows."""
    inner = getattr(loop, "body", ())
    here = isinstance(loop, Loop) and loop.kind == "serial" and loop.extent == TILE_ROWS
    return here or any(rows_of_tiles(stmt) for stmt in inner)


@pytest.mark.parametrize(("side", "tiled"), [(4, False), (512, True)])
def test_large_transpositions_are_tiled(side, tiled):
    shape = (side * 2, side)
    check((side * side * 8 >= MIN_TILED_BYTES) == tiled)
    x = graph.buffer(object(), dt.float32, shape)
    body = planned(graph.contiguous(graph.permute(x, (1, 0))), 64).steps[0].kernel.body
    np.testing.assert_equal(rows_of_tiles(body), tiled)

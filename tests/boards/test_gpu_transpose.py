"""Transpositions in tiles, on the machine-code executor with all strict checks on."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.amd import disasm as amd_disasm
from compilers.graph import Node
from tests.amd_toolbox import needs_comgr, needs_libllvm
from tests.boards.kernel_runner import TARGETS, Ran, compute
from tests.boards.test_gpu_scan import kernels
from tests.compilers.lowering import leaf
from tests.support import check

WAYS = [*((arch, "LLVM") for arch in TARGETS), pytest.param("gfx1030", "HIP", marks=needs_comgr)]
CASES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((320, 320), (1, 0)), ((300, 400), (1, 0)), ((5, 100, 170), (0, 2, 1)),
    ((130, 4, 260), (2, 1, 0)), ((1600, 33), (1, 0)), ((33, 1600), (1, 0)),
    ((40, 30, 100), (2, 0, 1)),
]  # fmt: skip
SIDE = 64


def run(node: Node, arch: str = "gfx1100", compiler: str = "LLVM") -> Ran:
    ran = compute([node], arch, compiler, Strict())
    check(not ran.violations, f"{[str(violation) for violation in ran.violations[:3]]}")
    return ran


def tiled(ran: Ran) -> bool:
    """Whether the last kernel goes through shared memory."""
    steps = ran.plan.steps if ran.plan else ()
    return any(ref.space == "shared" for ref in steps[-1].kernel.locals)


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_every_shape(
    shape: tuple[int, ...], axes: tuple[int, ...], arch: str, compiler: str
) -> None:
    """Whole tiles and tiles at both ends, beside an operand that is not transposed."""
    x = np.random.default_rng(1).integers(-99, 99, shape).astype(np.float32)
    y = np.random.default_rng(2).integers(-99, 99, [shape[axis] for axis in axes])
    node = graph.binary("sub", leaf(y.astype(np.float32)), graph.permute(leaf(x), axes))
    ran = run(node, arch, compiler)
    check(tiled(ran), "no tile")
    np.testing.assert_array_equal(ran.arrays[0], y - x.transpose(axes))


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "int32", "float64", "uint64"])
def test_every_width(dtype: str, arch: str) -> None:
    x = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 99, (330, 310)).astype(dtype)
    ran = run(graph.contiguous(graph.permute(leaf(x), (1, 0))), arch)
    check(tiled(ran), "no tile")
    np.testing.assert_array_equal(ran.arrays[0], x.T)


def test_views_of_what_is_transposed() -> None:
    """Slices, padding, a second transposed operand, and one read both ways."""
    x = np.random.default_rng(4).integers(-99, 99, (400, 500)).astype(np.float32)
    turned = graph.permute(leaf(x), (1, 0))
    cut = graph.slice_(turned, ((3, 1), (5, 1)), (400, 390))
    padded = graph.pad(cut, ((1, 2), (4, 0)))
    want = np.pad(x.T[3:403, 5:395], ((1, 2), (4, 0)))
    np.testing.assert_array_equal(run(graph.unary("neg", padded)).arrays[0], -want)
    square = leaf(np.ascontiguousarray(x[:, :400]))
    node = graph.binary("sub", square, graph.permute(square, (1, 0)))
    np.testing.assert_array_equal(run(node).arrays[0], x[:, :400] - x[:, :400].T)
    other = graph.permute(leaf(x[::-1].copy()), (1, 0))
    ran = run(graph.binary("mul", turned, other))
    np.testing.assert_array_equal(ran.arrays[0], x.T * x[::-1].T)
    check(tiled(ran), "no tile")


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_of_what_is_transposed_is_preceded_by_tiles(axis: int) -> None:
    x = np.random.default_rng(5).integers(-9, 9, (330, 310)).astype(np.float32)
    ran = run(graph.scan("add", graph.permute(leaf(x), (1, 0)), axis))
    np.testing.assert_array_equal(ran.arrays[0], x.T.cumsum(axis))
    steps = ran.plan.steps if ran.plan else ()
    check(any(step.kernel.name == "permute_310_330" for step in steps), f"{len(steps)} kernels")


def test_small_or_narrow_transpositions_have_no_tiles() -> None:
    """Half of 48 compute units would have none, or the tiles would be mostly empty."""
    for shape in ((64, 256), (20_000, 9)):
        x = np.random.default_rng(6).integers(-9, 9, shape).astype(np.float32)
        ran = run(graph.contiguous(graph.permute(leaf(x), (1, 0))))
        np.testing.assert_array_equal(ran.arrays[0], x.T)
        check(not tiled(ran), f"tiles for {shape}")


@needs_libllvm
@pytest.mark.parametrize("arch", TARGETS)
def test_both_ways_are_128_bits_a_lane(arch: str) -> None:
    """8192 x 8192: a workgroup for each tile, 4 loads and 4 stores a lane, all of 128 bits."""
    source = graph.buffer(np.zeros(1, np.float32), dt.float32, (8192, 8192))
    (kernel,) = kernels(graph.contiguous(graph.permute(source, (1, 0))), arch)
    check(kernel.grid == (8192 // SIDE) ** 2, f"{kernel.grid}")
    binary = toolchains.build(kernel, "LLVM", arch, frozenset())
    texts = [found.text.split()[0] for found in amd_disasm.instructions(binary)]
    found = Counter(text for text in texts if text.startswith("global_"))
    wide = {"global_load_b128", "global_store_b128", "global_load_dwordx4", "global_store_dwordx4"}
    check(found.keys() <= wide and all(count == 4 for count in found.values()), f"{found}")
    check(any(re.match(r"ds_(load|read)", text) for text in texts), "no shared memory")
    check(not binary.resources.scratch_bytes, "registers went to memory")

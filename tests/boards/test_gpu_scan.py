"""Running reductions on the machine-code executor, against numpy, with all strict checks on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.amd import disasm as amd_disasm
from compilers.graph import Node
from compilers.ir import If, Kernel, Loop, Stmt
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from tests.amd_toolbox import needs_comgr, needs_libllvm
from tests.boards.kernel_runner import TARGETS, Ran, compute
from tests.compilers.lowering import leaf
from tests.support import check

Array = np.ndarray[Any, Any]
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((1,), 0), ((5,), 0), ((37,), 0), ((5, 37), 1), ((5, 37), 0), ((300, 3), 1), ((70, 64), 1),
    ((3, 700), 1), ((700, 3), 0), ((2, 33, 65), 1), ((3, 2, 4100), 2), ((1 << 15,), 0),
    ((20_001,), 0), ((300, 20), 0), ((3, 5000, 9), 1), ((2, 9000, 2), 1), ((64, 2, 3, 5), 0),
]  # fmt: skip
WAYS = [("gfx1100", "LLVM"), pytest.param("gfx1030", "HIP", marks=needs_comgr)]
FLOAT32_EPSILON = 2.0**-23


def run(roots: list[Node], arch: str = "gfx1100", compiler: str = "LLVM") -> Ran:
    ran = compute(roots, arch, compiler, Strict())
    check(not ran.violations, f"{[str(violation) for violation in ran.violations[:3]]}")
    return ran


def running(kind: str, x: Array, axis: int) -> Array:
    """numpy's answer in x's own dtype: integers wrap."""
    found: Array = UFUNCS[kind].accumulate(x, axis=axis, dtype=x.dtype)
    return found


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_every_shape(shape: tuple[int, ...], axis: int, arch: str) -> None:
    x = np.random.default_rng(1).integers(-9, 9, shape)
    for kind, dtype in (("add", "float32"), ("max", "int8"), ("add", "int64")):
        values = x.astype(dtype)
        found = run([graph.scan(kind, leaf(values), axis)], arch).arrays[0]
        if dtype == "float32":  # small whole numbers: exact in any order of additions
            np.testing.assert_array_equal(found, x.cumsum(axis))
        else:
            np.testing.assert_array_equal(found, running(kind, values, axis))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("kind", UFUNCS)
def test_integers_are_exact(kind: str, dtype: str) -> None:
    """Sums and products wrap; elements of both halves of a dword pair count."""
    info = np.iinfo(dtype)
    x = np.random.default_rng(2).integers(info.min, info.max, (3, 2100), dtype, endpoint=True)
    x |= np.array(1, dtype)  # odd: products never end in 0
    for axis in (0, 1):
        found = run([graph.scan(kind, leaf(x), axis)]).arrays[0]
        np.testing.assert_array_equal(found, running(kind, x, axis))


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
def test_sums_of_floats_are_within_the_tolerance_of_sums(arch: str, compiler: str) -> None:
    """Half a unit of the sum of magnitudes for each addition: compare `Case` of tensor_programs."""
    x = np.random.default_rng(3).uniform(-2, 2, 30_000).astype(np.float32)
    first = run([graph.scan("add", leaf(x), 0)], arch, compiler).arrays[0]
    again = run([graph.scan("add", leaf(x), 0)], arch, compiler).arrays[0]
    np.testing.assert_array_equal(first, again)
    wide = x.astype(np.float64)
    near = np.abs(wide).cumsum() * np.arange(1, x.size + 1) * FLOAT32_EPSILON / 2
    check(bool((np.abs(first - wide.cumsum()) <= near).all()), "beyond the tolerance")


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float32, dt.float64])
def test_floats_of_every_width(dtype: dt.DType) -> None:
    """Ones and twos: every sum up to 256 is exact in each of them."""
    x = np.random.default_rng(4).integers(0, 2, 255).astype(np.float32)
    node = graph.scan("add", graph.cast(leaf(x), dtype), 0)
    found = run([graph.cast(node, dt.float32)]).arrays[0]
    np.testing.assert_array_equal(found, x.cumsum())


@pytest.mark.parametrize("axis", [0, 1])
def test_special_floats(axis: int) -> None:
    """NaN stays in what comes after it; a sum of -0.0 is -0.0, in every segment."""
    x = np.random.default_rng(5).uniform(-2, 2, (2, 9000)).astype(np.float32)
    x[0, 4321], x[1, 8999] = np.nan, np.inf
    x = x if axis else np.ascontiguousarray(x.T)
    for kind in ("max", "min"):
        found = run([graph.scan(kind, leaf(x), axis)]).arrays[0]
        np.testing.assert_array_equal(found, running(kind, x, axis))
    zeros = np.full(x.shape, -0.0, np.float32)
    check(bool(np.signbit(run([graph.scan("add", leaf(zeros), axis)]).arrays[0]).all()), "+0.0")


def test_what_is_computed_on_the_way() -> None:
    """A source that is an expression, a view, a reduction; a result that is used at once."""
    x = np.random.default_rng(6).integers(-9, 9, (4, 40, 50)).astype(np.float32)
    flipped = graph.permute(leaf(x), (2, 0, 1))
    inner = graph.reduce("add", graph.unary("neg", flipped), (1,))
    scan = graph.scan("add", graph.binary("mul", inner, inner), 0)
    found = run([graph.unary("neg", scan)]).arrays[0]
    np.testing.assert_array_equal(found, -(x.sum(0).T ** 2).cumsum(0))
    cut = graph.slice_(leaf(x), ((1, 2), (3, 1), (49, -1)), (2, 30, 50))
    found = run([graph.scan("add", cut, 2)]).arrays[0]
    np.testing.assert_array_equal(found, x[1::2, 3:33, ::-1].cumsum(2))


@pytest.mark.parametrize("arch", TARGETS)
def test_work_grows_with_the_elements_and_is_shared_by_workgroups(arch: str) -> None:
    """Wave instructions an element, from 2**14 to 2**17 elements: one lane a row took 1 of a wave
    for each, on one workgroup."""
    each = []
    for bits in range(14, 18):
        ran = run([graph.scan("add", leaf(np.ones(1 << bits, np.float32)), 0)], arch)
        np.testing.assert_array_equal(ran.arrays[0], np.arange(1, (1 << bits) + 1))
        each.append(sum(ran.work) / (1 << bits))
        steps = ran.plan.steps if ran.plan else ()
        grids = [step.kernel.grid for step in steps]
        check(grids[-1] == 1 << bits - 12, f"{grids} for 2**{bits}")
    check(max(each) < 1.2 * min(each) and max(each) < 2, f"{each} wave instructions an element")


def lane_rounds(body: tuple[Stmt, ...]) -> int:
    """Iterations of the serial loops of a lane."""
    found = [1]
    for inner in body:
        if isinstance(inner, Loop):
            found.append((inner.extent if inner.kind == "serial" else 1) * lane_rounds(inner.body))
        elif isinstance(inner, If):
            found.append(lane_rounds(inner.body))
    return max(found)


def kernels(root: Node, arch: str) -> list[Kernel]:
    key, _ = signature([root])
    return [step.kernel for step in plan(rebuild(key).roots, TARGETS[arch]).steps]


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize(
    ("shape", "axis", "width"),
    [((1 << 24,), 0, 4), ((8192, 8192), 0, 8), ((8192, 8192), 1, 4), ((3, 1 << 23), 1, 4)],
)
def test_a_large_scan_keeps_every_unit_busy(
    shape: tuple[int, int], axis: int, width: int, arch: str
) -> None:
    """Two workgroups for each of 48 compute units; the lanes of the last kernel, times their
    rounds, times what a lane scans in one, are every element, and at most an eighth more."""
    source = graph.buffer(np.zeros(1, np.float32), dt.float32, shape)
    *_, last = kernels(graph.scan("add", source, axis), arch)
    check(last.grid >= 2 * 48, f"{last.grid} workgroups")
    covered = last.grid * last.block * lane_rounds(last.body.body) * width
    elements = int(np.prod(shape))
    check(elements <= covered <= elements * 9 // 8, f"{covered} of {elements}")


@needs_libllvm
@pytest.mark.parametrize(
    ("arch", "load"), [("gfx1100", "global_load_b128"), ("gfx942", "global_load_dwordx4")]
)
def test_rows_are_read_128_bits_a_lane(arch: str, load: str) -> None:
    source = graph.buffer(np.zeros(1, np.float32), dt.float32, (1 << 24,))
    *_, last = kernels(graph.scan("add", source, 0), arch)
    binary = toolchains.build(last, "LLVM", arch, frozenset())
    names = {found.text.split()[0] for found in amd_disasm.instructions(binary)}
    check(load in names and not binary.resources.scratch_bytes, f"{sorted(names)}")

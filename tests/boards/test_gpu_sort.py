"""Sorts on the machine-code executor, against numpy, with all strict checks on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.wave.types import Strict
from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from tests.amd_toolbox import needs_comgr
from tests.boards.kernel_runner import TARGETS, Ran, compute
from tests.boards.test_gpu_scan import kernels, lane_rounds
from tests.compilers.lowering import leaf
from tests.share import part
from tests.support import check

Array = np.ndarray[Any, Any]
WAYS = [*((arch, "LLVM") for arch in TARGETS), pytest.param("gfx1030", "HIP", marks=needs_comgr)]
DTYPES = [dt.BY_NAME[name] for name in (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "bfloat16", "float32", "float64")]  # fmt: skip
TILE = 2048
"""Elements that a workgroup sorts."""


def run(node: Node, arch: str = "gfx1100", compiler: str = "LLVM") -> Ran:
    ran = compute([node], arch, compiler, Strict())
    check(not ran.violations, f"{[str(violation) for violation in ran.violations[:3]]}")
    return ran


def order(x: Array, axis: int, descending: bool) -> Array:
    """numpy's stable argsort; backwards, equal elements keep their order too."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    last = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - last, axis)


def values(dtype: DType, *shape: int) -> tuple[Node, Array]:
    """Bit patterns of a dtype, every tenth from a few, extremes and zeros of both signs among them,
    and what numpy sorts instead: bfloat16 as float32."""
    random, nbytes = np.random.default_rng(8), dtype.itemsize
    count = int(np.prod(shape))
    if dtype is dt.bool_:
        array = random.integers(0, 2, shape).astype(bool)
        return leaf(array), array
    bits = random.integers(0, 256, (count, nbytes), np.uint8)
    words = bits.view(f"u{nbytes}").reshape(count)
    bits = 8 * nbytes
    few = [0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, 1 << bits // 2]
    if dtype.kind == "f":  # infinities, NaNs of both signs, subnormals
        inf = {dt.float16: 0x7C00, dt.bfloat16: 0x7F80, dt.float32: 0x7F800000}
        top = inf.get(dtype, 0x7FF << 52)
        few += [top, top + 1, top | 1 << bits - 1, (1 << bits - 1) + 1]
    words[::10] = random.choice(np.array(few, words.dtype), words[::10].size)
    array = words.view(dtype.storage).reshape(shape)
    node = graph.buffer(array, dtype, shape)
    if dtype is dt.bfloat16:
        return node, (array.astype(np.uint32) << 16).view(np.float32)
    return node, array


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_every_value_of_every_dtype(dtype: DType, descending: bool) -> None:
    node, wanted = values(dtype, 2, 300)
    found = run(graph.argsort(node, 1, descending)).arrays[0]
    np.testing.assert_array_equal(found, order(wanted, 1, descending))


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((64,), 0), ((65,), 0), ((3, 257), 1), ((300, 5), 0), ((2, 100, 3), 1), ((2, TILE), 1)],
)
def test_rows_of_one_workgroup(shape: tuple[int, ...], axis: int, arch: str, compiler: str) -> None:
    """Many equal elements: the sort is stable."""
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.int16)
    ran = run(graph.argsort(leaf(x), axis, False), arch, compiler)
    np.testing.assert_array_equal(ran.arrays[0], order(x, axis, False))


@pytest.mark.parametrize(("arch", "compiler"), WAYS)
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(dt.float32, (3000,)), (dt.int16, (2, TILE + 1)), (dt.int8, (3 * TILE,)),
     (dt.bool_, (5000,)), (dt.float64, (TILE + 5,))],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
def test_rows_of_several_workgroups(
    dtype: DType, shape: tuple[int, ...], arch: str, compiler: str
) -> None:
    """Words of 32 and of 64 bits; keys of 64 bits in two parts."""
    node, wanted = values(dtype, *shape)
    axis = len(shape) - 1
    found = run(graph.argsort(node, axis, True), arch, compiler).arrays[0]
    np.testing.assert_array_equal(found, order(wanted, axis, True))


@pytest.mark.parametrize("descending", [False, True])
def test_columns_of_several_workgroups(descending: bool) -> None:
    node, wanted = values(dt.uint16, TILE + 9, 2)
    found = run(graph.argsort(node, 0, descending)).arrays[0]
    np.testing.assert_array_equal(found, order(wanted, 0, descending))


def test_what_is_sorted_may_be_computed_and_gathered() -> None:
    """The source is an expression over a reduction; the result indexes it at once."""
    x = np.random.default_rng(2).integers(-99, 99, (500, 4)).astype(np.float32)
    total = graph.unary("neg", graph.reduce("add", leaf(x), (1,)))
    place = graph.argsort(total, 0, False)
    found = run(graph.gather(total, (place,))).arrays[0]
    np.testing.assert_array_equal(found, np.sort(-x.sum(1)))


@pytest.mark.parametrize("arch", TARGETS)
def test_work_grows_with_the_elements_and_is_shared_by_workgroups(arch: str) -> None:
    """Wave instructions an element, from 2**13 to 2**16 elements: comparing each with all took
    more than one for each pair of a lane's element and another."""
    each = []
    for bits in range(13, 13 + part(4, 2)):
        x = np.random.default_rng(bits).integers(0, 1 << 16, 1 << bits).astype(np.uint16)
        ran = run(graph.argsort(leaf(x), 0, False), arch)
        np.testing.assert_array_equal(ran.arrays[0], order(x, 0, False))
        each.append(sum(ran.work) / (1 << bits))
        steps = ran.plan.steps if ran.plan else ()
        grids = {step.kernel.grid for step in steps if "digit" in step.kernel.name}
        check(grids == {(1 << bits) // TILE}, f"{grids} for 2**{bits}")
    check(max(each) < 1.2 * min(each), f"{each} wave instructions an element")


@pytest.mark.parametrize("arch", TARGETS)
def test_a_large_sort_keeps_every_unit_busy(arch: str) -> None:
    """2**24 elements: for each of four digits, 8,192 workgroups twice, without a loop; their counts
    are scanned by two workgroups for each of 48 units at least."""
    source = graph.buffer(np.zeros(1, np.float32), dt.float32, (1 << 24,))
    made = kernels(graph.argsort(source, 0, False), arch)
    tiled = [kernel for kernel in made if "digit" in kernel.name]
    check(len(tiled) == 8, f"{[kernel.name for kernel in made]}")
    for kernel in tiled:
        check(kernel.grid == (1 << 24) // TILE and kernel.block == 256, f"{kernel.grid}")
        check(lane_rounds(kernel.body.body) == 1, "a loop")
    scans = [kernel for kernel in made if kernel.name.startswith("scan_1_2097152")]
    check(len(scans) == 4 and all(scan.grid >= 2 * 48 for scan in scans), f"{scans}")

"""Kernels of the ir3 code generator on the board: results, and no violation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.graph import Node
from drivers.cpu import CpuDevice
from tests import oracle
from tests.boards.qcom_kernel_maker import ITEMS, Maker
from tests.boards.qcom_runner import built, compute, launch
from tests.compilers.lowering import leaf, matmul
from tests.cpu_harness import open_device
from tests.graph_maker import Maker as GraphMaker
from tests.graph_runner import compare
from tests.support import check

CHIPS = ("a630", "a660", "a740", "x1-85")
every_chip = pytest.mark.parametrize("arch", CHIPS)
FLOATS = np.array(
    [0, -0.0, 1, -1, 3, 0.1, 1e30, -1e-30, 3.4e38, 1.2e-38, np.inf, -np.inf, np.nan], np.float32
)
FEW_REGISTERS = 4
"""vec4: kernels then keep values in private memory."""


def floats(count: int, seed: int) -> np.ndarray:
    """Any float32 that is no subnormal number, special ones among them."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)
    found = bits.view(np.float32)
    found = np.where((bits >> 23 & 0xFF) == 0, np.float32(1.5), found)
    found[: FLOATS.size] = FLOATS
    return found.astype(np.float32)


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits; any NaN is any other, a subnormal number is 0."""
    small = np.abs(want) < np.finfo(np.float32).tiny
    want = np.where(small, np.copysign(np.float32(0), want), want)
    equal = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    check(equal.all(), f"{got[~equal][:4]}, not {want[~equal][:4]}")


@pytest.mark.parametrize("seed", range(8))
@every_chip
def test_quotients_and_roots_are_rounded_once(arch: str, seed: int) -> None:
    a, b = floats(4000, 2 * seed), floats(4000, 2 * seed + 1)[::-1].copy()
    with np.errstate(all="ignore"):
        roots = [graph.binary("div", leaf(a), leaf(b)), graph.unary("sqrt", leaf(a))]
        quotients, found = compute(roots, arch)
        same(quotients, a / b)
        same(found, np.sqrt(a))


def has_double(root: Node) -> bool:
    return any(node.dtype is dt.float64 for node in graph.toposort([root]))


@pytest.mark.parametrize("seed", range(48))
def test_random_graphs(seed: int) -> None:
    values = GraphMaker(seed).roots(12)
    values = [value for value in values if not has_double(value.node)]
    if not values:
        return
    wanted = [oracle.evaluate(value.node) for value in values]
    arch, registers = CHIPS[seed % len(CHIPS)], FEW_REGISTERS * (seed % 3 == 0)
    found = compute([value.node for value in values], arch, registers)
    for value, got, want in zip(values, found, wanted, strict=True):
        compare(value, got, want)


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuDevice]:
    with open_device(1) as device:
        yield device


@pytest.mark.parametrize("seed", range(208))
def test_random_programs_are_those_of_the_cpu(cpu: CpuDevice, seed: int) -> None:
    maker = Maker(seed)
    here, there = maker.arrays(), maker.arrays()
    binary = toolchains.build(maker.kernel(gpu=False), "LLVM", cpu.arch, frozenset())
    cpu.launch(cpu.load(binary), [array.ctypes.data for array in here], ITEMS)
    cpu.synchronize()
    arch, registers = CHIPS[seed % len(CHIPS)], FEW_REGISTERS * (seed % 5 == 0)
    kernel = maker.kernel(gpu=True)
    launch(built(kernel, arch, registers), there, kernel.grid)
    for place, (got, want) in enumerate(zip(there, here, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"array {place}")


@every_chip
def test_products_of_matrices(arch: str) -> None:
    numbers = np.random.default_rng(3)
    a, b = (numbers.integers(-8, 9, (64, 64)).astype(np.float32) for _ in range(2))
    (found,) = compute([matmul(leaf(a), leaf(b))], arch)
    np.testing.assert_array_equal(found, a @ b)

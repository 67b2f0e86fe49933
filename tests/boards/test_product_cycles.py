"""Where the clocks of large products of halves go: counted while a board runs one workgroup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from boards.amd.wave_types import Strict
from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.graph import Node
from compilers.ir import Kernel
from compilers.lds_accesses import loop_accesses
from compilers.product_cycles import StepCycles, step_cycles, work_of
from compilers.rates import rates_of
from compilers.report import steps
from drivers.base.contracts import Binary
from tests.boards.cycle_counter import Tally, served_together, worst_bank
from tests.boards.kernel_runner import run
from tests.compilers.lowering import matmul
from tests.support import check

SIZE = 4096
LDS_ONLY = Strict(uninitialised=False, wait_counts=False, lds=True)
"""The boards' other checks of these kernels are in test_gpu_kernels.py."""
LAYOUTS = ("x @ w", "x @ w.T", "x.T @ w")
LEAST = {"gfx1100": 0.70, "gfx1201": 0.65, "gfx942": 0.45}
"""Of the matrix unit's clocks, where nothing is hidden behind anything; `x @ w`, float16."""
CONFLICT_FREE = {"gfx1100": 640, "gfx1201": 384, "gfx942": 576}
"""Passes of a step: all bytes that its waves write and read, by the 128 that a pass serves."""


def product(layout: str, size: int) -> Node:
    stored = np.zeros(1, np.float16)
    x, w = (graph.cast(graph.buffer(stored, dt.float16, (size, size)), dt.float32) for _ in "xw")
    x = graph.permute(x, (1, 0)) if layout.startswith("x.T") else x
    w = graph.permute(w, (1, 0)) if layout.endswith("w.T") else w
    return graph.cast(matmul(x, w), dt.float16)


@cache
def compiled(arch: str, layout: str) -> tuple[Kernel, Binary]:
    (step,) = steps(product(layout, SIZE), rates_of(arch))
    return step.kernel, toolchains.build(step.kernel, "LLVM", arch, frozenset())


@cache
def counted(arch: str, layout: str) -> tuple[tuple[str, ...], int]:
    """Names of the instructions of the loop, and passes of a turn, of the first workgroup."""
    _, binary = compiled(arch, layout)
    arrays = [np.zeros(SIZE * SIZE, np.float16) for _ in range(3)]
    tally = Tally()
    report = run(binary, arrays, 1, LDS_ONLY, tally.make)
    check(not report.findings, f"{report.findings}")
    waves = binary.resources["block"] // binary.resources["wave_lanes"]
    turns = SIZE // 32 - 1
    loop = tally.loop(turns, waves)
    passes = sum(tally.passes[pc] for pc in loop)
    check(passes % turns == 0, f"{passes} passes in {turns} turns")
    return tuple(tally.names[pc] for pc in loop), passes // turns


def cycles(arch: str, layout: str) -> StepCycles:
    kernel, binary = compiled(arch, layout)
    names, passes = counted(arch, layout)
    rates, lanes = rates_of(arch), binary.resources["wave_lanes"]
    return step_cycles(
        work_of(names, rates, passes), rates, waves=kernel.block // lanes, lanes=lanes,
        grid=kernel.grid, resident=1,
    )  # fmt: skip


@pytest.mark.parametrize("arch", LEAST)
def test_what_large_products_of_halves_keep_of_the_matrix_unit(arch: str) -> None:
    found = cycles(arch, "x @ w")
    print(arch, found, found.least)

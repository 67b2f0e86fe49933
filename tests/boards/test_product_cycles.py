"""Where the clocks of large products of halves go: counted while a board runs one workgroup.

Clocks of instructions, rates and sizes of the chips are data (compilers/amd/rates.py); no time is
measured.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from boards.amd.wave.types import Strict, WaveFault
from compilers import dtype as dt
from compilers import graph, toolchains
from compilers.amd.rates import rates_of
from compilers.graph import Node
from compilers.ir import Kernel
from compilers.report import __main__ as report
from compilers.report.__main__ import steps
from compilers.report.lds_accesses import loop_accesses
from compilers.report.lds_banks import passes as passes_of
from compilers.report.product_cycles import StepCycles, product_cycles, step_cycles, work_of
from drivers.base.contracts import Binary
from queues.amd.kernel_code import AmdCode
from tests.amd_toolbox import needs_libllvm
from tests.boards.cycle_counter import OFF, Tally, passes
from tests.boards.kernel_runner import run
from tests.compilers.lowering import matmul
from tests.support import check

SIZE, DEPTH, TURNS = 4096, 32, 4
LDS_ONLY = Strict(uninitialised=False, wait_counts=False, lds=True)
"""The boards' other checks of these kernels are in test_gpu_kernels.py."""
LAYOUTS = ("x @ w", "x @ w.T", "x.T @ w")
LEAST = {"gfx1100": 0.70, "gfx1201": 0.65, "gfx942": 0.45}
"""Of the matrix unit's clocks, where nothing is hidden behind anything; `x @ w`, float16."""
CASES = [(arch, layout) for layout in LAYOUTS for arch in LEAST]
SMALL = {1024: (0.24, 64, 4), 2048: (0.45, 128, 2)}
"""Of gfx942, whose 304 units have less than a workgroup each: size -> the least share of the matrix
unit's clocks, the side of a tile, and panels of 32 along k in a step."""


def product(layout: str, size: int = SIZE) -> Node:
    stored = np.zeros(2, np.float16)
    x, w = (
        graph.cast(graph.buffer(part, dt.float16, (size, size)), dt.float32)
        for part in (stored[:1], stored[1:])
    )
    x = graph.permute(x, (1, 0)) if layout.startswith("x.T") else x
    w = graph.permute(w, (1, 0)) if layout.endswith("w.T") else w
    return graph.cast(matmul(x, w), dt.float16)


@cache
def compiled(arch: str, layout: str, size: int = SIZE) -> tuple[Kernel, Binary]:
    (step,) = steps(product(layout, size), rates_of(arch))
    return step.kernel, toolchains.build(step.kernel, "LLVM", arch, frozenset())


@cache
def counted(arch: str, layout: str, size: int = SIZE) -> tuple[tuple[str, ...], int]:
    """The instructions of the loop, and passes of a turn, of the first workgroup."""
    _, binary = compiled(arch, layout, size)
    arrays, tally = [np.zeros(size * size, np.float16) for _ in range(3)], Tally()
    most = TURNS * {1024: 150, 2048: 400, SIZE: 300}[size]
    with pytest.raises(WaveFault, match="endless"):  # a few of the turns are enough
        run(binary, arrays, 1, LDS_ONLY, observer=tally.make, max_steps=most)
    waves = binary.resources.block // AmdCode.of(binary).wave_lanes
    loop = tally.loop(waves)
    return tuple(tally.texts[pc] for pc in loop), sum(tally.of_a_turn(pc, waves) for pc in loop)


def cycles(arch: str, layout: str, size: int = SIZE) -> StepCycles:
    texts, lds = counted(arch, layout, size)
    rates = rates_of(arch)
    return step_cycles(work_of(texts, rates, lds), *compiled(arch, layout, size), rates)


@pytest.mark.parametrize("arch", LEAST)
def test_large_products_of_halves_keep_the_matrix_unit_busy(arch: str) -> None:
    """Issue 10: at least this share by counting, even if nothing overlaps."""
    found = cycles(arch, "x @ w")
    check(found.least >= LEAST[arch], f"{found.least:.1%}: {found}")
    check(found.memory < found.matrix, f"{found}")


@pytest.mark.parametrize(("arch", "layout"), CASES)
def test_no_two_lanes_meet_at_a_bank(arch: str, layout: str) -> None:
    """As many passes as bytes need: each operand written once, a wave's lines read by each wave."""
    _, found = counted(arch, layout)
    kernel, binary = compiled(arch, layout)
    rows, columns = (256, 128) if arch == "gfx942" else (128, 128)
    waves = kernel.block // AmdCode.of(binary).wave_lanes
    wave_rows = rows * columns // waves // 64  # 64 columns in each wave
    twice = 2 if arch == "gfx1100" else 1  # lanes 16..31 read what lanes 0..15 do
    read = waves * (wave_rows + 64) * DEPTH * 2 * twice
    check(found == (read + (rows + columns) * DEPTH * 2) // 128, f"{found} passes")


@pytest.mark.parametrize("size", SMALL)
def test_products_with_few_workgroups_wait_seldom(size: int) -> None:
    """Several panels along k in a step: the loads of all of them are on their way together, and no
    two lanes meet at a bank."""
    least, side, panels = SMALL[size]
    found, (texts, lds) = cycles("gfx942", "x @ w", size), counted("gfx942", "x @ w", size)
    check(found.least >= least and found.resident == 1, f"{found.least:.1%}: {found}")
    kernel, binary = compiled("gfx942", "x @ w", size)
    check(kernel.grid == (size // side) ** 2 and kernel.block == 256, f"{kernel.grid}")
    loads = sum(text.startswith("global_load_dwordx4") for text in texts)
    check(loads == 2 * side * DEPTH * panels * 2 // (256 * 16), f"{loads} loads")
    waits = [text for text in texts if "vmcnt(0)" in text]
    check(len(waits) == 1, f"{waits}")
    read = 4 * (side // 2 + side // 2) * DEPTH * 2
    check(lds == panels * (read + 2 * side * DEPTH * 2) // 128, f"{lds} passes")
    code = AmdCode.of(binary)
    check(not code.vgpr_spills and not binary.resources.scratch_bytes, "spills")


@pytest.mark.parametrize(("arch", "layout"), CASES)
def test_the_report_counts_the_passes_that_a_board_sees(arch: str, layout: str) -> None:
    kernel, binary = compiled(arch, layout)
    lanes = AmdCode.of(binary).wave_lanes
    reported = sum(access.passes(lanes) for access in loop_accesses(kernel))
    check(reported == counted(arch, layout)[1], f"{reported}, a board {counted(arch, layout)[1]}")


@pytest.mark.parametrize("arch", LEAST)
def test_the_next_tile_is_on_its_way_while_a_wave_multiplies(arch: str) -> None:
    """In a turn: stores of what came, loads, and only then matrix instructions, no wait between."""
    texts, _ = counted(arch, "x @ w")
    names = [text.split()[0] for text in texts]
    loads = [at for at, name in enumerate(names) if name.startswith("global_load")]
    matrix = [at for at, name in enumerate(names) if name.startswith(("v_wmma", "v_mfma"))]
    stores = [at for at, name in enumerate(names) if name.startswith(("ds_store", "ds_write"))]
    check(max(stores) < min(loads) and max(loads) < min(matrix), f"{names}")
    waits = [text for text in texts[min(loads) :] if "vmcnt" in text or "s_wait_loadcnt" in text]
    check(not waits, f"{waits}")


@pytest.mark.parametrize("arch", LEAST)
def test_registers_and_shared_memory_of_large_products(arch: str) -> None:
    for layout in LAYOUTS:
        _, binary = compiled(arch, layout)
        found, code = binary.resources, AmdCode.of(binary)
        check(not code.vgpr_spills and not found.scratch_bytes, f"{found}")
        check(found.shared_bytes <= 64 << 10 and code.vgprs <= 256, f"{found}")


@needs_libllvm
@pytest.mark.parametrize("arch", LEAST)
def test_the_report_of_a_product(arch: str) -> None:
    """LLVM's disassembly and the IR's addresses give what the board saw."""
    kernel, binary = compiled(arch, "x @ w")
    reported, seen = product_cycles(kernel, binary, rates_of(arch)), cycles(arch, "x @ w")
    check(reported == seen, f"{reported}, a board {seen}")


@needs_libllvm
def test_the_command_states_the_clocks_of_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    check(report.main(["f16[4096,4096] @ f16[4096,4096]", "--chip", "gfx1201"]) == 0, "status")
    text = capsys.readouterr().out
    found = cycles("gfx1201", "x @ w")
    for words in (
        f"{found.matrix:.0f} matrix, {found.vector:.0f} vector, {found.lds:.0f} local memory",
        f"estimated {found.least:.0%} of the matrix unit's clocks",
    ):
        check(words in text, f"{words}: {text}")
    check(report.main(["f32[64] + f32[64]", "--chip", "gfx1201"]) == 0, "status")
    check("matrix unit" not in capsys.readouterr().out, "an addition has no matrix instructions")


@pytest.mark.parametrize("lanes", [32, 64])
def test_two_counters_of_bank_conflicts_agree(lanes: int) -> None:
    random = np.random.default_rng(lanes)
    for nbytes in (2, 4, 8, 16):
        for write in (False, True):
            at = random.integers(0, 4096 // nbytes, lanes) * nbytes
            at[random.random(lanes) < 0.2] = OFF
            reported = passes_of(at, nbytes, write=write)
            check(reported == passes(tuple(at.tolist()), nbytes, write), f"{nbytes} {write} {at}")


def test_passes_of_known_patterns() -> None:
    """Neighbours, one bank, one dword; rows of 80 bytes: 8 of them are in all banks."""
    lane = np.arange(32)
    for at, nbytes, want in (
        (lane * 4, 4, 1), (lane * 128, 4, 32), (lane * 0, 4, 1), (lane * 2, 2, 1),
        (lane * 16, 16, 4), (lane * 80, 16, 4), (lane * 64, 16, 16), (lane * 640, 2, 32),
    ):  # fmt: skip
        check(passes_of(at, nbytes, write=True) == want, f"{at} {nbytes}")
        check(passes(tuple(at.tolist()), nbytes, True) == want, f"{at} {nbytes}")

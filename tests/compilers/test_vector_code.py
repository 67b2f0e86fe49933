"""The code of products of a few rows: bytes in flight, and what the lanes read as it is executed.

Expected numbers are bandwidth times latency of `compilers/amd/rates.py` and the sizes of the
arrays; what is counted is the disassembly, and the addresses that the executor sees.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from compilers import toolchains
from compilers.amd.rates import LINE_BYTES, RATES, rates_of
from compilers.amd.targets import amd_target
from compilers.lower.choose import Target
from compilers.lower.vector_product import Sizes, parts, share
from compilers.plan.vector_parts import vector_parts
from compilers.report import __main__ as report
from compilers.report.estimate import Estimate
from compilers.report.expression import parse_expression
from compilers.report.traffic import asked_bytes
from queues.amd.kernel_code import AmdCode
from tests.amd_toolbox import needs_libllvm
from tests.boards.kernel_runner import run
from tests.boards.wave_harness import FlatMemory
from tests.share import part
from tests.support import check

LEAST = 0.8
"""Of what bandwidth times latency needs, and of the bandwidth."""
MODELS = (
    "f16[1,4096] @ f16[4096,4096]",
    "f16[1,4096] @ f16[4096,4096].T",
    "bf16[1,4096] @ bf16[4096,11008]",
    "f16[1,11008] @ f16[11008,4096]",
    "f16[1,11008] @ f16[4096,11008].T",
    "f16[1,4096] @ f16[4096,14336]",
    "f16[1,4096] @ f16[4096,32000]",
    "f16[1,4096] @ f16[32000,4096].T",
    "f16[4,4096] @ f16[4096,4096]",
    "f32[1,4096] @ f32[4096,4096]",
)
"""Products that language models compute for each word."""
INT8 = (
    "f16[1,4096] @ (i8[4096,4096] * f16[4096])",
    "f16[1,4096] @ (i8[4096,4096].T * f16[4096])",
    "f16[1,4096] @ (i8[4096,14336] * f16[14336])",
    "bf16[1,4096] @ (i8[4096,4096] * bf16[4096])",
)


def kernels(text: str, arch: str) -> list[Estimate]:
    """The kernel that reads the matrix, and what adds its parts."""
    return list(report.estimates(parse_expression(text), rates_of(arch)))


def whole_share(made: list[Estimate]) -> float:
    """Of the bandwidth: the time that memory needs for what the first moves, by the time of all."""
    needed = made[0].moved_bytes / made[0].rates.bandwidth
    return needed / sum(found.seconds for found in made)


@needs_libllvm
@pytest.mark.parametrize("arch", RATES)
@pytest.mark.parametrize("text", MODELS)
def test_what_is_in_flight_is_what_the_bandwidth_needs(text: str, arch: str) -> None:
    found, *_ = made = kernels(text, arch)
    wide = set(found.counts.issued) == {16} and found.counts.loads >= 7
    check(wide, f"{dict(found.counts.issued)}, {found.counts.loads} in flight")
    check(found.flight >= LEAST, f"{found.unit_bytes:.0f} of {found.rates.needed_bytes:.0f}")
    check(whole_share(made) >= LEAST, f"{whole_share(made):.0%} of the bandwidth")
    check(2 * found.kernel.grid >= found.rates.groups, f"{found.kernel.grid} workgroups")


@needs_libllvm
@pytest.mark.parametrize("arch", RATES)
@pytest.mark.parametrize("text", INT8)
def test_weights_of_int8_are_loaded_16_at_a_time(text: str, arch: str) -> None:
    found, *_ = made = kernels(text, arch)
    check(set(found.counts.issued) == {16}, f"{dict(found.counts.issued)}")
    check(found.counts.loads >= 7, f"{found.counts.loads} in flight")
    check(found.flight >= LEAST, f"{found.unit_bytes:.0f} of {found.rates.needed_bytes:.0f}")
    check(whole_share(made) >= LEAST, f"{whole_share(made):.0%} of the bandwidth")


@pytest.mark.parametrize("arch", RATES)
@pytest.mark.parametrize(
    "text",
    ["f16[8,4096] @ f16[4096,4096]", "f16[8,4096] @ f16[4096,4096].T",
     "bf16[5,4096] @ bf16[4096,4096]", "f32[8,4096] @ f32[4096,4096].T",
     "f16[8,4096] @ (i8[4096,4096] * f16[4096])", "f16[8,4096] @ (i8[4096,4096].T * f16[4096])",
     "f64[8,1024] @ f64[1024,4096]"],
)  # fmt: skip
def test_eight_rows_stay_in_registers(text: str, arch: str) -> None:
    for step in report.steps(parse_expression(text), rates_of(arch)):
        made = toolchains.build(step.kernel, "LLVM", arch, frozenset())
        kept = AmdCode.of(made).vgpr_spills, made.resources.scratch_bytes
        check(kept == (0, 0), f"{step.kernel.name}: {kept}")


class Recording(FlatMemory):
    """Keeps the addresses and sizes of loads."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[tuple[np.ndarray, int]] = []

    def load(self, va: np.ndarray, nbytes: int) -> np.ndarray:
        self.loads.append((va.copy(), nbytes))
        return super().load(va, nbytes)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx942"])
@pytest.mark.parametrize(
    "text",
    ["f16[1,512] @ f16[512,256]", "f16[2,1024] @ f16[128,1024].T", "f32[1,256] @ f32[256,128]",
     "f16[1,512] @ (i8[512,256] * f16[256])"],
)  # fmt: skip
def test_every_element_of_the_matrix_is_read_once_in_whole_lines(text: str, arch: str) -> None:
    """As executed: each 16 bytes by one lane, a line by neighbours in one instruction; and what
    the lanes ask for in all is what the report says."""
    step = report.steps(parse_expression(text), rates_of(arch))[0]
    binary = toolchains.build(step.kernel, "LLVM", arch, frozenset())
    arrays = [np.zeros(ref.size * ref.dtype.itemsize, np.uint8) for ref in step.kernel.params]
    memory = Recording()
    run(binary, arrays, step.kernel.grid, memory=memory)
    matrix = max(range(1, len(arrays)), key=lambda number: arrays[number].nbytes)
    base, data, _ = memory.regions[matrix]
    first_va = memory.regions[0][0]
    asked, seen = 0, Counter[int]()
    for va, nbytes in memory.loads:
        ours = first_va <= int(va[0]) < memory.next_va
        asked += len(va) * nbytes if ours else 0
        inside = va[(va >= base) & (va < base + len(data))].astype(np.int64) - base
        if len(inside):
            check(nbytes == 16, f"a load of {nbytes} bytes")
            seen.update(inside.tolist())
            lines = Counter((inside // LINE_BYTES).tolist())
            check(set(lines.values()) == {LINE_BYTES // nbytes}, f"parts of lines: {lines}")
    check(seen == Counter(range(0, len(data), 16)), f"{len(seen)} places of {len(data) // 16}")
    check(asked == asked_bytes(step.kernel), f"{asked}, not {asked_bytes(step.kernel)}")


@pytest.mark.parametrize("arch", [*RATES, "gfx1030", "gfx950"])
def test_shares_cover_what_they_are_of(arch: str) -> None:
    """Any sizes: whole waves, powers of two, columns that exist, and few enough registers."""
    random = np.random.default_rng(11)
    wave = amd_target(arch).chip.family.wave_lanes
    units = RATES[arch].units if arch in RATES else 80
    machine = Target.gpu_of(arch, units)
    for _ in range(part(500, 100)):
        batch, rows, itemsize = (
            int(random.choice(of)) for of in ((1, 3, 32), range(1, 9), (1, 2, 4, 8))
        )
        columns, depth = (int(2 ** random.uniform(4, 16)) for _ in range(2))
        size = Sizes(batch, rows, columns, depth, itemsize, bool(random.integers(2)))
        made = share(size, machine)
        if made is None:
            check(columns < 2 * LINE_BYTES // itemsize or size.along, f"{size}")
            continue
        powers = (made.block, made.width, made.near, made.columns, made.group)
        check(all(n & (n - 1) == 0 < n for n in powers), f"{size}: {made}")
        check(0 < made.turns <= 8, f"{size}: {made}")
        check(made.block % wave == 0 and wave <= made.block <= 512, f"{size}: {made}")
        check(made.group <= columns and made.width * itemsize <= 16, f"{size}: {made}")
        far = made.block // made.near
        cover = (made.columns * far, made.near * made.width * made.turns)
        if not size.along:
            cover = (made.near * made.width, far * made.turns)
        check(cover == (made.group, made.span), f"{size}: {made}")
        sums = rows * (made.columns if size.along else made.width)
        check(sums <= 64, f"{size}: {made} keeps {sums} sums")
        check(depth % parts(size, machine) == 0, f"{size}")


@pytest.mark.parametrize(
    ("text", "arch", "wanted"),
    [
        ("f16[1,4096] @ f16[4096,4096]", "gfx1100", 1),
        ("f16[1,4096] @ f16[4096,4096]", "gfx942", 4),
        ("f16[4,4096] @ f16[4096,4096]", "gfx942", 8),
        ("f16[1,4096] @ f16[4096,32000]", "gfx942", 1),
        ("f16[1,4096] @ f16[4096,4096].T", "gfx942", 1),
        ("f16[1,32000] @ f16[32000,64]", "gfx942", 250),
        ("f16[1,4093] @ f16[4093,64]", "gfx942", 1),
        ("f16[1,4096] @ (i8[4096,4096] * f16[4096])", "gfx1100", 1),
        ("f16[2,4096] @ (i8[4096,4096] * f16[4096])", "gfx1100", 2),
        ("f16[9,4096] @ f16[4096,4096]", "gfx1100", None),
        ("f16[1,4096] + f16[1,4096]", "gfx1100", None),
    ],
)
def test_parts_are_what_gives_enough_compute_units_a_workgroup(
    text: str, arch: str, wanted: int | None
) -> None:
    """64 columns (128 bytes of f16) a workgroup; divisors of the depth; 4093 is prime. gfx942 needs
    4.77 MB in flight, which are 60 % of 243 caches of 32 KiB; gfx1100 half of its 48 places for
    one row, all of them for two."""
    rates = rates_of(arch)
    node = parse_expression(text)
    node = node.src[0] if node.op == "cast" else node
    found = vector_parts(node, report.target_of(rates)) if node.op == "reduce" else None
    check(found == wanted, f"{found}")

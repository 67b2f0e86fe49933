"""The report of Adreno's kernels, against what the board counts while it executes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from boards.qcom.wave.dispatch import Outcome
from compilers import dtype as dt
from compilers import graph
from compilers.families import family_of, toolchain_of
from compilers.graph import Node
from compilers.lower.choose import Target
from compilers.objects.listing import disassemble
from compilers.plan.schedule import Step, plan
from compilers.plan.signature import rebuild, signature
from compilers.qcom.targets import WAVE_LANES, qcom_target
from compilers.report import __main__ as report
from compilers.report.qcom_lines import QcomStep, count
from drivers.base.contracts import Binary
from queues.qcom.kernel_code import AdrenoCode
from tests.boards.qcom_runner import UNITS, built, launch
from tests.compilers.lowering import matmul
from tests.support import check

SIDE, SHORT, LANES = 256, 32, 128
COUNTABLE = (
    "mov v1 r0", "base v2 c0", "base v3 c2", "base v4 c4", "{shift}",
    "ldga.u32 v5 v2 {at} 0 0 1", "ldga.u32 v6 v3 {at} 0 0 1", "mad.f32 v7 v5 v6 v5",
    "add.f v8 v7 v6", "stga.u32 v4 {at} 0 0 v8 1", "end",
)  # fmt: skip
"""Lane n: two words loaded, one stored, a mad and a sum: 3 operations, 12 bytes."""


def numbers(*shape: int) -> Node:
    return graph.buffer(object(), dt.float32, shape)


def planned(root: Node, arch: str) -> tuple[Step, ...]:
    key, _ = signature([root])
    return plan(rebuild(key).roots, Target.gpu_of(arch, UNITS)).steps


def counted(step: Step, arch: str) -> tuple[QcomStep, Outcome, int]:
    """What the report and the board count of a kernel, and the lanes that it ran on."""
    kernel = replace(step.kernel, name="k0")
    binary = built(kernel, arch)
    arrays = [np.ones(ref.size * ref.dtype.itemsize, np.uint8) for ref in kernel.params]
    outcome = launch(binary, arrays, kernel.grid)
    return count(binary), outcome, kernel.grid * kernel.block


def waves(binary: Binary, lanes: int) -> int:
    return lanes // AdrenoCode.of(binary).wave_lanes


@pytest.mark.parametrize("arch", ["a630", "a740"])
def test_a_kernel_that_is_counted_by_hand(arch: str) -> None:
    new = qcom_target(arch).generation > 6
    head = f"ir3 {qcom_target(arch).generation} 48 {LANES} 0 3"
    at, shift = ("v9", "shl.b v9 v1 k2") if new else ("v1", "mov m9 v1")
    lines = [line.format(at=at, shift=shift) for line in (head, *COUNTABLE)]
    blob = toolchain_of("IR3", arch).compiler.compile_object("\n".join(lines), arch, frozenset())
    binary = family_of(arch).load(blob, "counted", arch).in_blocks_of(LANES)
    found = count(binary)
    a, b = (np.arange(LANES, dtype=np.float32) + one for one in (1, 2))
    out = np.zeros(LANES, np.float32)
    outcome = launch(binary, [a, b, out], 1)
    np.testing.assert_array_equal(out, a * b + a + b)
    check((found.looped, found.operations, found.global_bytes) == (False, 3, 12), str(found))
    check(found.shared_bytes == found.private_bytes == 0, str(found))
    ran = waves(binary, LANES)
    check(outcome.instructions == ran * (found.instructions + found.nops), str(outcome))
    check(outcome.cycles == ran * found.slots, str(outcome))


@pytest.mark.parametrize("arch", ["a630", "a740"])
def test_turns_of_a_product(arch: str) -> None:
    """A product of twice the depth takes so many turns more, each of what was counted."""
    made = []
    for depth in (SHORT, 2 * SHORT):
        (step,) = planned(matmul(numbers(SIDE, depth), numbers(depth, SIDE)), arch)
        made.append(counted(step, arch))
    (short, before, lanes), (long, after, same) = made
    check(short == long and lanes == same, f"{short}, {long}")
    check(short.looped and not short.private_bytes, str(short))
    turns, rest = divmod(2 * SIDE * SIDE * SHORT, lanes * short.operations)
    check(turns > 0 and not rest, f"{turns} turns")
    grown = after.instructions - before.instructions
    check(grown == before.waves * turns * (short.instructions + short.nops), f"{grown}, {short}")
    check(after.cycles - before.cycles == before.waves * turns * short.slots, str(short))


def softmax(*shape: int) -> Node:
    exps = graph.unary("exp", numbers(*shape))
    total = graph.reduce("add", exps, (1,))
    column = graph.expand(graph.reshape(total, (shape[0], 1)), shape)
    return graph.binary("div", exps, column)


@pytest.mark.parametrize("arch", ["a630", "a740"])
def test_a_sum_exchanges_lanes(arch: str) -> None:
    """A wave has a row: lanes add what they loaded, then one another's, without local memory."""
    (step,) = planned(graph.reduce("add", numbers(4, 1024), (1,)), arch)
    found = counted(step, arch)[0]
    check(found.operations and not found.shared_bytes + found.private_bytes, str(found))
    texts = [line.text for line in disassemble(built(replace(step.kernel, name="k0"), arch))]
    check(sum("shfl.xor" in text for text in texts) == WAVE_LANES.bit_length() - 1, str(texts))


def test_a_softmax_stays_in_registers() -> None:
    found = [counted(step, "a630")[0] for step in planned(softmax(2, 2048), "a630")]
    check(all(one.operations and not one.private_bytes for one in found), str(found))


# Worked out by hand from ir3.c's ir3_get_reg_dependent_max_waves and ..._independent_max_waves:
# registers, lanes of a workgroup, bytes of local memory, branches, lanes of a wave -> waves
@pytest.mark.parametrize(
    ("arch", "numbers_of", "want"),
    [
        ("a630", (23, 256, 8448, 1, 64), 8),  # 96 // 23 * 2
        ("a660", (23, 256, 8448, 1, 64), 4),  # 64 // 23 * 2
        ("a630", (4, 256, 0, 0, 64), 16),  # the most
        ("a630", (4, 64, 16384, 0, 64), 4),  # a pair of waves in each of two workgroups
        ("a630", (2, 64, 0, 20, 64), 6),  # 64 // 20 * 2
        ("a740", (12, 256, 0, 1, 128), 8),  # 96 // 24 * 2
    ],
)
def test_waves_in_flight(arch: str, numbers_of: Sequence[int], want: int) -> None:
    found = qcom_target(arch).waves(*numbers_of)
    check(found == want, f"{found} waves, not {want}")


# More lanes in flight by hand: registers, lanes of a workgroup, local memory, branches -> lanes
@pytest.mark.parametrize(
    ("arch", "numbers_of", "want"),
    [
        ("a630", (4, 256, 0, 1), 128),  # 16 waves either way
        ("a630", (23, 256, 0, 1), 64),  # 4 waves of 128 or 8 of 64
        ("a630", (13, 256, 0, 1), 64),  # 6 of 128 or 14 of 64
        ("a630", (4, 64, 0, 0), 64),  # a workgroup of one wave
        ("a660", (5, 1024, 0, 1), 128),  # 12 of 128 or 16 of 64
    ],
)
def test_waves_are_wide_where_more_lanes_are_in_flight(
    arch: str, numbers_of: Sequence[int], want: int
) -> None:
    found = qcom_target(arch).wave_lanes(*numbers_of)
    check(found == want, f"{found} lanes, not {want}")


def test_the_command_reports(capsys: pytest.CaptureFixture[str]) -> None:
    check(report.main(["sum(f32[64,1024])", "--chip", "a630"]) == 0, "reported")
    printed = capsys.readouterr().out
    for phrase in ("a630, compiled by IR3", "waves of", "slots free", "bytes of local memory"):
        check(phrase in printed, printed)

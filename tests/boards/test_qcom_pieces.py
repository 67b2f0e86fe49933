"""Long launches of an Adreno in pieces: each workgroup once, with its number, each piece short."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compilers.qcom.isa.instruction import Insn
from compilers.qcom.slots import lane_slots
from compilers.report.expression import parse_expression
from compilers.report.qcom_lines import steps
from drivers.base.contracts import Param
from drivers.base.errors import DeviceFault, Unsupported
from drivers.qcom.device import QcomDevice
from drivers.qcom.kgsl.iface import BUDGET_S as KGSL_BUDGET_S
from drivers.qcom.kgsl.iface import KgslIface
from drivers.qcom.limits import limits_of
from drivers.qcom.msm.iface import BUDGET_S as MSM_BUDGET_S
from drivers.qcom.msm.iface import MsmIface
from queues.graph import StepGraph
from queues.qcom import launch as queue_launch
from queues.qcom import pieces as queue_pieces
from queues.qcom import pm4
from queues.qcom.chips import CHIPS, chip_named
from queues.qcom.contracts import Item
from queues.qcom.kernel_code import AdrenoCode
from queues.qcom.pieces import LANE_SLOTS_HZ, most_groups, pieces
from tests.boards.qcom_runner import built
from tests.contract.kernels import combine
from tests.qcom_devices import QcomMachine, opened
from tests.support import check

N = 1000
GROUPS_OF_A_PIECE = 3


@pytest.mark.parametrize(
    ("grid", "most"),
    [((1, 1, 1), 1), ((10, 1, 1), 3), ((7, 5, 3), 1), ((7, 5, 3), 20), ((7, 5, 3), 34),
     ((7, 5, 3), 36), ((7, 5, 3), 104), ((7, 5, 3), 105), ((1, 9, 4), 2), ((65535, 1, 1), 1000)],
)  # fmt: skip
def test_each_workgroup_runs_once(grid: tuple[int, int, int], most: int) -> None:
    """Pieces have so many workgroups at most; rows begin at 0 unless they are cut."""
    counts = np.zeros(grid[0], np.int64)
    for first, (x, y, z) in pieces(grid, most):
        check(0 < x * y * z <= most and (first == 0 or y == z == 1), f"{first}, {x, y, z}")
        counts[first : first + x] += y * z
    np.testing.assert_array_equal(counts, np.full(grid[0], grid[1] * grid[2]))


def short(monkeypatch: pytest.MonkeyPatch, device: QcomDevice, binary: Any) -> None:
    """A budget of three workgroups of a kernel."""
    code, lanes = AdrenoCode.of(binary), binary.resources.block
    slots = GROUPS_OF_A_PIECE * code.lane_slots * lanes
    seconds = (slots + 1) / (LANE_SLOTS_HZ * device.chip.sp_cores)
    kind = KgslIface if device.iface.name == "KGSL" else MsmIface
    monkeypatch.setattr(kind, "budget_s", seconds)
    device.programs._budget_s = seconds


def submissions_of(ring: Any) -> list[int]:
    """Bytes of each submission of a ring from now on."""
    found: list[int] = []
    hw: Any = ring.hw
    submit, play = hw.submit, hw.submit_with

    def spied(va: int, nbytes: int) -> None:
        found.append(nbytes)
        submit(va, nbytes)

    def played(held: Any, va: int, nbytes: int, tail_va: int, tail: int) -> None:
        found.append(nbytes)
        play(held, va, nbytes, tail_va, tail)

    hw.submit, hw.submit_with = spied, played
    return found


def submissions(device: QcomDevice) -> list[int]:
    """Bytes of each submission of kernels from now on."""
    return submissions_of(device.compute)


@pytest.mark.parametrize(
    ("chip", "iface"), [("a630", "KGSL"), ("a660", "MSM"), ("a740", "KGSL"), ("x1-85", "MSM")]
)
def test_a_launch_in_pieces(chip: str, iface: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to launch: at once, by a queue, by a graph with an open argument."""
    machine = QcomMachine(chip, iface)
    with opened(machine, iface) as device:
        kernel = combine(device.limits, N)
        binary = built(kernel, device.arch)
        short(monkeypatch, device, binary)
        program = device.load(binary)
        groups = -(-kernel.grid // GROUPS_OF_A_PIECE)
        check(groups > 2, f"{kernel.grid} workgroups")
        a, b = (np.arange(start, start + N, dtype=np.int32) for start in (5, 70_000))
        x, y, z = (device.alloc(4 * N) for _ in range(3))
        device.copy_in(x, memoryview(a))
        device.copy_in(y, memoryview(b))
        graph = device.compute_queue().exec(program, [x, y, Param(0)], (kernel.grid, 1, 1)).bind()
        check(isinstance(graph, StepGraph), "a graph of submissions")
        queue = device.compute_queue().exec(program, [x, y, z], (kernel.grid, 1, 1))
        for run in (
            lambda: device.launch(program, [x, y, z], kernel.grid),
            queue.submit,
            lambda: graph.replay([z]),
        ):
            device.copy_in(z, memoryview(np.zeros(N, np.int32)))
            found = submissions(device)
            run()
            device.synchronize()
            out = np.zeros(N, np.int32)
            device.copy_out(memoryview(out), z)
            np.testing.assert_array_equal(out, 3 * a + b)
            check(len(found) == groups, f"{len(found)} submissions")
        graph.close()
    check(not (wrong := machine.found()), str(wrong))


def test_a_long_graph_is_several_submissions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that are short each, and long together."""
    machine = QcomMachine("a660", "MSM")
    with opened(machine, "MSM") as device:
        kernel = combine(device.limits, 64)
        binary = built(kernel, device.arch)
        short(monkeypatch, device, binary)
        program = device.load(binary)
        x, y = device.alloc(256), device.alloc(256)
        device.copy_in(x, memoryview(np.arange(64, dtype=np.int32)))
        device.copy_in(y, memoryview(np.zeros(64, np.int32)))
        queue = device.compute_queue()
        for _ in range(8):
            queue = queue.exec(program, [x, y, y], (kernel.grid, 1, 1)).barrier()
        graph = queue.bind()
        found = submissions(device)
        graph.replay()
        device.synchronize()
        out = np.zeros(64, np.int32)
        device.copy_out(memoryview(out), y)
        np.testing.assert_array_equal(out, 8 * 3 * np.arange(64))
        each = GROUPS_OF_A_PIECE // kernel.grid
        check(len(found) == -(-8 // each), f"{len(found)} submissions of {each}")
        graph.close()
    check(not (wrong := machine.found()), str(wrong))


def test_slots_of_a_lane() -> None:
    """Repetitions and free slots count, loops with their turns; both ways of a branch."""
    add = Insn(op="add.u")
    code = [
        add, Insn(op="label", name="L1"), Insn(op="mul.f", repeat=3), Insn(op="nop", repeat=2),
        Insn(op="label", name="L2"), Insn(op="mad.f32", nop=1), Insn(op="br", label="L2"),
        Insn(op="br", label="L3"), add, Insn(op="label", name="L3"), Insn(op="br", label="L1"),
        Insn(op="end"),
    ]  # fmt: skip
    outer = 4 + 3 + 5 * (2 + 1) + 1 + 1 + 1
    check(lane_slots(code, {"L1": 7, "L2": 5}) == 1 + 7 * outer + 1)


@pytest.mark.parametrize("arch", ["a618", "a740"])
def test_the_count_of_a_product(arch: str) -> None:
    """At least a slot for each of its 512**3 multiplications, and no thirty."""
    size = 512
    found = 0
    for step in steps(parse_expression(f"f32[{size},{size}] @ f32[{size},{size}].T"), arch):
        binary = built(step.kernel, arch)
        found += AdrenoCode.of(binary).lane_slots * binary.resources.block * step.kernel.grid
    check(1 <= found / size**3 < 30, f"{found / size**3:.2f} slots")


def test_what_a_chip_may_do_at_once() -> None:
    """A quarter of 0.5 s over msm and of 2 s over KGSL, at 128 lanes of 250 MHz a processor."""
    check((MSM_BUDGET_S, KGSL_BUDGET_S) == (0.5 / 4, 2.0 / 4))
    binary = built(combine(limits_of(chip_named("a618"), 1 << 30), N), "a618")
    code = AdrenoCode.of(binary)
    for chip in CHIPS:
        groups = most_groups(chip, code, binary.resources.block, MSM_BUDGET_S)
        seconds = groups * code.lane_slots * binary.resources.block
        seconds /= 128 * 250e6 * chip.sp_cores
        check(0.12 < seconds <= 0.125, f"{chip.name}: {seconds} s")
    check(chip_named("a618").sp_cores == 1)


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_an_indirect_buffer_has_20_bits_of_words(iface: str) -> None:
    """# src: msm-4.9 to 6.x, adreno_dispatch.c _verify_ib(); Linux 6.12, CP_INDIRECT_BUFFER"""
    machine = QcomMachine({"KGSL": "a630", "MSM": "a660"}[iface], iface)
    with opened(machine, iface) as device:
        words = pm4.pkt7(pm4.Op.NOP, [0] * 0x3FFE) * 64
        last = pm4.pkt7(pm4.Op.NOP, [0] * (0xFFFFE - len(words) - 1))
        check(len(words) + len(last) == 0xFFFFE)
        device.bind([Item(words), Item(last)]).close()
        with pytest.raises(Unsupported, match="at most 4194300"):
            device.bind([Item(words), Item(last), Item(pm4.pkt7(pm4.Op.NOP))])


@pytest.mark.parametrize(("release", "in_pieces"), [("5.15", True), ("7.3", True), ("7.3", False)])
def test_msm_kills_what_is_not_cut(
    release: str, in_pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel of 8 s by the driver's count, on a board with just that rate."""
    chip, count = chip_named("a660"), 64 * 60
    kernel = combine(limits_of(chip, 1 << 30), count)
    binary = built(kernel, chip.name)
    slots = AdrenoCode.of(binary).lane_slots * binary.resources.block * kernel.grid
    lanes_hz = slots // (8 * chip.sp_cores)
    monkeypatch.setattr(queue_pieces, "LANE_SLOTS_HZ", lanes_hz)
    if not in_pieces:
        monkeypatch.setattr(queue_launch, "most_groups", lambda *_: queue_pieces.NO_LIMIT)
    issues_per_s = lanes_hz * chip.sp_cores // 64
    machine = QcomMachine("a660", "MSM", kernel=release, issues_per_s=issues_per_s)
    with opened(machine, "MSM") as device:
        program = device.load(binary)
        a = np.arange(count, dtype=np.int32)
        x, z = device.alloc(4 * count), device.alloc(4 * count)
        device.copy_in(x, memoryview(a))
        device.launch(program, [x, x, z], kernel.grid)
        if not in_pieces:
            with pytest.raises(DeviceFault):
                device.synchronize()
            return
        device.synchronize()
        out = np.zeros(count, np.int32)
        device.copy_out(memoryview(out), z)
        np.testing.assert_array_equal(out, 4 * a)
    check(not any("hangcheck" in line for line in machine.hardware.log), str(machine.hardware.log))

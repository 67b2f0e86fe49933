"""bench.py in front of a board: its rows, its verdicts, and that host-cost figures are of work."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import board, host_cost
from benchmarks import command as bench
from boards.run import Setup
from compilers.amd.smoke import BLOCK, firmware
from drivers.amd.pci.hardware_queue import BAR_REGISTERS, DOORBELL_BAR
from queues.decode import decode, decoder
from tests.support import check

FAST = ["add_1MiB", "softmax_64x512"]


def test_a_table_and_its_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.board_command.set_environ", lambda setup, environ: None)
    for variable in (*bench.THREAD_VARIABLES, "OPENBLAS_CORETYPE", "DEV"):
        monkeypatch.setenv(variable, "")
    monkeypatch.delenv("DEV")
    output = tmp_path / "rows.json"
    only = [part for name in FAST for part in ("--only", name)]
    status = bench.main(["--board", "gfx1100", "--aql", "--json", str(output), *only])
    shown = capsys.readouterr().out
    check(status == 0, shown)
    check("gfx1100, AQL, LLVM: on a software board: no statement about silicon speed" in shown)
    found = json.loads(output.read_text())
    check(found["note"] == board.NOTE and found["violations"] == [])
    check([row["name"] for row in found["rows"]] == ["softmax_64x512", "add_1MiB"], str(found))
    for row in found["rows"]:
        check(
            row["off_by"] <= row["tolerance"] and row["warm_s"] > 0 and not row["error"], str(row)
        )


def test_the_promised_rows_are_there() -> None:
    promised = {"matmul_f32_256", "matmul_f32_512", "matmul_f16_256", "matmul_bf16_256",
                "cold_matmul_256", "cold_matmul_512"}  # fmt: skip
    check(promised <= set(board.NAMES), str(board.NAMES))
    check((board.ROWS["matmul_f32_256"].goal_s, board.COLD_GOALS_S[256]) == (0.5, 2.0))


def test_a_wrong_result_is_an_error() -> None:
    row = replace(board.ROWS["add_1MiB"], theirs=lambda a: a + a + 1e-3)
    with board.powered(Setup("gfx1100")):
        result = board.run_row(row, "AMD")
    check(result.failed and "ERROR WrongResult: off by" in result.line(), result.line())


def test_a_missed_goal_is_said() -> None:
    result = board.Result("r", 9.0, 1.0, 2.0, 0.5, 0.0, 1e-5)
    check(not result.missed and "missed" not in result.line())
    check(not replace(result, warm_s=3.0).missed, "a busy machine")
    slow = replace(result, cpu_s=3.0)
    check(slow.missed and "goal missed" in slow.line() and not slow.failed)


@pytest.mark.parametrize("goals", [[], ["--goals"]])
def test_a_missed_goal_is_no_wrong_result(
    goals: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goals are the developers': a user's `bench.py` exits 1 for wrong results alone."""
    monkeypatch.setattr("benchmarks.board_command.set_environ", lambda setup, environ: None)
    monkeypatch.setattr(bench, "pin_settings", lambda *arguments: "")
    slow = board.Result("add_1MiB", 9.0, 8.0, 1.0, 7.0, 0.0, 1e-5)
    monkeypatch.setattr(board, "run", lambda setup, names, show: ([slow], []))
    costs = [host_cost.Cost("launch", 9.0, 5.0)]
    monkeypatch.setattr(host_cost, "measure", lambda setup: costs)
    for asked in (["--board", "gfx1100"], ["--host-cost", "--board", "ga102"]):
        check(bench.main([*asked, *goals]) == len(goals), capsys.readouterr().out)
    wrong = replace(slow, error="WrongResult: off by 1", cpu_s=0.1)
    monkeypatch.setattr(board, "run", lambda setup, names, show: ([wrong], []))
    check(bench.main(["--board", "gfx1100", *goals]) == 1)


def test_every_column_has_its_unit() -> None:
    for column in ("first s", "warm s", "cpu s", "goal s"):
        check(column in board.HEADER, board.HEADER)
    line = board.Result("r", 9.0, 1.0, 2.0, 0.5, 0.0, 1e-5).line()
    for title, value in (("first s", "9.000"), ("cpu s", "0.500"), ("goal s", "2.000")):
        end = board.HEADER.index(title) + len(title)
        check(line[:end].endswith(value), f"{board.HEADER}\n{line}")


def test_off_by_is_relative_to_the_largest() -> None:
    want = np.array([1.0, -4.0])
    np.testing.assert_allclose(board.off_by(np.array([1.0, -3.0], np.float32), want), 0.25)


@pytest.mark.parametrize(
    ("aql", "iface", "dma"),
    [(False, "KFD", ""), (True, "KFD", ""), (True, "PCI", ""), (False, "PCI", "VRAM")],
)
def test_nobody_reads_the_ring_but_the_launch_is_in_it(aql: bool, iface: str, dma: str) -> None:
    """What is measured writes whole packets and rings: the words are decoded from the ring."""
    setup = Setup("gfx1100", aql=aql, iface=iface, dma=dma)
    with host_cost.alone(setup) as (device, unread):
        bars = unread.bars
        bars.memory[BAR_REGISTERS][:] = b"\xff" * len(bars.memory[BAR_REGISTERS])
        program = device.load(firmware("smoke", device.arch))
        buffers = [device.alloc(host_cost.BUFFER_BYTES) for _ in range(3)]
        device.launch(program, [*buffers, BLOCK], 1)
        ring = device.compute
        before = ring.put
        device.launch(program, [*buffers, BLOCK], 7)
        unit = 64 if aql else 4
        words = array("I", bytes(ring.bytes[before * unit : ring.put * unit]))
        kinds = {p.name: p for p in decode(decoder("aql" if aql else "pm4", "gfx1100"), words)}
        if aql:
            packet = kinds["KERNEL_DISPATCH"].fields
            check((packet["grid_size_x"], packet["workgroup_size_x"]) == (7 * BLOCK, BLOCK))
            check(packet["kernel_object"] == program.gpu_va, str(packet))
        else:
            check(kinds["DISPATCH_DIRECT"].fields["dim_x"] == 7, str(kinds))
            check(set(kinds) >= {"ACQUIRE_MEM", "SET_SH_REG", "RELEASE_MEM"}, str(set(kinds)))
        check(ring.write_pointer[0] == ring.put, "the write pointer in memory")
        rung, flushed = memoryview(bars.memory[DOORBELL_BAR]).cast("Q"), bars.memory[BAR_REGISTERS]
        check(rung[0] == ring.put - aql, f"{ring.put} is not in the doorbell: {rung[0]}")
        check(flushed.count(b"\0") == 4 * (dma == "VRAM"), "one register flushes, in VRAM alone")


def test_costs_and_verdicts() -> None:
    setup = Setup("gfx1100", aql=False)
    costs = host_cost.measure(setup)
    check(len(costs) == 4 and all(cost.median_us > 0 for cost in costs), str(costs))
    text = host_cost.table(setup, costs)
    check("rings and doorbells are plain memory" in text, text)
    check(host_cost.Cost("x", 6.0, 5.0).line().endswith("goal 5 us: missed"))
    check(host_cost.Cost("x", 5.0, 5.0).met)
    found = host_cost.report(setup, costs)
    check([row["goal_us"] for row in found["rows"]] == [5.0, 0.5, 0.5, 15.0], str(found))


def test_median_is_of_one_call() -> None:
    calls: list[int] = []
    got = host_cost.median_us(lambda: calls.append(0), 3)
    check(len(calls) == 1 + 3 * host_cost.SAMPLES and 0 < got < 1e4, str(got))

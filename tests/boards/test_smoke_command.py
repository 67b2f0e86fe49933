"""`python -m drivers.amd.probe --smoke --board CHIP`: every engine is tested, failures are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import open_board
from compilers.amd.smoke import firmware
from compilers.toolchains import compile_source
from drivers.amd import probe
from drivers.amd.tools.smoke import smoke
from drivers.base.contracts import Binary
from drivers.choice import choose
from drivers.gpu.smoke_outcome import Outcome, Wrong, pattern, same
from drivers.gpu.smoke_report import smoke_lines, smoke_summary
from drivers.qcom import probe as qcom_probe
from drivers.world.foreign import ForeignWorld
from tests import amd_kernels
from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
SDMA = {"gfx1100": 2, "gfx1030": 4, "gfx1031": 2, "gfx1032": 2, "gfx1201": 2, "gfx942": 16,
        "gfx1103": 1, "gfx1150": 1, "gfx1151": 1, "gfx90a": 5, "gfx950": 16, "gfx1101": 2,
        "gfx1102": 2, "gfx1200": 2}  # fmt: skip
"""Copy engines, as KFD counts those of each chip in its topology, XGMI ones included."""


def outcomes(board: BoardWorld, code: Any = firmware) -> dict[str, Outcome]:
    machine: Any = board
    return {one.name: one for one in smoke(ForeignWorld(machine), choose({"DEV": "AMD"}), code)}


class Copies:
    """Listens to a board: which copy engine ran how many copies."""

    def __init__(self, board: BoardWorld) -> None:
        self.board, self.engines = board, set[int]()
        board.hardware.trace = self

    def __call__(self, name: str, facts: dict[str, int | str]) -> None:
        process = self.board.process
        if name == "packet" and facts["op"] == "COPY_LINEAR" and process is not None:
            self.engines.add(process.queues.by_id[int(facts["queue"])].spec.engine)


@pytest.mark.parametrize("chip", sorted(SDMA))
def test_everything_passes_on_every_engine(chip: str) -> None:
    board = open_board(chip)
    heard = Copies(board)
    found = outcomes(board)
    check(all(one.ok for one in found.values()), str(found))
    kinds = [f"{queue} {test}" for queue in ("PM4", "AQL") for test in ("ring", "kernel", "graph")]
    copies = [f"SDMA{n} copy" for n in range(SDMA[chip])]
    check(set(found) >= {*kinds, *copies, "copies of 1 bytes", "copies of 1048589 bytes"})
    check(heard.engines == set(range(SDMA[chip])), f"copies ran on {heard.engines}")
    check(not board.violations, str(board.violations))
    left = board.baseline()
    check((left.queues, left.events, left.buffers) == (0, 0, 1), f"left: {left}")


def wrong_sums(kind: str, arch: str) -> Binary:
    """A kernel that multiplies where it should add."""
    text = amd_kernels.add(64).replace("fadd float", "fmul float").replace("i32 %n", "i64 %n64", 1)
    text = text.replace("  %lane =", "  %n = trunc i64 %n64 to i32\n  %lane =", 1)
    made = compile_source(text, "k", "LLVM", arch, frozenset())
    return made.in_blocks_of(64)


def test_a_wrong_kernel_fails_and_the_rest_goes_on() -> None:
    found = outcomes(open_board("gfx1100"), wrong_sums)
    failed = {name for name, one in found.items() if not one.ok}
    check(failed == {f"{q} {t}" for q in ("PM4", "AQL") for t in ("kernel", "graph")}, str(failed))
    check("Wrong: sums: byte 0 of" in found["PM4 kernel"].detail, found["PM4 kernel"].detail)


def test_an_engine_without_a_queue_fails_alone() -> None:
    board = open_board("gfx1100")
    board.panel.fail_ioctl("create_queue", 12, at=4)  # compute, copies, SDMA0, SDMA1
    found = outcomes(board)
    failed = {name for name, one in found.items() if not one.ok}
    check(failed == {"SDMA1 queue"} and found["SDMA0 copy"].ok, str(failed))
    check("CREATE_QUEUE" in found["SDMA1 queue"].detail, found["SDMA1 queue"].detail)
    check("SDMA1 copy" not in found)


def test_a_gpu_that_does_not_open() -> None:
    board = open_board("gfx1100")
    board.panel.fail_ioctl("acquire_vm", 12)
    found = outcomes(board)
    check(not found["open, PM4 queue"].ok and found["open, AQL queue"].ok, str(found))
    check("PM4 ring" not in found and found["AQL kernel"].ok)


def test_the_first_wrong_byte_is_shown() -> None:
    data = pattern(100, 3)
    same("copy", bytearray(data), data)
    with pytest.raises(Wrong, match=r"^copy: byte 41 of 100 on is .* not ") as caught:
        same("copy", data[:41] + bytes([data[41] ^ 1]) + data[42:], data)
    check(f"not {data[41:49].hex()}" in str(caught.value), str(caught.value))


def test_lines_of_tests() -> None:
    tests = [Outcome("a ring", True, 0.5, "fine"), Outcome("b", False, 0.0, "Hang: x\n  0: NOP")]
    check(list(smoke_lines("AMD:0", tests)) == [
        f"{'AMD:0':<12}ok     {'a ring':<26}    500.00 ms  fine",
        f"{'AMD:0':<12}FAILED {'b':<26}      0.00 ms",
        f"{'':<12}Hang: x",
        f"{'':<12}  0: NOP",
    ])  # fmt: skip


def test_json_of_a_board() -> None:
    text, status = probe.probe(["--json", "--smoke", "--board", "gfx1100"])
    found = json.loads(text)
    check(status == 0 and found["board"]["violations"] == [], str(found["board"]))
    check("never compared with silicon" in found["board"]["note"])
    check({one["gpu"] for one in found["smoke"]} == {"AMD:0"})
    check(all(one["ok"] and one["ms"] >= 0 for one in found["smoke"]))
    check(found["gpus"][0]["chip"] == "gfx1100")


def test_a_board_is_only_looked_at_without_smoke() -> None:
    text, status = probe.probe(["--board", "gfx942"])
    check(status == 0 and "AMD:0       gfx942" in text and "ring" not in text, text)


def test_exit_statuses() -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_limited(
            [sys.executable, "-m", "drivers.amd.probe", *arguments], cwd=ROOT, env=dict(os.environ),
            capture_output=True, text=True, cpu_s=120, check=False,
        )  # fmt: skip

    done = command("--board", "gfx1102", "--smoke")
    check(done.returncode == 0 and "AQL kernel" in done.stdout, done.stdout + done.stderr)
    done = command("--board", "gfx1", "--smoke")
    check(done.returncode == 2 and "gfx1102" in done.stderr and not done.stdout, done.stderr)


def test_no_gpu_to_test_is_a_failure() -> None:
    text, status = probe.probe(["--smoke"], ForeignWorld(_empty_machine()))
    check(status == 1 and "no test was run" in text, text)


def _empty_machine() -> Any:
    from tests.fake_machine import X86, FakeMachine

    return FakeMachine(X86)


def test_the_last_line_counts_all_tests() -> None:
    good, bad = Outcome("a", True, 0.1), Outcome("b", False, 0.1)
    check(smoke_summary({"AMD:0": [good, good], "AMD:1": [good]}) == [f"{'smoke':<12}3 ok"])
    check(smoke_summary({"NV:0": [good, bad]}) == [f"{'smoke':<12}1 ok, 1 FAILED"])
    check(smoke_summary({}) == [])


def test_copies_of_an_adreno_are_of_words_and_name_its_memory() -> None:
    """A queue of it copies words: 1 and 3 bytes become one word, and none becomes nothing."""
    text, status = qcom_probe.probe(["--smoke", "--board", "a630"])
    check(status == 0 and "copies of 0 bytes" not in text and "VRAM" not in text, text)
    check("copies of 4 bytes" in text and "host to GPU memory" in text, text)
    check(text.splitlines()[-1].startswith("smoke       10 ok"), text)

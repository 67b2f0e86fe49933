"""`python -m boards`: the list, programs run on a board, violations, faults, exit statuses."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from boards import __main__ as command
from boards.run import Setup, run, set_environ
from compilers.amd.smoke import firmware
from tests.boards import command_programs as programs
from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
CHIPS = ("gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150",
         "gfx1151", "gfx1200", "gfx1201", "gfx90a", "gfx942", "gfx950")  # fmt: skip


def script(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


def ran(folder: Path, text: str, *arguments: str, setup: Setup | None = None) -> tuple[int, str]:
    """(exit status, what went to stderr) of a program in this process."""
    said = io.StringIO()
    status = run(setup or Setup("gfx1100"), script(folder, text), arguments, stderr=said)
    return status, said.getvalue()


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_limited(
        [sys.executable, "-m", "boards", *arguments],
        cwd=ROOT, env={**os.environ, "CPU": "1", "AMD_HIP": "1"}, capture_output=True, text=True,
        cpu_s=120, check=False,
    )  # fmt: skip


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    check(command.main([]) == 0)
    shown = capsys.readouterr().out
    for chip in CHIPS:
        check(re.search(rf"^{chip} ", shown, re.MULTILINE), f"{chip} is not in {shown}")
    check(re.search(r"^gfx942 +gfx9 +304 .*8 XCCs, 16 SDMA engines, waves of 64", shown, re.M))
    check(re.search(r"^gb202 +Blackwell +192  a GPFIFO", shown, re.M), shown)
    check(re.search(r"^gfx1151 .*, 1 SDMA engine, ", shown, re.M), shown)
    check(max(map(len, shown.splitlines())) <= 100, shown)
    check("never compared with silicon" in shown)


def test_an_unchanged_program_on_its_default_device() -> None:
    """In its own process, whose environment asks for another device and compiler."""
    done = shell("run", "gfx1100", "--aql", str(ROOT / "examples" / "add.py"))
    check(done.returncode == 0, done.stderr)
    check(done.stdout == "on AMD: [1. 2. 3. 4. 5. 6. 7. 8.]\n", done.stdout)
    check("board gfx1100 (strict): no violations" in done.stderr, done.stderr)
    check("never compared with silicon" in done.stderr)


@pytest.mark.parametrize(
    "setup",
    [
        Setup("gfx1201", aql=False),
        Setup("gfx942", gpus=2),
        Setup("gfx1030", aql=True, strict=False),
    ],
    ids=lambda setup: f"{setup.chip}-{setup.gpus}",
)
def test_boards_queues_and_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setup: Setup
) -> None:
    names = ["AMD", "AMD:1"][: setup.gpus]
    status, said = ran(tmp_path, programs.ADD, "100", *names, setup=setup)
    check(status == 0, said)
    check(capsys.readouterr().out == "".join(f"added on {name}\n" for name in names))


@pytest.mark.parametrize(("value", "status"), [(0, 0), (None, 0), (7, 7), ("no good", 1)])
def test_the_programs_own_exit_status(tmp_path: Path, value: object, status: int) -> None:
    got, said = ran(tmp_path, programs.STATUS.format(value))
    check(got == status, said)
    check(("no good" in said) == (value == "no good"), said)


def test_an_exception_is_the_programs_own(tmp_path: Path) -> None:
    status, said = ran(tmp_path, "def f():\n    raise KeyError('lost')\n\nf()\n")
    check(status == 1)
    check('program.py", line 4, in <module>' in said and "KeyError: 'lost'" in said, said)
    check("runpy" not in said, said)


def test_a_violation_fails_the_command_and_a_lenient_board_has_none(tmp_path: Path) -> None:
    status, said = ran(tmp_path, programs.UNINITIALISED)
    check(status == 1, said)
    check("violation: uninitialised VRAM: " in said and "never written" in said, said)
    status, said = ran(tmp_path, programs.UNINITIALISED, setup=Setup("gfx1100", strict=False))
    check(status == 0, said)
    check("(lenient): no violations" in said, said)


@pytest.mark.parametrize("chip", ["gfx1100", "gfx942"])
def test_a_fault_is_told_with_kernel_wave_code_and_page_walk(tmp_path: Path, chip: str) -> None:
    status, said = ran(tmp_path, programs.UNMAPPED, setup=Setup(chip))
    check(status == 1 and "DeviceFault" in said, said)
    report = said[said.index("fault: ") :]
    name = firmware("smoke", chip).name
    first = report.splitlines()[0]
    match = re.fullmatch(
        rf"fault: unmapped write in kernel {name}, queue \d+, wave 0 lane 0, pc (0x[0-9a-f]+)",
        first,
    )
    check(match, first)
    pc = match[1] if match else ""
    arrows = [line for line in report.splitlines() if "->" in line]
    check(len(arrows) == 1 and f"-> {pc} +" in arrows[0], report)
    check("global_store_" in arrows[0], arrows[0])
    check("global_load_" in report.split("->")[0], "code in front of the instruction is missing")
    check("address 0x1000, in front of every buffer" in report, report)
    check(report.splitlines()[-1].startswith(f"board {chip} (strict): 1 fault. "), report)
    check("page walk of 0x1000:" in report and "PDB2 at " in report, report)


def test_a_violation_in_code_is_shown_with_the_code(tmp_path: Path) -> None:
    status, said = ran(tmp_path, programs.NO_WAIT)
    check(status == 1 and "violation: wait count: " in said, said)
    notes = [part for part in said.split("\n") if part.startswith("code: wait count: ")]
    check(notes and all(" in kernel smoke_add, wave 0" in note for note in notes), said)
    vector = said[said.index("code: wait count: v") :]
    arrow = next(line for line in vector.splitlines() if "->" in line)
    check("v_add_nc_u32" in arrow, f"the sum uses what was not waited for, not {arrow}")
    check("global_load_b32" in vector.split("->")[0] and "s_nop" in vector.split("->")[0], vector)


def test_a_fault_of_a_copy_engine_is_told_with_its_page_walk(tmp_path: Path) -> None:
    status, said = ran(tmp_path, programs.BAD_COPY)
    check(status == 1 and "DeviceFault" in said, said)
    report = said[said.index("fault: ") :]
    check(re.match(r"fault: queue fault of queue \d+: unmapped write at 0x2000", report), report)
    check("page walk of 0x2000:" in report and "wave" not in report, report)


def test_wrong_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(command.main(["run", "gfx1100", str(tmp_path / "none.py")]) == 2)
    check("there is no file" in capsys.readouterr().err)
    program = str(script(tmp_path, ""))
    check(command.main(["run", "gfx1100", "--gpus", "0", program]) == 2)
    with pytest.raises(SystemExit):
        command.main(["run", "gfx9999", program])
    check("gfx1100" in capsys.readouterr().err)


def test_the_board_is_chosen_over_what_the_environment_says() -> None:
    environ = {"CPU": "1", "LLVM": "1", "AMD_HIP": "1", "AMD_AQL": "1", "HOME": "/x"}
    set_environ(Setup("gfx1100", aql=False), environ)
    check(environ == {"DEV": "AMD", "AMD_LLVM": "1", "AMD_AQL": "0", "HOME": "/x"}, str(environ))

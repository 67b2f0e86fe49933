"""One program in front of a board: started, limited in time, with its report."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.witness.record import Report
from tests.witness.roots import Root


@dataclass(frozen=True)
class Setup:
    """What every run of one chip has in common."""

    root: Root
    chip: str
    shim: Path
    folder: Path
    """For files of one run."""


@dataclass(frozen=True)
class Run:
    """How a program ended."""

    code: int
    """The exit status, below 0 a signal's number; 124 for one that did not end in time."""
    lines: list[str]
    seconds: float
    report: Report

    def said(self, word: str) -> list[str]:
        """What its lines with this word in front ("ok", "WRONG", "said") go on with."""
        return [
            line.removeprefix(f"{word}: ") for line in self.lines if line.startswith(f"{word}: ")
        ]


_TIMED_OUT = 124
_ERRORS = "3"
"""src: libhsakmt.h HSAKMT_DEBUG_LEVEL_ERR"""


def run(setup: Setup, program: Path, *arguments: str, gpus: int = 1, limit_s: float = 300) -> Run:
    """Run a program of the root, or one of ours, in front of a new board."""
    shutil.rmtree(setup.folder, ignore_errors=True)
    setup.folder.mkdir(parents=True)
    report, tools = setup.folder / "report.json", setup.folder / "bin"
    _stand_in_for_lsmod(tools)
    environ = {
        **os.environ, **setup.root.environ(), "WITNESS_CHIP": setup.chip,
        "WITNESS_GPUS": str(gpus), "WITNESS_FILES": str(setup.folder / "files"),
        "WITNESS_REPORT": str(report), "WITNESS_PYTHON": str(setup.root.python),
        "HSAKMT_DEBUG_LEVEL": _ERRORS, "PATH": f"{tools}:{os.environ.get('PATH', os.defpath)}",
    }  # fmt: skip
    began = time.monotonic()
    command = [*setup.root.command(program, setup.shim), *arguments]
    child = subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=limit_s)
        code = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        code = _TIMED_OUT
    found = Report.load(report) if report.exists() else Report(troubles=["no report was written"])
    return Run(code, output.splitlines(), time.monotonic() - began, found)


def _stand_in_for_lsmod(folder: Path) -> None:
    """rocminfo 5.2.3 asks lsmod for amdgpu, whose sysfs files a board has and /proc/modules not."""
    folder.mkdir()
    script = folder / "lsmod"
    script.write_text("#!/bin/sh\necho 'amdgpu 1 0'\n")
    script.chmod(0o755)

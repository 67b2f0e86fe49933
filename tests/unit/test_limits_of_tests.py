"""What ends a test that hangs is processor time, never the clock of a busy machine."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import check, patience, run_limited

ROOT = Path(__file__).resolve().parents[2]
APART = ("vm", "witness", "turnip", "hardware", "support.py")
"""Programs that no test starts: they have machines and networks of their own to wait for."""
RUNS = {"run", "Popen", "check_output", "check_call", "call"}


def files() -> Iterator[Path]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.relative_to(ROOT / "tests").parts[0] not in APART:
            yield path


def test_no_child_is_limited_by_the_clock() -> None:
    found = []
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            named = {keyword.arg for keyword in node.keywords}
            child = ast.unparse(node.func.value) == "subprocess" and node.func.attr in RUNS
            limits = [ast.unparse(k.value) for k in node.keywords if k.arg == "timeout"]
            waits = node.func.attr == "communicate" and not all("patience" in one for one in limits)
            if (child and "timeout" in named) or waits:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    check(not found, f"use run_limited() or patience() of tests/support.py: {found}")


def test_no_example_of_hypothesis_has_a_deadline() -> None:
    from hypothesis import settings

    check(settings().deadline is None, str(settings().deadline))
    found = [
        f"{path.relative_to(ROOT)}:{node.value.lineno}"
        for path in files()
        if path.name != "conftest.py" and "hypothesis" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "deadline"
    ]
    check(not found, f"the profile of tests/conftest.py has none for all: {found}")


def test_a_child_that_computes_without_end_is_stopped() -> None:
    done = run_limited([sys.executable, "-c", "while True: pass"], cpu_s=1)
    check(done.returncode == -signal.SIGXCPU, str(done.returncode))
    with pytest.raises(subprocess.CalledProcessError):
        run_limited([sys.executable, "-c", "raise SystemExit(3)"], cpu_s=60, check=True)


def test_output_and_input_are_as_of_subprocess_run() -> None:
    echo = "import sys; sys.stdout.write(sys.stdin.read()); sys.stderr.write('b'); sys.exit(2)"
    done = run_limited(
        [sys.executable, "-c", echo], cpu_s=60, input="a", capture_output=True, text=True
    )
    check((done.stdout, done.stderr, done.returncode) == ("a", "b", 2), str(done))


def test_a_busy_machine_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.0, 0.0))
    idle = patience(60)
    check(idle >= 60)
    monkeypatch.setattr(os, "getloadavg", lambda: (40.0, 0.0, 0.0))
    check(patience(60) == 20 * idle)


def test_a_child_that_waits_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.WALL_OF_CPU", 0.01)
    began = time.process_time()
    with pytest.raises(subprocess.TimeoutExpired):
        run_limited([sys.executable, "-c", "import time; time.sleep(600)"], cpu_s=1)
    check(time.process_time() - began < 1)

"""How commands end: by Ctrl-C, when the reader of their output leaves, without an optional module.

Each runs in a process of its own, with a module in front of it that does what the user would do.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import check
from unbound import extras, terminal

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tensor", "compilers", "queues", "drivers", "boards", "benchmarks", "generators")
INTERRUPT = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
AT_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""
AT_WORK = """
import argparse, os, signal

def parse_args(*arguments, **named):
    os.kill(os.getpid(), signal.SIGINT)

argparse.ArgumentParser.parse_args = parse_args
"""
ABSENT = "import sys; sys.modules[{module!r}] = None"
COMMANDS = [
    ["-m", "drivers.probe"],
    ["-m", "drivers.amd.smi"],
    ["-m", "boards"],
    ["-m", "boards.compare"],
    ["-m", "compilers.disasm"],
    ["-m", "queues.decode"],
    ["-m", "generators"],
    ["bench.py"],
    ["examples/digits.py"],
]


def run(
    words: list[str], tmp_path: Path, before: str = "", stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """A command of Python, behind a module that is imported as Python starts."""
    (tmp_path / "sitecustomize.py").write_text(before)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environ, check=False, text=True, stdout=stdout,
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


def interrupted(done: subprocess.CompletedProcess[str], name: str) -> None:
    """One line, and the end that a shell shows as 130."""
    check(done.returncode == -signal.SIGINT, f"{done.returncode}: {done.stderr}")
    check(done.stderr == f"{name}: interrupted\n", done.stderr)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[-1])
def test_an_interrupt_is_one_line(words: list[str], tmp_path: Path) -> None:
    interrupted(run(words, tmp_path, AT_WORK), words[-1].rpartition("/")[2])


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["-m", "drivers.probe"], "drivers.world.linux"),
        (["-m", "boards"], "boards.vendors"),
        (["-m", "compilers.report", "decode"], "numpy"),
        (["examples/digits.py"], "numpy"),
    ],
    ids=["drivers", "boards", "compilers", "examples"],
)
def test_an_interrupt_while_modules_are_imported_is_one_line(
    words: list[str], module: str, tmp_path: Path
) -> None:
    name = next(word for word in words if word != "-m").rpartition("/")[2]
    interrupted(run(words, tmp_path, AT_IMPORT.format(module=module)), name)


def test_a_program_that_imports_us_keeps_its_tracebacks(tmp_path: Path) -> None:
    program = tmp_path / "own.py"
    program.write_text(f"import drivers, boards\n{INTERRUPT}\n")
    for words in ([str(program)], ["-m", "own"]):
        done = run(words, tmp_path)
        check(done.returncode == -signal.SIGINT and "Traceback" in done.stderr, done.stderr)


@pytest.mark.parametrize(
    "words",
    [["-m", "boards"], ["bench.py", "--list"], ["-m", "drivers.doctor", "--help"],
     ["-m", "generators", "--help"], ["examples/digits.py", "--help"]],
    ids=lambda words: words[-1] + words[-2],
)  # fmt: skip
@pytest.mark.parametrize("unbuffered", ["", "-u"])
def test_a_reader_that_left_ends_a_command_quietly(
    words: list[str], unbuffered: str, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run([*filter(None, [unbuffered]), *words], tmp_path, stdout=writer)
    finally:
        os.close(writer)
    check(done.returncode == 0 and not done.stderr, f"{done.returncode}: {done.stderr}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [["-m", "boards"], ["-m", "drivers.settings"]])
def test_a_full_disk_is_one_line(words: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = run(words, tmp_path, stdout=full.fileno())
    check(done.returncode == 1 and "could not be written" in done.stderr, done.stderr)
    check(len(done.stderr.splitlines()) == 1, done.stderr)


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        (["examples/digits.py"], "sklearn", "examples"),
        (["examples/image_blur.py"], "matplotlib", "plot"),
        (["examples/share_torch.py"], "torch", "torch"),
        (["-m", "boards", "run", "a630", "examples/digits.py"], "sklearn", "examples"),
    ],
    ids=["digits", "image_blur", "share_torch", "in a board's run"],
)
def test_a_missing_optional_module_is_one_line_with_its_extra(
    words: list[str], module: str, extra: str, tmp_path: Path
) -> None:
    done = run(words, tmp_path, ABSENT.format(module=module))
    line = done.stderr.splitlines()[0]
    check(done.returncode == 1 and "Traceback" not in done.stderr, done.stderr)
    check(f"{module} is not installed. Install it with: pip install" in line, line)
    check(extras.install(extra) in line, line)


def test_a_module_of_the_programs_own_keeps_its_traceback(tmp_path: Path) -> None:
    done = run(["bench.py", "--list"], tmp_path, ABSENT.format(module="benchmarks.rows"))
    check(done.returncode == 1 and "Traceback" in done.stderr, done.stderr)
    check(not terminal.lacking(ModuleNotFoundError("no", name="drivers.probe")))


def commands() -> list[Path]:
    """Every file of the product that is run as a program."""
    places = [ROOT / package for package in PACKAGES]
    files = [path for place in places for path in sorted(place.rglob("*.py"))]
    files += [ROOT / "bench.py", *sorted((ROOT / "examples").glob("*.py"))]
    return [path for path in files if 'if __name__ == "__main__":' in path.read_text()]


def test_every_command_ends_so() -> None:
    found = commands()
    check(len(found) > 25, f"{len(found)} commands")
    for path in found:
        last = ast.parse(path.read_text()).body[-1]
        check(isinstance(last, ast.If), str(path))
        check("terminal.run(" in ast.unparse(last), f"{path} ends without unbound/terminal.py")


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "tensor"])
def test_every_package_of_commands_begins_so(package: str) -> None:
    check("terminal.begin(__name__)" in (ROOT / package / "__init__.py").read_text())


def test_a_machine_without_the_device_is_shown_without_the_drivers_frames(tmp_path: Path) -> None:
    """The reason is in the message; where the driver noticed it is of no use to its user."""
    program = tmp_path / "own.py"
    program.write_text("import tensor as xp\nxp.ones(2, device='AMD:250').numpy()\n")
    done = run([str(program)], tmp_path)
    lines = done.stderr.splitlines()
    check(done.returncode == 1 and "drivers.base.errors." in lines[-1], done.stderr)
    check(len(lines) <= 24 and "drivers/amd" not in done.stderr, done.stderr)

"""`python -m tests.device_runs metal pocl=0.125`: the tensor suite on several devices, at once.

    make devices                                  # whole on each device of DEVICES
    make devices DEVICES='metal pocl=0.125'       # an eighth of it on PoCL
    make devices ARGS='-k matmul'                 # options of pytest for each

Each device has a process of its own, forked from one that has imported what all need; as many run
at the same time as there are cores. A device's output is printed when it ends. The exit status is 1
if a device failed. Name the longest first.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.device_option import DEVICES

ROOT: Final = Path(__file__).parent.parent
_IMPORTED: Final = (
    "numpy", "hypothesis", "llvmlite.binding", "elftools.elf.elffile", "tensor", "tests.oracle",
)  # fmt: skip
"""What most tests import, before the first fork."""


@dataclass(frozen=True)
class Wanted:
    """A device, and the share of the suite that runs on it."""

    name: str
    share: float = 1.0

    @classmethod
    def of(cls, text: str) -> Wanted:
        """Of `pocl` or `pocl=0.125`. Raises: ArgumentTypeError."""
        name, _, share = text.partition("=")
        if name not in DEVICES:
            raise argparse.ArgumentTypeError(f"{name}: one of {', '.join(DEVICES)}")
        try:
            return cls(name, float(share or 1))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: NAME or NAME=SHARE, as pocl=0.125") from None

    def arguments(self, options: Sequence[str]) -> list[str]:
        """What pytest is called with."""
        return [
            "-p", "no:cacheprovider", "-r", "fE", "--device", self.name,
            f"--share={self.share}", f"--costs={ROOT / 'tests/costs-devices.txt'}",
            *options, *suite(),
        ]  # fmt: skip


def suite() -> list[str]:
    """The files of the tensor suite."""
    unit = ROOT / "tests/unit"
    files = [ROOT / "tests/array_api", *unit.glob("test_tensor_*.py"), *unit.glob("test_jit*.py")]
    return [str(path) for path in sorted([*files, unit / "test_examples.py"])]


@dataclass
class Runs:
    """The processes of a run."""

    options: Sequence[str]
    at_once: int
    outputs: Path
    """A folder for what they print."""
    running: dict[int, tuple[Wanted, float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def all(self, wanted: Sequence[Wanted]) -> None:
        """Run the suite on each."""
        for one in wanted:
            if len(self.running) >= self.at_once:
                self.ended()
            self.start(one)
        for _ in tuple(self.running):
            self.ended()

    def start(self, wanted: Wanted) -> None:
        """Fork a process that runs pytest on a device."""
        sys.stdout.flush()
        child = os.fork()
        if not child:
            output = os.open(self.outputs / wanted.name, os.O_CREAT | os.O_WRONLY)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = pytest.main(wanted.arguments(self.options))
            sys.stdout.flush()
            os._exit(int(code))
        self.running[child] = wanted, time.monotonic()

    def ended(self) -> None:
        """Wait for one, and print what it printed."""
        child, status, usage = os.wait4(-1, 0)
        wanted, began_s = self.running.pop(child)
        code = os.waitstatus_to_exitcode(status)
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            self.failed.append(wanted.name)
        print((self.outputs / wanted.name).read_text(errors="replace"), end="")
        print(
            f"{wanted.name}: exit status {code}, {time.monotonic() - began_s:.0f} s, "
            f"{usage.ru_utime + usage.ru_stime:.0f} s of processor time\n", flush=True,
        )  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run the command line; exit status 1 if a device failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.device_runs", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("device", nargs="+", type=Wanted.of, help="NAME or NAME=SHARE")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="processes")
    split = argv.index("--") if "--" in argv else len(argv)
    options = parser.parse_args(argv[:split])
    for name in _IMPORTED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(argv[split + 1 :], options.at_once, Path(folder))
        runs.all(options.device)
    if runs.failed:
        print(f"make devices: failed on: {' '.join(runs.failed)}", file=sys.stderr)
    return int(bool(runs.failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

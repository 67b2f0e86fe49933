"""The printed reports of probe and doctor: ASCII whatever the machine says, quiet in a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from drivers.doctor import run
from drivers.doctor.checks import CHECKS
from drivers.machine.output import printable
from tests.fake_machine import FakeMachine
from tests.support import check, run_limited

ROOT = Path(__file__).parents[2]
modules = pytest.mark.parametrize("module", ["drivers.probe", "drivers.doctor"])


def command(module: str, stdout: int, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """The command at its end. What libraries print does not reach its standard error."""
    return run_limited(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environ},
        stdout=stdout,
        stderr=subprocess.PIPE,
        cpu_s=60,
    )


@modules
def test_a_reader_that_left(module: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = command(module, writer)
    os.close(writer)
    np.testing.assert_equal((done.returncode, done.stderr), (0, b""))


@modules
def test_a_full_disk(module: str) -> None:
    with open("/dev/full", "wb") as full:
        done = command(module, full.fileno())
    np.testing.assert_equal(done.returncode, 1)
    np.testing.assert_equal(
        done.stderr, b"the output could not be written: No space left on device\n"
    )


@modules
def test_an_environment_that_is_no_text(module: str) -> None:
    odd = os.fsdecode(b"/h\xff\x1b[31m\xc3\xa9")
    done = command(module, subprocess.PIPE, HOME=odd, UNBOUND_FIRMWARE=odd, COLUMNS="1")
    np.testing.assert_equal((done.returncode, done.stderr), (0, b""))
    text = done.stdout.decode("ascii")
    check(all(c == "\n" or c.isprintable() for c in text), ascii(text))


def test_what_is_printable() -> None:
    np.testing.assert_equal(printable("a b\n~"), "a b\n~")
    np.testing.assert_equal(printable("\x1b\t\xe9\udcff\u2192"), r"\x1b\t\xe9\udcff\u2192")


@pytest.mark.parametrize(
    ("topic", "path", "text"),
    [
        ("groups", "/proc/self/status", "Uid:\t{n}\t{n}\nGid:\t1\t1\nGroups:\t\n"),
        ("huge pages", "/proc/meminfo", "HugePages_Total: {n}\n"),
    ],
)
def test_numbers_too_long_to_be_numbers(topic: str, path: str, text: str) -> None:
    machine = FakeMachine({path: text.format(n="9" * 5000)})
    lines = run({topic: CHECKS[topic]}, machine, {})
    check(any(line.state == "warn" and "/proc" in line.text for line in lines), str(lines))

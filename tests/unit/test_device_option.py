"""`--device`: what a device refuses is listed, or the run fails."""

from __future__ import annotations

import os

import pytest

from tests import device_option
from tests.support import check

pytest_plugins = ["pytester"]

CASES = """
import pytest
from drivers.base.errors import DeviceError, Unsupported
from tensor import engine

def test_there():
    assert engine.default_device() == "CPU"

@pytest.mark.parametrize("dtype", ["int4", "int2"])
def test_refused(dtype):
    raise Unsupported(f"CPU has no {dtype}", hint="Cast")

@pytest.fixture
def opened():
    raise Unsupported("no images")

def test_refused_in_its_fixture(opened):
    pass

@pytest.mark.host_memory
def test_of_shared_memory():
    raise AssertionError

@pytest.mark.resident_memory
def test_of_resident_memory():
    raise AssertionError

def test_skipped():
    pytest.skip("no compiler")
"""
LISTED = """
test_it.py::test_refused: CPU has no int
test_it.py: no images
test_it.py: memory of this device is not shared
test_it.py::test_of_resident_memory: it grows by design
test_it.py: no compiler
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of tests with this project's options, and a device that every machine has."""
    monkeypatch.setenv("UNBOUND_TESTS_SHARE", "")
    monkeypatch.setenv("DEV", os.environ["DEV"])
    cannot = {"resident_memory": "it grows by design"}
    cpu = device_option.Named("the processor", "CPU", dict, cannot=cannot)
    monkeypatch.setattr(device_option, "DEVICES", {"cpu": cpu})
    monkeypatch.setattr(device_option, "LISTS", pytester.path)
    pytester.makeconftest("from tests.conftest import *\n")
    pytester.makepyfile(test_it=CASES)
    return pytester


def run(project: pytest.Pytester, listed: str, *options: str) -> pytest.RunResult:
    (project.path / "cpu.txt").write_text(listed)
    return project.runpytest_inprocess("--device", "cpu", *options)


def test_what_is_refused_is_counted_by_reason(project: pytest.Pytester) -> None:
    result = run(project, LISTED)
    check(result.ret == 0, f"{result.ret}")
    result.assert_outcomes(passed=1, skipped=6)
    result.stdout.fnmatch_lines(["*on the processor*", "1 passed, 6 refused, 0 failed"])
    result.stdout.fnmatch_lines_random([
        "*1 refused: CPU has no int4", "*1 refused: CPU has no int2", "*1 refused: no images",
        "*1 refused: memory of this device is not shared*", "*1 refused: no compiler",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "complaint"),
    [
        (LISTED.replace("no int", "no int4"),
         "skipped, and not expected: *refused[[]int2[]]: CPU has no int2"),
        (LISTED + "test_it.py: CPU has no float64\n",
         "expected, and not skipped: test_it.py: CPU has no float64"),
        (LISTED.replace("test_it.py: no compiler\n", ""), "skipped, and not expected: *skipped: *"),
    ],
)  # fmt: skip
def test_the_list_has_to_agree(project: pytest.Pytester, listed: str, complaint: str) -> None:
    result = run(project, listed)
    check(result.ret == pytest.ExitCode.TESTS_FAILED, f"{result.ret}")
    result.stdout.fnmatch_lines([complaint])


def test_lines_of_files_that_did_not_run_may_be_idle(project: pytest.Pytester) -> None:
    result = run(project, LISTED + "test_other.py: CPU has no float64\n")
    check(result.ret == 0, f"{result.ret}")


def test_other_errors_of_the_driver_are_failures(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=CASES.replace("raise Unsupported(f", "raise DeviceError(f"))
    result = run(project, LISTED)
    result.assert_outcomes(passed=1, skipped=4, failed=2)
    result.stdout.fnmatch_lines(["1 passed, 4 refused, 2 failed"])


def test_an_unknown_device_is_an_error(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("--device", "nowhere")
    check(result.ret == pytest.ExitCode.USAGE_ERROR, f"{result.ret}")
    result.stderr.fnmatch_lines(["*--device nowhere: one of cpu*"])


def test_every_device_has_its_list() -> None:
    names = sorted(path.stem for path in device_option.LISTS.glob("*.txt"))
    lists = {one.refusals or name for name, one in device_option.DEVICES.items()}
    check(names == sorted(lists), f"{names}")

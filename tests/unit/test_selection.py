"""`--share` and `--expected-skips`: what a run of the tests leaves out, and what it may."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import skips
from tests.support import check

pytest_plugins = ["pytester"]

CASES = """
import pytest
from tests.share import part

@pytest.mark.parametrize("case", range(40))
def test_many(case):
    pass

def test_one():
    assert part(7, 3) == {loops}

def test_skipped():
    pytest.skip("no GPU: plug one in")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of tests with this project's options."""
    monkeypatch.setenv("UNBOUND_TESTS_SHARE", "")
    pytester.makeconftest("from tests.conftest import *\n")
    return pytester


def names(result: pytest.RunResult) -> list[str]:
    return [line.split()[0] for line in result.outlines if "::" in line]


def test_every_function_runs_and_a_part_of_its_cases(project: pytest.Pytester) -> None:
    project.makepyfile(CASES.format(loops=3))
    runs = [
        project.runpytest_inprocess("-v", "--share", "0.2", "--share-seed", seed)
        for seed in ("1", "1", "2")
    ]
    for run in runs:
        run.assert_outcomes(passed=9, skipped=1, deselected=32)
    first, again, other = map(names, runs)
    check(first == again and first != other, "the seed alone chooses")
    runs[0].stdout.fnmatch_lines(["20% of the cases*--share-seed 1;*"])


def test_without_a_share_everything_runs(project: pytest.Pytester) -> None:
    project.makepyfile(CASES.format(loops=7))
    project.runpytest_inprocess().assert_outcomes(passed=41, skipped=1)


@pytest.mark.parametrize("share", ["0", "1.5", "-1"])
def test_a_share_is_a_part(project: pytest.Pytester, share: str) -> None:
    result = project.runpytest_inprocess("--share", share)
    check(result.ret == pytest.ExitCode.USAGE_ERROR, f"{result.ret}")


@pytest.mark.parametrize(
    ("listed", "complaints"),
    [
        ("test_it.py::test_skipped: no GPU", []),
        ("test_it.py: no GPU: plug one in # never here", ["skipped, and not expected"]),
        ("# nothing\n", ["skipped, and not expected: *test_it.py::test_skipped: no GPU: plug one"]),
        ("test_it.py::test_skipped: no\ntest_it.py::test_one: no\n",
         ["expected, and not skipped: test_it.py::test_one: no"]),
        ("test_it.py: no GPU\n? test_it.py::test_one: no\n", []),
        ("test_it.py::test_skip: no", ["skipped, and not expected", "expected, and not skipped"]),
    ],
)  # fmt: skip
def test_skips_are_those_of_the_file(
    project: pytest.Pytester, listed: str, complaints: list[str]
) -> None:
    project.makepyfile(test_it=CASES.format(loops=7))
    expected = project.path / "expected.txt"
    expected.write_text(listed)
    result = project.runpytest_inprocess("--expected-skips", str(expected))
    check((result.ret == 0) == (not complaints), f"{result.ret}")
    result.stdout.fnmatch_lines([f"{complaint}*" for complaint in complaints])


def test_a_share_may_leave_expected_skips_out(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=CASES.format(loops=3))
    expected = project.path / "expected.txt"
    expected.write_text("test_it.py::test_skipped: no GPU\ntest_it.py::test_other: no GPU\n")
    result = project.runpytest_inprocess("--share", "0.2", "--expected-skips", str(expected))
    check(result.ret == 0, f"{result.ret}")


def test_a_line_that_is_no_line(tmp_path: Path) -> None:
    (tmp_path / "skips").write_text("# good\n\ntests/a.py no colon\n")
    with pytest.raises(ValueError, match=r"skips:3: not `NAME: REASON`"):
        skips.read(tmp_path / "skips")

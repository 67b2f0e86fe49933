"""`--share`, `--turns`, `--expected-skips`: what a run of the tests leaves out, and what it may."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import budgets, skips
from tests.costs import Cost, function_of, merged, read
from tests.share import Share, Turns
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


def test_a_share_runs_a_part_of_the_cases_and_says_which(project: pytest.Pytester) -> None:
    project.makepyfile(CASES.format(loops=3))
    costs = project.path / "costs.txt"
    name = "test_a_share_runs_a_part_of_the_cases_and_says_which.py"
    costs.write_text(f"9 2 {name}::test_many\n1 1 {name}::test_one\n")
    runs = [
        project.runpytest_inprocess("-v", "--share=0.2", "--share-seed", seed, "--costs", costs)
        for seed in ("1", "1", "2")
    ]
    for run in runs:
        run.assert_outcomes(passed=9, skipped=1, deselected=32)
    first, again, other = map(names, runs)
    check(first == again and first != other, "the seed alone chooses")
    runs[0].stdout.fnmatch_lines(["*1 skipped: no GPU: plug one in", "20.0% of the tests*seed 1;*"])


def test_tests_that_cost_little_run_whole(project: pytest.Pytester) -> None:
    project.makepyfile(CASES.format(loops=3))
    result = project.runpytest_inprocess("--share", "0.2", "--costs", project.path / "none")
    result.assert_outcomes(passed=41, skipped=1)


@dataclass(frozen=True)
class Case:
    """What a choice sees of a test."""

    nodeid: str


SECONDS = {
    **{f"t.py::cheap{number}": (1, 0.01 * number) for number in range(50)},
    **{f"t.py::middle{number}": (20, 0.3) for number in range(30)},
    **{f"t.py::costly{number}": (3, 10.0 + number) for number in range(20)},
    "t.py::loops": (1, 60.0),
}
"""Cases of each function, and seconds of each case."""
ITEMS = [Case(f"{name}[{case}]") for name, (count, _) in SECONDS.items() for case in range(count)]
WHOLE_S = sum(count * seconds for count, seconds in SECONDS.values())


def cost(name: str) -> Cost:
    seconds = SECONDS[name][1]
    return Cost(seconds, seconds)


@pytest.mark.parametrize("part", [0.05, 0.125, 0.3])
def test_an_eighth_costs_an_eighth_and_in_time_all_run(part: float) -> None:
    days = [Share(part, day, cost).of(ITEMS) for day in range(740_000, 740_120)]
    spent = [sum(cost(function_of(item.nodeid)).case_s for item in day) for day in days]
    longest = max(seconds for _, seconds in SECONDS.values())
    check(abs(sum(spent) / len(spent) - part * WHOLE_S) < 0.05 * part * WHOLE_S, f"{spent}")
    check(max(spent) < part * WHOLE_S + longest, f"{max(spent)}")
    check(set().union(*days) == set(ITEMS), "in four months everything has run")
    cheap = {item for item in ITEMS if "cheap" in item.nodeid}
    check(all(cheap <= day for day in days), "the cheapest run every day")


def test_a_loop_that_is_short_in_a_share_counts_as_that() -> None:
    short = {name: Cost(one, one / 10) for name, (_, one) in SECONDS.items()}
    chosen = Share(0.125, 740_000, short.__getitem__).of(ITEMS)
    spent = sum(short[function_of(item.nodeid)].short_case_s for item in chosen)
    check(len(chosen) > len(Share(0.125, 740_000, cost).of(ITEMS)), f"{len(chosen)}")
    check(spent < 0.125 * WHOLE_S + 6.0, f"{spent}")


def test_of_a_costly_function_a_part_of_the_cases_has_its_turn() -> None:
    first, second, third = (Turns(0.4, day, cost).of(ITEMS) for day in range(3))
    costly = {item for item in ITEMS if "costly" in item.nodeid}
    check(len(first & costly) == 2 * 20 and first - costly == set(ITEMS) - costly, f"{len(first)}")
    check(first | second | third == set(ITEMS), "in three days all cases run")
    check(Case("t.py::loops[0]") in first & second & third, "one case is a part")


def test_costs_are_measured_again_by_name(tmp_path: Path) -> None:
    known = {"a": Cost(1.0, 0.5), "b": Cost(4.0, 4.0)}
    new = merged(known, {"a": 6.0, "c": 0.01, "d": 8.0}, {"a": 3, "c": 2, "d": 0}, short=False)
    check(new == {"a": Cost(2.0, 2.0), "b": Cost(4.0, 4.0)}, f"{new}")
    short = merged(known, {"a": 0.3}, {"a": 3}, short=True)
    check(short["a"] == Cost(1.0, pytest.approx(0.1)), f"{short}")
    (tmp_path / "costs").write_text("2.5 0.5 t.py::a b\n")
    check(read(tmp_path / "costs")("t.py::a b") == Cost(2.5, 0.5), "names may hold blanks")
    check(read(tmp_path / "none")("t.py::a") == Cost(), "an unknown one costs little")


def test_a_run_records_what_its_tests_cost(project: pytest.Pytester) -> None:
    project.makepyfile(test_it="""
        import time
        def test_busy():
            end = time.process_time() + 0.3
            while time.process_time() < end:
                pass
        def test_idle():
            time.sleep(0.3)
    """)  # fmt: skip
    project.runpytest_inprocess("--record-costs=costs").assert_outcomes(passed=2)
    (line,) = (project.path / "costs").read_text().splitlines()
    seconds, _, name = line.split()
    check(float(seconds) >= 0.3 and name == "test_it.py::test_busy", line)


def test_a_family_that_costs_more_than_its_budget_fails(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(budgets.BUDGETS_S, "mine", 1)
    (project.mkdir("tests") / "mine").mkdir()
    (project.path / "tests/mine/test_it.py").write_text("def test_it(): pass")
    monkeypatch.setattr(budgets, "measured", lambda report, name: 0.3)
    project.runpytest_inprocess("--budgets", "tests/mine").assert_outcomes(passed=1)
    monkeypatch.setattr(budgets, "measured", lambda report, name: 1e6)
    result = project.runpytest_inprocess("--budgets", "tests/mine")
    check(result.ret == pytest.ExitCode.TESTS_FAILED, f"{result.ret}")
    result.stdout.fnmatch_lines(["*3000000 s of*1 tests: mine  OVER BUDGET"])


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


def test_files_named_by_hand_may_leave_expected_skips_out(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=CASES.format(loops=7))
    expected = project.path / "expected.txt"
    expected.write_text("test_it.py::test_skipped: no GPU\ntest_other.py: no GPU\n")
    result = project.runpytest_inprocess("--expected-skips", str(expected), "test_it.py")
    check(result.ret == 0, f"{result.ret}")


def test_a_line_that_is_no_line(tmp_path: Path) -> None:
    (tmp_path / "skips").write_text("# good\n\ntests/a.py no colon\n")
    with pytest.raises(ValueError, match=r"skips:3: not `NAME: REASON`"):
        skips.read(tmp_path / "skips")

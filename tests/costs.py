"""What tests cost: seconds of processor time, and the memory that their process has afterwards.

    pytest --record-costs=tests/costs.txt [FILES]     # measured again, the other lines are kept

Each phase of a test is measured in the process that runs it, children that it waited for among it,
and travels in its report. A line of the file is a test function's: seconds of one case, seconds
where the test's own loops are short (`tests/share.py`), name. Functions that are not in it cost
`UNKNOWN_S`. Measure on cores that do nothing else.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

CPU_S: Final = "cpu_s"
RESIDENT_MIB: Final = "resident_mib"
UNKNOWN_S: Final = 0.02
"""A case of a function that has no line."""
LEAST_S: Final = 0.25
"""A function that costs less has none."""
_MIB: Final = 1 << 20
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time that one case of a test function costs."""

    case_s: float = UNKNOWN_S
    short_case_s: float = UNKNOWN_S
    """Where the test's own loops are short."""

    def full_s(self, cases: int) -> float:
        """Seconds of that many cases."""
        return self.case_s * cases

    def short_s(self, cases: int) -> float:
        """Seconds of that many cases in a share of the tests."""
        return self.short_case_s * cases


def read(path: Path) -> Callable[[str], Cost]:
    """The cost of a test function by its name, from a file of costs."""
    costs = _lines(path)
    return lambda name: costs.get(name, Cost())


def _lines(path: Path) -> dict[str, Cost]:
    costs = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        case_s, short_case_s, name = line.split(maxsplit=2)
        costs[name] = Cost(float(case_s), float(short_case_s))
    return costs


def spent_s() -> float:
    """Processor time of this process and of its children that have ended, in seconds."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def resident_mib() -> float:
    """What this process has in memory, in MiB; 0 where Linux's /proc is not there."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0.0
    return int(pages) * _PAGE_BYTES / _MIB


def measured(report: pytest.TestReport, name: str) -> float:
    """CPU_S or RESIDENT_MIB of one phase of a test."""
    return float(dict(report.user_properties).get(name, 0.0))


def function_of(nodeid: str) -> str:
    """A test function's name, without the case."""
    return nodeid.partition("[")[0]


class Meter:
    """The plugin of a process that runs tests."""

    def __init__(self) -> None:
        self.before_s = spent_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        report = yield
        now_s = spent_s()
        report.user_properties = [
            *report.user_properties,
            (CPU_S, round(now_s - self.before_s, 3)),
            (RESIDENT_MIB, round(resident_mib())),
        ]
        self.before_s = now_s
        return report


@dataclass(eq=False)  # pytest keeps plugins in sets
class Recorder:
    """The plugin of `--record-costs`, in the process that reports."""

    path: Path
    short: bool
    """Whether the tests' own loops are short."""
    seconds: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = function_of(report.nodeid)
        self.seconds[name] += measured(report, CPU_S)
        self.cases[name] += report.when == "call"

    def pytest_sessionfinish(self) -> None:
        costs = merged(_lines(self.path), self.seconds, self.cases, short=self.short)
        lines = [
            f"{cost.case_s:.3f} {cost.short_case_s:.3f} {name}\n"
            for name, cost in sorted(costs.items())
        ]
        self.path.write_text("".join(lines))


def merged(
    known: Mapping[str, Cost],
    seconds: Mapping[str, float],
    cases: Mapping[str, int],
    *,
    short: bool,
) -> dict[str, Cost]:
    """Known costs and those of a run, without functions of the run that cost next to nothing."""
    costs = dict(known)
    for name, whole_s in seconds.items():
        if cases[name]:
            case_s = whole_s / cases[name]
            before = known.get(name, Cost(case_s, case_s))
            costs[name] = Cost(before.case_s, case_s) if short else Cost(case_s, case_s)
            if costs[name].full_s(cases[name]) < LEAST_S:
                del costs[name]
    return costs

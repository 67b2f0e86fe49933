"""`pytest --budgets`: the processor time of each family of tests; more than its budget fails.

Seconds are added up over all processes of a run. A budget is in seconds of the processor that
`tests/costs.txt` was measured on. A slower one gets more: a fixed piece of work is timed before and
after the tests, in processor time. Together the budgets keep `make test-all` within a quarter of an
hour on two cores.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import pytest

from tests.costs import CPU_S, measured

BUDGETS_S: Final = {
    "abi": 80, "array_api": 40, "boards": 900, "compilers": 180, "contract": 90, "cuda": 20,
    "fuzz": 240, "hardware": 30, "metal": 80, "reliability": 480, "unit": 500,
}  # fmt: skip
WORK: Final = 300_000
"""Rounds of the piece of work."""
WORK_S: Final = 0.02
"""Its seconds on the processor of the budgets."""


def slowness() -> float:
    """How many times longer this processor takes for a piece of work; at least 1."""
    before = time.thread_time()
    total = 0
    for number in range(WORK):
        total += number & 3
    return max(1.0, (time.thread_time() - before) / WORK_S)


class Budgets:
    """The plugin of `--budgets`."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.slowness = slowness()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        family = report.nodeid.split("/")[1]
        self.seconds[family] += measured(report, CPU_S)
        self.tests[family] += report.when == "call"

    def over(self) -> list[str]:
        """The families that took more than they may."""
        return [
            family
            for family, seconds in self.seconds.items()
            if seconds > BUDGETS_S.get(family, 0) * self.slowness
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.slowness = max(self.slowness, slowness())
        if self.over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor time of each family of tests")
        over = self.over()
        for family, seconds in self.seconds.most_common():
            budget = BUDGETS_S.get(family, 0) * self.slowness
            terminalreporter.write_line(
                f"{seconds:8.0f} s of {budget:4.0f} s, {self.tests[family]:5} tests: {family}"
                f"{'  OVER BUDGET' if family in over else ''}", red=family in over,
            )  # fmt: skip

"""`pytest --budgets`: the cost of each family of tests, and its budget.

Seconds of tests, added up over all processes of a run on the two cores of CI. More than that is
printed, and no failure: machines differ. Together they keep `make test-all` within half an hour.
"""

from __future__ import annotations

from collections import Counter

import pytest

BUDGETS_S = {
    "abi": 90, "array_api": 60, "boards": 900, "compilers": 120, "contract": 120, "cuda": 40,
    "fuzz": 400, "hardware": 30, "metal": 120, "reliability": 900, "unit": 400,
}  # fmt: skip


class Budgets:
    """The plugin of `--budgets`."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        family = report.nodeid.split("/")[1]
        self.seconds[family] += report.duration
        self.tests[family] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("seconds of each family of tests")
        for family, seconds in self.seconds.most_common():
            budget = BUDGETS_S.get(family, 0)
            over = "  OVER BUDGET" if seconds > budget else ""
            terminalreporter.write_line(
                f"{seconds:8.0f} s of {budget:4} s, {self.tests[family]:5} tests: {family}{over}"
            )

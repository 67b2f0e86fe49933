"""`pytest --expected-skips=FILE`: a skipped test that is not listed fails the run, by name.

A line of the file is `NAME: REASON`: a folder, a file, a function or one case, and how the reason
begins. A line that no skipped test matches fails the run too: it would hide a later one. After `? `
it may match none: some machines have what the test needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest


@dataclass(frozen=True)
class Line:
    """One line of the file."""

    name: str
    reason: str
    always: bool = True

    def covers(self, nodeid: str, reason: str) -> bool:
        """Whether it matches a skipped test."""
        owner = nodeid == self.name or nodeid.startswith(tuple(self.name + end for end in ":[/"))
        return owner and reason.startswith(self.reason)


def read(path: Path) -> list[Line]:
    """The lines of a file; `#` begins a comment. Raises: ValueError naming the line."""
    lines = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        stripped = text.strip()
        if stripped and not stripped.startswith("#"):
            name, colon, reason = stripped.removeprefix("? ").partition(": ")
            if not colon:
                raise ValueError(f"{path}:{number}: not `NAME: REASON`: {stripped}")
            lines.append(Line(name, reason, always=not stripped.startswith("? ")))
    return lines


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped; "" if it was not."""
    if report.skipped and isinstance(report.longrepr, tuple | list):  # a list: from a worker
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return ""


@dataclass(eq=False)  # pytest keeps plugins in sets
class Skips:
    """The plugin of `--expected-skips`.

    In a part of the tests, a share or files named by hand, unmatched lines are no error.
    """

    lines: Sequence[Line]
    part: bool = False
    seen: list[tuple[str, str]] = field(default_factory=list)

    def wrong(self) -> list[str]:
        """Differences from the file, a line each."""
        found = [
            f"skipped, and not expected: {nodeid}: {reason}"
            for nodeid, reason in self.seen
            if not any(line.covers(nodeid, reason) for line in self.lines)
        ]
        idle = [f"expected, and not skipped: {line.name}: {line.reason}" for line in self.idle()]
        return sorted(set(found)) + idle

    def idle(self) -> list[Line]:
        """Lines that no skipped test matches, where all tests ran."""
        return [] if self.part else [
            line for line in self.lines
            if line.always and not any(line.covers(*one) for one in self.seen)
        ]  # fmt: skip

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if reason := _reason(report):
            self.seen.append((report.nodeid, reason))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.wrong() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """After pytest's own summary, where it is read."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        for line in self.wrong():
            reporter.write_line(line, red=True)


REASONS: Final = 10
"""Lines of a summary."""


class Reasons:
    """The plugin that counts skipped tests by reason, ten lines where there are hundreds."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if reason := _reason(report):
            self.counts[reason] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        common = self.counts.most_common(REASONS)
        for reason, count in common:
            terminalreporter.write_line(f"{count:5} skipped: {reason}")
        if rest := self.counts.total() - sum(count for _, count in common):
            terminalreporter.write_line(f"{rest:5} skipped for other reasons: -rs prints each")

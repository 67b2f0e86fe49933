"""The findings as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

from drivers.probe import Finding
from drivers.registry import KINDS_BY_NAME

WIDTH_CHARS = 100
_INDENT = " " * 22


def driver_written(finding: Finding) -> bool:
    """Whether this stack has a driver for the kind and its interface."""
    kind = KINDS_BY_NAME[finding.kind]
    return kind.factory is not None and finding.iface in kind.ifaces


def usable(finding: Finding) -> bool:
    """Whether `drivers.open` can open it here and now."""
    return finding.ready and driver_written(finding)


def state(finding: Finding) -> str:
    """ "usable", or the first thing that is in the way."""
    if usable(finding):
        return "usable"
    return "not usable" if driver_written(finding) else "no driver written yet"


def as_json(findings: Sequence[Finding]) -> str:
    """{"devices": [...]}, one object for each finding."""
    rows = [
        {
            "kind": finding.kind,
            "iface": finding.iface or None,
            "state": state(finding),
            "usable": usable(finding),
            "driver_written": driver_written(finding),
            "machine_ready": finding.ready,
            "reason": finding.reason,
            "advice": finding.advice,
            "details": dict(finding.details),
        }
        for finding in findings
    ]
    return json.dumps({"devices": rows}, indent=2)


def as_table(findings: Sequence[Finding]) -> str:
    """Name, state and reason; below, what to do."""
    lines: list[str] = []
    for finding in findings:
        name = f"{finding.kind} {finding.iface}".strip()
        text = finding.reason if usable(finding) else f"{state(finding)}; {finding.reason}"
        mark = "usable" if usable(finding) else "-"
        lines += _wrapped(f"{name:<12}{mark:<10}", text)
        if finding.advice and not usable(finding):
            lines += _wrapped(_INDENT, f"-> {finding.advice}")
    return "\n".join(lines)


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH_CHARS,
        initial_indent=start,
        subsequent_indent=_INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    )

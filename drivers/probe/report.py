"""The default device and the findings as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict

from drivers.default import OTHERS, Default
from drivers.kinds import BY_NAME
from drivers.probe import Finding

WIDTH_CHARS = 100
_INDENT = " " * 22


def driver_written(finding: Finding) -> bool:
    """Whether this stack has a driver for the kind and its interface."""
    return finding.iface in BY_NAME[finding.kind].written


def usable(finding: Finding) -> bool:
    """Whether `drivers.open` can open it here and now."""
    return finding.ready and driver_written(finding)


def state(finding: Finding) -> str:
    """ "usable", or the first thing that is in the way."""
    if usable(finding):
        return "usable"
    return "not usable" if driver_written(finding) else "no driver written yet"


def never_default(finding: Finding) -> str | None:
    """Why this way is taken only where the user names it; None where it may be the default."""
    ways = BY_NAME[finding.kind].ways
    return next((way.why for way in ways if way.named_only and way.name == finding.iface), None)


def as_json(findings: Sequence[Finding], default: Default) -> str:
    """{"default": {...}, "devices": [...]}, one object for each finding."""
    rows = [
        {
            "kind": finding.kind,
            "iface": finding.iface or None,
            "state": state(finding),
            "usable": usable(finding),
            "driver_written": driver_written(finding),
            "never_default": never_default(finding),
            "machine_ready": finding.ready,
            "reason": finding.reason,
            "advice": finding.advice,
            "details": dict(finding.details),
        }
        for finding in findings
    ]
    return json.dumps({"default": asdict(default), "devices": rows}, indent=2)


def as_table(findings: Sequence[Finding], default: Default) -> str:
    """The default device and why; then name, state and reason of each; below, what to do."""
    lines = _wrapped(f"{'default':<12}{default.name:<10}", f"{default.why}; {OTHERS}")
    for one in default.passed:
        lines += _wrapped(_INDENT, f"not {one}")
    for finding in findings:
        name = f"{finding.kind} {finding.iface}".strip()
        text = finding.reason if usable(finding) else f"{state(finding)}; {finding.reason}"
        if usable(finding) and never_default(finding):
            text += f"; never the default: {never_default(finding)}"
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

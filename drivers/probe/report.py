"""The default device and the results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict

from drivers.default import OTHERS, Default
from drivers.kinds import BY_NAME
from drivers.machine.output import width_chars
from drivers.machine.surroundings import Surroundings
from drivers.probe import Result

_INDENT = " " * 22


def driver_written(result: Result) -> bool:
    """Whether this stack has a driver for the kind and its interface."""
    return result.iface in BY_NAME[result.kind].written


def usable(result: Result) -> bool:
    """Whether `drivers.open` can open it here and now."""
    return result.ready and driver_written(result)


def state(result: Result) -> str:
    """ "usable", or the first thing that is in the way."""
    if usable(result):
        return "usable"
    return "not usable" if driver_written(result) else "no driver written yet"


def never_default(result: Result) -> str | None:
    """Why this way is taken only where the user names it; None where it may be the default."""
    ways = BY_NAME[result.kind].ways
    return next((way.why for way in ways if way.named_only and way.name == result.iface), None)


def as_json(results: Sequence[Result], default: Default, around: Surroundings | None = None) -> str:
    """{"default": {...}, "environment": ..., "devices": [...]}, one object for each result."""
    rows = [
        {
            "kind": result.kind,
            "iface": result.iface or None,
            "state": state(result),
            "usable": usable(result),
            "driver_written": driver_written(result),
            "never_default": never_default(result),
            "machine_ready": result.ready,
            "reason": result.reason,
            "advice": result.advice,
            "details": dict(result.details),
        }
        for result in results
    ]
    environment = None if around is None else {"name": around.name, "works": around.works}
    whole = {"default": asdict(default), "environment": environment, "devices": rows}
    return json.dumps(whole, indent=2)


def as_table(
    results: Sequence[Result], default: Default, around: Surroundings | None = None
) -> str:
    """The default device and why; then name, state and reason of each; below, what to do."""
    lines = [] if around is None else _wrapped(f"{'environment':<22}", str(around))
    lines += _wrapped(f"{'default':<12}{default.name:<10}", f"{default.why}; {OTHERS}")
    for one in default.passed:
        lines += _wrapped(_INDENT, f"not {one}")
    for result in results:
        name = f"{result.kind} {result.iface}".strip()
        text = result.reason if usable(result) else f"{state(result)}; {result.reason}"
        if usable(result) and never_default(result):
            text += f"; never the default: {never_default(result)}"
        mark = "usable" if usable(result) else "-"
        lines += _wrapped(f"{name:<12}{mark:<10}", text)
        if result.advice and not usable(result):
            lines += _wrapped(_INDENT, f"-> {result.advice}")
    return "\n".join(lines)


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        width_chars(),
        initial_indent=start,
        subsequent_indent=_INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    )

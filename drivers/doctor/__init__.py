"""The state of this machine for GPU use, line by line, with advice; nothing is changed.

`python -m drivers.doctor` prints it for people, `--json` for programs. `--restore` alone changes
something: GPUs that a killed program of ours had go back to their kernel drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from drivers.base.contracts import World
from drivers.base.errors import DeviceError

OK, WARN, MISSING = "ok", "warn", "missing"


@dataclass(frozen=True, slots=True)
class Line:
    """One fact: its topic, its state (ok, warn, missing), what is so, and what to do about it."""

    topic: str
    state: str
    text: str
    advice: str = ""


Check: TypeAlias = Callable[[World, Mapping[str, str]], Iterable[Line]]


def run(checks: Mapping[str, Check], world: World, environ: Mapping[str, str]) -> list[Line]:
    """Every check's lines; a check that cannot read the machine says why."""
    lines: list[Line] = []
    for topic, check in checks.items():
        try:
            lines += check(world, environ)
        except DeviceError as error:
            lines.append(Line(topic, WARN, error.message, error.hint))
    return lines

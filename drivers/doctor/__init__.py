"""The state of this machine for GPU use, line by line, with advice; nothing is changed.

`python -m drivers.doctor` prints it for people, `--json` for programs. `--restore` alone changes
something: GPUs that a killed program of ours had go back to their kernel drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.machine.lines import MISSING as MISSING
from drivers.machine.lines import OK as OK
from drivers.machine.lines import WARN as WARN
from drivers.machine.lines import Line as Line
from drivers.machine.surroundings import Surroundings, surroundings

Check: TypeAlias = Callable[[World, Mapping[str, str]], Iterable[Line]]


def run(checks: Mapping[str, Check], world: World, environ: Mapping[str, str]) -> list[Line]:
    """Every check's lines; a check that cannot read the machine says why."""
    lines: list[Line] = []
    around = around_of(world)
    for topic, check in checks.items():
        try:
            lines += check(world, environ)
        except DeviceError as error:
            lines.append(Line(topic, WARN, error.message, error.hint))
    if around is None:
        return lines
    return [
        replace(line, advice="") if around.leads_nowhere(line.advice) else line
        for line in lines
        if line.state != MISSING or not around.leads_nowhere(line.advice)
    ]


def around_of(world: World) -> Surroundings | None:
    """The machine's surroundings; None also where /proc cannot be read as expected."""
    try:
        return surroundings(world)
    except DeviceError:
        return None

"""What could be opened on this machine, and for everything else why not and what to do.

`python -m drivers.probe` prints the table, `--json` the same for programs. Nothing is claimed or
changed. Libraries of vendors are asked, and a kernel is tried on their devices, in a child.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from drivers.base.errors import DeviceError
from drivers.machine.checks import Machine as Machine
from drivers.machine.checks import Result as Result
from drivers.machine.surroundings import Surroundings, surroundings

Check: TypeAlias = Callable[[Machine], Result]


def run(checks: Mapping[tuple[str, str], Check], machine: Machine) -> list[Result]:
    """Every check's result; one that cannot read the machine says why, the others go on."""
    around = around_of(machine)
    results = []
    for (kind, iface), check in checks.items():
        try:
            result = check(machine)
        except DeviceError as error:
            advice = error.hint or "see python -m drivers.doctor"
            result = Result(kind, iface, False, error.message, advice)
        if around is not None and around.leads_nowhere(result.advice):
            result = replace(result, advice=f"this is {around.name}: see the first line")
        results.append(result)
    return results


def around_of(machine: Machine) -> Surroundings | None:
    """The machine's surroundings; None also where /proc cannot be read as expected."""
    try:
        return surroundings(machine.world)
    except DeviceError:
        return None

"""What could be opened on this machine, and for everything else why not and what to do.

`python -m drivers.probe` prints the table, `--json` the same for programs. Nothing is claimed or
changed. Libraries of vendors are asked, and a kernel is tried on their devices, in a child.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from drivers.base.errors import DeviceError
from drivers.machine.checks import Machine as Machine
from drivers.machine.checks import Result as Result

Check: TypeAlias = Callable[[Machine], Result]


def run(checks: Mapping[tuple[str, str], Check], machine: Machine) -> list[Result]:
    """Every check's result; one that cannot read the machine says why, the others go on."""
    results = []
    for (kind, iface), check in checks.items():
        try:
            result = check(machine)
        except DeviceError as error:
            advice = error.hint or "see python -m drivers.doctor"
            result = Result(kind, iface, False, error.message, advice)
        results.append(result)
    return results

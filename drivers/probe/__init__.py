"""What could be opened on this machine, and for everything else why not and what to do.

`python -m drivers.probe` prints the table, `--json` the same for programs. Nothing is opened,
claimed or changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from drivers.base.errors import DeviceError
from drivers.machine.checks import Finding as Finding
from drivers.machine.checks import Machine as Machine

Check: TypeAlias = Callable[[Machine], Finding]


def run(checks: Mapping[tuple[str, str], Check], machine: Machine) -> list[Finding]:
    """Every check's finding; one that cannot read the machine says why, the others go on."""
    findings = []
    for (kind, iface), check in checks.items():
        try:
            finding = check(machine)
        except DeviceError as error:
            advice = error.hint or "see python -m drivers.doctor"
            finding = Finding(kind, iface, False, error.message, advice)
        findings.append(finding)
    return findings

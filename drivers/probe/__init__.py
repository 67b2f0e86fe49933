"""What could be opened on this machine, and for everything else why not and what to do.

`python -m drivers.probe` prints the table, `--json` the same for programs. Nothing is opened,
claimed or changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.machine.buses import PciGpu, UsbDevice, pci_gpus, render_nodes, usb_devices

Packages: TypeAlias = Callable[[str], str | None]
"""Version of an installed Python package, None when it is not installed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One way to reach one kind of device."""

    kind: str
    iface: str
    ready: bool
    """The machine has all that is needed; `usable` also asks for a written driver."""
    reason: str
    """What was found, or exactly what is missing."""
    advice: str = ""
    """What to do about it."""
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Machine:
    """What the checks read. A property raises MalformedInput when sysfs is not as expected."""

    world: World
    environ: Mapping[str, str]
    packages: Packages

    @property
    def gpus(self) -> list[PciGpu]:
        """GPUs on PCI."""
        return pci_gpus(self.world)

    @property
    def usb(self) -> list[UsbDevice]:
        """Devices on USB."""
        return usb_devices(self.world)

    @property
    def nodes(self) -> dict[str, str]:
        """/dev/dri/renderD* and the kernel driver behind each."""
        return render_nodes(self.world)


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

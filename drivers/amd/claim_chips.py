"""AMD's GPUs that may be claimed over PCI, and a dry run of claiming them.

Only chips with a `Bare` record may be claimed: any other keeps its kernel driver.
"""

from __future__ import annotations

from drivers.amd.chips import chip_of_device
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.claim.claim import plan
from drivers.claim.report import plan_lines
from drivers.machine.buses import AMD
from drivers.pci.functions import PciFunction, gpus


def known(function: PciFunction) -> bool:
    """Whether the function is a chip that can be booted."""
    return function.vendor == AMD and chip_of_device(function.device) is not None


def dry_run(world: World) -> str:
    """Dry run of claiming each AMD GPU of this machine."""
    found = [function for function in gpus(world) if function.vendor == AMD]
    if not found:
        return "no AMD GPU is on PCI: there is nothing to claim"
    lines: list[str] = []
    for function in found:
        try:
            lines += plan_lines(plan(world, function.address, known))
        except DeviceError as error:
            lines.append(f"{function}: {error}")
    return "\n".join([*lines, "This was a dry run: nothing was changed."])

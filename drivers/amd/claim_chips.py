"""AMD's GPUs that may be claimed over PCI, and a dry run of claiming them.

Only chips that the boot code is written for may ever be here: any other keeps its kernel driver.
"""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.claim.claim import plan
from drivers.claim.report import plan_lines
from drivers.machine.buses import AMD
from drivers.pci.functions import PciFunction, gpus

CHIPS: Final = {
    0x744C: "gfx1100", 0x747E: "gfx1101", 0x7480: "gfx1102", 0x7550: "gfx1201", 0x7551: "gfx1201",
    0x7590: "gfx1200", 0x74A1: "gfx942",
}  # fmt: skip
"""PCI device id to chip. src: pci-ids.ucw.cz, vendor 1002: Navi 31, 32, 33, 48, 48, 44, MI300X."""


def known(function: PciFunction) -> bool:
    """Whether the function is one of the chips above."""
    return function.vendor == AMD and function.device in CHIPS


def dry_run(world: World) -> str:
    """What claiming each AMD GPU of this machine would do; nothing is done."""
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

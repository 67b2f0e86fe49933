"""AMD's GPUs as the survey of bare GPUs knows them."""

from __future__ import annotations

from typing import Final

from drivers.amd.chips import MANIFEST, chip_of_device
from drivers.amd.claim_chips import known
from drivers.amd.pci.boot import BAR_VRAM
from drivers.bare import survey
from drivers.bare.reach import Needs
from drivers.bare.survey import Booted, Candidate
from drivers.base.contracts import World
from drivers.choice import Choice
from drivers.machine.buses import AMD
from drivers.pci.functions import PciFunction

NEEDS: Final = Needs(BAR_VRAM, huge_pages=7)
"""# measured: on boards (gfx1100, gfx942), 4 huge pages with a PM4 queue, 7 with an AQL queue"""
NONE: Final = f"no AMD GPU is on PCI: see `lspci -d {AMD:04x}:`"


def _chip_of(function: PciFunction) -> str:
    chip = chip_of_device(function.device)
    return chip.name if chip else ""


GPUS: Final = Booted("AMD", AMD, known, _chip_of, MANIFEST, NEEDS)


def candidates(world: World, choice: Choice) -> list[Candidate]:
    """Every AMD GPU on PCI. Raises: MalformedInput where the bus cannot be read."""
    return survey.candidates(world, choice, GPUS)

"""A machine with AMD GPUs, as a `Setup` asks for it."""

from __future__ import annotations

from dataclasses import replace

from boards.amd.cp.engines import Engines
from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Checks, Options, open_board
from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.amd.usb_machine import open_usb_board
from boards.amd.wave.types import LENIENT
from boards.machine.pci.world import PciWorld
from boards.setup import OVER_PCI, OVER_USB, Setup

_CARD_BYTES = 1 << 30


def power_on(setup: Setup) -> BoardWorld | PciWorld:
    """The machine, and a process in front of it. Raises: ValueError for an unknown chip."""
    made = Options() if setup.strict else lenient()
    options = replace(made, late=setup.late, kernel=setup.kernel)
    if setup.iface == OVER_USB:
        return open_usb_board(
            setup.chip, gpus=setup.gpus, vram_bytes=setup.vram_bytes or _CARD_BYTES,
            strictness=options,
        )  # fmt: skip
    if setup.iface != OVER_PCI:
        return open_board(setup.chip, gpus=setup.gpus, vram_bytes=setup.vram_bytes, options=options)
    machine = MachineOptions(
        gpus=setup.gpus,
        vram_bytes=setup.vram_bytes or _CARD_BYTES,
        iommu=setup.dma.upper() in ("", "IOMMU"),
        strictness=options,
    )
    return open_pci_board(setup.chip, options=machine)


def lenient() -> Options:
    """A board that only refuses what silicon refuses."""
    return Options(
        checks=Checks(poison=False, coherence=False),
        engines=lambda host: Engines(host, LENIENT),
    )

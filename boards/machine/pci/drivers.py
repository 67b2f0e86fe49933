"""The kernel drivers of a made-up machine, and what each does to a function it gets or loses.

src: Linux 6.12 drivers/vfio/pci/vfio_pci.c; a GPU's own driver as amdgpu_drv.c has it
(amdgpu_pci_probe, amdgpu_pci_remove)
"""

from __future__ import annotations

from boards.machine.pci.kernel import VFIO, Driver
from boards.machine.pci.slot import Slot

_OTHERS = ("pcieport", "snd_hda_intel", "pci-stub")


def _probe(slot: Slot) -> None:
    """It resets a GPU that somebody used before, and boots it: firmware is alive afterwards."""
    slot.enable()
    slot.set_master(on=True)
    slot.boot()


def _remove(slot: Slot) -> None:
    """It stops its engines; the GPU's firmware goes on, and bus mastering is off."""
    slot.disable()


def drivers(native: str) -> dict[str, Driver]:
    """By name; `native` is the one that the vendor's GPUs are made for."""
    made = [Driver(native, _probe, _remove, renders=True), Driver(VFIO, everything=True)]
    made += [Driver(name, everything=name == "pci-stub") for name in _OTHERS]
    return {driver.name: driver for driver in made}

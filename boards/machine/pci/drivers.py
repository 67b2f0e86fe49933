"""The kernel drivers of a made-up machine, and what each does to a function it gets or loses.

src: Linux 6.12 amdgpu_drv.c (amdgpu_pci_probe, amdgpu_pci_remove), drivers/vfio/pci/vfio_pci.c
"""

from __future__ import annotations

from boards.machine.pci.kernel import AMDGPU, VFIO, Driver, Kernel
from boards.machine.pci.slot import Slot

_OTHERS = ("pcieport", "snd_hda_intel", "pci-stub")


def _amdgpu_probe(slot: Slot) -> None:
    """It resets a GPU that somebody used before, and boots it: firmware is alive afterwards."""
    slot.enable()
    slot.set_master(on=True)
    slot.boot()


def _amdgpu_remove(slot: Slot) -> None:
    """It stops its engines; the security processor goes on, and bus mastering is off."""
    slot.disable()


def drivers(kernel: Kernel) -> dict[str, Driver]:
    """By name."""
    made = [Driver(AMDGPU, _amdgpu_probe, _amdgpu_remove), Driver(VFIO, everything=True)]
    made += [Driver(name, everything=name == "pci-stub") for name in _OTHERS]
    return {driver.name: driver for driver in made}

"""What files say of an NVIDIA GPU besides its place: UUID, firmware, its link on PCI.

# src: open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c (information); Linux
# Documentation/ABI/testing/sysfs-bus-pci (current_link_speed, current_link_width)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drivers.base.contracts import World
from drivers.machine.sysfs_files import SysfsFiles

_PCI: Final = "/sys/bus/pci/devices"
SHOWN: Final = {
    "GPU UUID": "uuid", "Video BIOS": "vbios", "GPU Firmware": "firmware", "IRQ": "irq",
    "Bus Type": "bus",
}  # fmt: skip
"""What `information` says besides model, place and minor -> its name here."""


def named(information: Mapping[str, str]) -> dict[str, str]:
    """Facts of a GPU's `information` that its kernel driver knows ("N/A" and "?" it does not)."""
    found = {name: information.get(key, "") for key, name in SHOWN.items()}
    return {name: text for name, text in found.items() if text and "?" not in text}


def link(world: World, address: str) -> str:
    """The link that a GPU has on PCI now, in words; "" where sysfs does not say."""
    files = SysfsFiles(world, f"{_PCI}/{address.lower()}")
    speed, width = files.text("current_link_speed"), files.text("current_link_width")
    return f"{speed} x{width}" if speed and width.isdigit() and width != "0" else ""

"""Enclosures with an ASM2464PD that are connected by USB4 or Thunderbolt, by what sysfs says.

There the bridge is a tunnel for PCI Express: its GPU is a function on PCI like any other, and the
bridge is no device on USB.
# src: Linux Documentation/ABI/testing/sysfs-bus-thunderbolt (vendor, device, device_name,
# authorized); github.com/ublue-os/bazzite issue 3786 and github.com/t2linux/T2-Ubuntu issue 107
# (0xb8:0x2463 "ASMedia 246x"); github.com/tinygrad/tinygrad issue 18084 (USB4, on no USB bus)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.machine.text import entries, first_line, hex_number

ROOT: Final = "/sys/bus/thunderbolt/devices"
IDS: Final = frozenset(
    (vendor, device) for vendor in (0xB8, 0x174C) for device in (0x2461, 0x2463, 0x2464)
)
"""(vendor, device) of the bridge's USB4 router: Thunderbolt's number for ASMedia, and USB's."""
_NAME: Final = "246x"
_WAIT: Final = "it waits to be authorized: `boltctl enroll` it, and its GPU comes to PCI"
_THERE: Final = "its GPU is on PCI, where its kernel driver or AMD_IFACE=PCI has it"
_USB3: Final = "AMD_IFACE=USB needs a USB 3 port or cable"


@dataclass(frozen=True, slots=True)
class Usb4Enclosure:
    """One bridge behind a USB4 port."""

    address: str
    """"1-2", as sysfs names it."""
    name: str
    authorized: bool
    """Whether PCI Express is tunnelled to it."""

    @property
    def reason(self) -> str:
        """Why it is not on USB."""
        return "connected by USB4: its GPU is a PCI device, and the bridge is none on USB"

    @property
    def advice(self) -> str:
        """How its GPU is used."""
        return f"{_THERE if self.authorized else _WAIT}; {_USB3}"

    def __str__(self) -> str:
        return f"{self.name!r} at thunderbolt {self.address}"


def usb4_enclosures(world: World) -> list[Usb4Enclosure]:
    """All of them; a device that cannot be read is none, and hides no other."""
    found = []
    for address in sorted(entries(world, ROOT)):
        folder = f"{ROOT}/{address}"
        name = _text(world, f"{folder}/device_name")
        if _is_bridge(world, folder) or name == _NAME:
            shown = f"{_text(world, f'{folder}/vendor_name')} {name}".strip() or "ASM2464PD"
            waits = _text(world, f"{folder}/authorized") == "0"
            found.append(Usb4Enclosure(address, shown, not waits))
    return found


def _is_bridge(world: World, folder: str) -> bool:
    try:
        ids = hex_number(world, f"{folder}/vendor", 16), hex_number(world, f"{folder}/device", 16)
    except DeviceError:  # a domain, a retimer, or unplugged just now
        return False
    return ids in IDS


def _text(world: World, path: str) -> str:
    """A line of text; "" where it cannot be read."""
    try:
        return first_line(world, path)
    except DeviceError:
        return ""

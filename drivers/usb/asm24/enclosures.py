"""Enclosures with an ASM2464PD on this machine's USB, by what sysfs says. Nothing is opened.

Which firmware it runs follows from ids and the product's name. Nothing is flashed here.
# src: github.com/tinygrad/asm2464pd-firmware at c5e2090: handmade/src/usb.h (ids, names),
# flash.py and USBGPU.md (ids of the maker's firmware); 2065:2463 is an ADT-UT3G as it is sold,
# add1:0002 one with a firmware that knows USB 3 and USB4: three public programs that look for
# such enclosures list them (usb-replug.sh and chestnut-fw.sh, which name all ids of a dock, and
# an adapter of openpilot for the UT3G)
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput
from drivers.machine.buses import USB_BRIDGES, USB_ROOT, usb_devices
from drivers.machine.text import first_line, read_text

STOCK: Final = frozenset({(0x174C, 0x2461), (0x174C, 0x2463), (0x174C, 0x2464), (0x2065, 0x2463)})
"""The maker's firmware: a disk enclosure, or USB4. A maker may put its own vendor id."""
DUAL: Final = frozenset({(0xADD1, 0x0002)})
"""Firmware with a mode for USB4; its packets have not been read."""
_OURS: Final = "custom"
"""How the product's name begins where the firmware sends packets for the host."""
_PATCHED: Final = "AS246"
"""ASMedia's name, under other ids: their firmware with a patch that opens its memory alone."""
_FLASH: Final = (
    "to use it, flash the firmware of github.com/tinygrad/asm2464pd-firmware yourself "
    "(`make -C handmade flash`): this replaces the enclosure's own, and is not done from here"
)
_NUMBER: Final = re.compile(r"[0-9]{1,4}\n?")
_SPEED: Final = re.compile(r"[0-9]{1,6}")
"""Others are 1.5 Mb/s."""


class Firmware(StrEnum):
    """What answers."""

    PACKETS = "firmware that sends PCI Express packets"
    STOCK = "the maker's firmware"
    PATCHED = "the maker's firmware with a patch"
    DUAL = "a firmware for USB 3 and USB4 that is not known here"
    UNKNOWN = "an unknown firmware"


@dataclass(frozen=True, slots=True)
class Enclosure:
    """One bridge."""

    address: str
    """"2-1", as sysfs names it."""
    bus: int
    number: int
    """As `World.usb` takes them; both 0 where sysfs does not say."""
    product: str
    serial: str
    """"" where it says none; a lock is by this, else by `address`."""
    mbit_s: int
    """Of the cable: 480, 5000, 10000, 20000; 0 where sysfs does not say."""
    firmware: Firmware
    reason: str
    """Why it cannot be used, with what to do; both "" where it can."""
    advice: str

    @property
    def usable(self) -> bool:
        return not self.reason

    @property
    def identity(self) -> str:
        """What its lock is named by."""
        return self.serial or self.address

    def __str__(self) -> str:
        name = f"{self.product!r} at {self.address}"
        speed = f", {self.mbit_s / 1000:g} Gb/s" if self.mbit_s else ""
        return f"{name}{speed}, serial {self.serial or 'not given'}"


def enclosures(world: World) -> list[Enclosure]:
    """All of them, in the order of their addresses; one that cannot be read says so itself."""
    found = []
    for device in sorted(usb_devices(world), key=lambda one: one.address):
        ids = (device.vendor, device.product)
        if ids in USB_BRIDGES | STOCK | DUAL:
            found.append(_inspected(world, device.address, ids))
    return found


def _inspected(world: World, address: str, ids: tuple[int, int]) -> Enclosure:
    folder = f"{USB_ROOT}/{address}"
    product, serial = first_line(world, f"{folder}/product"), first_line(world, f"{folder}/serial")
    speed = first_line(world, f"{folder}/speed")
    mbit_s = int(speed) if _SPEED.fullmatch(speed) else 0
    firmware = _firmware(product, ids)
    bus = number = 0
    try:
        bus, number = _number(world, f"{folder}/busnum"), _number(world, f"{folder}/devnum")
    except DeviceError as error:
        reason, advice = error.message, error.hint or "unplug it and plug it in again"
    else:
        reason, advice = _obstacle(world, firmware, product, bus, number)
    return Enclosure(address, bus, number, product, serial, mbit_s, firmware, reason, advice)


def _number(world: World, path: str) -> int:
    text = read_text(world, path)
    if not _NUMBER.fullmatch(text):
        raise MalformedInput(f"{path}: {text[:20]!r} is not a number of a USB device")
    return int(text)


def _firmware(product: str, ids: tuple[int, int]) -> Firmware:
    if ids in STOCK:
        return Firmware.STOCK
    if ids in DUAL:
        return Firmware.DUAL
    if product.startswith(_OURS):
        return Firmware.PACKETS
    return Firmware.PATCHED if product.startswith(_PATCHED) else Firmware.UNKNOWN


def _obstacle(
    world: World, firmware: Firmware, product: str, bus: int, number: int
) -> tuple[str, str]:
    """Why it cannot be used, and what to do."""
    if firmware is not Firmware.PACKETS:
        return f"it runs {firmware} ({product!r}), which sends no packets", _FLASH
    node = f"/dev/bus/usb/{bus:03}/{number:03}"
    if not world.exists(node):
        return f"{node} does not exist", "unplug it and plug it in again"
    if not world.access(node, os.R_OK | os.W_OK):
        advice = "add a udev rule that gives its node to a group of yours, then plug it in again"
        return f"{node} may not be opened by this user", advice
    return "", ""

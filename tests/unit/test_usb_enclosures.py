"""Enclosures on USB, as sysfs shows them: which firmware, whether this user may open it."""

from __future__ import annotations

import pytest

from drivers.base.errors import MalformedInput
from drivers.usb.asm24.enclosures import Enclosure, Firmware, enclosures
from tests.fake_machine import FakeMachine, enclosure
from tests.support import check

NODE = "/dev/bus/usb/002/007"


def only(files: dict[str, bytes | str], denied: tuple[str, ...] = ()) -> Enclosure:
    """The one enclosure of a machine."""
    (found,) = enclosures(FakeMachine(files, denied))
    return found


def test_one_that_sends_packets() -> None:
    found = only(enclosure("add1:0001", "custom v0.1"))
    check(found.usable and found.firmware is Firmware.PACKETS, f"{found}")
    check((found.bus, found.number, found.mbit_s) == (2, 7, 10_000))
    check(found.identity == "c0ffee01")
    check(only(enclosure("3801:0001", "custom v0.2", serial="")).identity == "2-1")


@pytest.mark.parametrize(
    ("ids", "product", "firmware"),
    [
        ("174c:2464", "ASM246X", Firmware.STOCK), ("174c:2463", "ASM2463", Firmware.STOCK),
        ("174c:2464", "custom v0.1", Firmware.STOCK), ("add1:0001", "AS2462", Firmware.PATCHED),
        ("add1:0001", "", Firmware.UNKNOWN), ("3801:0001", "disk", Firmware.UNKNOWN),
    ],
)  # fmt: skip
def test_other_firmware_is_told_with_the_next_step(
    ids: str, product: str, firmware: Firmware
) -> None:
    found = only(enclosure(ids, product))
    check(not found.usable and found.firmware is firmware, f"{found.firmware}")
    check(repr(product) in found.reason and "make -C handmade flash" in found.advice)


def test_rights_and_nodes() -> None:
    files = enclosure("add1:0001", "custom v0.1")
    found = only(files, denied=(NODE,))
    check(NODE in found.reason and "udev rule" in found.advice, found.reason)
    del files[NODE]
    check(f"{NODE} does not exist" in only(files).reason)


def test_other_devices_and_their_order() -> None:
    files = {
        **enclosure("add1:0001", "custom v0.1", address="4-2"),
        **enclosure("add1:0001", "custom v0.1", address="4-1"),
        **enclosure("046d:c52b", "a mouse", address="1-1"),
    }
    check([one.address for one in enclosures(FakeMachine(files))] == ["4-1", "4-2"])
    check(enclosures(FakeMachine({})) == [])


@pytest.mark.parametrize("text", [b"", b"x\n", b"-1\n", b"99999999999\n", b"\xff\xff"])
def test_a_number_that_is_none(text: bytes) -> None:
    files = enclosure("add1:0001", "custom v0.1")
    files["/sys/bus/usb/devices/2-1/devnum"] = text
    with pytest.raises(MalformedInput, match="devnum"):
        enclosures(FakeMachine(files))


@pytest.mark.parametrize("text", [b"1.5\n", b"", b"fast\n"])
def test_a_speed_that_is_not_shown(text: bytes) -> None:
    files = enclosure("add1:0001", "custom v0.1")
    files["/sys/bus/usb/devices/2-1/speed"] = text
    found = only(files)
    check(found.mbit_s == 0 and "Gb/s" not in str(found))

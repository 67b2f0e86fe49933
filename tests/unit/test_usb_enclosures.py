"""Enclosures on USB, as sysfs shows them: which firmware, whether this user may open it."""

from __future__ import annotations

import pytest

from drivers.amd import checks, probe
from drivers.doctor.checks import gpus, usb
from drivers.machine.checks import Machine
from drivers.usb.asm24.enclosures import Enclosure, Firmware, enclosures
from drivers.usb.asm24.usb4 import usb4_enclosures
from tests.fake_machine import X86, FakeMachine, enclosure, pci
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
        ("2065:2463", "UT3G", Firmware.STOCK), ("add1:0002", "5d1c0ffe-UT3G-DUAL", Firmware.DUAL),
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
    """It says so itself, and the one beside it stays."""
    files = enclosure("add1:0001", "custom v0.1")
    files["/sys/bus/usb/devices/2-1/devnum"] = text
    files |= enclosure("add1:0001", "custom v0.1", address="2-2")
    bad, good = enclosures(FakeMachine(files))
    check("devnum" in bad.reason and bad.advice and good.usable, f"{bad} {good}")


def test_an_id_that_cannot_be_read_hides_no_other() -> None:
    files = enclosure("add1:0001", "custom v0.1")
    files["/sys/bus/usb/devices/1-9/idVendor"] = b"banana\n"
    check([one.address for one in enclosures(FakeMachine(files))] == ["2-1"])
    rows = [row for row in usb(FakeMachine(files), {}) if "1-9" in row.text]
    check(len(rows) == 1 and "idVendor" in rows[0].text and rows[0].advice, f"{rows}")


def tunnel(**change: bytes) -> dict[str, bytes | str]:
    """An ADT-UT3G in USB4 mode, as dmesg of bazzite issue 3786 shows it."""
    folder = "/sys/bus/thunderbolt/devices/1-2"
    files = {
        "vendor": b"0xb8\n", "device": b"0x2463\n", "vendor_name": b"ASMedia\n",
        "device_name": b"246x\n", "authorized": b"1\n",
    } | change  # fmt: skip
    return {f"{folder}/{name}": data for name, data in files.items()}


@pytest.mark.parametrize(
    ("change", "advice"),
    [({}, "its GPU is on PCI"), ({"authorized": b"0\n"}, "boltctl enroll"),
     ({"device": b"0x2464\n"}, "USB 3"), ({"vendor": b"0x174c\n"}, "USB 3"),
     ({"vendor": b"banana\n"}, "USB 3"), ({"device_name": b"UT3G\n"}, "USB 3")],
)  # fmt: skip
def test_one_that_is_connected_by_usb4(change: dict[str, bytes], advice: str) -> None:
    world = FakeMachine(X86 | tunnel(**change))
    (row,) = usb(world, {})
    check("connected by USB4" in row.text and advice in row.advice, f"{row}")
    result = checks.usb(Machine(world, {}, lambda name: None))
    check("connected by USB4" in result.reason and advice in result.advice, f"{result}")
    shown, status = probe.probe(["--iface", "USB"], world, {})
    check("connected by USB4" in shown and status == 0, shown)


def test_a_gpu_behind_a_port_is_one_on_pci() -> None:
    """src: Linux Documentation/ABI/testing/sysfs-devices-removable: removable, fixed, unknown."""
    card = pci("0000:06:00.0", "1002:744c", driver="amdgpu")
    for text, said in ((b"removable\n", True), (b"fixed\n", False), (b"unknown\n", False)):
        files = X86 | card | {"/sys/bus/pci/devices/0000:06:00.0/removable": text}
        rows = [row.text for row in gpus(FakeMachine(files), {})]
        check(("in an enclosure on USB4" in rows[0]) == said, f"{rows}")


def test_other_devices_on_thunderbolt_are_none() -> None:
    other = tunnel(vendor=b"0x8086\n", device_name=b"Dock\n")
    check(usb4_enclosures(FakeMachine(other)) == [])


@pytest.mark.parametrize("text", [b"1.5\n", b"", b"fast\n"])
def test_a_speed_that_is_not_shown(text: bytes) -> None:
    files = enclosure("add1:0001", "custom v0.1")
    files["/sys/bus/usb/devices/2-1/speed"] = text
    found = only(files)
    check(found.mbit_s == 0 and "Gb/s" not in str(found))

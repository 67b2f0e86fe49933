"""What the probe says of enclosures on USB: ready or why not; --smoke counts round trips."""

from __future__ import annotations

import json
import re

from boards.amd.pci.firmware_set import MANIFEST
from boards.machine.file_tree import File
from drivers.amd.probe import probe
from tests.boards.usb_rig import UsbRig
from tests.support import check

ENVIRON = {"UNBOUND_FIRMWARE_MANIFEST": MANIFEST, "PATH": "/usr/bin"}


def look(rig: UsbRig, *arguments: str) -> tuple[str, int]:
    world, state = rig.process()
    return probe(["--iface", "USB", *arguments], world, ENVIRON, state)


def test_ready_or_not() -> None:
    rig = UsbRig()
    text, status = look(rig)
    check(status == 0 and "AMD:0" in text and "its GPU would be booted" in text, text)
    check("10 Gb/s" in text and "c0ffee01" in text and rig.cable.transfers == 0, text)
    row = json.loads(look(rig, "--json")[0])["enclosures"][0]
    check((row["name"], row["ready"], row["mbit_s"]) == ("AMD:0", True, 10_000), str(row))
    tree = rig.board.machine.tree
    tree.put("/sys/bus/usb/devices/2-1/product", b"AS2464\n")
    text, status = look(rig, "--smoke")
    check(status == 1 and "left as it is" in text and "flash" in text, text)
    check("no test was run: no enclosure can be used" in text, text)
    tree.put("/sys/bus/usb/devices/2-1/product", b"custom v0.1\n")
    tree.place("/dev/bus/usb/002/007", File(b""))  # read alone
    text, _ = look(rig)
    check("may not be opened by this user" in text and "-> add a udev rule" in text, text)


def test_no_enclosure() -> None:
    rig = UsbRig()
    rig.cable.gone = True
    rig.board.machine.tree.remove("/sys/bus/usb/devices/2-1")
    text, status = look(rig)
    check(status == 0 and text == "there is no enclosure with an ASM2464PD on USB", text)


def test_smoke_counts_round_trips() -> None:
    """As many as the cable counted."""
    rig = UsbRig()
    text, status = look(rig, "--smoke")
    check(status == 0 and " FAILED" not in text, text)
    tests = [line for line in text.splitlines() if " ok " in line]
    counts = [int(found[1]) for line in tests if (found := re.search(r"(\d+) round trips", line))]
    check(len(counts) == len(tests) > 5 and min(counts) > 0, text)
    check(counts[0] == max(counts), "opening takes the most")
    check(sum(counts) <= rig.cable.transfers, f"{sum(counts)} of {rig.cable.transfers} transfers")
    check(not rig.violations(), str(rig.violations()))
    check(not rig.cable.open, "the interface is still claimed")

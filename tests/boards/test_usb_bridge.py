"""The driver of the USB bridge in front of its board: packets, buses, BARs, boots, every mishap."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from itertools import pairwise

import pytest

from boards.usb.cable import Mishap
from drivers.amd.pci import boot
from drivers.amd.pci.ownership import Found
from drivers.base.errors import (
    BadArgument,
    DeviceError,
    DeviceGone,
    DeviceTimeout,
    MalformedInput,
    NotFound,
    Unsupported,
    UseAfterFree,
)
from drivers.usb.asm24 import completion, sram
from drivers.usb.asm24.bar_region import BarRegion
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.completion import Status
from drivers.usb.asm24.fabric import open_fabric
from drivers.usb.asm24.function import open_function
from tests.boards.usb_rig import VRAM_BYTES, WHERE, UsbRig
from tests.support import check

CHIPS = ("gfx1100", "gfx1201")
BUS = 4
"""Bridges in front of the card."""


def quiet(rig: UsbRig) -> None:
    check(not rig.violations(), "\n".join(rig.violations()))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_gpu_boots_behind_it(chip: str) -> None:
    rig = UsbRig(chip)
    firmware = rig.firmware()
    for expected in (Found.COLD, Found.WARM):
        with rig.identified() as gpu:
            before, accesses = rig.cable.trips, gpu.mmio.reads + gpu.mmio.writes
            report = boot.start(gpu, firmware)
            accesses = gpu.mmio.reads + gpu.mmio.writes - accesses
            trips = rig.cable.trips - before
            check(report.found is expected, f"{report}")
            check(trips < accesses / 2, f"{trips} round trips for {accesses} register accesses")
            boot.leave(gpu)
    quiet(rig)


def test_bars_are_enlarged_disjoint_and_within_the_windows() -> None:
    rig = UsbRig()
    bridge = rig.bridge()
    card = open_fabric(bridge)
    check((card.bus, card.vendor, card.bars[0].nbytes) == (BUS, 0x1002, VRAM_BYTES), f"{card}")
    spans = sorted((bar.address, bar.address + bar.nbytes) for bar in card.bars.values())
    check(all(low[1] <= high[0] for low, high in pairwise(spans)), f"{spans}")
    for number, bar in card.bars.items():
        config = rig.gpu.config.read(0x10 + 4 * number, 8 if bar.wide else 4)
        check(int.from_bytes(config, "little") & -16 == bar.address, f"BAR {number}")
        check(bar.address % bar.nbytes == 0, f"BAR {number} at {bar.address:#x}")
        for at, one in enumerate(rig.device.chain.bridges):
            ends = (bar.address, bar.address + bar.nbytes - 1)
            check(all(one.passes_down(end) for end in ends), f"bridge {at} stops BAR {number}")
    for at, one in enumerate(rig.device.chain.bridges):
        check((one.secondary, one.subordinate) == (at + 1, 0xFF), f"bridge {at}")
    quiet(rig)


def test_any_bytes_of_a_bar() -> None:
    seed = random.randrange(1 << 32)
    drawn = random.Random(seed)
    rig = UsbRig()
    bridge = rig.bridge()
    vram = BarRegion(bridge, open_fabric(bridge).bars[0], "VRAM")
    memory = rig.gpu.board.vram.bytes
    memory[:4096] = 0
    copy = bytearray(4096)
    for _ in range(200):
        off, data = drawn.randrange(4000), drawn.randbytes(drawn.randrange(90))
        vram.write(off, data)
        copy[off : off + len(data)] = data
        off, nbytes = drawn.randrange(4000), drawn.randrange(90)
        check(vram.read(off, nbytes) == copy[off : off + nbytes], f"seed {seed}: {off}, {nbytes}")
    vram.write32(8, 0x01020304)
    vram.write64(16, 0x1112131415161718)
    check((vram.read32(8), vram.read64(16)) == (0x01020304, 0x1112131415161718))
    copy[8:12], copy[16:24] = struct.pack("<I", 0x01020304), struct.pack("<Q", 0x1112131415161718)
    check(memory[:4096].tobytes() == copy, f"seed {seed}: what is in VRAM")
    quiet(rig)


def test_writes_wait_for_a_read_a_sleep_or_a_crowd() -> None:
    rig = UsbRig()
    bridge = rig.bridge()
    vram = BarRegion(bridge, open_fabric(bridge).bars[0], "VRAM")
    words = rig.gpu.board.vram.words
    words[:8] = 0
    releases: list[Callable[[], object]] = [
        lambda: vram.read32(0), lambda: bridge.sleep(0), bridge.flush, bridge.close,
    ]  # fmt: skip
    for number, release in enumerate(releases, 1):
        trips = rig.cable.trips
        vram.write32(0, number)
        check((rig.cable.trips, int(words[0])) == (trips, number - 1), "it was sent at once")
        release()
        check((rig.cable.trips, int(words[0])) == (trips + 1, number), f"release {number}")


def test_a_crowd_of_writes_goes_out_by_itself() -> None:
    rig = UsbRig()
    bridge = rig.bridge()
    vram = BarRegion(bridge, open_fabric(bridge).bars[0], "VRAM")
    trips = rig.cable.trips
    for at in range(1000):
        vram.write32(4 * at, at)
    check(trips < rig.cable.trips <= trips + 1000 // 16, f"{rig.cable.trips - trips} round trips")


def test_a_region_keeps_its_bounds() -> None:
    rig = UsbRig()
    bridge = rig.bridge()
    region = BarRegion(bridge, open_fabric(bridge).bars[5], "registers")
    for off, nbytes in ((region.nbytes, 1), (-1, 4), (region.nbytes - 2, 4)):
        with pytest.raises(IndexError):
            region.read(off, nbytes)
    with pytest.raises(Unsupported):
        region.view()
    region.close()
    with pytest.raises(UseAfterFree):
        region.read32(0)


@pytest.mark.parametrize("at", [0, 12])
def test_sram_both_ways(at: int) -> None:
    """`at`: where the card writes to the trigger, by the firmware's README and as tinygrad does."""
    rig = UsbRig()
    bridge = rig.bridge()
    open_fabric(bridge)
    data = random.Random(1).randbytes(3 * 512)
    bridge.write_sram(2, data)
    # the card sees it at 0x200000. src: README.md of the firmware
    pool, off = rig.device.chain.decode(0x20_0000 + 2 * (16 << 10), len(data), False) or (None, 0)
    check(pool is not None and pool.bytes[off : off + len(data)].tobytes() == data)
    bridge.arm_sram(2, len(data))
    with pytest.raises(DeviceTimeout, match="read 1536 bytes of SRAM"):
        bridge.read_sram(len(data))
    bridge.arm_sram(2, len(data))
    trigger, off = rig.device.chain.decode(0x82_2000 + at, 4, True) or (None, 0)
    check(trigger is not None, "the card cannot start it")
    if trigger is not None:
        trigger.words[off // 4] = 1
    check(bridge.read_sram(len(data)) == data)
    for slot, nbytes in ((32, 512), (0, 100), (31, (16 << 10) + 512), (-1, 512), (0, 0)):
        with pytest.raises(BadArgument):
            bridge.write_sram(slot, bytes(nbytes))
    quiet(rig)


def test_without_a_card() -> None:
    rig = UsbRig(card=False)
    world = rig.world()
    bridge = Bridge(world.usb(*WHERE, 0), world)
    bridge.power(on=True)
    with pytest.raises(DeviceTimeout, match=r"state 0x01 after 5\.0 s") as caught:
        bridge.wait_link()
    check("power supply" in str(caught.value), f"{caught.value}")
    rig = UsbRig()
    bridge = rig.bridge()
    rig.device.chain.card = None
    rig.device.link = False
    with pytest.raises((NotFound, DeviceTimeout)):
        open_fabric(bridge)


def test_a_card_that_still_starts() -> None:
    rig = UsbRig()
    bridge = rig.bridge()
    rig.device.chain.late = 5
    check(open_fabric(bridge).bus == BUS)
    rig.device.chain.late = 1 << 30
    with pytest.raises(DeviceTimeout, match="still starts"):
        open_fabric(bridge)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"\1\2\3\4\0\4\1", MalformedInput), (b"\1\2\3\4\0\4\1\1", DeviceGone),
        (b"\1\2\3\4\0\4\1\xff", DeviceTimeout), (b"\1\2\3\4\0\4\1\x07", MalformedInput),
        (b"\1\2\3\4\x60\4\1\0", MalformedInput),
    ],
)  # fmt: skip
def test_answers_of_packets_that_went_wrong(answer: bytes, error: type[DeviceError]) -> None:
    with pytest.raises(error):
        completion.parse(answer, "read")


def test_completions() -> None:
    """src: PCI Express Base Specification 4.0, table 2-37"""
    fine = completion.parse(b"\x78\x56\x34\x12\x00\x04\x01\x00", "read")
    check(completion.value(fine, "read") == 0x12345678)
    for number, error in ((1, Unsupported), (2, DeviceTimeout), (4, DeviceGone)):
        done = completion.parse(bytes([0, 0, 0, 0, number << 5, 4, 0, 0]), "read")
        check(done.status is Status(number))
        with pytest.raises(error):
            completion.value(done, "read")
    with pytest.raises(MalformedInput, match="without data"):
        completion.value(completion.parse(bytes(8), "read"), "read")


@pytest.mark.parametrize("mishap", [one for one in Mishap if one is not Mishap.KILL])
def test_any_transfer_of_a_boot_goes_wrong(mishap: Mishap) -> None:
    """Some of them, others each time; the next open works, after plugging it in again if need be"""
    every = 151
    at = random.randrange(1, every)
    told = 0
    for first in range(at, 1200, every):
        rig = UsbRig()
        firmware = rig.firmware()
        rig.cable.fail(mishap, at=first)
        try:
            with rig.identified() as gpu:
                boot.start(gpu, firmware)
                boot.leave(gpu)
        except DeviceError as error:
            told += 1
            check("2-1" in str(error), f"transfer {first} ({mishap}): {error}")
        check(len(rig.cable.failed) == 1, f"transfer {first} ({mishap}) was never made")
        if mishap is Mishap.UNPLUG:
            rig.cable.plug()
        rig.device.link = True
        with rig.identified() as gpu:
            boot.start(gpu, firmware)
            boot.leave(gpu)
    check(told >= 5, f"{told} errors from transfer {at} on")


WRONG: dict[str, Callable[[UsbRig, Bridge], object]] = {
    "config request of the wrong type": lambda rig, _: rig.device.chain.config(
        type1=True, bus=0, device=0, function=0, off=0, data=None, enables=0xF
    ),
    "write that nothing takes": lambda rig, bridge: (
        bridge.write32(0x4000_0000, 1),
        bridge.flush(),
    ),
    "stream that nothing answers": lambda rig, bridge: bridge.read(0x4000_0000, 64),
    "part of a register read": lambda rig, bridge: rig.device.chain.read(0x1000_0000, 1),
    "answer that no packet asked for": lambda rig, _: rig.device.control_in(0xC0, 0xF0, 0, 0, 8),
    "packet of an unknown kind": lambda rig, _: rig.device.control_out(
        0x40, 0xF0, 0x0F3A, 0, bytes(12)
    ),
    "byte enables that no packet has": lambda rig, _: rig.device.control_out(
        0x40, 0xF0, 0x0060, 0, bytes(12)
    ),
    "mode that the firmware does not know": lambda rig, _: rig.device.control_out(
        0x40, 0xF0, 0x0F60, 3, bytes(12)
    ),
    "stream of another kind of packet": lambda rig, _: rig.device.control_out(
        0x40, 0xF0, 0x0F20, 1, bytes(12)
    ),
    "SRAM transfer on top of others": lambda _, bridge: (
        bridge.sram.start([sram.arm(0, 1 << 17, into_host=False), sram.send(bytes(1 << 17))]),
        bridge.sram.start([sram.arm(16, 512, into_host=False)]),
        bridge.arm_sram(0, 512),
    ),
    "SRAM transfer outside its slots": lambda rig, _: rig.device.control_out(
        0x40, 0xF2, 64, 31, b""
    ),
    "XDATA read that the firmware cuts": lambda rig, _: rig.device.control_in(
        0xC0, 0xE4, 0, 0, 513
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_the_firmware_would_misread_is_a_violation(kind: str) -> None:
    rig = UsbRig()
    bridge = rig.bridge()
    open_fabric(bridge)
    quiet(rig)
    WRONG[kind](rig, bridge)
    check(bool(rig.violations()), "nothing was found")
    check(rig.violations()[0].split(":")[0] == kind, f"{rig.violations()}")


def test_two_openers() -> None:
    rig = UsbRig()
    first = rig.bridge()
    world = rig.world()
    with pytest.raises(DeviceError, match=r"another program|Device or resource busy"):
        world.usb(*WHERE, 0)
    first.close()
    open_function(Bridge(world.usb(*WHERE, 0), world)).close()

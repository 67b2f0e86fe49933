"""What the bridge's driver sends without waiting, ahead of time, or later: never a wrong value."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from boards.usb.cable import Mishap
from drivers.bare.bus import Alive, RegisterBus
from drivers.base.errors import Busy, DeviceError, MalformedInput
from drivers.base.region import MemoryRegion
from drivers.usb.asm24 import sram
from drivers.usb.asm24.bar_region import BarRegion
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.fabric import open_fabric
from tests.boards.usb_rig import WHERE, UsbRig
from tests.support import check

AT = 0x1000
"""Where in VRAM."""


class Vram:
    """VRAM through the bridge, and beside it."""

    def __init__(self) -> None:
        self.rig = UsbRig()
        self.bridge = self.rig.bridge()
        self.region = BarRegion(self.bridge, open_fabric(self.bridge).bars[0], "VRAM")
        self.bridge.flush()
        self.words = self.rig.gpu.board.vram.words[AT // 4 : AT // 4 + 8]
        self.words[:] = range(10, 18)

    def slept(self) -> None:
        """Time passes, and the card writes."""
        self.bridge.sleep(1e-3)
        self.words[0] = 99

    def trips(self, run: Callable[[], object]) -> int:
        """Round trips of something."""
        before = self.rig.cable.trips
        run()
        return self.rig.cable.trips - before


def test_expected_reads_are_one_round_trip() -> None:
    vram = Vram()
    offs = [AT, AT + 12, AT + 4]
    values: list[int] = []

    def read() -> None:
        vram.region.expect(*offs)
        values.extend(vram.region.read32(off) for off in offs)

    check(vram.trips(read) == 1)
    check(values == [10, 13, 11], f"{values}")


CHANGES: dict[str, Callable[[Vram], object]] = {
    "written": lambda vram: vram.region.write32(AT, 99),
    "written with others": lambda vram: vram.region.write(AT - 64, bytes(64) + b"\x63\0\0\0"),
    "slept": lambda vram: vram.slept(),
    "another read": lambda vram: (vram.region.read32(AT + 8), vram.words.__setitem__(0, 99)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_value_that_was_read_ahead_is_not_used_behind_a_change(change: str) -> None:
    vram = Vram()
    vram.region.expect(AT, AT + 4)
    CHANGES[change](vram)
    check(vram.region.read32(AT) == 99, f"{change}: the old value")


def test_expected_config_reads_wait_for_a_card_that_still_starts() -> None:
    rig = UsbRig()
    bridge = rig.bridge()
    card = open_fabric(bridge)
    bridge.flush()
    rig.device.chain.late = 3
    bridge.expect_config(card.bus, 0, 0x0, 0x8)
    check(bridge.read_config(card.bus, 0, 0x0) & 0xFFFF == 0x1002, "the vendor")
    check(bridge.read_config(card.bus, 0, 0x8) >> 24 == 0x03, "a display controller")


def test_what_nobody_waits_for_fails_with_the_next_call() -> None:
    vram = Vram()
    vram.rig.cable.fail(Mishap.STALL, at=2)
    vram.region.write32(AT, 1)
    vram.region.write32(AT + 4, 2)
    check(vram.trips(vram.bridge.send) == 0, "it was waited for")
    with pytest.raises(DeviceError, match=r"2-1: write 0x[0-9a-f]*1004: .*stall"):
        vram.region.read32(AT + 8)
    check((vram.words[:2] == [1, 11]).all(), f"{vram.words}")
    check(vram.region.read32(AT + 8) == 12, "the next read")


def test_a_write_that_nobody_waits_for_is_made_before_the_next_read() -> None:
    vram = Vram()
    vram.region.write32(AT, 7)
    vram.bridge.send()
    check(vram.region.read32(AT) == 7)


def test_a_short_answer_to_a_dropped_read_is_an_error() -> None:
    vram = Vram()
    vram.rig.cable.fail(Mishap.SHORT, at=2)
    vram.region.post(AT)
    with pytest.raises(MalformedInput, match="4 of 8 bytes"):
        vram.bridge.flush()


def test_others_wait_while_transfers_of_sram_overlap() -> None:
    """Writes of a signal handler are sent afterwards; what needs an answer is refused."""
    vram = Vram()
    with vram.bridge.sram.alone():
        vram.region.write32(AT, 5)
        vram.bridge.send()
        with pytest.raises(Busy, match="a copy over the cable"):
            vram.region.read32(AT)
        check(vram.words[0] == 10, "it was sent in the middle")
    check(vram.region.read32(AT) == 5)


@pytest.mark.parametrize("into_host", [False, True])
def test_after_a_failed_transfer_of_sram_there_are_no_streams(into_host: bool) -> None:
    """Its data would be taken for theirs; who opens the bridge next begins afresh."""
    vram = Vram()
    port = vram.bridge.sram
    data = sram.receive(512) if into_host else sram.send(bytes(512))

    def copy() -> None:
        with port.alone():
            port.ask([sram.arm(0, 512, into_host=into_host)])
            vram.rig.device.trigger.words[0] = 1  # as the card does
            vram.rig.cable.fail(Mishap.STALL)
            port.ask([data])

    with pytest.raises(DeviceError, match="stall"):
        copy()
    vram.region.write(AT, bytes(range(64)))
    check(vram.region.read(AT, 64) == bytes(range(64)))
    check(vram.words.tobytes() == bytes(range(32)))
    vram.bridge.close()
    world = vram.rig.world()
    again = Bridge(world.usb(*WHERE, 0), world)
    region = BarRegion(again, open_fabric(again).bars[0], "VRAM")
    check(region.read(AT, 64) == bytes(range(64)), "after another open")
    region.write(AT, bytes(range(64, 128)))
    check(region.read(AT, 64) == bytes(range(64, 128)), "after another open")
    again.close()
    check(not vram.rig.violations(), f"{vram.rig.violations()}")


def test_a_bus_that_is_not_slow_ignores_hints() -> None:
    """Over PCI the same code reads once, when it reads."""

    class Counted(MemoryRegion):
        reads: ClassVar[list[int]] = []

        def read32(self, off: int) -> int:
            self.reads.append(off)
            return off

    vram = Vram()
    region = Counted(bytearray(64))
    bus = RegisterBus(region, vram.rig.world(), Alive(0, "alive"))
    bus.expect(1, 2)
    check(region.reads == [], "a hint reads")
    check((bus.read(1), bus.read(2), region.reads) == (4, 8, [4, 8]))
    bus.post(3, "posted")
    check((region.reads, bus.reads) == ([4, 8, 12], 3), "a read that posts")


def test_a_bridge_that_is_closed_has_sent_everything() -> None:
    vram = Vram()
    vram.region.write32(AT, 3)
    vram.bridge.send()
    Bridge.close(vram.bridge)
    check(vram.words[0] == 3)

"""Transfers through libusb: a made-up library in front of the bridge's board; and the real one."""

from __future__ import annotations

import random
import struct
from importlib import util

import pytest

from boards.amd.pci.firmware_set import MANIFEST
from boards.usb.cable import Mishap
from boards.usb.libusb import MadeUpLibusb
from drivers.amd.opening import open_amd
from drivers.base import usb
from drivers.base.errors import (
    Busy,
    Denied,
    DeviceError,
    DeviceGone,
    DeviceTimeout,
    NotFound,
    OutOfMemory,
    UseAfterFree,
)
from drivers.base.usb import Transfer
from drivers.choice import choose
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.fabric import open_fabric
from drivers.world import libusb
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from drivers.world.libusb import LibUsbDevice, open_device
from drivers.world.linux import LinuxWorld
from tests.boards.usb_rig import UsbRig
from tests.support import check

WHERE = (3, 7)


class Made:
    """The rig's cable, plugged in where a made-up library finds it."""

    def __init__(self) -> None:
        self.rig = UsbRig()
        self.library = MadeUpLibusb({(1, 1): UsbRig(card=False).cable, WHERE: self.rig.cable})
        self.name = "libusb-1.0.so.0"
        self.function = self.library.function

    def open(self) -> LibUsbDevice:
        return open_device(self, *WHERE, 0)

    def ends(self) -> None:
        """Everything was given back, and nothing was done wrong."""
        check(not self.library.violations, f"{self.library.violations}")
        check(not self.library.left, f"{self.library.left} objects are left")
        check(not self.rig.cable.open, "the interface is still claimed")


def xdata(address: int) -> Transfer:
    return Transfer.ask(f"read XDATA {address:#x}", 0xC0, 0xE4, address, 0, 1)


def test_a_gpu_is_found_through_it() -> None:
    made = Made()
    device = made.open()
    check((device.product, device.serial) == ("custom v0.1", "c0ffee01"), f"{device.serial}")
    bridge = Bridge(device, made.rig.world())
    bridge.power(on=True)
    bridge.wait_link()
    card = open_fabric(bridge)
    check((card.vendor, card.bus) == (0x1002, 4), f"{card}")
    vram = card.bars[0].address
    data = random.Random(3).randbytes(1 << 12)
    bridge.write(vram, data)
    bridge.flush()
    check(made.rig.gpu.board.vram.bytes[: len(data)].tobytes() == data)
    check(bridge.read(vram, len(data)) == data)
    bridge.close()
    bridge.close()
    made.ends()


def test_long_copies_through_it() -> None:
    """Transfers that overlap: more are under way than are waited for."""
    made = Made()
    board = made.rig.board
    world = ForeignWorld(board, usb=lambda *_: made.open())
    choice = choose({"DEV": "AMD:0", "AMD_IFACE": "USB", "UNBOUND_FIRMWARE_MANIFEST": MANIFEST})
    data, back = random.Random(5).randbytes(600 << 10), bytearray(600 << 10)
    with open_amd(world, choice, state=ForeignState(board.state)) as device:
        buffer = device.alloc(len(data))
        device.copy_in(buffer, memoryview(data))
        device.copy_out(memoryview(back), buffer)
    check(back == data, "another content")
    made.ends()


def test_requests_wait_for_bulk_transfers_before_them() -> None:
    made = Made()
    device = made.open()
    bulk = Transfer.bulk_out("bulk", 2, bytes(4))
    parts = usb.parts([xdata(0), xdata(1), bulk, bulk, xdata(2), bulk])
    check([len(part) for part in parts] == [4, 2], f"{parts}")
    before = len(made.library.calls)
    device.run([xdata(0xB450)] * 5, 1.0)
    calls = made.library.calls[before:]
    first = calls.index("libusb_handle_events_timeout_completed")
    check(calls[:first].count("libusb_submit_transfer") == 5, f"{calls}")
    device.close()
    made.ends()


@pytest.mark.parametrize(
    ("mishap", "error", "text"),
    [
        (Mishap.STALL, DeviceError, "stall"), (Mishap.UNPLUG, DeviceGone, "unplugged"),
        (Mishap.TIMEOUT, DeviceTimeout, "ETIMEDOUT"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("at", [1, 2, 3])
def test_one_of_three_transfers_goes_wrong(
    mishap: Mishap, error: type[DeviceError], text: str, at: int
) -> None:
    made = Made()
    device = made.open()
    made.rig.cable.fail(mishap, at=at)
    with pytest.raises(error, match=text) as caught:
        device.run([xdata(1), xdata(2), xdata(3)], 0.05)
    check(f"read XDATA 0x{at}" in str(caught.value), f"{caught.value}")
    if mishap is not Mishap.UNPLUG:
        check(device.run([xdata(5)], 1.0) == [b"\0"], "the next transfer")
    device.close()
    made.ends()


def test_a_bulk_endpoint_that_stalled_is_cleared() -> None:
    made = Made()
    device = made.open()
    made.rig.cable.fail(Mishap.STALL)
    with pytest.raises(DeviceError, match="stall"):
        device.run([Transfer.bulk_out("data", 2, b"1234")], 1.0)
    check(made.library.calls.count("libusb_clear_halt") == 1)
    device.close()
    made.ends()


def test_a_short_answer_is_passed_on_as_it_came() -> None:
    made = Made()
    device = made.open()
    made.rig.cable.fail(Mishap.SHORT)
    ask = Transfer.ask("read XDATA", 0xC0, 0xE4, 0, 0, 8)
    check(device.run([ask], 1.0) == [bytes(4)])
    device.close()
    made.ends()


def test_transfers_that_never_end_keep_their_memory() -> None:
    made = Made()
    device = made.open()
    made.library.stuck = True
    before = len(libusb._abandoned)
    with pytest.raises(DeviceTimeout):
        device.run([xdata(1)], 0.01)
    check(len(libusb._abandoned) == before + 1)
    check("libusb_free_transfer" not in made.library.calls, "the kernel still writes to it")
    libusb._abandoned.pop()


def test_every_call_of_opening_fails_once() -> None:
    """No call's failure leaves something open."""
    good = Made()
    good.open().close()
    count = good.library.calls.index("libusb_release_interface")
    failed = 0
    for number in range(count):
        made = Made()
        made.library.fail[number] = -11
        try:
            made.open().close()
        except OutOfMemory:
            failed += 1
        check(not made.library.left, f"call {number}, {good.library.calls[number]}: leak")
    check(failed == 8, f"{failed} of {count} calls can fail")


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [(-3, Denied, "udev rule"), (-6, Busy, "busy"), (-4, DeviceGone, "unplugged")],
)
def test_why_it_cannot_be_opened(code: int, error: type[DeviceError], text: str) -> None:
    good = Made()
    good.open().close()
    made = Made()
    made.library.fail[good.library.calls.index("libusb_open")] = code
    with pytest.raises(error, match=text):
        made.open()
    made.ends()


def test_two_openers_and_a_device_that_is_not_there() -> None:
    made = Made()
    first = made.open()
    with pytest.raises(Busy, match="close the program that has it"):
        made.open()
    with pytest.raises(NotFound, match="USB device 9-9"):
        open_device(made, 9, 9, 0)
    first.close()
    with pytest.raises(UseAfterFree):
        first.run([xdata(0)], 1.0)
    made.ends()


def test_libusb_itself_where_it_is_installed() -> None:
    """It loads, starts, lists devices, and has none at an address that no device can have."""
    world = LinuxWorld()
    try:
        libusb.find_library(world.library)
    except NotFound as error:
        check("libusb" in str(error) and "pip install" in str(error), f"{error}")
        pytest.skip("libusb is not installed")
    with pytest.raises(NotFound, match="USB device 255-127 is not there"):
        world.usb(255, 127, 0)


@pytest.mark.skipif(not util.find_spec("libusb_package"), reason="no libusb-package")
def test_the_wheel_is_found() -> None:
    check(libusb._name_in_wheel().endswith(("libusb-1.0.so", "libusb-1.0.dylib")))


def test_the_struct_of_a_transfer() -> None:
    """The C compiler's layout of the fields. src: libusb 1.0.26, libusb.h"""
    from drivers.world import libusb_abi as abi

    packed = abi.transfer(1, 0x81, 2, 5, 6)
    check(len(packed) == 64)
    check(struct.unpack_from("<Q", packed) == (1,))
    check((packed[9], packed[10]) == (0x81, 2))
    check(struct.unpack_from("<i", packed, 16) == (abi.PENDING,))
    check(struct.unpack_from("<i", packed, 20) == (6,))
    check(struct.unpack_from("<Q", packed, 48) == (5,))

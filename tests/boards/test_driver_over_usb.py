"""A GPU behind a USB cable: round trips counted, transfers failing, kills, unplugging, locks."""

from __future__ import annotations

import gc
import random
import re
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as done
from functools import partial
from threading import Event

import numpy as np
import pytest

from boards.amd.pci.firmware_set import MANIFEST
from boards.machine.pci.panel import Killed
from boards.usb.cable import Mishap
from drivers.amd.device import AmdDevice
from drivers.amd.opening import open_amd
from drivers.base.errors import Busy, DeviceError, DeviceGone, NotFound, Unsupported
from drivers.choice import choose
from tests.boards.driver_harness import add, get, put
from tests.boards.usb_rig import UsbRig
from tests.share import part
from tests.support import check
from tests.sweep.offset import offset, reproduced

N = 64
CHIPS = ("gfx1100", "gfx1201")
SRAM = 512 << 10
CABLE = 700e6
"""Bytes a second. src: README.md of github.com/tinygrad/asm2464pd-firmware"""
LONG = SRAM + 100
"""Bytes of a copy in three parts, each way."""


def quiet(rig: UsbRig) -> None:
    check(not rig.violations(), "\n".join(rig.violations()))


def work(rig: UsbRig) -> None:
    """Open, copy in, launch, copy out, close: all kinds of transfers."""
    data, back = random.Random(1).randbytes(LONG), bytearray(LONG)
    with rig.opened() as device:
        buffer = device.alloc(LONG)
        device.copy_in(buffer, memoryview(data))
        device.copy_out(memoryview(back), buffer)
        check(back == data, "another content")
        ones = np.ones(N, np.float32)
        buffers = [put(device, ones), put(device, ones), device.alloc(4 * N)]
        device.launch(device.load(add("gfx1100")), [*buffers, N], 1)
        check(bool((get(device, buffers[2]) == 2).all()), "1 + 1")


def whole_life() -> int:
    """Transfers of one such life."""
    rig = UsbRig()
    work(rig)
    quiet(rig)
    return rig.cable.transfers


@pytest.fixture(scope="module")
def transfers() -> int:
    return whole_life()


def counted(rig: UsbRig, run: Callable[[], object]) -> int:
    """Round trips of something."""
    before = rig.cable.trips
    run()
    return rig.cable.trips - before


@pytest.mark.parametrize(("chip", "aql"), [(chip, aql) for chip in CHIPS for aql in "01"])
def test_round_trips(chip: str, aql: str) -> None:
    """What docs/usb.md says of them."""
    rig = UsbRig(chip)
    with rig.opened(AMD_AQL=aql) as device:
        bus = device.iface._gpu.mmio.bus
        accesses = bus.reads + bus.writes
        trips = rig.cable.trips
        check(trips <= 0.4 * accesses, f"{trips} round trips, {accesses} register accesses")
        program = device.load(add(chip))
        buffers = [put(device, np.ones(N, np.float32)) for _ in range(3)]
        device.launch(program, [*buffers, N], 1)
        device.synchronize()
        launch = counted(rig, lambda: device.launch(program, [*buffers, N], 1))
        check(launch == 1, f"a launch takes {launch} round trips")
        wait = counted(rig, device.synchronize)
        check(wait <= 3, f"waiting for it takes {wait}: one out, two in")
        check(bool((get(device, buffers[2]) == 2).all()), "1 + 1")
    quiet(rig)


@pytest.mark.parametrize(
    "nbytes",
    [1, 511, 512, 513, SRAM // 2, SRAM // 2 + 1, SRAM - 8, SRAM - 7, SRAM, SRAM + 4, 3 * SRAM],
)
def test_copies_of_any_size(nbytes: int) -> None:
    rig = UsbRig()
    data = random.Random(nbytes).randbytes(nbytes)
    with rig.opened() as device:
        buffer, back = device.alloc(nbytes), bytearray(nbytes)
        trips = counted(rig, lambda: device.copy_in(buffer, memoryview(data)))
        trips += counted(rig, lambda: device.copy_out(memoryview(back), buffer))
        check(back == data, "another content")
        check(trips <= 40 + 20 * nbytes / SRAM, f"{trips} round trips for {nbytes} bytes")
    quiet(rig)


def test_long_copies_at_the_speed_of_the_cable() -> None:
    """By the cable's clock, which charges neither the GPU nor the host's processor.

    Not the first copy of the device: that one maps the SRAM.
    """
    rig = UsbRig()
    nbytes = 16 << 20
    data, back = random.Random(3).randbytes(nbytes), bytearray(nbytes)
    with rig.opened() as device:
        buffer = device.alloc(nbytes)
        device.copy_in(buffer, memoryview(b"first"))
        for copy in (
            lambda: device.copy_in(buffer, memoryview(data)),
            lambda: device.copy_out(memoryview(back), buffer),
        ):
            before = rig.cable.now_s
            copy()
            speed = nbytes / (rig.cable.now_s - before)
            check(speed >= 0.9 * CABLE, f"{speed / 1e6:.0f} MB/s")
    check(back == data, "another content")
    quiet(rig)


@pytest.mark.parametrize("earlier", [False, True])
def test_data_that_looks_like_the_end_of_a_part(earlier: bool) -> None:
    """The engine waits for a word behind each part: data with that word does not mislead it.

    Part k of a device's long copies ends in 0x51000000 + k at the end of a sector: where a short
    part ends, data of this copy or of an `earlier` one was there before.
    """
    rig = UsbRig()
    part, ends = SRAM // 2 - 4, 1020
    first = np.arange((3 * part + 2000) // 4, dtype=np.uint32)
    second = np.arange((part + 1000) // 4, dtype=np.uint32) + 7
    if earlier:
        first[(3 * part + ends) // 4] = 0x5100_0005
    else:
        first = np.arange((2 * part + 1000) // 4, dtype=np.uint32)
        first[ends // 4] = 0x5100_0002
    with rig.opened() as device:
        for data in (first, second):
            buffer, back = device.alloc(data.nbytes), np.zeros_like(data)
            device.copy_in(buffer, memoryview(data).cast("B"))
            if data is second or not earlier:
                device.copy_out(memoryview(back).cast("B"), buffer)
                check(bool((back == data).all()), f"{np.flatnonzero(back != data)[:4]}")
    quiet(rig)


def test_a_slow_engine_is_waited_for() -> None:
    """A half of the SRAM is not filled again before the engine has emptied it."""
    rig = UsbRig()
    nbytes = 4 * SRAM
    data, back = random.Random(4).randbytes(nbytes), bytearray(nbytes)
    with rig.opened() as device:
        buffer = device.alloc(nbytes)
        device.copy_in(buffer, memoryview(bytes(nbytes)))
        rig.device.stalls = 20
        device.copy_in(buffer, memoryview(data))
        device.copy_out(memoryview(back), buffer)
    check(rig.device.stalls == 0, "it was not slow")
    check(back == data, "another content")
    quiet(rig)


@pytest.mark.parametrize("into_host", [False, True])
def test_unplugged_in_the_middle_of_a_long_copy(into_host: bool) -> None:
    rig = UsbRig()
    device = opened_by_another(rig)
    nbytes = 4 * SRAM
    buffer, host = device.alloc(nbytes), bytearray(nbytes)
    view = memoryview(host)
    copy = partial(device.copy_out, view, buffer) if into_host else partial(
        device.copy_in, buffer, view
    )  # fmt: skip
    device.copy_in(buffer, memoryview(b"first"))
    rig.cable.fail(Mishap.UNPLUG, at=30)
    started = rig.hardware.clock.skipped_ns
    with pytest.raises(DeviceGone, match="SRAM"):
        copy()
    with pytest.raises(DeviceGone, match="unplugged"):
        device.close()
    check(rig.hardware.clock.skipped_ns - started < 1e9, "it took more than a second")
    rig.cable.plug()
    work(rig)


@pytest.mark.parametrize("mishap", [one for one in Mishap if one is not Mishap.KILL])
def test_any_transfer_goes_wrong(mishap: Mishap, transfers: int) -> None:
    """The error names step, cable and transfer; plugged in if need be, it opens again."""
    every = transfers // part(10, 3)
    told = 0
    for at in range(1 + offset() % every, transfers, every):
        rig = UsbRig()
        rig.cable.fail(mishap, at=at)
        try:
            work(rig)
        except DeviceError as error:
            told += 1
            named = re.match(r".+: 2-1: .*\b(read|write|arm|turn) ", str(error))
            check(named, f"transfer {at} ({mishap}), {reproduced()}: {error}")
        check(len(rig.cable.failed) == 1, f"{at} ({mishap}) was never made, {reproduced()}")
        if mishap is Mishap.UNPLUG:
            rig.cable.plug()
        work(rig)
    check(told > 0, "no error was raised")


def test_killed_at_any_transfer(transfers: int) -> None:
    every = max(50, transfers // part(40, 4))
    for at in range(1 + offset() % every, transfers, every):
        rig = UsbRig()
        rig.cable.fail(Mishap.KILL, at=at)
        with pytest.raises(Killed):
            work(rig)
        work(rig)


def test_killed_in_a_long_copy() -> None:
    """What the cable still had under way reaches nobody: the next process's boot is whole."""
    data = memoryview(bytes(3 * SRAM))

    def copies(rig: UsbRig, kill_at: int = 0) -> int:
        """One to fill the SRAM, then another one; its transfers."""
        with rig.opened() as device:
            buffer = device.alloc(data.nbytes)
            device.copy_in(buffer, data)
            before = rig.cable.transfers
            if kill_at:
                rig.cable.fail(Mishap.KILL, at=kill_at)
            device.copy_in(buffer, data)
            return rig.cable.transfers - before

    count = copies(UsbRig())
    for at in range(1, count + 1, part(1, 5)):
        rig = UsbRig()
        with pytest.raises(Killed):
            copies(rig, at)
        copies(rig)
        quiet(rig)


def opened_by_another(rig: UsbRig) -> AmdDevice:
    """The device in another process."""
    world, state = rig.process()
    chosen = {"DEV": "AMD:0", "AMD_IFACE": "USB", "UNBOUND_FIRMWARE_MANIFEST": MANIFEST}
    return open_amd(world, choose(chosen), state=state)


def test_unplugged_at_work() -> None:
    """Every call says so, closing ends, and the next plug works."""
    rig = UsbRig()
    device = opened_by_another(rig)
    buffer = put(device, np.ones(N, np.float32))
    rig.cable.gone = True
    started = rig.hardware.clock.now_s()
    for call in (device.synchronize, lambda: get(device, buffer), device.close):
        with pytest.raises(DeviceGone, match="unplugged"):
            call()
    check(rig.hardware.clock.now_s() - started < 1, "it took more than a second")
    rig.cable.plug()
    work(rig)


def test_two_openers() -> None:
    rig = UsbRig()
    with rig.opened():
        with pytest.raises(Busy, match=r"usb-c0ffee01.*process \d+ has it") as caught:
            opened_by_another(rig)
        check(caught.value.pid is not None)
    work(rig)
    quiet(rig)


def test_what_cannot_be_opened() -> None:
    rig = UsbRig()
    rig.board.machine.tree.put("/sys/bus/usb/devices/2-1/product", b"AS2462\n")
    with pytest.raises(Unsupported, match="make -C handmade flash"):
        opened_by_another(rig)
    rig.board.machine.tree.put("/sys/bus/usb/devices/2-1/idVendor", b"046d\n")
    with pytest.raises(NotFound, match="0 enclosures"):
        opened_by_another(rig)
    check(rig.cable.transfers == 0, "something was sent")


def test_nothing_keeps_a_closed_device() -> None:
    """No handler for the exit of the process, which would keep the session and the cable."""
    rig = UsbRig()
    with rig.opened() as device:
        session = weakref.ref(device.iface._gpu.session)
    del device
    gc.collect()
    check(session() is None, "the session is still referred to")


class Gate:
    """A lock that tells who comes, and opens when it is told to."""

    def __init__(self) -> None:
        self.came, self.opened = Event(), Event()

    def __enter__(self) -> None:
        self.came.set()
        self.opened.wait()

    def __exit__(self, *_: object) -> None:
        return None


@pytest.mark.parametrize("nbytes", [64, LONG])
@pytest.mark.parametrize("out", [False, True])
def test_the_cable_is_free_while_the_copy_engine_waits_for_another_thread(
    out: bool, nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, gate = UsbRig(), Gate()
    data, back = random.Random(4).randbytes(nbytes), bytearray(nbytes)
    with rig.opened(AMD_HANG_S="0") as device, ThreadPoolExecutor(1) as pool:
        buffer, signal = device.alloc(nbytes), device.new_signal()
        device.copy_in(buffer, memoryview(data))
        with monkeypatch.context() as patch:
            patch.setattr(device.transfers.staging, "lock", gate)
            copied = (
                pool.submit(device.copy_out, memoryview(back), buffer)
                if out else pool.submit(device.copy_in, buffer, memoryview(data))
            )  # fmt: skip
            gate.came.wait()  # it is past all waits for what was submitted before
            device.copy_queue().wait(signal, 1).submit()
            gate.opened.set()
            check(not done([copied], timeout=0.1).done, "it waits for the engine")
            device.compute_queue().signal(signal, 1).submit()
            copied.result()
        device.copy_out(memoryview(back), buffer)
        check(bytes(back) == data, "other bytes")
    quiet(rig)

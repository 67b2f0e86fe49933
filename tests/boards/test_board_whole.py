"""The whole board: an ioctl-made queue, a doorbell, real engines, memory and an event."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from boards.amd.cp.engines import Engines
from boards.amd.machine import open_board
from tests.boards.board_driver import PAGE, SIGNALS, Driver, Waiting, words
from tests.support import check


def _driver(name: str) -> Driver:
    driver = Driver.__new__(Driver)
    driver.places = []
    driver.world = open_board(name, vram_bytes=64 << 20)
    driver.start()
    check(driver.world.hardware.options.engines is Engines)
    return driver


def _parts(driver: Driver):
    class Parts:
        ring, rptr, wptr = (driver.buffer(n, SIGNALS) for n in (1 << 14, PAGE, PAGE))
        sizes, save, eop = driver.world.gpus[0].sizes, ring, ring

    return Parts


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx1030", "gfx942"])
def test_a_copy_through_sdma(name) -> None:
    driver = _driver(name)
    events = Waiting(driver)
    event = events.create(0)
    parts = _parts(driver)
    source, target = driver.buffer(64 << 10), driver.buffer(64 << 10)
    signal = driver.buffer(PAGE, SIGNALS)
    words(source.region)[:] = np.arange(16384)
    _, offset = driver.create_queue(parts, 1, save=0, eop=0)
    slot = events.page.va + 8 * event
    # src: sdma_v6_0_0_pkt_open.h: COPY LINEAR 1, FENCE 5, TRAP 6; the count is one less
    stream = struct.pack("<IIIQQ", 1, (64 << 10) - 1, 0, source.va, target.va)
    fence = 5 if name == "gfx942" else 5 | 3 << 16  # mtype UC from Navi on
    stream += struct.pack("<IQI", fence, signal.va, 0x5150)
    stream += struct.pack("<IQI", fence, slot, event) + struct.pack("<II", 6, event)
    stream += bytes(-len(stream) % 32)
    parts.ring.region.write(0, stream)
    parts.wptr.region.write64(0, len(stream))
    driver.doorbells(offset).write64(offset & 0x1FFF, len(stream))
    check(signal.region.read32(0) == 0x5150, f"{driver.world.violations}")
    np.testing.assert_array_equal(words(target.region), np.arange(16384))
    check(parts.rptr.region.read64(0) == len(stream))
    check(events.wait(event)[0] == 0)
    check(not driver.world.violations, str(driver.world.violations))


def test_a_copy_from_nowhere_is_a_memory_exception() -> None:
    driver = _driver("gfx1100")
    events = Waiting(driver)
    memory = events.create(8)
    parts = _parts(driver)
    target = driver.buffer(PAGE)
    _, offset = driver.create_queue(parts, 1, save=0, eop=0)
    stream = struct.pack("<IIIQQ", 1, 63, 0, 0x7E57_0000_0000, target.va) + bytes(4)
    parts.ring.region.write(0, stream)
    parts.wptr.region.write64(0, len(stream))
    driver.doorbells(offset).write64(offset & 0x1FFF, len(stream))
    result, data = events.wait(memory)
    check(result == 0)
    check(struct.unpack_from("<IIIIQ", data[0]) == (1, 0, 0, 0, 0x7E57_0000_0000))
    driver.call("destroy_queue", 0)
    _, offset = driver.create_queue(parts, 1, save=0, eop=0)
    stream = struct.pack("<IIIQQ", 1, 63, 0, events.page.va, target.va) + bytes(4)
    parts.ring.region.write(0, stream)
    parts.wptr.region.write64(0, len(stream))
    driver.doorbells(offset).write64(offset & 0x1FFF, len(stream))
    check(target.region.read(0, 64) == events.page.region.read(0, 64))

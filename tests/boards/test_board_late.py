"""A board whose queues run late: what a driver does without waiting is seen to be wrong."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from boards.amd.machine import Options, open_board
from drivers.world.foreign import ForeignWorld
from tests.boards.board_driver import PAGE, SIGNALS, Driver, Waiting, words
from tests.boards.driver_harness import add, get, open_on, put
from tests.support import check

N = 1000


def _late(name: str = "gfx1100", gpus: int = 1) -> Driver:
    driver = Driver.__new__(Driver)
    driver.places = []
    options = Options(late=True, gtt_bytes=32 << 20)
    driver.world = open_board(name, gpus=gpus, vram_bytes=256 << 20, options=options)
    driver.start()
    return driver


def _copy_queue(driver: Driver, gpu: int = 0):
    """(queue id, a function that puts packets into its ring and rings its doorbell)."""
    parts = driver.queue_parts(gpu=gpu)
    number, offset = driver.create_queue(parts, 1, gpu=gpu)
    bells, put = driver.doorbells(offset), [0]

    def send(stream: bytes) -> None:
        parts.ring.region.write(put[0], stream)
        put[0] += len(stream)
        parts.wptr.region.write64(0, put[0])
        bells.write64(offset & 0x1FFF, put[0])

    return number, send


def _copy(source: int, target: int, nbytes: int = PAGE) -> bytes:
    """src: sdma_v6_0_0_pkt_open.h COPY_LINEAR"""
    return struct.pack("<IIIQQ", 1, nbytes - 1, 0, source, target)


@pytest.mark.parametrize("how", ["wait", "sleep", "clock"])
def test_nothing_runs_before_the_process_waits(how) -> None:
    driver = _late()
    events = Waiting(driver)
    event = events.create(0)
    source, target = driver.buffer(PAGE, SIGNALS), driver.buffer(PAGE, SIGNALS)
    words(source.region)[:] = 7
    _, send = _copy_queue(driver)
    send(_copy(source.va, target.va))
    check(target.region.read32(0) == 0)
    driver.call("get_version")
    check(target.region.read32(0) == 0, "an ioctl takes no time")
    if how == "wait":
        events.wait(event, timeout=0)
    elif how == "sleep":
        driver.world.sleep(0.001)
    else:
        driver.world.monotonic_s()
    check(target.region.read32(0) == 7)


def test_memory_that_is_unmapped_too_early_faults() -> None:
    driver = _late()
    memory = Waiting(driver)
    fault = memory.create(8)
    source, target = driver.buffer(PAGE, SIGNALS), driver.buffer(PAGE, SIGNALS)
    number, send = _copy_queue(driver)
    send(_copy(source.va, target.va))
    driver.unmap(source, 0)
    result, data = memory.wait(fault)
    check(result == 0 and struct.unpack_from("<Q", data[0], 16)[0] == source.va)
    driver.call("destroy_queue", number)
    _, send = _copy_queue(driver)
    send(_copy(target.va, target.va + 64, 64))
    driver.call("destroy_queue", 0)
    driver.world.sleep(1)  # the doorbell of a queue that is gone


def test_gpus_that_wait_for_each_other_go_on() -> None:
    """Both ways: whichever GPU is looked at first."""
    driver = _late(gpus=2)
    flags = driver.buffer(PAGE, SIGNALS, map_to=[0, 1])
    _, first = _copy_queue(driver, 0)
    _, second = _copy_queue(driver, 1)

    def poll(off: int) -> bytes:
        return struct.pack("<IQIII", 0xB0000008, flags.va + off, 1, 0xFFFFFFFF, 0x0FFF0004)

    def fence(off: int) -> bytes:
        return struct.pack("<IQI", 0x00030005, flags.va + off, 1)

    first(poll(0) + fence(64) + poll(128) + fence(192))
    second(fence(0) + poll(64) + fence(128))
    driver.world.sleep(0.001)
    check(flags.region.read32(192) == 1)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_the_driver_waits_where_it_has_to(queue) -> None:
    board = open_board("gfx1100", vram_bytes=256 << 20, options=Options(late=True))
    world = ForeignWorld(board)
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(N).astype(np.float32) for _ in range(2))
    with open_on(world, queue) as device:
        program = device.load(add("gfx1100"))
        x, y = put(device, a), put(device, b)
        expected = a
        for _ in range(20):  # buffers are given back while the kernel that reads them waits
            z = device.alloc(4 * N)
            device.launch(program, [x, y, z, N], -(-N // 64))
            x.free()
            x, expected = z, expected + b
        np.testing.assert_array_equal(get(device, x), expected)
        graph = device.compute_queue()
        for _ in range(3):
            graph.exec(program, [x, y, x, N], (-(-N // 64), 1, 1))
            expected = expected + b
        bound = graph.bind()
        bound.replay([])
        bound.close()
        device.launch(device.load(add("gfx1100")), [x, y, x, N], -(-N // 64))
        np.testing.assert_array_equal(get(device, x), expected + b)
    check(not board.violations, str(board.violations))

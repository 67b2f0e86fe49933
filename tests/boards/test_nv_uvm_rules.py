"""UVM's own rules on NVIDIA's boards: the tie to a process, orders, states, what is looked at.

Statuses are those of open-gpu-kernel-modules, kernel-open/nvidia-uvm: 535.288.01 to 595.45.04.
"""

from __future__ import annotations

import os
import struct

import pytest

from boards.nv.hardware import NvOptions
from boards.nv.machine import another_nv_process, open_nv_board
from tests.boards.nv_client import (
    CONTEXT_BYTES,
    ILLEGAL,
    INVALID_ADDRESS,
    INVALID_ARGUMENT,
    INVALID_CHANNEL,
    INVALID_CLIENT,
    INVALID_DEVICE,
    INVALID_FLAGS,
    INVALID_HANDLE,
    INVALID_OFFSET,
    INVALID_STATE,
    NOT_FOUND,
    SYSTEM,
    VASPACE,
    NvClient,
    opened,
    refuses,
    release,
)
from tests.support import check

BUSY, NOTHING_TO_DO, NOT_AVAILABLE = 0x17, 0x10006, 0x5D
INVALID_OBJECT, OTHER_DEVICE, OUT_OF_RANGE, NOT_ALLOWED = 0x31, 0x5A, 0x5B, 0x1B
"""src: nvstatuscodes.h IN_USE, WARN_NOTHING_TO_DO, PAGE_TABLE_NOT_AVAIL, INVALID_OBJECT,
OTHER_DEVICE_FOUND, OUT_OF_RANGE, INSUFFICIENT_PERMISSIONS"""
RELEASES = (535, 550, 580, 595)
UVM = "/dev/nvidia-uvm"


def initialise(client: NvClient, flags: int = 0, fd: int = 0) -> None:
    client.uvm(0x30000001, struct.pack("<QI4x", flags, 0), 8, fd)


def half_opened(driver: int = 580, flags: int = 0, **options) -> NvClient:
    """A client whose GPU is registered, whose space is not, and a second file of UVM."""
    client = NvClient(open_nv_board("ga102", options=NvOptions(driver=driver, **options)))
    client.open_objects()
    initialise(client, flags)
    client.mm_fd = client.world.open(UVM, os.O_RDWR)
    client.register_gpu()
    return client


@pytest.mark.parametrize("driver", RELEASES)
def test_a_space_is_registered_after_the_second_file(driver) -> None:
    client = half_opened(driver)
    refuses(NOT_AVAILABLE, client.register_space)
    client.mm_initialize()
    client.register_space()


@pytest.mark.parametrize(("flags", "tied"), [(0, False), (2, True), (3, True)])
def test_a_space_without_a_tie_needs_no_second_file(flags, tied) -> None:
    """Module option uvm_enable_va_space_mm=0, or MULTI_PROCESS_SHARING_MODE."""
    client = half_opened(flags=flags, va_space_mm=tied)
    client.register_space()
    refuses(NOTHING_TO_DO, client.mm_initialize)
    client.world.close(client.mm_fd)
    client.buffer(4096)


def test_what_the_second_file_may_be() -> None:
    client = half_opened()
    bare = client.world.open(UVM, os.O_RDWR)
    for wrong in (bare, client.control_fd, 99):
        refuses(INVALID_ARGUMENT, client.mm_initialize, 0, wrong)
    refuses(BUSY, client.mm_initialize, client.uvm_fd)
    client.mm_initialize()
    refuses(INVALID_STATE, client.mm_initialize, bare)
    refuses(BUSY, client.mm_initialize)
    refuses(INVALID_ARGUMENT, initialise, client, 0, client.mm_fd)
    refuses(ILLEGAL, client.uvm, 73, struct.pack("<QQI4x", 1 << 30, 4096, 0), 16, client.mm_fd)


def test_a_file_is_initialised_again_with_the_same_flags_alone() -> None:
    client = half_opened(flags=1)
    initialise(client, 1)
    refuses(INVALID_ARGUMENT, initialise, client, 0)
    bare = client.world.open(UVM, os.O_RDWR)
    refuses(INVALID_ARGUMENT, initialise, client, 4, bare)


def test_closing_the_second_file_stops_channels() -> None:
    client = opened()
    ring = client.work_ring()
    client.world.close(client.mm_fd)
    check(client.error(ring)[0] == 45, "ROBUST_CHANNEL_PREEMPTIVE_REMOVAL")
    client.submit(ring, release(ring.area.va, 1))
    check(client.kinds() == ["doorbell of a channel that was stopped"])
    third = client.world.open(UVM, os.O_RDWR)
    refuses(NOT_AVAILABLE, client.mm_initialize, third)
    ring.handle = client.ring(client.group(), register=False).handle
    refuses(INVALID_STATE, client.register, ring)
    client.uvm(38, client.uuid + bytes(4), 16)
    refuses(NOT_AVAILABLE, client.register_gpu)


def test_a_space_lives_until_its_second_file_is_closed() -> None:
    client = opened()
    ring = client.work_ring()
    ranges = client.world.baseline().ranges
    client.world.close(client.uvm_fd)
    check(ranges > 0 and client.error(ring) == (0, 0, 0))
    client.world.close(client.mm_fd)
    check(client.error(ring)[0] == 45 and client.world.baseline().fds > 0)


def test_a_graphics_channel_is_scheduled_after_uvm_has_it() -> None:
    client = opened()
    graphics, copies = client.group(), client.group(engine=10)
    ring = client.ring(graphics, register=False)
    client.ring(copies, register=False)
    refuses(INVALID_STATE, client.schedule, graphics)
    client.schedule(copies)
    client.register(ring)
    client.schedule(graphics)
    client.uvm(28, client.uuid + struct.pack("<III", client.root, ring.handle, 0), 24)
    check(client.error(ring)[0] == 45)
    refuses(INVALID_STATE, client.schedule, graphics)


def register(client: NvClient, handle: int, base: int, nbytes: int) -> None:
    data = client.uuid + struct.pack("<iII4xQQI4x", -1, client.root, handle, base, nbytes, 0)
    client.uvm(27, data, 48)


def test_a_context_is_put_where_there_is_room() -> None:
    client = opened()
    one, two = (client.ring(client.group(), register=False).handle for _ in range(2))
    copy = client.ring(client.group(engine=10), register=False).handle
    base = 1 << 38
    refuses(INVALID_ADDRESS, register, client, one, base + 1, CONTEXT_BYTES)
    refuses(OUT_OF_RANGE, register, client, one, 1 << 40, CONTEXT_BYTES)
    refuses(INVALID_HANDLE, register, client, 0x999, base, CONTEXT_BYTES)
    client.uvm(73, struct.pack("<QQI4x", base, 4096, 0), 16)
    register(client, one, base, CONTEXT_BYTES * 2)
    register(client, two, base, CONTEXT_BYTES * 2)
    refuses(INVALID_CHANNEL, register, client, two, base, CONTEXT_BYTES * 2)
    register(client, copy, 0, 0)


def test_which_address_spaces_uvm_takes() -> None:
    client = half_opened()
    client.mm_initialize()
    params = struct.pack("<IIQQQI4xQI4x", 0, 0, 0, 0, 0, 0, 0x1000, 0)
    owned = client.alloc(client.device, VASPACE, params)
    refuses(INVALID_FLAGS, client.register_space, owned)
    refuses(INVALID_OBJECT, client.register_space, client.device)
    refuses(NOT_FOUND, client.register_space, 0x999)
    refuses(INVALID_CLIENT, client.register_space, 0, 0x999)
    client.register_space()
    refuses(INVALID_DEVICE, client.register_space)
    first, client.uvm_fd = client.uvm_fd, client.world.open(UVM, os.O_RDWR)
    initialise(client)
    client.mm_initialize(client.world.open(UVM, os.O_RDWR))
    client.register_gpu()
    refuses(INVALID_STATE, client.register_space)
    client.uvm_fd = first
    other = NvClient(another_nv_process(client.world))
    other.open_objects()
    initialise(other)
    other.mm_initialize(other.world.open(UVM, os.O_RDWR))
    other.register_gpu()
    refuses(NOT_ALLOWED, other.register_space, client.vaspace, client.root)


def test_a_space_of_another_gpu_is_found_out() -> None:
    world = open_nv_board("ga102", gpus=2)
    one, two = NvClient(world), NvClient(world)
    one.open_gpu(0)
    two.open_objects(1)
    refuses(OTHER_DEVICE, _register_for, one, two)


def _register_for(one: NvClient, two: NvClient) -> None:
    one.uvm(25, one.uuid + struct.pack("<iIII", -1, two.root, two.vaspace, 0), 28)


def test_a_range_is_validated_as_a_whole() -> None:
    client = opened()
    base = 1 << 36
    client.uvm(73, struct.pack("<QQI4x", base, 0x10000, 0), 16)

    def validate(va: int, nbytes: int) -> None:
        client.uvm(72, struct.pack("<QQI4x", va, nbytes, 0), 16)

    validate(base, 0x10000)
    refuses(INVALID_ADDRESS, validate, base, 0x1000)
    refuses(INVALID_ADDRESS, validate, base + 0x1000, 0xF000)


def test_what_a_mapping_may_say() -> None:
    client = opened()
    buffer = client.buffer(0x10000, map_host=False)

    def map_(*words: int, offset: int = 0, va: int = 0) -> None:
        attributes = client.uuid + struct.pack("<IIIII", *words)
        data = struct.pack("<QQQ", va or buffer.va, 0x1000, offset) + attributes.ljust(9216, b"\0")
        data += struct.pack("<QiIII", 1, -1, client.root, buffer.handle, 0)
        client.uvm(33, data, 0x242C)

    for wrong in ((0, 3, 0, 0, 0), (0, 0, 2, 1, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0),
                  (0, 0, 1, 3, 0), (0, 0, 0, 0, 2)):  # fmt: skip
        refuses(INVALID_ARGUMENT, map_, *wrong)
    refuses(INVALID_ADDRESS, map_, 0, 0, 0, 0, 0, offset=0x800)
    refuses(INVALID_OFFSET, map_, 0, 0, 0, 0, 0, offset=0x10000)
    map_(0, 2, 1, 4, 1)
    high = 1 << 47
    client.uvm(73, struct.pack("<QQI4x", high, 0x1000, 0), 16)
    refuses(OUT_OF_RANGE, map_, 0, 0, 0, 0, 0, va=high)


def test_a_mapping_that_fails_leaves_nothing() -> None:
    client = opened()
    buffer, free = client.buffer(0x10000, map_host=False), client.world.baseline().video_bytes
    one = client.uuid + struct.pack("<5I", 1, 0, 0, 0, 0)
    other = bytes(16) + struct.pack("<5I", 1, 0, 0, 0, 0)
    data = struct.pack("<QQQ", buffer.va, 0x10000, 0) + (one + other).ljust(9216, b"\0")
    data += struct.pack("<QiIII", 2, -1, client.root, buffer.handle, 0)
    refuses(INVALID_DEVICE, client.uvm, 33, data, 0x242C)
    client.free(client.device, buffer.handle)
    check(client.world.baseline().video_bytes == free - 0x10000, "no mapping keeps the memory")


def test_535_has_room_for_32_gpus_in_a_mapping() -> None:
    client = NvClient(open_nv_board("ga102", options=NvOptions(driver=535)))
    client.open_objects()
    initialise(client)
    client.mm_initialize(client.world.open(UVM, os.O_RDWR))
    client.register_gpu()
    client.register_space()
    params = client.memory_params(0x10000, system=True)[:120]
    handle, va = client.alloc(client.device, SYSTEM, params), 1 << 36
    client.uvm(73, struct.pack("<QQI4x", va, 0x10000, 0), 16)
    attributes = client.uuid + struct.pack("<IIIII", 1, 0, 0, 0, 0)
    data = struct.pack("<QQQ", va, 0x10000, 0) + attributes.ljust(32 * 36, b"\0")

    def map_(count: int) -> None:
        client.uvm(33, data + struct.pack("<QiIII", count, -1, client.root, handle, 0), 1196)

    refuses(INVALID_ARGUMENT, map_, 33)
    map_(1)

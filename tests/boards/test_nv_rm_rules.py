"""The resource manager's own rules on NVIDIA's boards: open-gpu-kernel-modules 535 to 595."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from boards.nv.hardware import NvOptions
from boards.nv.machine import open_nv_board
from tests.boards.nv_client import (
    DEBUGGER,
    DEVICE,
    GROUP,
    IN_USE,
    INVALID_ARGUMENT,
    INVALID_CLASS,
    INVALID_CLIENT,
    INVALID_FLAGS,
    INVALID_PARENT,
    INVALID_STATE,
    NOT_FOUND,
    NOT_SUPPORTED,
    SHARE,
    SUBDEVICE,
    SYSTEM,
    VASPACE,
    VIDEO,
    NvClient,
    fails,
    opened,
    refuses,
)
from tests.reliability.test_nv_sweep import in_child
from tests.support import check

TOO_MANY, NOT_ALLOWED, INVALID_OBJECT, INVALID_OWNER, BAD_STRUCT = 0x1A, 0x1B, 0x31, 0x39, 0x3A
"""src: nvstatuscodes.h INSUFFICIENT_RESOURCES, INSUFFICIENT_PERMISSIONS, INVALID_OBJECT,
INVALID_OWNER, INVALID_PARAM_STRUCT"""
UNMAPPED = 0xFFFF
"""NV_ERR_GENERIC."""


def test_a_device_is_of_a_gpu_that_the_process_has_open() -> None:
    client = NvClient(open_nv_board("ga102", gpus=2))
    client.open_client()
    params = struct.pack("<I52x", 1)
    refuses(NOT_ALLOWED, client.alloc, client.root, DEVICE, params)
    client.gpu_file(0)
    refuses(NOT_ALLOWED, client.alloc, client.root, DEVICE, params)
    client.gpu_file(1)
    device = client.alloc(client.root, DEVICE, params)
    refuses(TOO_MANY, client.alloc, client.root, DEVICE, params)
    refuses(INVALID_CLASS, client.alloc, client.root, DEVICE, struct.pack("<I52x", 2))
    refuses(INVALID_CLASS, client.alloc, device, SUBDEVICE, struct.pack("<I", 1))
    client.alloc(device, SUBDEVICE, struct.pack("<I", 0))
    refuses(TOO_MANY, client.alloc, device, SUBDEVICE, struct.pack("<I", 0))


MEMORY = {
    # class, offset, value -> status
    "owner 0": (VIDEO, 0, 0, INVALID_OWNER),
    "owner of all ones": (SYSTEM, 0, 0xFFFF_FFFF, INVALID_OWNER),
    "video memory anywhere": (VIDEO, 24, 3 << 25, INVALID_ARGUMENT),
    "range without a flag": (VIDEO, 56, 4096, INVALID_ARGUMENT),
    "internal flags": (SYSTEM, 112, 1, INVALID_ARGUMENT),
    "large pages in pieces": (SYSTEM, 24, 3 << 23 | 1 << 25 | 1 << 27, NOT_SUPPORTED),
}


@pytest.mark.parametrize("case", MEMORY)
def test_what_memory_may_be_asked_for(case: str) -> None:
    client = opened()
    number, at, value, status = MEMORY[case]
    params = bytearray(client.memory_params(1 << 21, system=number == SYSTEM))
    struct.pack_into("<I", params, at, value)
    refuses(status, client.alloc, client.device, number, bytes(params))


def test_page_faults_are_for_spaces_that_uvm_may_have() -> None:
    client = opened()

    def space(flags: int, big: int = 0) -> int:
        params = struct.pack("<IIQQQI4xQI4x", 0, flags, 0, 0, 0, big, 0x1000, 0)
        return client.alloc(client.device, VASPACE, params)

    refuses(INVALID_ARGUMENT, space, 1 << 6)
    refuses(INVALID_ARGUMENT, space, 0, 4096)
    check(space(1 << 6 | 1 << 3) and space(0, 64 << 10))


def test_context_shares_and_channels_come_after_uvm_has_the_space() -> None:
    client = opened()
    params = struct.pack("<IIQQQI4xQI4x", 0, 1 << 3, 0, 0, 0, 0, 0x1000, 0)
    space = client.alloc(client.device, VASPACE, params)
    group = client.alloc(client.device, GROUP, struct.pack("<IIIIB3x", 0, 0, space, 1, 0))
    refuses(INVALID_STATE, client.alloc, group, SHARE, struct.pack("<III", space, 1, 0))
    area, notifier = client.buffer(1 << 20), client.buffer(4096, system=True)
    channel = client.channel_params(area, notifier, 0)
    refuses(INVALID_STATE, client.alloc, group, client.gpfifo, channel)
    refuses(INVALID_ARGUMENT, client.alloc, group, SHARE, struct.pack("<III", client.vaspace, 4, 0))


@pytest.mark.parametrize(("driver", "status"), [(590, INVALID_ARGUMENT), (595, 0)])
def test_subcontexts_may_be_low_since_595(driver: int, status: int) -> None:
    client = opened(options=NvOptions(driver=driver))
    group, params = client.group(), struct.pack("<III", client.vaspace, 3, 0)
    if status:
        refuses(status, client.alloc, group, SHARE, params)
    else:
        check(client.alloc(group, SHARE, params) > 0)


def test_what_a_channel_of_a_group_may_say() -> None:
    client = opened()
    group = client.alloc(client.device, GROUP, struct.pack("<IIIIB3x", 0, 0, client.vaspace, 1, 0))
    area, notifier = client.buffer(1 << 20), client.buffer(4096, system=True)
    share = client.alloc(group, SHARE, struct.pack("<III", client.vaspace, 1, 0))

    def channel(chosen: int = share, **words: int) -> int:
        data = bytearray(client.channel_params(area, notifier, chosen))
        for name, value in words.items():
            at = {"flags": 20, "space": 28, "engine": 128}[name]
            struct.pack_into("<I", data, at, value)
        return client.alloc(group, client.gpfifo, bytes(data))

    refuses(NOT_SUPPORTED, channel, flags=1)
    refuses(INVALID_ARGUMENT, channel, space=client.vaspace)
    refuses(INVALID_ARGUMENT, channel, engine=9)
    check(channel(engine=1) and channel())
    refuses(INVALID_ARGUMENT, channel, 0)


def test_mig_without_an_instance_gives_no_address_space() -> None:
    client = NvClient(open_nv_board("gh100", options=NvOptions(mig=True)), "gh100")
    refuses(NOT_FOUND, client.open_objects)


def test_whose_errors_a_debugger_reads() -> None:
    client = opened()
    ring = client.work_ring()

    def debugger(root: int, thing: int, old: int = 0) -> int:
        return client.alloc(client.device, DEBUGGER, struct.pack("<III", old, root, thing))

    computes = ring.objects[client.compute]
    refuses(INVALID_ARGUMENT, debugger, 0, computes, 1)
    refuses(INVALID_CLIENT, debugger, 0x999, computes)
    refuses(INVALID_PARENT, debugger, 0, 0x999)
    refuses(INVALID_OBJECT, debugger, 0, ring.objects[client.copy])
    check(debugger(0, computes) and debugger(client.root, computes))


def test_mappings_are_known_by_what_rm_called_them() -> None:
    client = opened()
    handle = client.alloc(client.device, SYSTEM, client.memory_params(8192, system=True))
    fd = client.world.open("/dev/nvidiactl", os.O_RDWR)

    def map_(flags: int = 0) -> bytes:
        data = struct.pack("<III4xQQQIIi4x", client.root, client.device, handle, 0, 4096, 0, 0,
                           flags, fd)  # fmt: skip
        out = client.ioctl(client.control_fd, 0x4E, data)
        check(struct.unpack_from("<I", out, 40)[0] == 0, str(struct.unpack_from("<I", out, 40)))
        return out

    def unmap(address: int) -> int:
        data = struct.pack("<III4xQII", client.root, client.device, handle, address, 0, 0)
        return int(struct.unpack_from("<I", client.ioctl(client.control_fd, 0x4F, data), 24)[0])

    for wrong in (3, 1 << 4):
        data = struct.pack("<III4xQQQIIi4x", client.root, client.device, handle, 0, 4096, 0, 0,
                           wrong, fd)  # fmt: skip
        out = client.ioctl(client.control_fd, 0x4E, data)
        check(struct.unpack_from("<I", out, 40)[0] == INVALID_FLAGS)
    (linear,) = struct.unpack_from("<Q", map_(), 32)
    fails(errno.ERANGE, client.world.mmap, fd, 12288)
    check(linear != 0 and unmap(0) == NOT_FOUND and unmap(linear) == 0)
    check(unmap(linear) == NOT_FOUND)


def test_a_child_maps_nothing_of_its_parents_client() -> None:
    client = opened()
    handle = client.alloc(client.device, SYSTEM, client.memory_params(4096, system=True))
    fd = client.world.open("/dev/nvidiactl", os.O_RDWR)

    check(in_child(lambda: refuses(INVALID_CLIENT, client.map_memory, handle, 4096, fd)) == 0)
    client.map_memory(handle, 4096, fd)
    refuses(IN_USE, client.map_memory, handle, 4096, fd)


def test_lists_have_the_room_that_is_said() -> None:
    client = opened()
    refuses(INVALID_ARGUMENT, client.control, client.subdevice, 0x20801303, bytes(1028))
    room = client.world.mmap(-1, 4096)
    params = struct.pack("<I4xQ", 1, room.cpu_va)
    refuses(BAD_STRUCT, client.control, client.device, 0x800201, params)


@pytest.mark.parametrize(
    ("flags", "count", "status"),
    [(0, 0, 0), (0x1C, 0, 0), (0x1D, 0, 0), (0x2F, 0, INVALID_ARGUMENT),
     (0x0C, 0, INVALID_ARGUMENT), (0x0C, 4, UNMAPPED), (0x20, 0, 0)],
)  # fmt: skip
def test_the_gpus_cache_is_flushed_as_a_whole(flags: int, count: int, status: int) -> None:
    client = opened()
    params = bytes(4000) + struct.pack("<IIQI4x", count, 0, 4096, flags)
    if status:
        refuses(status, client.control, client.subdevice, 0x2080130E, params)
    else:
        client.control(client.subdevice, 0x2080130E, params)
    check(client.kinds() == [])


@pytest.mark.parametrize(
    ("command", "nbytes", "since"), [(0x20802068, 4, 550), (0x20800513, 1432, 580)]
)
def test_controls_that_a_release_lacks(command: int, nbytes: int, since: int) -> None:
    older = {550: 535, 580: 570}[since]
    for driver, there in ((older, False), (since, True)):
        client = NvClient(open_nv_board("ga102", options=NvOptions(driver=driver)))
        client.open_objects()
        params = bytearray(nbytes)
        if nbytes > 24:
            struct.pack_into("<III", params, 0, 1, 0, 44)
        if there:
            client.control(client.subdevice, command, bytes(params))
        else:
            refuses(NOT_SUPPORTED, client.control, client.subdevice, command, bytes(params))


def test_the_token_is_in_the_second_notifier() -> None:
    client = opened("gb202")
    ring = client.ring(client.group())
    (token,) = struct.unpack("<I", client.control(ring.handle, 0xC36F0108, bytes(4)))
    found = struct.unpack("<QIHH", ring.notifier.memory.read(16, 16))
    check(found[1:] == (token, 0, 0xFFFF) and found[0] > 0, str(found))
    check(client.error(ring) == (0, 0, 0))


def test_rm_knows_gpus_whose_node_is_open() -> None:
    client = NvClient(open_nv_board("ga102", gpus=2))
    client.open_client()
    params = struct.pack("<I28x", 0x200)
    refuses(INVALID_ARGUMENT, client.control, client.root, 0x205, params)
    fd = client.gpu_file(1)
    check(struct.unpack_from("<3I", client.control(client.root, 0x205, params)) == (0x200, 0, 1))
    attached = struct.unpack("<32I", client.control(client.root, 0x201, bytes(128)))
    check(attached[:2] == (0x200, 0xFFFF_FFFF))
    client.world.close(fd)
    refuses(INVALID_ARGUMENT, client.control, client.root, 0x205, params)

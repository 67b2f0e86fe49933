"""The resource manager and UVM of NVIDIA's boards: sizes, parents, handles, errors, clean-up."""

from __future__ import annotations

import errno
import struct

import pytest

from boards.nv.hardware import NvOptions
from boards.nv.layouts import records
from boards.nv.machine import another_nv_process, open_nv_board
from tests.boards.nv_client import (
    ADDRESS_IN_USE,
    CLASSES,
    CONTEXT_BYTES,
    DEVICE,
    DUPLICATE,
    GROUP,
    ILLEGAL,
    IN_USE,
    INVALID_ADDRESS,
    INVALID_ARGUMENT,
    INVALID_CHANNEL,
    INVALID_CLASS,
    INVALID_CLIENT,
    INVALID_DEVICE,
    INVALID_FLAGS,
    INVALID_HANDLE,
    INVALID_LIMIT,
    INVALID_OFFSET,
    INVALID_PARENT,
    INVALID_STATE,
    NO_MEMORY,
    NO_UUID,
    NOT_FOUND,
    NOT_SUPPORTED,
    SHARE,
    SYSTEM,
    USER_PAGES,
    VASPACE,
    VIDEO,
    NvClient,
    escape,
    fails,
    opened,
    refuses,
    release,
)
from tests.support import check

# src: sizeof() by gcc of open-gpu-kernel-modules 595.45.04; for the other branches the notes'
# table, which was computed the same way from 550.163.01, 570.144 and 580
SIZES = {
    535: {"NVOS46": 56, "NVOS47": 40, "VASPACE": 48, "CHANNEL": 360, "NV0000_ALLOC": 108,
          "TSG_SCHEDULE": 2, "BUILD_VERSION_V2": 776, "PROBED_IDS": 256, "CLASSLIST_V2": 644,
          "UVM_FREE": 24, "ENGINES_V2": 252, "FB_INFO_V2": 436, "MEMORY": 120, "CE_ALL_CAPS": 68,
          "UTIL_SAMPLES_V2": 34000, "UVM_MAP_EXTERNAL_ALLOCATION": 1200},
    550: {"NVOS46": 56, "VASPACE": 48, "CHANNEL": 360, "NV0000_ALLOC": 108, "TSG_SCHEDULE": 2,
          "BUILD_VERSION_V2": 776, "PROBED_IDS": 256, "CLASSLIST_V2": 700, "UVM_FREE": 24,
          "ENGINES_V2": 260, "FB_INFO_V2": 444},
    570: {"NVOS46": 56, "VASPACE": 48, "CHANNEL": 368, "NV0000_ALLOC": 120, "TSG_SCHEDULE": 2,
          "BUILD_VERSION_V2": 1032, "PROBED_IDS": 256, "CLASSLIST_V2": 404, "UVM_FREE": 24,
          "FB_INFO_V2": 460},
    580: {"NVOS46": 64, "VASPACE": 56, "CHANNEL": 368, "NV0000_ALLOC": 120, "TSG_SCHEDULE": 3,
          "BUILD_VERSION_V2": 1032, "PROBED_IDS": 384, "CLASSLIST_V2": 804, "UVM_FREE": 24,
          "UVM_UNREGISTER_CHANNEL": 28},
    590: {"UVM_FREE": 16, "UVM_UNREGISTER_CHANNEL": 12, "CHANNEL": 368},
    595: {"UVM_FREE": 16, "UVM_UNREGISTER_CHANNEL": 12, "CHANNEL": 368, "NAME_STRING": 68},
    610: {"UVM_FREE": 16, "CHANNEL": 376, "NAME_STRING": 68},
}  # fmt: skip
SAME = {
    "NVOS00": 16, "NVOS02_FD": 56, "NVOS21": 32, "NVOS64": 48, "NVOS54": 32, "NVOS33_FD": 56,
    "NVOS34": 32, "NVOS47": 48, "card_info": 72, "version": 72, "register_fd": 4, "xfer": 16,
    "NV0080_ALLOC": 56, "NV2080_ALLOC": 4, "MEMORY": 128, "MEMORY_VIRTUAL": 24,
    "CHANNEL_GROUP": 20, "CTXSHARE": 12, "NV83DE_ALLOC": 12, "HOPPER_USERMODE": 2,
    "NVB0B5_ALLOC": 8, "GR_ALLOC": 16, "ID_INFO_V2": 32, "ATTACHED_IDS": 128, "ATTACH_IDS": 132,
    "CLASSLIST": 16, "NUM_SUBDEVICES": 4, "PERF_BOOST": 8, "GID_INFO": 268, "GR_INFO": 32,
    "ENGINES_V2": 340, "FB_INFO_V2": 1028, "NAME_STRING": 132, "CE_ALL_CAPS": 136,
    "ARCH_INFO": 16, "PCI_INFO": 16, "BIND": 4, "TIMESLICE": 8, "PREEMPT": 8,
    "WORK_SUBMIT_TOKEN": 4, "CHANNEL_MMU_FAULT": 104, "SM_ERROR_STATES": 4824,
    "MMU_FAULT_INFO": 72, "CLEAR_SM_ERRORS": 8, "UVM_INITIALIZE": 16, "UVM_MM_INITIALIZE": 8,
    "UVM_REGISTER_GPU": 40, "UVM_UNREGISTER_GPU": 20, "UVM_REGISTER_GPU_VASPACE": 32,
    "UVM_UNREGISTER_GPU_VASPACE": 20, "UVM_REGISTER_CHANNEL": 56, "UVM_ENABLE_PEER_ACCESS": 36,
    "UVM_DISABLE_PEER_ACCESS": 36, "UVM_MAP_EXTERNAL_ALLOCATION": 9264, "UVM_UNMAP_EXTERNAL": 40,
    "UVM_CREATE_EXTERNAL_RANGE": 24, "UVM_PAGEABLE_MEM_ACCESS": 8, "UVM_VALIDATE_VA_RANGE": 24,
}  # fmt: skip


@pytest.mark.parametrize("branch", SIZES)
def test_structs_have_the_sizes_of_their_release(branch) -> None:
    made = {name: record.nbytes for name, record in records(branch).items()}
    wanted = SAME | SIZES[branch]
    check({name: made[name] for name in wanted} == wanted)


# The tree of objects


@pytest.mark.parametrize("chip", CLASSES)
def test_class_list_has_what_the_chip_has(chip) -> None:
    client = opened(chip)
    listed = client.control(client.device, 0x800292, struct.pack("<I800x", 0))
    count, *classes = struct.unpack("<201I", listed)
    check(set(CLASSES[chip]) <= set(classes[:count]))


def test_handles_parents_and_classes() -> None:
    client = opened()
    params = client.memory_params(4096)
    refuses(INVALID_PARENT, client.alloc, 0x1234, VIDEO, params)
    refuses(INVALID_PARENT, client.alloc, client.root, VIDEO, params)
    refuses(INVALID_PARENT, client.alloc, client.device, CLASSES["ga102"][2])
    refuses(INVALID_PARENT, client.alloc, client.subdevice, SYSTEM, params)
    refuses(INVALID_CLASS, client.alloc, client.device, 0xCBC0)
    refuses(INVALID_CLASS, client.alloc, client.device, 0x9999)
    check(client.kinds() == ["class that is not modelled"])
    refuses(INVALID_ARGUMENT, client.alloc, client.device, VIDEO)
    refuses(INVALID_ARGUMENT, client.alloc, client.device, VIDEO, params[:-8])
    client.alloc(client.device, VIDEO, params, handle=0x77)
    refuses(DUPLICATE, client.alloc, client.device, VIDEO, params, handle=0x77)
    refuses(INVALID_HANDLE, client.alloc, client.device, VIDEO, params, handle=client.root)
    client.free(client.device, 0x77)
    refuses(NOT_FOUND, client.free, client.device, 0x77)


def test_a_parent_takes_its_children_along() -> None:
    client = opened()
    before = client.world.baseline()
    group = client.group()
    share = client.alloc(group, SHARE, struct.pack("<III", client.vaspace, 1, 0))
    client.free(client.device, group)
    check(client.world.baseline() == before)
    refuses(NOT_FOUND, client.free, group, share)


def test_controls_check_object_size_and_number() -> None:
    client = opened()
    refuses(NOT_SUPPORTED, client.control, client.device, 0x2080014A, bytes(268))
    refuses(INVALID_ARGUMENT, client.control, client.subdevice, 0x2080014A, bytes(260))
    refuses(NOT_FOUND, client.control, 0x5555, 0x2080014A, bytes(268))
    check(client.kinds() == [])
    refuses(NOT_SUPPORTED, client.control, client.subdevice, 0x20801234, bytes(8))
    check(client.kinds() == ["control that is not modelled"])


def test_errno_is_for_calls_and_status_for_requests() -> None:
    client = opened()
    cases = [
        (client.control_fd, escape(0x2B, 40), 40, errno.EINVAL),
        (client.control_fd, escape(0x99, 32), 32, errno.EINVAL),
        (client.gpu_fd, escape(0x2A, 32), 32, errno.EINVAL),
        (client.control_fd, escape(0x27, 56), 56, errno.EINVAL),
        (client.control_fd, escape(0x2A, 32), 16, errno.EFAULT),
        (client.control_fd, 0x5413, 8, errno.EINVAL),
        (client.uvm_fd, 12345, 64, errno.EINVAL),
        (client.uvm_fd, 73, 8, errno.EFAULT),
    ]
    for fd, request, nbytes, number in cases:
        fails(number, client.world.ioctl, fd, request, bytearray(nbytes))


def test_clients_belong_to_their_file() -> None:
    client = opened()
    other = NvClient(another_nv_process(client.world))
    other.root = client.root
    refuses(INVALID_CLIENT, other.control, client.subdevice, 0x2080014A, bytes(268))


def test_the_version_is_asked_for_and_checked() -> None:
    world = open_nv_board("ga102", options=NvOptions(driver=570))
    client = NvClient(world)
    out = client.ioctl(client.control_fd, 210, struct.pack("<II64s", ord("2"), 0, b""))
    check(out[8:].rstrip(b"\0") == b"570.144" and out[4] == 1)
    check(b"570.144" in world.read("/proc/driver/nvidia/version"))
    asked = struct.pack("<II64s", ord("0"), 0, b"550.1")
    fails(errno.EINVAL, client.ioctl, client.control_fd, 210, asked)


def test_older_releases_want_their_own_structs() -> None:
    client = NvClient(open_nv_board("ga102", options=NvOptions(driver=550)))
    client.open_client()
    client.gpu_file()
    device = client.alloc(client.root, DEVICE, bytes(56))
    refuses(INVALID_ARGUMENT, client.alloc, device, VASPACE, bytes(56))
    params = struct.pack("<IIQQQI4xQ", 0, 1 << 6 | 1 << 3, 1 << 40, 0, 0, 0, 0x1000)
    check(client.alloc(device, VASPACE, params) > 0)


def test_card_info_lists_every_gpu() -> None:
    client = NvClient(open_nv_board("gh100", gpus=2))
    out = client.ioctl(client.control_fd, 200, bytes(72 * 32))
    cards = [out[at : at + 72] for at in range(0, len(out), 72)]
    valid = [card for card in cards if card[0]]
    check([struct.unpack_from("<HH", card, 12) for card in valid] == [(0x10DE, 0x2335)] * 2)
    check([struct.unpack_from("<I", card, 56)[0] for card in valid] == [0, 1])


# Memory


def test_video_memory_is_given_back_with_its_last_holder() -> None:
    client = opened()
    before = client.world.baseline().video_bytes
    buffer = client.buffer(1 << 20, map_host=False)
    check(client.world.baseline().video_bytes == before + (1 << 20))
    client.free(client.device, buffer.handle)
    check(client.world.baseline().video_bytes == before + (1 << 20), "UVM still maps it")
    client.uvm(34, struct.pack("<QQI4x", buffer.va, 1 << 20, 0), 16)
    check(client.world.baseline().video_bytes == before)


def test_memory_runs_out_and_flags_are_checked() -> None:
    client = opened()
    alloc, device = client.alloc, client.device
    refuses(NO_MEMORY, alloc, device, VIDEO, client.memory_params(1 << 40))
    refuses(INVALID_ARGUMENT, alloc, device, VIDEO, client.memory_params(0))
    refuses(INVALID_ARGUMENT, alloc, device, VIDEO, client.memory_params(4096, system=True))
    refuses(INVALID_ARGUMENT, alloc, device, SYSTEM, client.memory_params(4096))


def test_fresh_video_memory_is_no_zeros() -> None:
    client = opened()
    check(client.buffer(4096).memory.read(0, 64) != bytes(64))


def test_a_file_is_mapped_as_it_was_prepared() -> None:
    client = opened()
    handle = client.alloc(client.device, VIDEO, client.memory_params(8192))
    fd = client.gpu_file()
    fails(errno.EINVAL, client.world.mmap, fd, 8192)
    refuses(INVALID_LIMIT, client.map_memory, handle, 16384, fd)
    refuses(INVALID_ARGUMENT, client.map_memory, handle, 8192, client.control_fd)
    client.map_memory(handle, 8192, fd)
    refuses(IN_USE, client.map_memory, handle, 8192, fd)
    fails(errno.ENXIO, client.world.mmap, fd, 4096)


def test_pages_of_the_process_are_the_gpus_too() -> None:
    client = opened()
    ring, pages = client.work_ring(), client.world.mmap(-1, 8192)
    flags = 1 << 4 | 1 << 12 | 1 << 30
    data = struct.pack("<IIIII4xQQI4xi4x", client.root, client.device, 0x2001, USER_PAGES, flags,
                       pages.cpu_va, 8191, 0, -1)  # fmt: skip
    out = client.ioctl(client.gpu_fd, 0x27, data)
    check(struct.unpack_from("<I", out, 40)[0] == 0)
    buffer = client.give_address(0x2001, 8192)
    client.submit(ring, release(buffer.va + 4096, 99))
    check(pages.read64(4096) == 99)
    for changed, status in ((flags & ~(1 << 30), INVALID_FLAGS), (flags | 2 << 12, INVALID_FLAGS)):
        wrong = bytearray(data)
        struct.pack_into("<I", wrong, 8, 0x2002)
        struct.pack_into("<I", wrong, 16, changed)
        out = client.ioctl(client.gpu_fd, 0x27, bytes(wrong))
        check(struct.unpack_from("<I", out, 40)[0] == status)


# UVM


def test_uvm_wants_to_be_initialised_first() -> None:
    client = NvClient(open_nv_board("ga102"))
    refuses(ILLEGAL, client.uvm, 73, struct.pack("<QQI4x", 1 << 30, 4096, 0), 16)


def test_ranges_do_not_overlap_and_are_pages() -> None:
    client = opened()
    base = 1 << 36

    def create(va: int, nbytes: int) -> None:
        client.uvm(73, struct.pack("<QQI4x", va, nbytes, 0), 16)

    create(base, 0x10000)
    refuses(ADDRESS_IN_USE, create, base + 0x8000, 0x1000)
    refuses(INVALID_ADDRESS, create, base + 0x123, 0x1000)
    refuses(INVALID_ADDRESS, create, base + 0x20000, 0)
    free = struct.pack("<QQI4x", base + 0x1000, 0x10000, 0)
    refuses(INVALID_ADDRESS, client.uvm, 34, free, 16)


def test_mapping_is_checked() -> None:
    client = opened()
    buffer = client.buffer(0x10000, map_host=False)
    map_ = client.uvm_map
    refuses(INVALID_ADDRESS, map_, buffer.va + 0x10000, 0x1000, buffer.handle)
    refuses(INVALID_OFFSET, map_, buffer.va, 0x10000, buffer.handle, offset=0x1000)
    refuses(INVALID_HANDLE, map_, buffer.va, 0x10000, 0x4444)
    refuses(INVALID_ARGUMENT, map_, buffer.va, 0x10000, buffer.handle, kind=9)
    uuid, client.uuid = client.uuid, bytes(16)
    refuses(INVALID_DEVICE, map_, buffer.va, 0x10000, buffer.handle)
    client.uuid = uuid
    data = bytes(16) + struct.pack("<B3xiiIII", 0, 0, -1, 0, 0, 0)
    refuses(NO_UUID, client.uvm, 37, data, 36)


def test_a_channel_is_registered_once_and_with_room() -> None:
    client = opened()
    ring = client.ring(client.group(), register=False)

    def register(nbytes: int) -> None:
        data = client.uuid + struct.pack("<iII4xQQI4x", client.control_fd, client.root,
                                         ring.handle, 1 << 38, nbytes, 0)  # fmt: skip
        client.uvm(27, data, 48)

    refuses(INVALID_ADDRESS, register, 1 << 20)
    register(CONTEXT_BYTES)
    refuses(INVALID_CHANNEL, register, CONTEXT_BYTES)


# Channels


def test_channels_check_their_parameters() -> None:
    client = opened()
    group, other = client.group(), client.group()
    area, notifier = client.buffer(1 << 20), client.buffer(4096, system=True)
    share = client.alloc(group, SHARE, struct.pack("<III", client.vaspace, 1, 0))
    params = client.channel_params(area, notifier, share)

    def changed(at: int, form: str, value: int) -> bytes:
        data = bytearray(params)
        struct.pack_into(form, data, at, value)
        return bytes(data)

    cases = [
        (group, changed(16, "<I", 1000), INVALID_ARGUMENT),
        (group, changed(8, "<Q", 0), INVALID_ARGUMENT),
        (group, changed(32, "<I", 0x999), NOT_FOUND),
        (group, changed(64, "<Q", 8), INVALID_ARGUMENT),
        (group, changed(64, "<Q", 1 << 20), INVALID_ARGUMENT),
        (group, changed(0, "<I", 0x999), INVALID_HANDLE),
        (group, changed(24, "<I", 0), INVALID_ARGUMENT),
        (other, params, INVALID_PARENT),
    ]
    for parent, data, status in cases:
        refuses(status, client.alloc, parent, client.gpfifo, data)
    refuses(INVALID_STATE, client.schedule, other)
    refuses(
        INVALID_ARGUMENT, client.alloc, client.device, GROUP, struct.pack("<IIII4x", 0, 0, 0, 77)
    )


def test_compute_is_not_for_copy_engines() -> None:
    client = opened()
    ring = client.ring(client.group(engine=10))
    refuses(INVALID_CLASS, client.alloc, ring.handle, client.compute)
    check(client.alloc(ring.handle, client.copy) > 0)


@pytest.mark.parametrize(("chip", "token"), [("ga102", 0), ("gb202", 1 << 30)])
def test_tokens_name_runlist_and_channel(chip, token) -> None:
    client = opened(chip)
    one, two = client.ring(client.group()), client.ring(client.group(engine=11))
    check((one.token, two.token) == (token, token | 10 << 16))

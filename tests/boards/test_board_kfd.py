"""The board's /dev/kfd: what Linux 6.12 checks, with the errno it gives, and what it cleans up."""

from __future__ import annotations

import errno
import gc
import os
import struct

import numpy as np
import pytest

from boards.amd.machine import another_process, names, open_board
from boards.amd.wave.types import MemoryFault
from boards.machine import host
from tests.boards.board_driver import (
    COHERENT,
    DEVICE_MEMORY,
    DOORBELL,
    GTT,
    PAGE,
    SIGNALS,
    USERPTR,
    VRAM,
    Driver,
    FakeEngines,
    Options,
    Waiting,
    fails,
)
from tests.support import check

TOPOLOGY = "/sys/devices/virtual/kfd/kfd/topology/nodes"


@pytest.mark.parametrize("name", names())
def test_sysfs_tells_of_every_chip(name) -> None:
    world = open_board(name, gpus=2, vram_bytes=1 << 24, engines=FakeEngines)
    check(world.listdir(TOPOLOGY) == ["0", "1", "2"])
    text = world.read(f"{TOPOLOGY}/2/properties").decode()
    properties = dict(line.split() for line in text.splitlines())
    major, minor, step = world.gpus[0].chip.gc
    target = int(properties["gfx_target_version"])
    differing = ("gfx1031", "gfx1032", "gfx1101", "gfx1103", "gfx90a", "gfx942")
    if name not in differing:
        check(target == 10000 * major + 100 * minor + step)
    check(f"gfx{target // 10000}{target // 100 % 100}{target % 100:x}" == name)
    check(int(properties["drm_render_minor"]) == 129)
    check(int(properties["p2p_links_count"]) == 1 == len(world.listdir(f"{TOPOLOGY}/2/p2p_links")))
    folder = "/sys/class/drm/renderD129/device/ip_discovery/die/0/11/0"
    check(world.read(f"{folder}/major") == b"%d\n" % major)
    check(int(world.read(f"{TOPOLOGY}/0/gpu_id")) == 0)
    check(int(world.read(f"{TOPOLOGY}/1/gpu_id")) == world.gpus[0].gpu_id)


@pytest.mark.parametrize("name", ["gfx1030", "gfx1100", "gfx1151", "gfx1201", "gfx90a", "gfx942"])
def test_register_segments_are_the_chip_s(name: str) -> None:
    """GB_ADDR_CONFIG is at 0x263E of every chip: the kernel has it in its READ_MMR_REG list.

    # src: gc_9_4_3_offset.h regGB_ADDR_CONFIG 0x63e, gc_{10_3,11,12}_0_offset.h 0x13de: segment 0
    """
    world = open_board(name, vram_bytes=1 << 24, engines=FakeEngines)
    die = "/sys/class/drm/renderD128/device/ip_discovery/die/0"

    def segments(hw_id: int, instance: int = 0) -> tuple[int, ...]:
        folder = f"{die}/{hw_id}/{instance}"
        found = tuple(int(word, 16) for word in world.read(f"{folder}/base_addr").split())
        check(len(found) == int(world.read(f"{folder}/num_base_addresses")))
        return found

    chip = world.gpus[0].chip
    offset = 0x63E if chip.family == "gfx9" else 0x13DE
    check(segments(11)[0] + offset == 0x263E, f"{segments(11)}")
    dies = {segments(11, xcc) for xcc in range(chip.xccs)}
    check(len(dies) == chip.xccs, "every XCC has its own")
    check(len({segments(hw_id) for hw_id in (11, 34, 40, 41, 108, 255)}) == 6, "every block, too")


# src: amdkfd/kfd_topology.h HSA_CAP_*, kfd_topology.c kfd_topology_set_capabilities() and
# kfd_topology_set_dbg_firmware_support() of Linux 6.12: 4 watch points, doorbells of type 2.0 for
# every GC since 9.0.1, single memory operations on 9.4.2 up to 9.5, single ALU operations on 12.
# SVMAPI is of kernels with CONFIG_HSA_AMD_SVM: with it SVM would not answer EPERM, as it does here.
_DEBUG, _MEMORY_OPS, _ALU_OPS = 1 << 29 | 7 << 15, 1 << 18, 1 << 30
_CAPABILITY = 1 << 7 | 2 << 8 | 2 << 12 | _DEBUG


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("gfx1030", 0), ("gfx1100", 0), ("gfx1201", _ALU_OPS), ("gfx942", _MEMORY_OPS),
        ("gfx950", _MEMORY_OPS), ("gfx90a", _MEMORY_OPS), ("gfx1151", 0),
    ],
)  # fmt: skip
def test_capabilities_are_those_of_the_kernel(name: str, more: int) -> None:
    world = open_board(name, vram_bytes=1 << 24, engines=FakeEngines)
    text = world.read(f"{TOPOLOGY}/1/properties").decode()
    capability = int(dict(line.split() for line in text.splitlines())["capability"])
    check(capability == _CAPABILITY | more, f"{capability:#x}, not {_CAPABILITY | more:#x}")


def test_files_fail_like_files() -> None:
    world = open_board("gfx1100", vram_bytes=1 << 24)
    fails(errno.ENOENT, world.open, "/dev/nvidia0", 2)
    fails(errno.ENOENT, world.read, "/sys/nothing")
    fails(errno.EISDIR, world.read, TOPOLOGY)
    fails(errno.ENOTDIR, world.listdir, "/dev/kfd")
    fails(errno.EACCES, world.write, f"{TOPOLOGY}/0/gpu_id", b"1")
    fails(errno.EBADF, world.close, 1234)
    fails(errno.EINVAL, world.readlink, "/dev/kfd")
    check(world.exists("/dev/dri") and not world.exists("/dev/dri/card7"))
    fails(errno.EFBIG, world.read, f"{TOPOLOGY}/1/properties", 8)


def test_ioctls_go_by_number_and_size() -> None:
    driver = Driver()
    check(driver.call("get_version")[:2] == (1, 17))
    fails(errno.ENOTTY, driver.world.ioctl, driver.kfd, 0xC0084B40, bytearray(8))
    fails(errno.EBADF, driver.world.ioctl, 7, 0x80084B01, bytearray(8))
    fails(errno.EFAULT, driver.world.ioctl, driver.kfd, 0x80084B01, bytearray(4))
    parts = driver.queue_parts()
    values = (
        parts.ring.va, parts.wptr.va, parts.rptr.va, 0, parts.ring.nbytes, driver.gpu_ids[0], 0,
        100, 7, 0, parts.eop.va, PAGE, parts.save.va, parts.sizes.cwsr, parts.sizes.ctl_stack,
    )  # fmt: skip
    old = bytearray(struct.pack("<QQQQIIIIIIQQQII", *values))
    check(len(old) == 88, "before KFD 1.17 the struct ended here")
    driver.world.ioctl(driver.kfd, 0xC0584B02, old)
    check(struct.unpack_from("<Q", old, 24)[0] >> 62 == 3)
    check(driver.world.process.queues.by_id[0].spec.kind == "pm4")


def test_a_vm_is_acquired_once() -> None:
    driver = Driver(acquire=False)
    gpu_id, fd = driver.gpu_ids[0], driver.render[0]
    flags = VRAM
    fails(errno.ENODEV, driver.call, "alloc_memory_of_gpu", 0x100000, PAGE, 0, 0, gpu_id, flags)
    queue = (0, 0, 0, 0, PAGE, gpu_id, 0, 100)
    fails(errno.ESRCH, driver.call, "create_queue", *queue)
    fails(errno.EINVAL, driver.call, "acquire_vm", 77, gpu_id)
    fails(errno.EINVAL, driver.call, "acquire_vm", fd, 0x777)
    driver.call("acquire_vm", fd, gpu_id)
    driver.call("acquire_vm", fd, gpu_id)
    fails(
        errno.EBUSY,
        driver.call,
        "acquire_vm",
        driver.world.open(driver.world.gpus[0].node, 2),
        gpu_id,
    )


def test_allocation_is_checked() -> None:
    driver = Driver(vram_bytes=16 << 20)
    gpu_id = driver.gpu_ids[0]

    def alloc(size: int, flags: int, *, va: int = 0x7F00_0000_0000, offset: int = 0) -> int:
        return driver.call("alloc_memory_of_gpu", va, size, 0, offset, gpu_id, flags)[2]

    fails(errno.EINVAL, alloc, 0, VRAM)
    fails(errno.EINVAL, alloc, PAGE, COHERENT)
    fails(errno.EINVAL, alloc, PAGE, USERPTR)
    fails(errno.EFAULT, alloc, PAGE, USERPTR, offset=0x1000)
    fails(errno.EFAULT, alloc, PAGE, USERPTR, offset=driver.world.reserve(PAGE).cpu_va)
    read_only = driver.world.mmap(-1, 2 * PAGE, write=False)
    fails(errno.EPERM, alloc, PAGE, USERPTR, offset=read_only.cpu_va)
    fails(errno.EINVAL, alloc, PAGE, DOORBELL)
    fails(errno.ENOMEM, alloc, 1 << 30, VRAM)
    fails(errno.ENOMEM, alloc, 1 << 30, GTT)
    check(alloc(8192, DOORBELL))
    check(alloc(PAGE, VRAM) >> 32 == gpu_id)
    available = driver.call("available_memory", 0, gpu_id)[0]
    alloc(4 << 20, VRAM)
    check(driver.call("available_memory", 0, gpu_id)[0] <= available - (4 << 20))
    check(available % (2 << 20) == 0)


def test_small_bars_have_no_public_vram() -> None:
    driver = Driver(options=Options(gtt_bytes=1 << 22, large_bar=False))
    fails(errno.EINVAL, driver.buffer, PAGE, DEVICE_MEMORY)
    fails(errno.EPERM, driver.buffer, PAGE, VRAM)


def test_mapping_counts_successes() -> None:
    driver = Driver(gpus=2)
    buffer = driver.buffer(PAGE, map_to=[])
    fails(errno.EINVAL, driver.call, "map_memory_to_gpu", buffer.handle, 0, 0, 0)
    fails(errno.EINVAL, driver.call, "map_memory_to_gpu", buffer.handle, 0, 1, 2)
    fails(errno.EFAULT, driver.call, "map_memory_to_gpu", buffer.handle, 0x10, 1, 0)
    ids = np.array([driver.gpu_ids[0], 0x99], np.uint32)
    fails(errno.EINVAL, driver.call, "map_memory_to_gpu", buffer.handle, ids.ctypes.data, 2, 0)
    check(driver.last[3] == 1, "one of two was mapped")
    fails(errno.ENOMEM, driver.call, "map_memory_to_gpu", buffer.handle + 50, ids.ctypes.data, 1, 0)
    check(driver.map(buffer, 0, 1) == 2)
    fails(errno.EBUSY, driver.call, "free_memory_of_gpu", buffer.handle)
    check(driver.unmap(buffer, 1, 0) == 2)
    fails(errno.EINVAL, driver.unmap, buffer, 0)
    driver.free(buffer)
    fails(errno.EINVAL, driver.call, "free_memory_of_gpu", buffer.handle)


def test_addresses_cannot_be_mapped_twice() -> None:
    driver = Driver()
    first = driver.buffer(2 * PAGE)
    ids = np.array(driver.gpu_ids, np.uint32)
    for va in (first.va, first.va + PAGE, 1 << 48, first.va + 64 * PAGE + 8):
        values = (va, PAGE, 0, 0, driver.gpu_ids[0], VRAM)
        handle = driver.call("alloc_memory_of_gpu", *values)[2]
        fails(errno.EINVAL, driver.call, "map_memory_to_gpu", handle, ids.ctypes.data, 1, 0)


def test_a_mapping_that_finds_no_table_is_undone() -> None:
    driver = Driver(vram_bytes=4 << 20)
    memory = driver.world.gpus[0].memory
    buffer = driver.buffer(PAGE, SIGNALS, map_to=[])
    spare = memory.take(memory.free_bytes - PAGE, PAGE)
    empty = driver.world.baseline()
    fails(errno.ENOMEM, driver.map, buffer, 0)
    check(not driver.device().mappings and driver.world.baseline() == empty)
    memory.give(spare)
    check(driver.map(buffer, 0) == 1)


def test_mmap_of_buffers_is_checked() -> None:
    driver = Driver(gpus=2)
    buffer = driver.buffer(PAGE, host=False)
    offset = driver.world.process.memory.buffers[-1].offset
    fails(errno.EINVAL, driver.world.mmap, driver.render[0], 2 * PAGE, offset)
    fails(errno.EINVAL, driver.world.mmap, driver.render[1], PAGE, offset)
    fails(errno.EINVAL, driver.world.mmap, driver.render[0], PAGE, offset + PAGE)
    fails(errno.EINVAL, driver.world.mmap, driver.render[0], PAGE, 8)
    again = driver.world.open(driver.world.gpus[0].node, 2)
    fails(errno.EACCES, driver.world.mmap, again, PAGE, offset)
    first = driver.world.mmap(driver.render[0], PAGE, offset, within=buffer.place, at=0)
    fails(errno.EINVAL, driver.world.mmap, -1, PAGE, within=buffer.place, at=0)
    first.write64(8, 0x1122334455667788)
    check(first.read(8, 4) == b"\x88\x77\x66\x55" and first.read32(12) == 0x11223344)
    with pytest.raises(IndexError):
        first.read32(PAGE)
    first.close()
    fails(errno.EBADF, first.read, 0, 1)
    again = driver.world.mmap(driver.render[0], PAGE, offset, within=buffer.place, at=0)
    check(again.read32(12) == 0x11223344)
    read_only = driver.world.mmap(driver.render[0], PAGE, offset, write=False)
    fails(errno.EACCES, read_only.write32, 0, 1)


def test_a_reservation_outlives_what_is_mapped_in_it() -> None:
    driver = Driver()
    before = driver.world.baseline().mappings
    place = driver.world.reserve(4 * PAGE)
    va = place.cpu_va
    region = driver.world.mmap(-1, PAGE, within=place, at=PAGE)
    place.close()
    fails(errno.EBADF, driver.world.mmap, -1, PAGE, within=place, at=0)
    check(host.mapped(va, 4 * PAGE) and driver.world.baseline().mappings == before + 2)
    region.write32(0, 7)
    check(region.read32(0) == 7)
    region.close()
    check(driver.world.baseline().mappings == before)


def test_the_panel_fails_the_call_it_is_told_to() -> None:
    driver = Driver()
    panel = driver.world.panel
    panel.fail_ioctl("get_version", errno.EINTR, at=2)
    driver.call("get_version")
    fails(errno.EINTR, driver.call, "get_version")
    driver.call("get_version")
    panel.fail_alloc(at=2)
    driver.buffer(PAGE)
    fails(errno.ENOMEM, driver.buffer, PAGE)
    driver.buffer(PAGE)


def test_apertures_and_clocks() -> None:
    driver = Driver(gpus=2)
    check(driver.call("get_process_apertures_new", 0, 0)[1] == 2)
    data = np.zeros(2 * 56, np.uint8)
    check(driver.call("get_process_apertures_new", data.ctypes.data, 2)[1] == 2)
    first = struct.unpack_from("<QQQQQQI", data.tobytes())
    check(first[0] == 1 << 48 and first[2] == 2 << 48 and first[6] == driver.gpu_ids[0])
    fails(errno.EINVAL, driver.call, "get_process_apertures_new", data.ctypes.data, 9)
    before = driver.call("get_clock_counters", 0, 0, 0, 0, driver.gpu_ids[0])
    driver.world.sleep(2.0)
    after = driver.call("get_clock_counters", 0, 0, 0, 0, driver.gpu_ids[0])
    check(after[0] - before[0] >= 200_000_000 and before[3] == 10**9)
    fails(errno.EPERM, driver.call, "svm", 4096, 4096, 0, 0)
    fails(errno.EPERM, driver.call, "set_xnack_mode", 1)
    fails(errno.EINVAL, driver.call, "set_memory_policy", 0, 0, driver.gpu_ids[0], 2, 0)


@pytest.mark.parametrize(("name", "retries"), [("gfx1100", False), ("gfx942", True)])
def test_the_xnack_mode_as_with_svm(name: str, retries: bool) -> None:
    """src: kfd_chardev.c kfd_ioctl_set_xnack_mode(): below 0 asks, and noretry is the default."""
    options = Options(xnack_mode=True, gtt_bytes=32 << 20)
    driver = Driver(name, vram_bytes=256 << 20, options=options)
    check(driver.call("set_xnack_mode", -1) == (0,), "ROCr asks this first of all")
    check(driver.call("set_xnack_mode", 0) == (0,))
    if retries:
        driver.call("set_xnack_mode", 1)
        check(driver.call("set_xnack_mode", -1) == (1,))
    else:
        fails(errno.EPERM, driver.call, "set_xnack_mode", 1)
    driver.create_queue(driver.queue_parts(), 1)
    fails(errno.EBUSY, driver.call, "set_xnack_mode", 0)
    check(driver.call("set_xnack_mode", -1) == (int(retries),), "asking is always allowed")
    fails(errno.EPERM, driver.call, "svm", 4096, 4096, 0, 0)


def test_the_module_is_live() -> None:
    """What rocminfo looks at before anything else."""
    check(Driver().world.read("/sys/module/amdgpu/initstate") == b"live\n")


def _everything(driver: Driver) -> None:
    """Leave one of each kind of object alive."""
    events = Waiting(driver)
    for kind in (0, 3, 8):
        events.create(kind)
    parts = driver.queue_parts()
    offset = driver.create_queue(parts)[1]
    driver.create_queue(parts, 1)
    page = driver.doorbells(offset)
    page.write64(offset & 0x1FFF, 1)
    driver.places.append(page)
    driver.space().read(parts.ring.va, 4)


@pytest.mark.parametrize("how", ["close", "kill"])
def test_the_end_of_a_process_releases_everything(how) -> None:
    driver = Driver(vram_bytes=128 << 20)
    for fd in (driver.kfd, *driver.render):
        driver.world.close(fd)
    gc.collect()
    empty = driver.world.baseline()
    check(not any((empty.fds, empty.mappings, empty.vram_bytes, empty.gtt_bytes, empty.processes)))
    for _ in range(3):
        driver.start()
        _everything(driver)
        busy = driver.world.baseline()
        check(busy.queues == 2 and busy.events == 3 and busy.vram_bytes > 1 << 20)
        if how == "kill":
            driver.world.panel.kill_process()
            fails(errno.EBADF, driver.call, "get_version")
        else:
            driver.close()
        gc.collect()
        check(driver.world.baseline() == empty, str(driver.world.baseline()))
    check([len(ids) for ids in driver.world.gpus[0].sdma_ids] == [12, 0])


def test_a_process_can_outlive_its_descriptor_as_on_linux() -> None:
    options = Options(gtt_bytes=1 << 22, close_ends_process=False)
    driver = Driver(options=options)
    driver.buffer(PAGE)
    driver.world.close(driver.kfd)
    check(driver.world.baseline().buffers == 1)
    driver.kfd = driver.world.open("/dev/kfd", 2)
    again = driver.world.open(driver.world.gpus[0].node, 2)
    fails(errno.EBUSY, driver.call, "acquire_vm", again, driver.gpu_ids[0])


def test_two_processes_do_not_see_each_other() -> None:
    driver = Driver()
    first = driver.buffer(PAGE)
    first.region.write(0, b"first")
    other = Driver.__new__(Driver)
    other.world = another_process(driver.world)
    other.start()
    with pytest.raises(MemoryFault):
        other.space().read(first.va, 5)
    offset = driver.world.process.memory.buffers[0].offset
    fails(errno.EINVAL, other.world.mmap, other.render[0], PAGE, offset)
    other.world.panel.kill_process()
    check(driver.space().read(first.va, 5) == b"first")


def test_boards_that_nobody_uses_give_their_memory_back() -> None:
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        driver = Driver()
        driver.buffer(4 << 20).region.write(0, b"used")
    driver.world.power_off()
    fails(errno.EBADF, driver.call, "get_version")
    check(len(os.listdir("/proc/self/fd")) < files + 30, "two files of each board stay open")

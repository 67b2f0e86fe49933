"""VFIO and iommufd of the made-up kernel: order, rights, what closing does; IOMMU translation."""

from __future__ import annotations

import errno
import struct
from typing import Any

import pytest

from boards.amd.pci.options import PciOptions
from drivers.pci import iommufd_abi as iommufd
from drivers.pci import vfio_abi as abi
from tests.boards.pci_bench import (
    DRIVERS,
    FOLDER,
    GPU,
    RDWR,
    device_of,
    dma,
    fails,
    group_of,
    machine,
    map_dma,
    text,
    to_vfio,
    unmap_dma,
)
from tests.support import check

READ, WRITE, BOTH = 1, 2, 3
PAGE = 4096
BUS_MASTER, MEMORY = 4, 2
CONFIG_AT = 7 << 40
ZEROS = (0,) * 5


def test_a_container_takes_a_group_before_an_iommu() -> None:
    world = machine()
    container = world.open("/dev/vfio/vfio", RDWR)
    check(world.ioctl(container, abi.GET_API_VERSION, 0) == 0)
    check(world.ioctl(container, abi.CHECK_EXTENSION, abi.TYPE1V2_IOMMU) == 1)
    check(world.ioctl(container, abi.CHECK_EXTENSION, 8) == 0, "no-IOMMU mode")
    for request in (abi.SET_IOMMU, abi.IOMMU_GET_INFO.request):
        with fails(errno.EINVAL):
            world.ioctl(container, request, 3 if request == abi.SET_IOMMU else bytearray(64))
    to_vfio(world)
    group = world.open("/dev/vfio/14", RDWR)
    with fails(errno.EBUSY):
        world.open("/dev/vfio/14", RDWR)
    with fails(errno.EINVAL):
        device_of(world, group)
    with fails(errno.EBADF):
        world.ioctl(group, abi.GROUP_SET_CONTAINER.request, bytearray(struct.pack("<i", 5)))
    fd = bytearray(struct.pack("<i", container))
    world.ioctl(group, abi.GROUP_SET_CONTAINER.request, fd)
    with fails(errno.EINVAL):
        world.ioctl(group, abi.GROUP_SET_CONTAINER.request, fd)
    with fails(errno.ENODEV):
        world.ioctl(container, abi.SET_IOMMU, 7)
    world.ioctl(container, abi.SET_IOMMU, abi.TYPE1V2_IOMMU)
    with fails(errno.EINVAL):
        world.ioctl(container, abi.SET_IOMMU, abi.TYPE1V2_IOMMU)


def test_a_group_with_a_driver_in_it_is_not_viable() -> None:
    world = machine(audio_driver="snd_hda_intel")
    to_vfio(world)
    group = world.open("/dev/vfio/14", RDWR)
    status = bytearray(struct.pack("<II", 8, 0))
    world.ioctl(group, abi.GROUP_GET_STATUS.request, status)
    check(status[4] == 0, "neither viable nor in a container")
    fd = bytearray(struct.pack("<i", world.open("/dev/vfio/vfio", RDWR)))
    with fails(errno.EBUSY):
        world.ioctl(group, abi.GROUP_SET_CONTAINER.request, fd)


def test_regions_interrupts_and_config_space() -> None:
    world = machine()
    _, group = group_of(world)
    device = device_of(world, group)
    sizes = {}
    for index in range(8):
        info = bytearray(struct.pack("<IIIIQQ", 32, 0, index, 0, 0, 0))
        world.ioctl(device, abi.DEVICE_GET_REGION_INFO.request, info)
        _, flags, _, _, sizes[index], offset = struct.unpack("<IIIIQQ", info)
        check(offset == index << 40 and bool(flags & 4) == (index in (0, 2, 5)), f"{index}")
    check(sizes[0] == 256 << 20 and sizes[7] == 4096 and not sizes[1], str(sizes))
    registers = world.mmap(device, sizes[5], 5 << 40)
    check(registers.read32(0xDE3 * 4) == 256)
    command = int.from_bytes(world.pread(device, 2, CONFIG_AT + 4), "little")
    check(command & MEMORY and not command & BUS_MASTER)
    world.pwrite(device, (command | BUS_MASTER).to_bytes(2, "little"), CONFIG_AT + 4)
    check(world.machine.slot(0).word(4) & BUS_MASTER)
    before = world.pread(device, 8, CONFIG_AT + 0x10)
    world.pwrite(device, b"\xff" * 4, CONFIG_AT + 0x10)
    check(world.pread(device, 8, CONFIG_AT + 0x10) == before, "BARs are the kernel's")
    check([f.kind for f in world.violations] == ["write to a BAR through VFIO"])
    with fails(errno.EINVAL):
        world.ioctl(device, abi.DEVICE_RESET, 0)
    registers.close()
    world.close(device)
    check(not world.machine.slot(0).word(4) & BUS_MASTER and not world.machine.slot(0).enabled)
    reported = [violation.kind for violation in world.violations]
    check(reported == ["write to a BAR through VFIO", "bus mastering left on"], f"{reported}")


def test_config_space_through_vfio_takes_command_alone() -> None:
    world = machine()
    _, group = group_of(world)
    device = device_of(world, group)
    for at, data in ((0x04, b"\x06\0\0\0"), (0xA2, b"\x01\0"), (0x68, b"\x10\x29")):
        before = world.pread(device, len(data), CONFIG_AT + at)
        world.pwrite(device, data, CONFIG_AT + at)
        check(world.pread(device, len(data), CONFIG_AT + at) == before, f"{at:#x}")
    reported = [violation.kind for violation in world.violations]
    check(reported == ["write to config space through VFIO"] * 3, f"{reported}")


def test_base_addresses_that_a_reset_lost_come_back_with_command() -> None:
    """src: vfio_basic_config_write(), vfio_need_bar_restore()"""
    world = machine(function=PciOptions(reset_keeps_config=False))
    _, group = group_of(world)
    device = device_of(world, group)
    before = world.pread(device, 24, CONFIG_AT + 0x10)
    gpu: Any = world.gpus[0]
    gpu.mode1_reset()
    check(world.pread(device, 24, CONFIG_AT + 0x10) != before, "it forgot nothing")
    check(not int.from_bytes(world.pread(device, 2, CONFIG_AT + 4), "little") & MEMORY, "COMMAND")
    world.pwrite(device, b"\x02\0", CONFIG_AT + 4)
    check(world.pread(device, 24, CONFIG_AT + 0x10) == before, "lost")
    check(world.violations == [], f"{world.violations}")


def test_interrupts_reach_an_eventfd_until_they_are_taken_away() -> None:
    world = machine()
    _, group = group_of(world)
    device, event = device_of(world, group), world.eventfd()
    slot = world.machine.slot(0)

    def irqs(flags: int, count: int, *fds: int) -> None:
        data = struct.pack(f"<{len(fds)}i", *fds)
        args = bytearray(struct.pack("<IIIII", 20 + len(data), flags, 1, 0, count) + data)
        world.ioctl(device, abi.DEVICE_SET_IRQS.request, args)

    slot.message(0)
    check(not world.wait_event(event, 0.0))
    irqs(4 | 32, 1, event)
    check(slot.word(slot.capability(5) + 2) & 1, "MSI is on")
    slot.message(0)
    check(world.wait_event(event, 5.0) and not world.wait_event(event, 5.0))
    with fails(errno.EINVAL):
        irqs(4 | 32, 2, event, event)
    with fails(errno.EBADF):
        irqs(4 | 32, 1, 77)
    irqs(1 | 32, 0)
    slot.message(0)
    check(not world.wait_event(event, 0.0) and not slot.word(slot.capability(5) + 2) & 1)


def test_mappings_translate_with_their_rights() -> None:
    world = machine()
    container, _ = group_of(world)
    memory = world.mmap(-1, 4 * PAGE)
    memory.write(PAGE, b"gpu reads this")
    map_dma(world, container, memory.cpu_va, 0x10_0000, 2 * PAGE, READ)
    map_dma(world, container, memory.cpu_va + 2 * PAGE, 0x20_0000, 2 * PAGE, BOTH)
    check(dma(world, 0x10_1000, 14, write=False) == b"gpu reads this")
    check(dma(world, 0x10_1000, 14, write=True) is None, "read-only")
    dma(world, 0x20_1000, 4, write=True)
    check(memory.read(3 * PAGE, 5) == b"\xa5" * 4 + b"\0")
    for address in (0x10_2000, 0xF_F000, 0x20_1FFF):
        check(dma(world, address, 2, write=False) is None, f"{address:#x}")
    check({f.kind for f in world.violations} == {"IOMMU fault"} and len(world.violations) == 4)


def test_what_may_not_be_mapped() -> None:
    world = machine(memlock_bytes=16 * PAGE)
    container, _ = group_of(world)
    memory = world.mmap(-1, 32 * PAGE)
    va = memory.cpu_va
    map_dma(world, container, va, 0x10_0000, 4 * PAGE, BOTH)
    for number, arguments in (
        (errno.EEXIST, (va, 0x10_3000, PAGE, BOTH)),
        (errno.EINVAL, (va + 8, 0x20_0000, PAGE, BOTH)),
        (errno.EINVAL, (va, 0x20_0000, 100, BOTH)),
        (errno.EINVAL, (va, 0x20_0000, PAGE, 0)),
        (errno.EINVAL, (va, 0xFEE0_0000, PAGE, BOTH)),
        (errno.ENOMEM, (va, 0x20_0000, 13 * PAGE, BOTH)),
        (errno.EFAULT, (PAGE, 0x20_0000, PAGE, BOTH)),
    ):
        with fails(number):
            map_dma(world, container, *arguments)
    with fails(errno.EINVAL):
        unmap_dma(world, container, 0x10_1000, PAGE)
    check(unmap_dma(world, container, 0x50_0000, PAGE) == 0)
    check(unmap_dma(world, container, 0x10_0000, 4 * PAGE) == 4 * PAGE)
    check(dma(world, 0x10_0000, 4, write=False) is None)


def test_mappings_live_as_long_as_device_group_or_container() -> None:
    world = machine()
    container, group = group_of(world)
    device = device_of(world, group)
    memory = world.mmap(-1, PAGE)
    map_dma(world, container, memory.cpu_va, 0x10_0000, PAGE, BOTH)
    world.close(container)
    world.close(group)
    check(dma(world, 0x10_0000, 4, write=False) is not None, "the device keeps them")
    with fails(errno.EDEADLK):
        world.write(f"{DRIVERS}/vfio-pci/unbind", GPU.encode())
    check([f.kind for f in world.violations] == ["unbind of an open VFIO device"])
    bar = world.mmap(device, PAGE, 5 << 40)
    world.close(device)
    check(dma(world, 0x10_0000, 4, write=False) is not None, "and a mapped BAR the device")
    bar.close()
    check(dma(world, 0x10_0000, 4, write=False) is None)
    world.write(f"{DRIVERS}/vfio-pci/unbind", GPU.encode())
    check(world.open_paths() == [])


def test_mapped_memory_outlives_its_mapping_in_the_process() -> None:
    world = machine()
    container, _ = group_of(world)
    memory = world.mmap(-1, PAGE)
    memory.write(0, b"kept")
    map_dma(world, container, memory.cpu_va, 0x10_0000, PAGE, READ)
    memory.close()
    del memory
    check(dma(world, 0x10_0000, 4, write=False) == b"kept", "pinned pages stay")


def test_a_reset_where_the_function_has_one() -> None:
    world = machine("gfx942")
    _, group = group_of(world)
    device = device_of(world, group)
    memory = world.mmap(device, PAGE, 0)
    memory.write(0, b"secret")
    world.ioctl(device, abi.DEVICE_RESET, 0)
    check(memory.read(0, 6) != b"secret")
    check(world.machine.slot(0).word(4) & MEMORY, "the kernel puts COMMAND back")
    check(int.from_bytes(world.pread(device, 8, CONFIG_AT + 0x10), "little") & ~0xF != 0)


def test_iommufd() -> None:
    world = machine()
    to_vfio(world)
    fd, device = world.open("/dev/iommu", RDWR), world.open("/dev/vfio/devices/vfio0", RDWR)
    with fails(errno.EINVAL):
        world.ioctl(
            device, abi.DEVICE_GET_INFO.request, bytearray(struct.pack("<6I", 24, *[0] * 5))
        )
    world.ioctl(
        device, abi.DEVICE_BIND_IOMMUFD.request, bytearray(struct.pack("<IIiI", 16, 0, fd, 0))
    )
    with fails(errno.EBUSY):
        other = world.open("/dev/vfio/devices/vfio0", RDWR)
        world.ioctl(
            other, abi.DEVICE_BIND_IOMMUFD.request, bytearray(struct.pack("<IIiI", 16, 0, fd, 0))
        )
    space = bytearray(struct.pack("<III", 12, 0, 0))
    world.ioctl(fd, iommufd.IOAS_ALLOC.request, space)
    number = struct.unpack("<III", space)[2]
    world.ioctl(device, abi.DEVICE_ATTACH_PT.request, bytearray(struct.pack("<III", 12, 0, number)))
    memory = world.mmap(-1, 2 * PAGE)
    args = bytearray(struct.pack("<IIIIQQQ", 40, 6, number, 0, memory.cpu_va, 2 * PAGE, 0))
    world.ioctl(fd, iommufd.IOAS_MAP.request, args)
    iova = struct.unpack("<IIIIQQQ", args)[6]
    dma(world, iova + PAGE, 3, write=True)
    check(memory.read(PAGE, 4) == b"\xa5\xa5\xa5\0")
    fixed = bytearray(struct.pack("<IIIIQQQ", 40, 7, number, 0, memory.cpu_va, PAGE, iova))
    with fails(errno.EEXIST):
        world.ioctl(fd, iommufd.IOAS_MAP.request, fixed)
    half = bytearray(struct.pack("<IIQQ", 24, number, iova, PAGE))
    with fails(errno.ENOENT):
        world.ioctl(fd, iommufd.IOAS_UNMAP.request, half)
    with fails(errno.EBUSY):
        world.ioctl(fd, iommufd.DESTROY.request, bytearray(struct.pack("<II", 8, number)))
    whole = bytearray(struct.pack("<IIQQ", 24, number, iova, 2 * PAGE))
    world.ioctl(fd, iommufd.IOAS_UNMAP.request, whole)
    check(struct.unpack("<IIQQ", whole)[3] == 2 * PAGE)
    check(dma(world, iova, 4, write=False) is None)
    room = world.mmap(-1, PAGE)
    ranges = bytearray(struct.pack("<IIIIQQ", 32, number, 1, 0, room.cpu_va, 0))
    with fails(errno.EMSGSIZE):
        world.ioctl(fd, iommufd.IOAS_IOVA_RANGES.request, ranges)
    count = struct.unpack("<IIIIQQ", ranges)[2]
    ranges = bytearray(struct.pack("<IIIIQQ", 32, number, count, 0, room.cpu_va, 0))
    world.ioctl(fd, iommufd.IOAS_IOVA_RANGES.request, ranges)
    check(room.read64(8) < 0xFEE0_0000 < room.read64(16), "the MSI window is left out")


@pytest.mark.parametrize("iommufd_there", [False, True])
def test_a_killed_process_leaves_no_mapping_and_no_bus_mastering(iommufd_there: bool) -> None:
    from boards.amd.pci_machine import another_process

    world = machine(iommufd=iommufd_there)
    container, group = group_of(world)
    device = device_of(world, group)
    memory = world.mmap(-1, PAGE)
    map_dma(world, container, memory.cpu_va, 0x10_0000, PAGE, BOTH)
    vram = world.mmap(device, PAGE, 0)
    view = vram.view()
    vram.write(0, b"written")
    world.pwrite(device, b"\x06\0", CONFIG_AT + 4)
    world.kill()
    slot = world.machine.slot(0)
    check(not slot.word(4) & BUS_MASTER and slot.domain is None)
    check(dma(world, 0x10_0000, 4, write=False) is None)
    view[0:3] = b"???"
    check(world.gpus[0].config.read(4, 2) != b"" and slot.gpu is not None)
    other = another_process(world)
    _, group = group_of(other)
    again = other.mmap(device_of(other, group), PAGE, 0)
    check(again.read(0, 7) == b"written", "VRAM stays; a dead process writes to it no more")
    check(text(other, f"{FOLDER}/driver_override") == "vfio-pci")

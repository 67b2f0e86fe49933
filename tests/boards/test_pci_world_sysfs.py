"""The machine around a GPU on PCI: sysfs, drivers, BARs through resourceN, links."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from boards.amd.pci.options import PciOptions
from boards.machine.file_tree import FileTree
from tests.boards.pci_bench import (
    AUDIO,
    DRIVERS,
    FOLDER,
    GPU,
    RDWR,
    bound_to,
    fails,
    machine,
    text,
    to_vfio,
)
from tests.support import check

MEMORY, MASTER = 2, 4


def test_links_are_followed_and_loops_end() -> None:
    tree = FileTree()
    tree.put("/a/b/file", b"x")
    tree.link("/c", "a/b")
    tree.link("/a/up", "../c/../b")
    tree.link("/loop", "/loop2")
    tree.link("/loop2", "loop")
    check(tree.read("/c/file") == b"x" and tree.real("/c/file") == "/a/b/file")
    check(tree.real("/a/up") == "/a/b" and tree.listdir("/a/up") == ["file"])
    check(tree.readlink("/c") == "a/b" and not tree.exists("/c/none"))
    for path, number in (
        ("/loop", errno.ELOOP), ("/c/none", errno.ENOENT), ("/c/file/more", errno.ENOTDIR),
        ("/c", errno.EISDIR),
    ):  # fmt: skip
        with fails(number):
            tree.read(path)
    with fails(errno.EACCES):
        tree.write("/a/b/file", b"")
    tree.remove("/a/b")
    check(not tree.exists("/c/file"))


def test_a_function_as_sysfs_shows_it() -> None:
    world = machine()
    check(text(world, f"{FOLDER}/vendor") == "0x1002" and text(world, f"{FOLDER}/enable") == "0")
    check(text(world, f"{FOLDER}/device") == "0x744c")
    check(text(world, f"{FOLDER}/class") == "0x030000")
    check(text(world, f"{FOLDER}/driver_override") == "(null)")
    lines = text(world, f"{FOLDER}/resource").splitlines()
    start, end, flags = (int(part, 16) for part in lines[0].split())
    check(end - start + 1 == 256 << 20 and flags & 0x10_2200 == 0x10_2200, lines[0])
    config = world.read(f"{FOLDER}/config")
    check(int.from_bytes(config[0x10:0x18], "little") & ~0xF == start, "BAR 0 is where it says")
    check(not int.from_bytes(config[4:6], "little") & (MEMORY | MASTER), "nothing is on")
    members = world.listdir("/sys/kernel/iommu_groups/14/devices")
    check({GPU, AUDIO} <= set(members) and world.exists(f"{FOLDER}/iommu_group/devices/{AUDIO}"))


def test_drivers_are_bound_as_linux_binds_them() -> None:
    world = machine(amdgpu=True)
    check(bound_to(world) == "amdgpu" and world.exists("/dev/dri/renderD128"))
    check(text(world, f"{FOLDER}/drm/card0/card0-DP-1/status") == "disconnected")
    with fails(errno.ENODEV):
        world.write(f"{DRIVERS}/vfio-pci/bind", GPU.encode())
    with fails(errno.EBUSY):
        world.write(f"{DRIVERS}/amdgpu/bind", GPU.encode())
    world.write(f"{DRIVERS}/amdgpu/unbind", GPU.encode() + b"\n")
    check(not bound_to(world) and not world.exists("/dev/dri/renderD128"))
    command = int.from_bytes(world.read(f"{FOLDER}/config")[4:6], "little")
    check(command & MEMORY and not command & MASTER, "decoding stays, bus mastering goes")
    with fails(errno.ENODEV):
        world.write(f"{DRIVERS}/amdgpu/unbind", GPU.encode())
    world.write(f"{FOLDER}/driver_override", b"vfio-pci\n")
    with fails(errno.ENODEV):
        world.write(f"{DRIVERS}/amdgpu/bind", GPU.encode())
    world.write("/sys/bus/pci/drivers_probe", GPU.encode())
    check(bound_to(world) == "vfio-pci" and world.exists("/dev/vfio/14"))
    check(world.exists("/dev/vfio/devices/vfio0") and world.listdir(f"{FOLDER}/vfio-dev"))
    world.write(f"{FOLDER}/driver_override", b"\n")
    check(text(world, f"{FOLDER}/driver_override") == "(null)" and not world.violations)


def test_nobody_matches_an_override_that_no_driver_has() -> None:
    world = machine()
    world.write(f"{FOLDER}/driver_override", b"none")
    world.write("/sys/bus/pci/drivers_probe", GPU.encode())
    check(not bound_to(world))
    with fails(errno.ENODEV):
        world.write("/sys/bus/pci/drivers_probe", b"0000:09:00.0")


def test_new_id_is_reported_and_hidden_settings_cannot_be_written() -> None:
    world = machine()
    with fails(errno.EACCES):
        world.write(f"{DRIVERS}/vfio-pci/new_id", b"1002 744c")
    with fails(errno.EACCES):
        world.write("/proc/sys/vm/nr_hugepages", b"64")
    check([violation.kind for violation in world.violations] == ["write to new_id"])


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201", "gfx942"])
def test_bars_through_resource_files(chip: str) -> None:
    world = machine(chip, iommu=False)
    bar = world.open(f"{FOLDER}/resource0_wc", RDWR)
    with fails(errno.EINVAL):
        world.mmap(bar, 4096)
    check(
        [violation.kind for violation in world.violations] == ["mapped a BAR that is not decoded"]
    )
    world.hardware.forget_violations()
    world.write(f"{FOLDER}/enable", b"1")
    memory = world.mmap(bar, 256 << 20)
    registers = world.mmap(world.open(f"{FOLDER}/resource5", RDWR), 512 << 10)
    # src: notes section 3.1: RCC_CONFIG_MEMSIZE, dword 0xde3, in MiB
    check(registers.read32(0xDE3 * 4) == 256, "the size of VRAM in a register")
    memory.write(0x123000, b"hello")
    np.frombuffer(memory.view(), np.uint8)[0x123005] = 33
    check(world.gpus[0].read(0, 0x123000, 4) == int.from_bytes(b"hell", "little"))
    with fails(errno.EINVAL):
        world.mmap(bar, (256 << 20) + 4096)
    with fails(errno.ENOTSUP):
        registers.view()
    check(world.panel.reads == 1 and not world.violations, str(world.violations))
    check(any("resource0_wc" in path for path, _, _ in world.spans()))
    check(f"{GPU}/resource0_wc" in world.read("/proc/self/maps").decode())


def test_a_bar_of_a_bound_function_is_not_for_others() -> None:
    world = machine(amdgpu=True)
    bar = world.open(f"{FOLDER}/resource5", RDWR)
    with fails(errno.EINVAL):
        world.mmap(bar, 4096)
    check([f.kind for f in world.violations] == ["mapped a BAR of a driver's function"])


def test_enabling_is_counted_and_refused_while_bound() -> None:
    world = machine(iommu=False)
    with fails(errno.EIO):
        world.write(f"{FOLDER}/enable", b"0")
    for _ in range(2):
        world.write(f"{FOLDER}/enable", b"1")
    check(text(world, f"{FOLDER}/enable") == "2")
    world.write(f"{DRIVERS}/amdgpu/bind", GPU.encode())
    check(text(world, f"{FOLDER}/enable") == "3")
    with fails(errno.EBUSY):
        world.write(f"{FOLDER}/enable", b"0")


def test_a_bar_is_resized_where_there_is_room() -> None:
    small = {"vram_bytes": 1 << 30, "function": PciOptions(bar_bytes=256 << 20)}
    world = machine(iommu=False, **small)
    check(text(world, f"{FOLDER}/resource").splitlines()[0].split()[1].endswith("0fffffff"))
    sizes = int(text(world, f"{FOLDER}/resource0_resize"), 16)
    check(sizes >> 8 & 1 and sizes >> 10 & 1 and not sizes >> 11, f"{sizes:#x}: to 1 GiB")
    with fails(errno.EINVAL):
        world.write(f"{FOLDER}/resource0_resize", b"11")
    world.write(f"{FOLDER}/resource0_resize", b"10")
    start, end, _ = (int(x, 16) for x in text(world, f"{FOLDER}/resource").split()[:3])
    check(end - start + 1 == 1 << 30 and start % (1 << 30) == 0)
    config = world.read(f"{FOLDER}/config")
    check(int.from_bytes(config[0x10:0x18], "little") & ~0xF == start)
    world.write(f"{DRIVERS}/amdgpu/bind", GPU.encode())
    with fails(errno.EBUSY):
        world.write(f"{FOLDER}/resource0_resize", b"8")
    world = machine(iommu=False, window_bytes=256 << 20, **small)
    with fails(errno.ENOSPC):
        world.write(f"{FOLDER}/resource0_resize", b"10")


def test_config_space_of_others_is_watched() -> None:
    world = machine(amdgpu=True, iommu=False)
    config = world.open(f"{FOLDER}/config", RDWR)
    check(world.pread(config, 4, 0) == bytes.fromhex("02104c74"))
    world.pwrite(config, b"\0", 0x0C)
    check(
        [f.kind for f in world.violations] == ["write to the config space of a driver's function"]
    )
    check(world.pread(world.open(f"{FOLDER}/config", 0), 8, 4092) != b"", "reads end at the end")
    with fails(errno.EBADF):
        world.pwrite(world.open(f"{FOLDER}/config", 0), b"\0", 0x0C)


def test_vfio_without_a_group_has_no_nodes() -> None:
    world = machine(vfio=False)
    check(not world.exists(f"{DRIVERS}/vfio-pci") and not world.exists("/dev/vfio/vfio"))
    world = machine()
    check(not world.exists("/dev/vfio/14"), "before it is bound")
    to_vfio(world)
    check(world.exists("/dev/vfio/14"))

"""Physical memory, processes, locks, /proc, and the fault panel of a machine with a GPU on PCI."""

from __future__ import annotations

import errno
import struct

import numpy as np
import pytest

from boards.amd.pci_machine import another_process, open_pci_board
from boards.machine.pci.panel import Killed, Kind
from boards.machine.pci.world import PciWorld
from boards.machine.region import RegisterRegion
from drivers.base.errors import Busy
from drivers.world.foreign_state import ForeignState
from tests.boards.pci_bench import FOLDER, GPU, RDWR, dma, fails, machine
from tests.support import check

HUGE, PAGE = 2 << 20, 4096
MEMSIZE = 0xDE3 * 4


def frames(world: PciWorld, va: int, pages: int) -> list[int]:
    """Entries of /proc/self/pagemap."""
    fd = world.open("/proc/self/pagemap", 0)
    data = world.pread(fd, 8 * pages, va // PAGE * 8)
    world.close(fd)
    return list(struct.unpack(f"<{pages}Q", data))


def enabled(world: PciWorld) -> RegisterRegion:
    """Registers of a GPU that is taken through its BARs."""
    world.write(f"{FOLDER}/enable", b"1")
    region = world.mmap(world.open(f"{FOLDER}/resource5", RDWR), 1 << 19)
    if not isinstance(region, RegisterRegion):
        raise TypeError("registers are no memory")
    return region


def test_huge_pages_have_frames_in_a_row() -> None:
    world = machine(iommu=False, huge_pages=4)
    memory = world.mmap(-1, 2 * HUGE, huge=True)
    check(memory.cpu_va % HUGE == 0 and not np.frombuffer(memory.view(), np.uint8).any())
    entries = frames(world, memory.cpu_va, 1024)
    numbers = [entry & (1 << 55) - 1 for entry in entries]
    check(all(entry >> 63 for entry in entries), "present")
    check(numbers[:512] == list(range(numbers[0], numbers[0] + 512)))
    check(numbers[512] != numbers[511] + 1, "two huge pages are not neighbours")
    memory.write(HUGE + 5, b"x")
    check(dma(world, numbers[512] * PAGE + 5, 1, write=False) == b"x")
    check(not world.violations)
    with fails(errno.ENOMEM):
        world.mmap(-1, 3 * HUGE, huge=True)
    address = numbers[0] * PAGE
    memory.close()
    del memory
    check(dma(world, address, 1, write=False) is None, "frames that nobody has")
    check([f.kind for f in world.violations] == ["DMA to memory that is not pinned"])
    check(world.machine.frames.free_huge == 4)


def test_small_pages_are_no_place_for_dma() -> None:
    world = machine(iommu=False)
    memory = world.mmap(-1, 2 * PAGE)
    first, second = (entry & (1 << 55) - 1 for entry in frames(world, memory.cpu_va, 2))
    check(first and second != first + 1)
    check(dma(world, first * PAGE, 4, write=True) is None and world.violations)
    check(frames(world, 0x1000, 1) == [0], "what is not mapped is not present")
    plain = machine(iommu=False, privileged=False)
    memory = plain.mmap(-1, HUGE, huge=True)
    check([entry & (1 << 55) - 1 for entry in frames(plain, memory.cpu_va, 2)] == [0, 0])


def test_what_a_process_without_an_iommu_may_not_leave() -> None:
    world = machine(iommu=False)
    registers = enabled(world)
    config = world.open(f"{FOLDER}/config", RDWR)
    world.pwrite(config, b"\x06\0", 4)
    world.close(config)
    check([violation.kind for violation in world.violations] == ["bus mastering left on"])
    config = world.open(f"{FOLDER}/config", RDWR)
    world.pwrite(config, b"\x02\0", 4)
    world.close(config)
    check(registers.read32(MEMSIZE) == 256 and len(world.violations) == 1, f"{world.violations}")
    world.write(f"{FOLDER}/driver_override", b"pci-stub")
    world.write("/sys/bus/pci/drivers_probe", GPU.encode())
    check(registers.read32(MEMSIZE) == 256, "the bus does not mind")
    reported = [violation.kind for violation in world.violations][1:]
    check(reported == ["BAR access after a driver got the function"], f"{reported}")


def test_a_killed_process_without_an_iommu_leaves_the_gpu_as_it_was() -> None:
    world = machine(iommu=False)
    registers = enabled(world)
    config = world.open(f"{FOLDER}/config", RDWR)
    world.pwrite(config, b"\x06\0", 4)
    memory = world.mmap(-1, HUGE, huge=True)
    address = (frames(world, memory.cpu_va, 1)[0] & (1 << 55) - 1) * PAGE
    world.kill()
    check(world.machine.slot(0).word(4) == 6, "bus mastering is still on")
    check(dma(world, address, 4, write=True) is None and len(world.violations) == 1)
    with pytest.raises(Killed):
        world.open(f"{FOLDER}/config", 0)
    with fails(errno.EBADF):
        registers.read32(MEMSIZE)
    check(another_process(world).machine.frames.free_huge == 64)


def test_locks_die_with_their_holder_and_files_do_not() -> None:
    world = machine()
    other = another_process(world)
    check(world.pid != other.pid)
    ours, theirs = (ForeignState(one.state) for one in (world, other))
    held = ours.lock("gpu")
    with pytest.raises(Busy) as caught:
        theirs.lock("gpu")
    check(caught.value.pid == world.pid)
    ours.write("record", b"1")
    world.kill()
    held.release()
    theirs.lock("gpu").release()
    check(theirs.read("record") == b"1" and theirs.names() == ["record"])
    theirs.remove("record")
    check(theirs.read("record") is None)


def test_proc_shows_who_has_the_gpu() -> None:
    world = machine(amdgpu=True)
    other = another_process(world)
    other.open("/dev/dri/renderD128", RDWR)
    listed = world.listdir(f"/proc/{other.pid}/fd")
    targets = [world.readlink(f"/proc/{other.pid}/fd/{name}") for name in listed]
    check(targets == ["/dev/dri/renderD128"])
    check(GPU in world.read("/proc/iomem").decode() and "1" in world.listdir("/proc"))
    other.kill()
    check(str(other.pid) not in world.listdir("/proc"))


@pytest.mark.parametrize(
    ("kind", "value", "after"),
    [("ones", 0xFFFF_FFFF, 256), ("garbage", 0xBAD_F00D | 0xC0DE_0BAD << 32, 256)],
)
def test_an_access_goes_wrong_once(kind: str, value: int, after: int) -> None:
    world = machine(iommu=False)
    registers = enabled(world)
    world.panel.fail(kind, at=2)
    check(registers.read32(MEMSIZE) == 256)
    check(registers.read32(MEMSIZE) == value & 0xFFFF_FFFF)
    check(registers.read32(MEMSIZE) == after and not world.panel.pending)


def test_stuck_timed_out_gone_killed() -> None:
    world = machine(iommu=False)
    registers = enabled(world)
    world.panel.fail(Kind.TIMEOUT)
    with fails(errno.ETIMEDOUT):
        registers.read32(MEMSIZE)
    world.panel.fail(Kind.STUCK)
    check([registers.read32(MEMSIZE) for _ in range(2)] == [0, 0], "what was never read")
    world.panel.heal()
    check(registers.read32(MEMSIZE) == 256)
    before = world.panel.count
    world.panel.fail(Kind.KILL, at=2)
    registers.read32(MEMSIZE)
    with pytest.raises(Killed):
        registers.read32(MEMSIZE)
    check(world.dead and world.panel.count == before + 2)


def test_a_gpu_that_left_the_bus_is_all_ones() -> None:
    world = machine(iommu=False)
    registers = enabled(world)
    vram = world.mmap(world.open(f"{FOLDER}/resource0", RDWR), 4 * HUGE)
    vram.write(HUGE, b"memory")
    world.panel.fail(Kind.GONE)
    check(registers.read32(MEMSIZE) == 0xFFFF_FFFF)
    check(vram.read(HUGE, 6) == b"\xff" * 6 and vram.read(3 * HUGE + 5, 2) == b"\xff\xff")
    config = world.open(f"{FOLDER}/config", 0)
    check(world.pread(config, 4, 0) == b"\xff" * 4)
    check(registers.read32(MEMSIZE) == 0xFFFF_FFFF, "for good")


@pytest.mark.parametrize("name", ["gfx1030", "gfx950", "gfx900"])
def test_a_chip_that_cannot_be_met_over_pci(name: str) -> None:
    with pytest.raises(ValueError, match="there are gfx1100"):
        open_pci_board(name)

"""What a bare GPU reaches: live mappings with the right permission, and nothing around them."""

from __future__ import annotations

import mmap
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from boards.machine.pci.world import PciWorld
from drivers.amd.device import AmdDevice
from drivers.base.errors import DeviceFault, Hang, Unsupported
from tests.amd_table_walker import ADDRESS, VALID, Found, every
from tests.boards.driver_harness import get, kernel, open_over_pci, put
from tests.boards.test_driver_over_pci import kill, stick
from tests.reliability.pci_scene import machine, work
from tests.support import check

PAGE = 4096
BIG_BYTES = 256 << 10
VMIDS = 16
MIB = 1 << 20
HUGE_BYTES = 2 * MIB
BOOT_BYTES, END_BYTES = 32 * MIB, {"gfx1100": 64 * MIB, "gfx1201": 64 * MIB, "gfx942": 384 * MIB}
"""Of VRAM, what is the boot's and the firmware's. docs/boot-amd.md, 'Where things lie'"""
MAJORS = {"gfx1100": 11, "gfx1201": 12, "gfx942": 9}
BYTE = """
define amdgpu_kernel void @k(ptr addrspace(1) %c, i32 %value) #0 {
  %byte = trunc i32 %value to i8
  store i8 %byte, ptr addrspace(1) %c
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""


class Master:
    """Bus mastering of a GPU, looked at whenever its config space changes."""

    def __init__(self, board: Any) -> None:
        self.board, self.slot = board, board.machine.slot(0)
        self.seen: list[tuple[bool, int, bool]] = []
        """(on, bytes of the host that it is shown then, by the driver), each time it changed."""
        self.last = ""
        board.panel.watch = self.watch
        self.slot.gpu.on_config(self.look)
        self.on = self.slot.gpu.config.master_on

    def look(self) -> None:
        on = self.slot.gpu.config.master_on
        if on != self.on:
            self.on = on
            shown = self.slot.domain.pinned_bytes if self.slot.domain else 0
            shown += HUGE_BYTES * len(self.board.huge)
            self.seen.append((on, shown, self.last == "write config 0x4"))

    def watch(self, what: str, where: str, nbytes: int, value: int) -> None:
        self.last = f"{what} {where}"


def trouble(board: PciWorld, device: AmdDevice) -> None:
    """Work, a fault, work again, a queue that has to be reset, work again."""
    work(device)
    x, program = device.alloc(BIG_BYTES), device.load(kernel(BYTE, device.arch, 64))
    device.launch(program, [x.gpu_va - 1, 1], 1)
    with pytest.raises(DeviceFault):
        device.synchronize()
    work(device)
    stick(board, "compute", for_good=False)
    device.launch(program, [x, 1], 1)
    with pytest.raises(Hang, match="can be used"):
        device.synchronize()
    board.hardware.forget_violations()  # that the queue was stopped while it hung
    work(device)


@pytest.mark.parametrize("chip", MAJORS)
def test_without_an_iommu_bus_mastering_is_never_on(chip: str) -> None:
    """Boot, work, faults, resets, close, a kill, the next owner."""
    board = machine(chip, iommu=False, amdgpu=False)
    master = Master(board)
    with open_over_pci(board, AMD_HANG_S="0.3") as device:
        trouble(board, device)
    device = open_over_pci(board)
    work(device)
    board = kill(board, device)
    with open_over_pci(board) as device:
        work(device)
    check(not master.on and not master.seen, f"{master.seen}")
    check(not board.violations, f"{board.violations[:5]}")


@pytest.mark.parametrize("chip", MAJORS)
def test_bus_mastering_is_on_while_something_is_mapped(chip: str) -> None:
    board = machine(chip, amdgpu=False)
    master = Master(board)
    for _ in range(2):
        with open_over_pci(board) as device:
            work(device)
            check(master.on, "it works through an IOMMU")
        check(not master.on, "it is on after the end")
    check_master(master, times=2)


def check_master(master: Master, *, times: int) -> None:
    """On once there is something to reach; the driver itself switches it off, not the kernel."""
    check([on for on, _, _ in master.seen] == [True, False] * times, f"{master.seen}")
    check(all(nbytes for on, nbytes, _ in master.seen if on), f"too early: {master.seen}")
    check(all(own for _, _, own in master.seen), f"not by the driver: {master.seen}")


def test_physical_addresses_are_asked_for_each_time() -> None:
    board = machine("gfx1100", iommu=False, amdgpu=False)
    master = Master(board)
    with open_over_pci(board, AMD_DMA="physical") as device:
        work(device)
        check(master.on, "it was asked for")
        used = [page.va for page in board.huge.values()]
        check(len(used) > 0, "the pages are locked ones")
    check(not master.on and not board.huge, "at the end nothing of it is left")
    check_master(master, times=1)
    before = len(master.seen)
    with open_over_pci(board) as device:
        work(device)
        with pytest.raises(Unsupported, match="UNBOUND_DMA=physical"):
            device.wrap(memoryview(mmap.mmap(-1, PAGE)))
    check(not master.on and len(master.seen) == before, "once asked for is not for ever")
    check(not board.violations, f"{board.violations[:5]}")
    changed = {path for path, _ in board.machine.writes if "/devices/" not in path}
    check(all(path.startswith("/sys/bus/pci/") for path in changed), f"settings: {changed}")


@dataclass(frozen=True)
class Piece:
    """A run of VRAM or of the host's memory, at a GPU address."""

    va: int
    nbytes: int
    found: Found


def hubs(gpu: Any) -> tuple[Any, ...]:
    return gpu.graphics.gc_hub, gpu.graphics.mm_hub


def pieces_of(board: PciWorld, chip: str) -> list[Piece]:
    """Everything that page tables of any VMID map, in order."""
    gpu: Any = board.gpus[0]
    vram, found = gpu.board.vram, list[Piece]()
    for hub in hubs(gpu):
        for vmid in range(1, VMIDS):
            context = hub.context(vmid)
            if context is None or not context.root & VALID:
                continue

            def table(at: int, base: int = hub.vram_pa) -> Any:
                off = at - base
                check(0 <= off <= vram.nbytes - PAGE, f"a table outside of VRAM: {at:#x}")
                return vram.bytes[off : off + PAGE].view("<u8").tolist()

            pages = every(table, context.root & ADDRESS, MAJORS[chip])
            found += [Piece(va, one.page_bytes, one) for va, one in pages]
    return found


def check_reach(board: PciWorld, chip: str) -> int:
    """Every page that any engine can translate to is one it may have. Returns: how many."""
    gpu: Any = board.gpus[0]
    vram, domain = gpu.board.vram, board.machine.slot(0).domain
    base, owners = gpu.graphics.gc_hub.vram_pa, dict[tuple[bool, int], int]()
    pieces = pieces_of(board, chip)
    for one in pieces:
        what = f"{one.va:#x}: {one.found}"
        check(not (one.found.writable and one.found.executable), f"both: {what}")
        for page in range(0, one.nbytes, PAGE):
            key = one.found.system, one.found.address + page
            check(owners.setdefault(key, one.va + page) == one.va + page, f"twice: {what}")
        if one.found.system:
            check(domain is not None, f"the host's memory without an IOMMU: {what}")
            end = one.found.address + one.nbytes
            live = list(domain.inside(one.found.address, end)) if domain is not None else []
            check(sum(min(end, m.end) - max(one.found.address, m.iova) for m in live)
                  == one.nbytes, f"not mapped: {what}")  # fmt: skip
            check(all(m.read and m.write for m in live), f"not for writing: {what}")
            continue
        off = one.found.address - base
        check(off >= BOOT_BYTES and off + one.nbytes <= vram.nbytes - END_BYTES[chip],
              f"not the process's: {what}")  # fmt: skip
        check(not vram.is_guarded(off, one.nbytes), f"trusted: {what}")
    return len(pieces)


@pytest.mark.parametrize("iommu", [True, False], ids=["IOMMU", "VRAM"])
@pytest.mark.parametrize("chip", MAJORS)
def test_page_tables_lead_to_live_memory_alone(chip: str, iommu: bool) -> None:
    """After each of many random allocations, launches, copies and frees."""
    board, rng = machine(chip, iommu=iommu, amdgpu=False), random.Random(chip)
    with open_over_pci(board) as device:
        least = check_reach(board, chip)
        check(least > 0, "rings, signals and staging are mapped")
        held = []
        for number in range(30):
            if held and rng.random() < 0.45:
                held.pop(rng.randrange(len(held))).free()
                if rng.random() < 0.3:
                    device.trim()
            else:
                nbytes = rng.choice((PAGE, BIG_BYTES, BIG_BYTES + 1, MIB, 3 * MIB))
                held.append(put(device, np.full(nbytes, number, np.uint8)))
            if number % 10 == 5:
                work(device)
            check_reach(board, chip)
        for buffer in held:
            buffer.free()
        device.trim()
        check_reach(board, chip)
    gpu: Any = board.gpus[0]
    check(not pieces_of(board, chip), "the tables map something after the end")
    on = [vmid for vmid in range(1, VMIDS) for hub in hubs(gpu) if hub.context(vmid) is not None]
    check(not on, f"contexts {on} are on after the end")
    check(not gpu.board.bus_master_on() and not board.violations, f"{board.violations[:5]}")


@pytest.mark.parametrize("nbytes", [BIG_BYTES, BIG_BYTES + 16 * PAGE, 2 * MIB, 3 * MIB])
@pytest.mark.parametrize("iommu", [True, False], ids=["IOMMU", "VRAM"])
def test_one_byte_in_front_of_a_buffer_and_behind_it(iommu: bool, nbytes: int) -> None:
    """A guard page on both sides: the fault names the buffer, and its neighbours are whole.

    Buffers of a size class: what is rounded up to one has some bytes behind it.
    """
    board = machine("gfx1100", iommu=iommu, amdgpu=False)
    with open_over_pci(board) as device:
        store = device.load(kernel(BYTE, "gfx1100", 64))
        near = [put(device, np.full(nbytes, 7, np.uint8)) for _ in range(3)]
        middle = near[1]
        buffer = f"the buffer of {nbytes} bytes at {middle.gpu_va:#x}"
        where = {
            middle.gpu_va - 1: f"{PAGE:#x} bytes in front of {buffer}",
            middle.gpu_va + nbytes: f"0x0 bytes behind {buffer}",
        }
        for va, said in where.items():
            device.launch(store, [va, 9], 1)
            with pytest.raises(DeviceFault) as caught:
                device.synchronize()
            fault = caught.value
            shown = (fault.kind, fault.gpu_va, fault.access, fault.kernel)
            check(shown == ("unmapped", va & -PAGE, "write", "k"), str(fault))
            check(said in str(fault), str(fault))
        device.launch(store, [middle.gpu_va + nbytes - 1, 9], 1)
        device.launch(store, [middle.gpu_va, 9], 1)
        device.synchronize()
        values = [get(device, one, "uint8") for one in near]
        check(values[1][0] == values[1][-1] == 9 and np.all(values[1][1:-1] == 7), "inside")
        check(np.all(values[0] == 7) and np.all(values[2] == 7), "a neighbour was written")
    check(not board.violations, f"{board.violations[:5]}")

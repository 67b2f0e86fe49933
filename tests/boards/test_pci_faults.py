"""Page faults of the bare GPU: what registers latch, what interrupts say, what queues do."""

from __future__ import annotations

import pytest

from boards.amd.cp.engines import Engines
from boards.amd.pci.default_page import MARK
from boards.amd.wave.types import Strict
from tests.boards.engine_kernels import Work
from tests.boards.pci_bringup import VMID, Bringup, release, write_data
from tests.boards.pci_rig import EXECUTE, READ, VALID
from tests.support import check

CHIPS = ("gfx1100", "gfx1201", "gfx942")
NOWHERE = 0x5555_0000_1000


def status(board: Bringup) -> tuple[int, int]:
    """(status, page) as amdgpu reads them of the graphics hub."""
    vm = board.prefix.get("GC", "VM_")
    name = f"{vm}L2_PROTECTION_FAULT_STATUS" + ("_LO32" if board.family == "gfx12" else "")
    low = board.read("GC", f"{vm}L2_PROTECTION_FAULT_ADDR_LO32")
    return board.read("GC", name), low | board.read(
        "GC", f"{vm}L2_PROTECTION_FAULT_ADDR_HI32"
    ) << 32


def made(name: str):
    board = Bringup(name).boot()
    queue = board.compute()
    board.flush()
    return board, queue


@pytest.mark.parametrize("name", CHIPS)
def test_a_write_to_nowhere(name: str) -> None:
    board, queue = made(name)
    board.submit(queue, write_data(NOWHERE, 1))
    check(board.violations() == [], str(board.violations()))
    found, page = status(board)
    # src: gc_11_0_0_sh_mask.h: PERMISSION_FAULTS 4:7, CID 9:17, RW 18, VMID 20:23
    check(page == NOWHERE >> 12, f"{page:#x}")
    check(found >> 20 & 15 == VMID and found >> 18 & 1 == 1, f"{found:#x}")
    check(found >> 4 & 15 == 1 | 4, "neither valid nor writable")
    check(found >> 9 & 0x1FF == 5, "CPC, client 5 of gfxhub_v3_0.c")
    entry = board.entries()[0]
    client = 0x1B if name == "gfx942" else 0x0A
    check(entry[0] & 0xFFFF == client, f"{entry[0]:#x}")
    check(entry[0] >> 24 & 15 == VMID, "VMID of the entry")
    # src: gmc_v11_0_process_interrupt(): the address, and bit 5 for a write
    check(entry[4] | (entry[5] & 15) << 32 == NOWHERE >> 12, f"{entry[4]:#x} {entry[5]:#x}")
    check(entry[5] & 0xA0 == 0x20, "a write, and no retry")
    # src: kfd_int_process_v11.c: prot_valid 8, prot_write 0x20
    check(entry[0] >> 16 & 0xFF == 0x28, "the ring id")
    check(board.bus.messages == 0 or board.gpu.config.msi_on, "no message without MSI")


def test_the_first_fault_stays_until_it_is_cleared() -> None:
    board, first = made("gfx1100")
    second = board.compute(queue=1)
    board.submit(first, write_data(NOWHERE, 1))
    board.submit(second, write_data(NOWHERE + 0x1000, 1))
    found, page = status(board)
    check(page == NOWHERE >> 12 and found & 1 == 1, "the first one, and more came")
    board.fields("GC", "GCVM_L2_PROTECTION_FAULT_CNTL", clear_protection_fault_status_addr=1)
    check(status(board) == (0, 0), "cleared")
    third = board.compute(queue=2)
    board.submit(third, write_data(NOWHERE + 0x2000, 1))
    check(status(board)[1] == (NOWHERE >> 12) + 2, "a new one is latched")


def test_a_store_to_a_page_that_may_be_read() -> None:
    board, queue = made("gfx1100")
    va, offset = board.buffer()
    board.map(va, offset, 4096, VALID | READ)
    board.flush()
    board.submit(queue, write_data(va, 1))
    found, page = status(board)
    check(page == va >> 12 and found >> 4 & 15 == 4 and found >> 1 & 7 == 0, f"{found:#x}")
    check(board.word(offset) == 0, "nothing was written")


def test_code_that_may_not_run() -> None:
    board, queue = made("gfx1100")
    work = Work(board, "ids", cpu="gfx1100")
    page = work.entry & -4096
    entry = board.entry(board.last_table(page), page >> 12 & 511)
    board.set_entry(board.last_table(page), page >> 12 & 511, entry & ~EXECUTE)
    board.flush()
    board.submit(queue, work.pm4((1, 1, 1)))
    found, _ = status(board)
    check(found >> 4 & 15 == 8, f"execute: {found:#x}")
    check(found >> 9 & 0x1FF == 9, "SQC (inst)")


def test_a_wave_that_stores_to_nowhere() -> None:
    board, queue = made("gfx1100")
    work = Work(board, "fault", cpu="gfx1100")
    board.flush()
    board.submit(queue, work.pm4((1, 1, 1)))
    found, page = status(board)
    check(page == 93458488360960 >> 12, f"{page:#x}")
    check(found >> 9 & 0x1FF == 8, "TCP")


def test_a_fault_without_its_interrupt_is_found() -> None:
    board, queue = made("gfx1100")
    board.write("GC", f"GCVM_CONTEXT{VMID}_CNTL", 7)
    board.submit(queue, write_data(NOWHERE, 1))
    check(board.entries() == [], "nobody asked for it")
    check("page fault without an interrupt" in board.violations()[0], str(board.violations()))
    check(status(board)[1] == NOWHERE >> 12, "latched all the same")


def test_a_queue_that_faulted_ignores_a_drain_and_obeys_a_reset() -> None:
    board, queue = made("gfx1100")
    board.submit(queue, write_data(NOWHERE, 1))
    board.dequeue(1)
    check(board.active(), "a drain waits for what cannot end")
    board.dequeue(2)
    check(not board.active(), "a reset does not")
    signal, offset = board.buffer()
    again = board.compute()
    board.flush()
    board.submit(again, release(signal, 4))
    check(board.word(offset) == 4, "the slot works again")


def test_an_endless_kernel_and_a_queue_that_only_a_reset_of_the_gpu_ends() -> None:
    board = Bringup("gfx1100", engines=lambda host: Engines(host, Strict(), 2000)).boot()
    queue, other = board.compute(), board.compute(queue=1)
    work = Work(board, "endless", cpu="gfx1100")
    signal, offset = board.buffer()
    board.flush()
    board.submit(queue, work.pm4((1, 1, 1)))
    check(board.read("GC", "GRBM_STATUS") >> 31 == 1, "the GPU is busy")
    board.submit(other, release(signal, 1))
    check(board.word(offset) == 1, "other queues go on")
    board.dequeue(1)
    check(board.active(), "drained")
    board.dequeue(2)
    check(not board.active(), "not reset")
    check(board.read("GC", "GRBM_STATUS") >> 31 == 0, "busy still")
    board.gpu.graphics.compute.hang((1, 0, 1), for_good=True)
    board.dequeue(2, queue=1)
    check(board.active(queue=1), "a queue that is stuck for good was reset")
    board.gpu.mode1_reset()
    check(not board.active(queue=1), "nothing is active after mode-1")


@pytest.mark.parametrize("name", ["gfx1100", "gfx942"])
def test_a_copy_to_nowhere(name: str) -> None:
    board = Bringup(name).boot()
    copies = board.sdma()
    board.flush()
    board.copy(copies, [5 if name == "gfx942" else 0x30005, NOWHERE & 0xFFFFFFFF, NOWHERE >> 32, 1])
    entry = board.entries()[0]
    # src: sdma_v4_4_2.c is on the memory hub, whose client is VMC 0x12; sdma_v6_0.c on the other
    check(entry[0] & 0xFF == (0x12 if name == "gfx942" else 0x0A), f"{entry[0]:#x}")
    block, vm = ("MMHUB", "VM_") if name == "gfx942" else ("GC", "GCVM_")
    found = board.read(block, f"{vm}L2_PROTECTION_FAULT_STATUS")
    check(found >> 20 & 15 == VMID, f"{found:#x}")


def redirected(name: str, page: int, *, bus: bool) -> Bringup:
    """A board whose command processor stored to nowhere, with the default page somewhere."""
    board, queue = made(name)
    for block, instance, vm, _ in board.hubs():
        board.pair(block, f"{vm}L2_PROTECTION_FAULT_DEFAULT_ADDR", page >> 12, instance=instance)
        board.fields(block, f"{vm}L2_CNTL", instance,
                     enable_default_page_out_to_system_memory=int(bus))  # fmt: skip
    board.submit(queue, write_data(NOWHERE + 0x18, 1))
    return board


@pytest.mark.parametrize("name", CHIPS)
def test_the_default_page_of_faults(name: str) -> None:
    """src: amdgpu_gart.c, gfxhub_v3_0.c: a page of the host where L2_CNTL says so, else VRAM."""
    board = redirected(name, 0x30_0000, bus=False)
    check(board.violations() == [], str(board.violations()))
    check(board.vram.bytes[0x30_0018:0x30_0020].tobytes() == MARK, "not in VRAM")
    board = redirected(name, 0x1000, bus=True)
    reported = [text for text in board.violations() if "default page" in text]
    check(len(reported) == 1 and "bus address 0x1000" in reported[0], str(board.violations()))
    check(not board.vram.bytes[0x1000:0x2000].any(), "VRAM was written")
    outside = redirected(name, board.vram.nbytes, bus=False).violations()
    check(any("default page" in text for text in outside), f"{outside}")


def test_a_default_page_that_the_bus_has() -> None:
    board, queue = made("gfx1100")
    board.bus.mapped[0x4000_0000] = (0, 4096, True)
    for block, instance, vm, _ in board.hubs():
        board.pair(block, f"{vm}L2_PROTECTION_FAULT_DEFAULT_ADDR", 0x40000, instance=instance)
        board.fields(block, f"{vm}L2_CNTL", instance, enable_default_page_out_to_system_memory=1)
    board.submit(queue, write_data(NOWHERE, 1))
    check(board.violations() == [], str(board.violations()))
    check(board.bus.pool.bytes[:8].tobytes() == MARK, "the store is nowhere")

"""Translations of the bare GPU: kept until they are flushed, in all formats, from the bus too."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.hardware import Options
from boards.amd.memory.pages import FORMATS
from boards.amd.pci.page_walk import DIRECTORY, PAGE, RANGE, Context, Walker
from boards.amd.pci.vram import Guarded
from tests.boards.pci_bringup import VMID, Bringup, release, write_data
from tests.boards.pci_rig import ALL, LEVELS, READ, SNOOPED, SYSTEM, UNCACHED, VALID, WRITE
from tests.support import check

CHIPS = ("gfx1100", "gfx1201", "gfx942")
BUS_VA = 0x2_0000_0000
ADDRESS = 0xFFFF_FFFF_F000


def remapped(name: str):
    """A queue has used a page, whose entry now names another one."""
    board = Bringup(name).boot()
    queue, (va, old) = board.compute(), board.buffer()
    _, new = board.buffer()
    board.flush()
    board.submit(queue, write_data(va, 1))
    board.map(va, new, 4096)
    return board, queue, va, old, new


@pytest.mark.parametrize("name", CHIPS)
def test_a_flush_is_needed_and_enough(name: str) -> None:
    board, queue, va, old, new = remapped(name)
    board.submit(queue, write_data(va, 2))
    check((board.word(old), board.word(new)) == (2, 0), "the old translation is used still")
    check(any("stale translation" in text for text in board.violations()), str(board.violations()))
    board.flush()
    board.submit(queue, write_data(va, 3))
    check((board.word(old), board.word(new)) == (2, 3), "the new one after a flush")


def test_a_page_that_was_unmapped_is_reached_until_the_flush() -> None:
    board, queue, va, old, _ = remapped("gfx1100")
    board.map(va, 0, 4096, 0)
    board.submit(queue, write_data(va, 5))
    check(board.word(old) == 5, "freed memory was written")
    check(len(board.violations()) == 1, str(board.violations()))
    board.flush()
    board.submit(queue, write_data(va, 6))
    check(board.word(old) == 5 and len(board.entries()) == 1, "now it is a fault")


def test_a_missing_page_is_not_remembered() -> None:
    board = Bringup("gfx1100").boot()
    first, second = board.compute(), board.compute(queue=1)
    va, offset = board.buffer()
    board.map(va, 0, 4096, 0)
    board.flush()
    board.submit(first, write_data(va, 1))
    check(len(board.entries()) == 1, "a fault")
    board.map(va, offset, 4096)
    board.hdp()
    board.submit(second, write_data(va, 2))
    check(board.word(offset) == 2, "mapped without a flush")


@pytest.mark.parametrize(
    ("vmid", "request_bits", "word"),
    [(9, 0xF8_0000, ""), (VMID, 0xE8_0000, "L2_PDE0"), (VMID, 0x78_0000, "L1_PTES")],
)
def test_flushes_that_do_not_flush(vmid: int, request_bits: int, word: str) -> None:
    board, queue, va, old, _ = remapped("gfx1100")
    board.write("GC", "GCVM_INVALIDATE_ENG17_REQ", request_bits | 1 << vmid)
    check(board.read("GC", "GCVM_INVALIDATE_ENG17_ACK") == 1 << vmid, "acknowledged")
    board.submit(queue, write_data(va, 2))
    check(board.word(old) == 2, "still the old page")
    check(any(word in text for text in board.violations()), str(board.violations()))


def test_a_flush_that_nobody_waits_for_has_not_happened() -> None:
    board, queue, va, old, new = remapped("gfx1100")
    board.write("GC", "GCVM_INVALIDATE_ENG17_REQ", 0xF8_0000 | 1 << VMID)
    board.submit(queue, write_data(va, 2))
    check((board.word(old), board.word(new)) == (2, 0), "it was done at once")
    check("stale translation" in board.violations()[0], str(board.violations()))
    check(board.read("GC", "GCVM_INVALIDATE_ENG17_ACK") == 1 << VMID, "acknowledged")
    board.submit(queue, write_data(va, 3))
    check((board.word(old), board.word(new)) == (2, 3), "it is never done")


def test_an_engine_with_a_short_range_does_not_flush() -> None:
    board, queue, va, old, _ = remapped("gfx1100")
    board.write("GC", "GCVM_INVALIDATE_ENG3_ADDR_RANGE_HI32", 0)
    board.write("GC", "GCVM_INVALIDATE_ENG3_REQ", 0xF8_0000 | 1 << VMID)
    check(board.read("GC", "GCVM_INVALIDATE_ENG3_ACK") == 1 << VMID, "acknowledged")
    board.submit(queue, write_data(va, 2))
    check(
        board.word(old) == 2 and "address range" in board.violations()[0], str(board.violations())
    )


def test_every_hub_of_gfx942_has_to_be_told() -> None:
    board, queue, va, old, _ = remapped("gfx942")
    for xcc in range(8):
        board.write("GC", "VM_INVALIDATE_ENG17_REQ", 0x7C_0000 | 1 << VMID, xcc)
    for xcc in range(7):
        check(board.read("GC", "VM_INVALIDATE_ENG17_ACK", xcc) == 1 << VMID, f"{xcc}")
    board.submit(queue, write_data(va, 2))
    check(board.word(old) == 2, "the eighth remembers")
    check(board.read("GC", "VM_INVALIDATE_ENG17_ACK", 7) == 1 << VMID, "the eighth")
    board.submit(queue, write_data(va, 3))
    check(board.word(old) == 2, "all were told")


def test_the_semaphore_of_the_memory_hub() -> None:
    board = Bringup("gfx1100").boot()
    at = "MMVM_INVALIDATE_ENG17_"
    check(board.read("MMHUB", at + "SEM") == 1, "free at first")
    check(board.read("MMHUB", at + "SEM") == 0, "taken")
    board.write("MMHUB", at + "SEM", 0)
    board.write("MMHUB", at + "REQ", 0xF8_0100)
    check("semaphore" in board.violations()[0], str(board.violations()))
    check(board.read("MMHUB", at + "ACK") == 0x100, "acknowledged")


def test_pages_on_the_bus() -> None:
    board = Bringup("gfx1100").boot()
    board.bus.mapped[0x4000_0000] = (0, 0x2000, True)
    board.bus.mapped[0x4000_2000] = (0x8000, 0x1000, False)
    queue, other, third = board.compute(), board.compute(queue=1), board.compute(queue=2)
    board.map(BUS_VA, 0x4000_0000, 0x4000, VALID | SYSTEM | SNOOPED | READ | WRITE)
    board.flush()
    board.submit(queue, [*write_data(BUS_VA + 0x1004, 11)])
    check(int(board.bus.pool.words[0x1004 // 4]) == 11, "host memory")
    check(board.violations() == [], str(board.violations()))
    del board.bus.mapped[0x4000_0000]
    board.submit(queue, write_data(BUS_VA + 0x1004, 12))
    check(int(board.bus.pool.words[0x1004 // 4]) == 11, "the IOMMU has it no longer")
    check("DMA outside mapped memory" in board.violations()[0], str(board.violations()))
    board.submit(other, write_data(BUS_VA + 0x2000, 1))
    check(int(board.bus.pool.words[0x8000 // 4]) == 0, "read-only for the device")
    board.gpu.config.write(4, b"\x02\x00")
    board.submit(third, write_data(BUS_VA + 0x2000, 1))
    check("bus mastering off" in " ".join(board.violations()), str(board.violations()))


def test_vmid_0_reaches_vram_and_nothing_else() -> None:
    board = Bringup("gfx1100").boot()
    hub = board.gpu.graphics.gc_hub
    base = board.gpu.board.mc_base
    board.words(0x300_0000, [42])
    read = hub.space(0).agent("CP").read(base + 0x300_0000, 4)
    check(int.from_bytes(read, "little") == 42, f"{read}")
    for va in (base + (1 << 28), base - 0x10000, 0):
        check(hub.tlb(0).lookup(va) is None, f"{va:#x}")


def test_a_page_of_the_bus_is_remembered_too() -> None:
    board = Bringup("gfx1100").boot()
    board.bus.mapped[0x4000_0000] = (0, 0x2000, True)
    queue = board.compute()
    board.map(BUS_VA, 0x4000_0000, 4096, VALID | SYSTEM | SNOOPED | READ | WRITE)
    board.flush()
    board.submit(queue, write_data(BUS_VA, 1))
    board.map(BUS_VA, 0x4000_1000, 4096, VALID | SYSTEM | SNOOPED | READ | WRITE)
    board.submit(queue, write_data(BUS_VA, 2))
    words = board.bus.pool.words
    check((int(words[0]), int(words[1024])) == (2, 0), "the old address on the bus")
    check("stale translation" in board.violations()[0], str(board.violations()))


def test_memory_of_the_firmware_is_nobody_elses() -> None:
    board = Bringup("gfx1100").boot()
    queue, (va, offset) = board.compute(), board.buffer(2 * 4096)
    board.vram.guarded.append(Guarded(offset + 4096, offset + 8192))
    board.flush()
    board.submit(queue, write_data(va, 1))
    check(board.word(offset) == 1 and board.violations() == [], "the page before it is free")
    board.submit(queue, write_data(va + 4096, 1))
    check(int(board.vram.words[offset // 4 + 1024]) == 0, "written")
    check("access refused" in " ".join(board.violations()), str(board.violations()))


def test_late_doorbells() -> None:
    board = Bringup("gfx1100", Options(late=True)).boot()
    queue, (va, offset) = board.compute(), board.buffer()
    board.flush()
    board.submit(queue, write_data(va, 1))
    check(board.word(offset) == 0, "it ran at once")
    check(board.gpu.pump() and board.word(offset) == 1, "it never ran")


# The walker alone


def walker(fmt: str, memory: dict[int, np.ndarray], context: Context, found: list) -> Walker:
    def read(pa: int, on_bus: bool, first: int, count: int):
        table = memory.get(pa)
        return None if table is None else table[first : first + count].copy()

    made = Walker(FORMATS[fmt], read, lambda kind, what: found.append(kind))
    made.context = context
    return made


@pytest.mark.parametrize("fmt", ["gfx9", "gfx11", "gfx12"])
def test_walks_of_four_levels(fmt: str) -> None:
    # src: amdgpu_vm.h: AMDGPU_PDE_PTE bit 54, AMDGPU_PDE_PTE_GFX12 and AMDGPU_PTE_IS_PTE bit 63
    block = 1 << (63 if fmt == "gfx12" else 54)
    leaf = 1 << 63 if fmt == "gfx12" else 0
    tables = {pa: np.zeros(512, np.uint64) for pa in (0x1000, 0x2000, 0x3000, 0x4000)}
    tables[0x1000][1] = 0x2000 | VALID
    tables[0x2000][2] = 0x3000 | VALID
    tables[0x3000][3] = 0x4000 | VALID
    tables[0x3000][4] = 0x60_0000 | block | ALL
    for page in range(5, 9):
        tables[0x4000][page] = 0x9000 + page * 4096 | leaf | ALL
    made = walker(fmt, tables, Context(0x1000 | VALID, 0, (1 << 48) - 1, 3, 0), [])
    top = 1 << 39 | 2 << 30
    run = made.walk(top | 3 << 21 | 6 << 12 | 0x123)
    check((run.va, run.nbytes, run.pa) == (top | 3 << 21 | 5 << 12, 4 * 4096, 0xE000), f"{run}")
    large = made.walk(top | 4 << 21 | 0x12345)
    check((large.va, large.nbytes, large.pa) == (top | 4 << 21, 1 << 21, 0x60_0000), f"{large}")
    check(made.walk(top | 3 << 21) is None and made.missing.error == PAGE, "no page")
    check(made.walk(top | 5 << 21) is None and made.missing.error == DIRECTORY, "no table")
    check(made.walk(1 << 48) is None and made.missing.error == RANGE, "beyond the context")


@pytest.mark.parametrize("fmt", ["gfx9", "gfx11", "gfx12"])
def test_a_large_entry_may_point_anywhere(fmt: str) -> None:
    """2 MiB from an address that is a multiple of 4 KiB alone.

    src: amdgpu_vm_pt.c amdgpu_vm_ptes_update(): the level follows from the virtual address and the
    length, the address is written as it is; tinygrad's memory.py likewise, and known to run.
    """
    block = 1 << (63 if fmt == "gfx12" else 54)
    tables = {pa: np.zeros(512, np.uint64) for pa in (0x1000, 0x2000)}
    tables[0x1000][1] = 0x2000 | VALID
    tables[0x2000][4] = 0x203_4000 | block | ALL
    made = walker(fmt, tables, Context(0x1000 | VALID, 0, (1 << 39) - 1, 2, 0), [])
    found = made.walk(1 << 30 | 4 << 21 | 0x1F_F000)
    check(
        (found.va, found.nbytes, found.pa) == (1 << 30 | 4 << 21, 1 << 21, 0x203_4000), f"{found}"
    )


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_a_queue_writes_through_an_unaligned_large_entry(name: str) -> None:
    board = Bringup(name).boot()
    queue, (_, offset), va = board.compute(), board.buffer(), 0x1_4000_0000
    directory = board.root
    board.last_table(va)
    for shift in LEVELS[:-1]:
        directory = board.entry(directory, va >> shift & 511) & ADDRESS
    block = 1 << (63 if name == "gfx1201" else 54)
    board.set_entry(
        directory, va >> LEVELS[-1] & 511, offset | ALL | UNCACHED[board.family] | block
    )
    board.flush()
    board.submit(queue, write_data(va + 8, 77))
    check(offset % (1 << 21) != 0 and board.word(offset + 8) == 77, str(board.violations()))


def test_a_context_that_begins_elsewhere() -> None:
    """Indices count from START. src: tinygrad amdev.py, whose START is 0x2000_0000_0000"""
    tables = {0x1000: np.zeros(512, np.uint64)}
    tables[0x1000][7] = 0x5000 | ALL
    start = 0x2000_0000_0000
    made = walker("gfx11", tables, Context(0x1000 | VALID, start, start + 0xFFFF, 0, 0), [])
    check(made.walk(start + 0x7000).pa == 0x5000, "flat table")
    check(made.walk(0x7000) is None, "below START")


def test_translating_further() -> None:
    """src: gmc_v9_0_get_vm_pde(): BFS 9 above, and TF where a table of 4 KiB pages follows."""
    tables = {pa: np.zeros(512, np.uint64) for pa in (0x1000, 0x2000, 0x3000, 0x4000)}
    tables[0x1000][0] = 0x2000 | VALID
    tables[0x2000][1] = 0x3000 | VALID | 9 << 59
    tables[0x3000][2] = 0x80_0000 | ALL
    tables[0x3000][5] = 0x4000 | VALID | 1 << 56
    tables[0x4000][9] = 0x7000 | ALL
    made = walker("gfx9", tables, Context(0x1000 | VALID, 0, (1 << 48) - 1, 2, 9), [])
    large = made.walk(1 << 30 | 2 << 21 | 0x1234)
    check((large.va, large.nbytes, large.pa) == (1 << 30 | 2 << 21, 1 << 21, 0x80_0000), f"{large}")
    small = made.walk(1 << 30 | 5 << 21 | 9 << 12 | 4)
    check(
        (small.va, small.nbytes, small.pa) == (1 << 30 | 5 << 21 | 9 << 12, 4096, 0x7000), "4 KiB"
    )


def test_a_fragment_that_reaches_too_far_is_found_and_believed() -> None:
    found: list[str] = []
    tables = {0x1000: np.zeros(512, np.uint64)}
    fragment = 2 << 7
    for page in range(4):
        tables[0x1000][page] = 0x10_0000 + page * 4096 | ALL | fragment
    context = Context(0x1000 | VALID, 0, (1 << 21) - 1, 0, 0)
    check(walker("gfx11", tables, context, found).walk(0x1000).nbytes == 4 * 4096, "whole")
    check(found == [], f"{found}")
    tables[0x1000][3] = 0
    run = walker("gfx11", tables, context, found).walk(0x1000)
    check(found == ["fragment"] and run.nbytes == 4 * 4096, f"{found} {run}")


def test_entries_of_the_tests_are_what_the_kernel_calls_uncached() -> None:
    for family, entry in UNCACHED.items():
        check(FORMATS[family].uncached(entry | VALID), family)


def test_a_context_that_is_off() -> None:
    board = Bringup("gfx1100").boot()
    queue = board.compute()
    board.write("GC", f"GCVM_CONTEXT{VMID}_CNTL", 0)
    board.flush()
    board.submit(queue, release(0x1_0000_0000, 1))
    check("page fault without an interrupt" in board.violations()[0], str(board.violations()))
    check(board.read("GC", "GCVM_L2_PROTECTION_FAULT_STATUS") >> 1 & 7 == RANGE, "which error")

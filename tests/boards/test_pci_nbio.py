"""The bus interface: windows, HDP, routes of doorbells, registers that nobody knows."""

from __future__ import annotations

from threading import Thread

import pytest

from boards.amd.pci.register_table import table
from tests.boards.bare_function import FLUSH_OFF, NAMES, VRAM_BYTES, Bare
from tests.support import check


@pytest.mark.parametrize("name", NAMES)
def test_vram_through_the_index_register(name: str) -> None:
    """src: notes section 3.1: MM_INDEX is dword 0, MM_DATA 1, MM_INDEX_HI 6."""
    bare = Bare(name)
    bare.put(0x123454, b"\x78\x56\x34\x12")
    bare.gpu.write(5, 24, 4, 0)
    bare.gpu.write(5, 0, 4, 0x123454 | 1 << 31)
    check(bare.gpu.read(5, 4, 4) == 0x12345678, "a read")
    bare.gpu.write(5, 4, 4, 0xCAFE)
    check(bare.get(0x123454, 4) == b"\xfe\xca\0\0", "a write")
    bare.gpu.write(5, 24, 4, VRAM_BYTES >> 31 | 1)
    check(bare.gpu.read(5, 4, 4) == 0xFFFF_FFFF, "beyond VRAM")
    check(bare.found() == ["VRAM that the host may not reach"], "nobody noticed")


@pytest.mark.parametrize(
    ("name", "index", "data"),
    [("gfx1100", "RSMU_INDEX", "RSMU_DATA"), ("gfx1201", "RSMU_INDEX", "RSMU_DATA")],
)
def test_registers_beyond_the_bar_by_index(name: str, index: str, data: str) -> None:
    bare = Bare(name)
    prefix = "GDC_S2A0_" if name == "gfx1201" else ""
    entry = bare.address("NBIF", f"{prefix}S2A_DOORBELL_ENTRY_2_CTRL")
    if name == "gfx1100":
        check(entry == 0x141E908, "src: amd_boot_registers_gfx1100.txt")
        check(bare.gpu.read(5, entry, 4) == 0xFFFF_FFFF, "it is in the BAR")
    bare.write("NBIF", f"BIF_BX_PF0_{index}", entry)
    bare.write("NBIF", f"BIF_BX_PF0_{data}", 0x3009001D)
    block = bare.gpu.board.block("NBIF")
    field = f"{prefix}S2A_DOORBELL_ENTRY_2_CTRL", "S2A_DOORBELL_PORT2_AWID"
    check(block.field(*field) == 0xE, "src: the value that the trace has")
    check(bare.read("NBIF", f"BIF_BX_PF0_{data}") == 0x3009001D, "read back")


def test_registers_of_another_base_die() -> None:
    """src: aqua_vanjaram.c: bit 34 and bits 33:32 of the byte address choose it."""
    bare = Bare("gfx942")
    fence = bare.address("NBIF", "XCC_DOORBELL_FENCE")
    for die in (0, 2):
        high = (1 << 2 | die) if die else 0
        bare.write("NBIF", "BIF_BX0_PCIE_INDEX2", fence)
        bare.write("NBIF", "BIF_BX0_PCIE_INDEX2_HI", high)
        bare.write("NBIF", "BIF_BX0_PCIE_DATA2", 0x10000 + die)
    values = [bare.gpu.board.block("NBIF", die).get("XCC_DOORBELL_FENCE") for die in range(4)]
    check(values == [0x10000, 0, 0x10002, 0], f"{values}")
    check(bare.found() == [], "it was unknown")


def test_every_way_to_flush_hdp() -> None:
    bare = Bare("gfx1100")
    board = bare.gpu.board
    default = bare.read("NBIF", "BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL")
    bare.gpu.write(5, default, 4, 0)
    check(board.hdp_flushes == 1, "where it points from the beginning")
    bare.flush()
    check((board.hdp_flushes, bare.gpu.read(5, FLUSH_OFF, 4)) == (2, 0), "where it was moved to")
    bare.gpu.write(5, default, 4, 0)
    check(board.hdp_flushes == 3, "the register itself")
    bare.write("NBIF", "BIF_BX_PF0_GPU_HDP_FLUSH_REQ", 5)
    check(bare.read("NBIF", "BIF_BX_PF0_GPU_HDP_FLUSH_DONE") == 5, "not done")
    check((board.hdp_flushes, bare.found()) == (4, []), "request and done")


def test_a_flush_that_is_not_read_back_is_found() -> None:
    """src: hdp_v6_0.c: "we just need to read back a register to post the write"."""
    bare = Bare("gfx1100")
    bare.flush()
    bare.gpu.write(5, FLUSH_OFF, 4, 0)
    bare.gpu.board.launched("q", "queue 1")
    check(bare.found() == ["HDP flush under way"], "nobody noticed")
    bare.gpu.board.need_flushed("an MQD")
    check(bare.found() == ["HDP flush under way"], "it is under way still")
    bare.read("NBIF", "RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE")
    bare.gpu.board.need_flushed("an MQD")
    check(bare.found() == [], "a read ends it")


def test_another_threads_flush_may_be_under_way() -> None:
    """It is of that thread's own stores."""
    bare = Bare("gfx1100")
    bare.flush()
    other = Thread(target=bare.gpu.write, args=(5, FLUSH_OFF, 4, 0))
    other.start()
    other.join()
    bare.gpu.board.launched("q", "queue 1")
    check(bare.found() == [], "that thread's doorbell comes after its own read")


def test_a_launch_without_a_flush_is_found() -> None:
    bare = Bare("gfx1100")
    launched = bare.gpu.board.launched
    launched("q", "queue 1")
    check(bare.found() == ["doorbell without HDP flush"], "the first one")
    bare.flush()
    launched("q", "queue 1")
    launched("other", "queue 2")
    check(bare.found() == [], "one flush is for every ring")
    launched("q", "queue 1")
    check(bare.found() == ["doorbell without HDP flush"], "the second one")


# Values that drivers known to run write. src: nbio_v4_3.c, amd_boot_registers_gfx1100.txt
ROUTES = {0: 0x30000007, 3: 0x3000000D, 2: 0x3009001D}


def route(bare: Bare, entry: int, value: int) -> None:
    prefix = "GDC_S2A0_" if bare.name.startswith("gfx12") else ""
    name = f"{prefix}S2A_DOORBELL_ENTRY_{entry}_CTRL"
    bare.write("NBIF", "BIF_BX_PF0_RSMU_INDEX", bare.address("NBIF", name))
    bare.write("NBIF", "BIF_BX_PF0_RSMU_DATA", value)


@pytest.mark.parametrize("entry", [0, 2, 3])
@pytest.mark.parametrize("bit", [0, 1, 28])
def test_a_route_that_is_almost_right_leads_nowhere(entry: int, bit: int) -> None:
    """Its enable, its AWID, its upper address: an SDMA route that is off is another test."""
    bare = Bare("gfx1100")
    bare.gpu.doorbells.listen(lambda block, index, nbytes, value: True)
    bare.write("NBIF", "RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN", 1)
    for number, value in ROUTES.items():
        route(bare, number, value ^ (1 << bit) * (number == entry))
    bare.gpu.write(2, 0x800 if entry == 2 else 0x18, 8, 1)
    lost = (entry, bit) != (2, 0)
    check(bare.found() == ["doorbell lost"] * lost, f"{entry} {bit}")


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201"])
def test_doorbells_need_aperture_and_routes(name: str) -> None:
    bare = Bare(name)
    heard: list[tuple[str, int, int, int]] = []

    def listen(block: str, index: int, nbytes: int, value: int) -> bool:
        heard.append((block, index, nbytes, value))
        return value < 100

    bare.gpu.doorbells.listen(listen)
    bare.gpu.write(2, 0x18, 8, 1)
    check((heard, bare.found()) == ([], ["doorbell lost"]), "the aperture is off")
    bare.write("NBIF", "RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN", 1)
    bare.gpu.write(2, 0x18, 8, 1)
    check((heard, bare.found()) == ([], ["doorbell lost"]), "there are no routes")
    for entry, value in ROUTES.items():
        route(bare, entry, value)
    bare.gpu.write(2, 0x18, 8, 2)
    bare.gpu.write(2, 0x800, 8, 3)
    check(heard == [("GC", 6, 8, 2), ("SDMA", 0x200, 8, 3)], f"{heard}")
    check(bare.found() == [], "both were taken")
    bare.gpu.write(2, 0x18, 8, 101)
    check(bare.found() == ["doorbell without a queue"], "a queue that is not there")
    bare.gpu.write(2, 0x19, 2, 1)
    check(bare.found() == ["odd doorbell"], "two bytes")
    route(bare, 2, ROUTES[2] & ~1)
    bare.gpu.write(2, 0x800, 8, 4)
    check(heard[-1] == ("GC", 0x200, 8, 4), "without its entry it goes where all others go")


def test_routes_of_gfx942_are_by_die() -> None:
    """src: nbio_v7_9.c sdma_doorbell_range(): a range, and a port on the engine's base die."""
    bare = Bare("gfx942")
    heard: list[tuple[str, int]] = []
    bare.gpu.doorbells.listen(lambda block, index, nbytes, value: not heard.append((block, index)))
    nbif = bare.gpu.board.block("NBIF")
    nbif.put("RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN", 1)
    bare.gpu.write(2, 0x18, 8, 1)
    check((heard, bare.found()) == ([], ["doorbell lost"]), "src: BIFC_DOORBELL_ACCESS_EN_PF")
    nbif.put("BIFC_DOORBELL_ACCESS_EN_PF", 0xFFFFF)
    bare.gpu.write(2, 0x18, 8, 1)
    check(heard == [("GC", 6)], f"{heard}")
    sixth = 0x100 * 2 + 5 * 20  # engine 5: die 1, its second port
    nbif.put("DOORBELL0_CTRL_ENTRY_6", sixth | 20 << 10)
    bare.gpu.write(2, 4 * sixth, 8, 1)
    check(bare.found() == ["doorbell lost"], "its port is off")
    port = bare.gpu.board.block("NBIF", 1)
    for almost in (0x2000_0410, 0x2000_0401, 0x2000_0011, 0x0411):
        port.put("S2A_DOORBELL_ENTRY_2_CTRL", almost)
        bare.gpu.write(2, 4 * sixth, 8, 1)
        check(bare.found() == ["doorbell lost"], f"{almost:#x}")
    port.put("S2A_DOORBELL_ENTRY_2_CTRL", 0x2000_0411 | 20 << 17)
    bare.gpu.write(2, 4 * sixth, 8, 1)
    check((heard[-1], bare.found()) == (("SDMA", sixth), []), f"{heard}")


def test_registers_that_nobody_knows_and_that_nobody_may_write() -> None:
    bare = Bare("gfx1100")
    check(bare.gpu.read(5, 0x7F004, 4) == 0, "an unknown one reads as zero")
    bare.gpu.write(5, 0x7F004, 4, 1)
    bare.gpu.read(5, 0x18, 8)
    bare.write("NBIF", "RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE", 1)
    expected = ["unknown register"] * 2
    expected += ["register access that is no dword", "write to a read-only register"]
    check(bare.found() == expected, "violations")
    check(bare.read("NBIF", "RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE") == VRAM_BYTES >> 20, "written")


@pytest.mark.parametrize("name", ["gc_11_0_0", "gc_11_0_3", "gc_12_0_0", "gc_9_4_3"])
def test_fields_of_registers_do_not_overlap(name: str) -> None:
    for register in table(name).values():
        taken = 0
        for field, (low, high) in register.fields.items():
            mask = (1 << high - low + 1) - 1 << low
            check(high < 32 and not taken & mask, f"{register.name}.{field}")
            taken |= mask

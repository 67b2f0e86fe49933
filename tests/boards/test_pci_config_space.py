"""Config space of a board's function: ids, BARs sized by ones, capabilities, the command bits."""

from __future__ import annotations

import pytest

from boards.machine.pool import Pool
from tests.boards.bare_function import MIB, NAMES, VRAM_BYTES, Bare
from tests.support import check

# src: pci-ids.ucw.cz, vendor 1002
IDS = {
    "gfx1100": 0x744C, "gfx1101": 0x747E, "gfx1102": 0x7480, "gfx1200": 0x7590, "gfx1201": 0x7550,
    "gfx942": 0x74A1,
}  # fmt: skip


def word(bare: Bare, off: int, nbytes: int = 4) -> int:
    return int.from_bytes(bare.gpu.config.read(off, nbytes), "little")


def put(bare: Bare, off: int, value: int, nbytes: int = 4) -> None:
    bare.gpu.config.write(off, value.to_bytes(nbytes, "little"))


def capability(bare: Bare, number: int) -> int:
    """Where a capability is. src: PCI 3.0, 6.7"""
    at = word(bare, 0x34, 1)
    for _ in range(16):
        if word(bare, at, 1) == number:
            return at
        at = word(bare, at + 1, 1)
        if not at:
            break
    raise AssertionError(f"no capability {number:#x}")


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_classes(name: str) -> None:
    bare = Bare(name)
    check(word(bare, 0) == 0x1002 | IDS[name] << 16, hex(word(bare, 0)))
    expected = 0x120000 if name == "gfx942" else 0x030000
    check(word(bare, 8) >> 8 == expected, hex(word(bare, 8)))
    check(word(bare, 6, 2) & 0x10 != 0, "no capability list")
    before = bare.gpu.config.read(0, 4)
    put(bare, 0, 0)
    check(bare.gpu.config.read(0, 4) == before, "ids can be written")
    check(bare.gpu.config.read(4094, 4) == b"\0\0\xff\xff", "past the end")


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx942"])
def test_bars_are_sized_by_writing_ones(name: str) -> None:
    bare = Bare(name)
    for bar, wide in ((0, True), (2, True), (5, False)):
        at = 0x10 + 4 * bar
        put(bare, at, 0xFFFF_FFFF_FFFF_FFFF if wide else 0xFFFF_FFFF, 8 if wide else 4)
        seen = word(bare, at, 8 if wide else 4)
        check(seen & 0xF == (0xC if wide else 0), f"BAR {bar} says {seen:#x}")
        mask = (1 << (64 if wide else 32)) - 1
        check((~seen | 0xF) + 1 & mask == bare.gpu.bars[bar].nbytes, f"BAR {bar}: {seen:#x}")
    check(bare.gpu.bars[0].nbytes == VRAM_BYTES, "the BAR is not as large as VRAM")


def test_a_bar_that_answers_only_when_memory_is_on() -> None:
    bare = Bare("gfx1100")
    memsize = bare.address("NBIF", "RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE")
    check(memsize == 4 * 0xDE3, "src: notes section 3.1")
    check(bare.gpu.read(5, memsize, 4) == VRAM_BYTES // MIB, "memory size")
    put(bare, 4, 0, 2)
    check(bare.gpu.read(5, memsize, 4) == 0xFFFF_FFFF, "it answers")
    check(bare.found() == ["BAR access with memory disabled"], "nobody noticed")


def test_the_resizable_bar_resizes() -> None:
    bare = Bare("gfx1100", vram_bytes=1 << 30, bar_bytes=256 * MIB)
    at = 0x200
    check(word(bare, at, 2) == 0x15, "src: pci_regs.h PCI_EXT_CAP_ID_REBAR")
    check(word(bare, at + 4) == 1 << 12 | 1 << 13 | 1 << 14, "256 MiB, 512 MiB, 1 GiB")
    seen: list[int] = []
    bare.gpu.on_config(lambda: seen.append(bare.gpu.bars[0].nbytes))
    put(bare, at + 8, word(bare, at + 8) & ~0x3F00 | 10 << 8)
    check((bare.gpu.bars[0].nbytes, seen) == (1 << 30, [1 << 30]), f"{seen}")
    put(bare, 0x10, 0xFFFF_FFFF_FFFF_FFFF, 8)
    check(word(bare, 0x10, 8) & ~0xF == 0xFFFF_FFFF_C000_0000, "sized as before")
    put(bare, at + 8, 20 << 8)
    check(bare.gpu.bars[0].nbytes == 1 << 30, "a size that is not offered was taken")


def test_capabilities_of_power_and_link() -> None:
    bare = Bare("gfx1100")
    at = capability(bare, 1)
    check(word(bare, at + 4, 2) & 8, "src: PCI_PM_CTRL_NO_SOFT_RESET")
    put(bare, at + 4, 0xFFFF, 2)
    check(word(bare, at + 4, 2) == 0xB, "more than the power state can be written")
    link = word(bare, capability(bare, 0x10) + 0x12, 2)
    check((link & 0xF, link >> 4 & 0x3F) == (4, 16), f"{link:#x} is not 16 GT/s, 16 lanes")


class Bus:
    def __init__(self) -> None:
        self.messages: list[int] = []
        self.asked: list[int] = []

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        self.asked.append(address)
        return None

    def message(self, vector: int) -> None:
        self.messages.append(vector)


def test_dma_needs_bus_mastering() -> None:
    bare, bus = Bare("gfx1100"), Bus()
    bare.gpu.connect(bus)
    put(bare, 4, 2, 2)
    check(bare.gpu.board.dma(0x1000, 4, write=True) is None, "memory")
    check((bus.asked, bare.found()) == ([], ["DMA with bus mastering off"]), f"{bus.asked}")
    put(bare, 4, 6, 2)
    bare.gpu.board.dma(0x1000, 4, write=True)
    check((bus.asked, bare.found()) == ([0x1000], ["DMA outside mapped memory"]), f"{bus.asked}")


def test_messages_are_sent_masked_and_pending() -> None:
    bare, bus = Bare("gfx942"), Bus()
    bare.gpu.connect(bus)
    at = capability(bare, 5)
    bare.gpu.board.raise_msi(0)
    check(bus.messages == [], "MSI is off")
    put(bare, at + 2, 1, 2)
    bare.gpu.board.raise_msi(0)
    check(bus.messages == [0], "no message")
    put(bare, at + 16, 1)
    bare.gpu.board.raise_msi(0)
    check((bus.messages, word(bare, at + 20)) == ([0], 1), "a masked message went out")
    put(bare, at + 16, 0)
    check((bus.messages, word(bare, at + 20)) == ([0, 0], 0), "the pending one did not come")


def test_a_function_level_reset_where_there_is_one() -> None:
    """gfx942 offers it in its PCI Express capability, Navi does not. src: lspci of both"""
    for name, offered in (("gfx942", True), ("gfx1100", False)):
        bare = Bare(name)
        at = capability(bare, 0x10)
        check(bool(word(bare, at + 4) >> 28 & 1) is offered, name)
        bare.write("GC", "SCRATCH_REG0", 7)
        put(bare, at + 8, word(bare, at + 8, 2) | 0x8000, 2)
        put(bare, 4, 6, 2)
        check(bare.read("GC", "SCRATCH_REG0") == (0 if offered else 7), name)

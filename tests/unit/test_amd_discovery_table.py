"""The discovery binary: what is read from it, and what is not believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drivers.amd.pci import discovery
from drivers.amd.pci.handover import is_kept
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ip_table import GcInfo
from drivers.amd.pci.mmio import MEMSIZE
from drivers.bare.bus import RegisterBus
from drivers.base.errors import DeviceTimeout, MalformedInput, NotFound
from tests import discovery_maker as maker
from tests.fake_registers import FakeClock, FakeRegisters, FakeVram
from tests.support import check

NAVI31 = maker.Binary(maker.ips_of(maker.GFX1100), gc_words=maker.gc_v1(6, 4, 4, 2))
MI300 = maker.Binary(
    [maker.Ip(11, at, (9, 4, 3), (0x2000, 0xA000 | at << 32)) for at in range(8)]
    + [maker.Ip(42, at, (4, 4, 2), (0x1260,)) for at in range(16)]
    + [maker.Ip(108, 0, (7, 9, 0), (0,) * 9)],
    version=4, wide=True, gc_version=(2, 1), gc_words=maker.gc_v2(4, 10, 1),
    harvest=[(11, 3), (42, 6), (150, 1)],
)  # fmt: skip
VRAM_BYTES = 1 << 30
MP1, DISPLAY = maker.Ip(1, 0, (13, 0, 10), (0x16000,)), maker.Ip(271, 0, (3, 2, 0), (0x12,))
"""src: include/soc15_hw_ip.h MP1_HWID, DMU_HWID"""


def test_a_table_of_blocks_with_their_segments() -> None:
    table = discovery.parse(maker.build(NAVI31))
    check(table.version(HwId.GC) == (11, 0, 0) and table.version(HwId.NBIF) == (4, 3, 0))
    check(table.get(HwId.MMHUB).bases == (0x1A000, 0x2408800), "bases of MMHUB")
    check(table.gc == GcInfo(6, 2, 16, 32, 16, 32, 64), f"{table.gc}")


def test_several_instances_64_bit_bases_and_what_is_fused_off() -> None:
    table = discovery.parse(maker.build(MI300))
    check(table.instances(HwId.GC) == (0, 1, 2, 4, 5, 6, 7), f"{table.instances(HwId.GC)}")
    check(len(table.instances(HwId.SDMA0)) == 15, "one copy engine is fused off")
    check(table.get(HwId.GC, 7).bases == (0x2000, 0xA000), "30 bits of a base are believed")
    check(table.gc == GcInfo(4, 1, 10, 64, 8, 32, 64), f"{table.gc}")
    with pytest.raises(NotFound, match="fused off"):
        table.get(HwId.GC, 3)
    with pytest.raises(NotFound, match="MMHUB"):
        table.version(HwId.MMHUB)


def test_an_early_table_says_itself_what_is_fused_off() -> None:
    ips = maker.ips_of(maker.GFX1100)
    ips[1].last = 1
    made = replace(NAVI31, ips=ips, version=2)
    check(discovery.parse(maker.build(made)).instances(HwId.SDMA0) == (), "harvest bit")
    later = discovery.parse(maker.build(replace(made, version=3)))
    check(later.instances(HwId.SDMA0) == (0,), "the same bits are a variant later")


@pytest.mark.parametrize(("ips", "fused", "kept"), [
    ((), [], True), ((DISPLAY,), [], False), ((DISPLAY,), [(271, 0)], True),
])  # fmt: skip
def test_a_fused_off_display_is_none(
    ips: tuple[maker.Ip, ...], fused: list[tuple[int, int]], kept: bool
) -> None:
    """src: amdgpu_device.c amdgpu_device_has_display_hardware()"""
    made = replace(NAVI31, ips=[MP1, *ips], harvest=fused)
    check(is_kept(discovery.parse(maker.build(made))) is kept, "whether amdgpu keeps its state")


@pytest.mark.parametrize("at", [9, 40, 90, 150, 300, 420])
def test_no_byte_may_change_without_the_checksum(at: int) -> None:
    data = bytearray(maker.build(NAVI31))
    data[at] ^= 0x10
    with pytest.raises(MalformedInput, match=r"sum up|binary_size|signature"):
        discovery.parse(bytes(data))


def test_the_sum_of_each_table_counts() -> None:
    """The sum of the whole is right, that of one table is not."""
    for index, what in ((0, "IP table"), (1, "gc_info"), (2, "harvest")):
        data = bytearray(maker.build(MI300))
        data[maker.AT_TABLES + index * 8 + 2] ^= 1
        data[8:10] = maker.sums(data[10:]).to_bytes(2, "little")
        with pytest.raises(MalformedInput, match=f"{what}.*sum up"):
            discovery.parse(bytes(data))


@pytest.mark.parametrize(("made", "message"), [
    (replace(NAVI31, version=9), "version 9"),
    (replace(NAVI31, gc_version=(3, 0)), "version 3.0"),
    (replace(NAVI31, gc_words=maker.gc_v1(0, 4, 4, 2)), "0 shader engines"),
    (replace(NAVI31, gc_words=maker.gc_v1(6, 4000, 4, 2)), "compute units"),
    (replace(NAVI31, ips=[maker.Ip(11, 0, (11, 0, 0), (0,) * 40)]), "40 bases"),
])  # fmt: skip
def test_numbers_that_no_chip_has(made: maker.Binary, message: str) -> None:
    with pytest.raises(MalformedInput, match=message):
        discovery.parse(maker.build(made))


def live(bar_bytes: int) -> tuple[RegisterBus, FakeVram, FakeRegisters]:
    registers = FakeRegisters({0xDE3: VRAM_BYTES >> 20, 0x16061: 1 << 31})
    vram = FakeVram(VRAM_BYTES, bar_bytes)
    vram.put(VRAM_BYTES - (64 << 10), maker.build(NAVI31))
    return RegisterBus(registers, FakeClock(), MEMSIZE), vram, registers


def test_through_a_large_bar_two_registers_are_read() -> None:
    bus, vram, _ = live(VRAM_BYTES)
    table, nbytes = discovery.read_table(bus, vram)
    check(nbytes == VRAM_BYTES and table.version(HwId.GC) == (11, 0, 0), "the table")
    check((bus.reads, bus.writes) == (2, 0), f"{bus.reads} reads, {bus.writes} writes")


def test_through_a_small_bar_the_index_registers_reach_the_end() -> None:
    bus, vram, registers = live(VRAM_BYTES // 4)
    registers.reads[1] = lambda: vram.word(
        registers.words[6] << 31 | registers.words[0] & (1 << 31) - 1
    )
    table, _ = discovery.read_table(bus, vram)
    check(table.version(HwId.OSSSYS) == (6, 0, 0), "the table")
    check(all(value >> 31 for off, value in registers.written if off == 0), "MM_INDEX without VRAM")


def test_firmware_that_is_not_done_is_waited_for_and_named() -> None:
    bus, vram, registers = live(VRAM_BYTES)
    registers.words[0x16061] = 0
    with pytest.raises(DeviceTimeout, match="C2PMSG_33") as error:
        discovery.read_table(bus, vram)
    check(error.value.register == "MP0.C2PMSG_33", error.value.register)


def test_a_memory_size_that_no_gpu_has() -> None:
    bus, vram, registers = live(VRAM_BYTES)
    for megabytes in (0, 1 << 21):
        registers.words[0xDE3] = megabytes
        with pytest.raises(MalformedInput, match="MEMSIZE"):
            discovery.read_table(bus, vram)

"""The discovery binary, read as discovery.h lays it out."""

from __future__ import annotations

import struct

import pytest

from boards.amd.chip import chip
from boards.amd.chip_data import NUMBERS
from boards.amd.pci import discovery_binary
from boards.amd.pci.ip_blocks import FUSED_OFF
from tests.boards.bare_function import MIB, NAMES, VRAM_BYTES, Bare
from tests.support import check

_GC, _MMHUB, _OSSSYS, _HDP, _SDMA0, _NBIF, _MP0, _MP1 = 11, 34, 40, 41, 42, 108, 255, 1
"""src: include/soc15_hw_ip.h"""


def total(data: bytes) -> int:
    """src: amdgpu_discovery.c amdgpu_discovery_calculate_checksum()"""
    return sum(data) % 65536


def tables(binary: bytes) -> list[bytes]:
    """Every table, its checksum checked. src: discovery.h struct binary_header"""
    signature, _, _, checksum, size = struct.unpack_from("<IHHHH", binary)
    check((signature, size) == (0x28211407, len(binary)), f"{signature:#x}, {size}")
    check(checksum == total(binary[10:]), "the binary's checksum")
    found = []
    for number in range(6):
        offset, checksum, nbytes, _ = struct.unpack_from("<4H", binary, 12 + 8 * number)
        table = binary[offset : offset + nbytes]
        check(checksum == total(table), f"checksum of table {number}")
        found.append(table)
    return found


def blocks(binary: bytes) -> list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """(hardware id, instance, version, bases) of everything on the only die."""
    at = struct.unpack_from("<H", binary, 12)[0]
    signature, version, size, _, dies = struct.unpack_from("<IHHIH", binary, at)
    check((signature, dies) == (0x53445049, 1), f"{signature:#x}, {dies} dies")
    _, die_at = struct.unpack_from("<HH", binary, at + 14)
    wide = version == 4 and bool(binary[at + 78] & 1)
    _, count = struct.unpack_from("<HH", binary, die_at)
    found, place = [], die_at + 4
    for _ in range(count):
        hw_id, instance, nbases, *numbers, _ = struct.unpack_from("<HBB3BB", binary, place)
        bases = struct.unpack_from(f"<{nbases}{'Q' if wide else 'I'}", binary, place + 8)
        found.append((hw_id, instance, tuple(numbers), bases))
        place += 8 + nbases * (8 if wide else 4)
    check(place == at + size, f"the table ends at {place:#x}, not {at + size:#x}")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_blocks_and_checksums(name: str) -> None:
    binary = discovery_binary.build(chip(name))
    check(len(binary) <= 10 << 10, "src: DISCOVERY_TMR_SIZE")
    tables(binary)
    numbers = NUMBERS[name]
    count: dict[int, int] = {}
    for hw_id, _, version, _ in blocks(binary):
        count[hw_id] = count.get(hw_id, 0) + 1
        expected = {_GC: numbers.gc, _SDMA0: numbers.sdma, _MMHUB: numbers.mmhub,
                    _NBIF: numbers.nbif, _MP0: numbers.mp, _MP1: numbers.mp}  # fmt: skip
        check(version == expected.get(hw_id, version), f"block {hw_id} is {version}")
    # src: notes section 3: eight XCCs, sixteen copy engines, a memory hub on each of four dies
    expected_count = (8, 16, 4) if name == "gfx942" else (1, 1, 1)
    check((count[_GC], count[_SDMA0], count[_MMHUB]) == expected_count, f"{count}")
    check({_OSSSYS, _HDP, _NBIF, _MP0, _MP1} <= set(count), f"{count}")


@pytest.mark.parametrize("name", NAMES)
def test_compute_units(name: str) -> None:
    table = tables(discovery_binary.build(chip(name)))[1]
    signature, major, minor, size = struct.unpack_from("<IHHI", table)
    check((signature, size) == (0x4347, len(table)), f"{signature:#x}, {size}")
    words = struct.unpack_from(f"<{(size - 12) // 4}I", table, 12)
    # src: discovery.h struct gc_info_v1_2, v1_3 and v2_1: lengths, and who is where
    lengths = {(1, 2): 30, (1, 3): 38, (2, 1): 24}
    check(len(words) == lengths[major, minor], f"v{major}.{minor} has {len(words)} words")
    if major == 2:
        engines, cus_per_sh, sh_per_se = words[:3]
        check((words[11], engines * sh_per_se * cus_per_sh) == (64, 40), f"{words}")
        return
    engines, wgp0, wgp1, per_engine = words[0], words[1], words[2], words[16]
    check(engines * per_engine * 2 * (wgp0 + wgp1) == NUMBERS[name].cus, f"{words}")
    check(words[11] == 32, "lanes")


@pytest.mark.parametrize("name", ["gfx1100", "gfx942"])
def test_it_lies_at_the_end_of_vram_and_registers_where_it_says(name: str) -> None:
    bare = Bare(name)
    at = VRAM_BYTES - (64 << 10)
    binary = bare.get(at, 10 << 10)
    size = struct.unpack_from("<H", binary, 10)[0]
    check(binary[:size] == discovery_binary.build(chip(name), FUSED_OFF), "another binary")
    nbif = next(bases for hw_id, _, _, bases in blocks(binary[:size]) if hw_id == _NBIF)
    # src: nbio_*_offset.h RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE: 0xc3 of segment 2
    check(bare.gpu.read(5, 4 * (nbif[2] + 0xC3), 4) == VRAM_BYTES // MIB, "memory size")
    check(bare.found() == [], "a wrong base")


def test_harvested_blocks() -> None:
    table = tables(discovery_binary.build(chip("gfx942"), cut=((_GC, 3), (_SDMA0, 9))))[2]
    entries = [struct.unpack_from("<HBB", table, 8 + 4 * number) for number in range(32)]
    check(struct.unpack_from("<I", table)[0] == 0x56524148, "src: HARVEST_TABLE_SIGNATURE")
    check(entries[:3] == [(_GC, 3, 0), (_SDMA0, 9, 0), (0, 0, 0)], f"{entries[:3]}")


def test_a_broken_checksum_would_be_seen() -> None:
    binary = bytearray(discovery_binary.build(chip("gfx1100")))
    binary[100] ^= 1
    with pytest.raises(AssertionError, match="checksum"):
        tables(bytes(binary))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fused", [0, 16])
def test_units_that_are_fused_off_are_told_by_their_arrays(name: str, fused: int) -> None:
    """src: gfx_v11_0.c, gfx_v9_4_3.c get_cu_info(): by shader engine and array, in every XCC."""
    bare = Bare(name, harvested_cus=fused)
    words = struct.unpack_from("<24I", tables(discovery_binary.build(chip(name)))[1], 12)
    wide = name == "gfx942"
    engines, per_engine = words[0], words[2] if wide else words[16]
    units = words[1] if wide else words[1] + words[2]
    active = 0
    for block in bare.gpu.board.registers.every("GC"):
        for engine in range(engines):
            for array in range(per_engine):
                at = 4 * block.address_dw("GRBM_GFX_INDEX")
                # src: gc_11_0_0_sh_mask.h and gc_9_4_3_sh_mask.h GRBM_GFX_INDEX
                bare.gpu.write(5, at, 4, 1 << 30 | engine << 16 | array << 8)
                fuses = 4 * block.address_dw("CC_GC_SHADER_ARRAY_CONFIG")
                active += units - (bare.gpu.read(5, fuses, 4) >> 16).bit_count()
    check(active * (1 if wide else 2) == NUMBERS[name].cus - fused, f"{active} units")
    check(bare.found() == [], "unknown registers")

"""The board's VBIOS as Linux's ATOM parser reads it."""

from __future__ import annotations

import struct

import pytest

from boards.amd.chip import chip
from boards.amd.pci import vbios
from tests.boards.bare_function import Bare
from tests.support import check

NAMES = ("gfx1100", "gfx1102", "gfx1201", "gfx942")
# src: atomfirmware.h atom_master_list_of_data_tables_v2_1; atombios.h for the pointers
FIRMWARE_INFO, SMU_INFO = 4, 8
S7_ASIC_INIT_COMPLETE = 0x200


def u16(rom: bytes, at: int) -> int:
    return int(struct.unpack_from("<H", rom, at)[0])


def data_table(rom: bytes, number: int) -> int:
    """src: atom.c amdgpu_atom_parse_data_header()"""
    header = u16(rom, 0x48)
    return u16(rom, u16(rom, header + 0x20) + 4 + 2 * number)


@pytest.mark.parametrize("name", NAMES)
def test_linux_takes_it_for_an_atom_bios(name: str) -> None:
    """src: amdgpu_bios.c check_atom_bios(), atom.c amdgpu_atom_parse()"""
    rom = vbios.build(name)
    check(rom[:2] == b"\x55\xaa", "no expansion ROM")
    check(rom[2] * 512 == len(rom), f"{rom[2]} blocks of {len(rom)} bytes")
    check(rom[0x30:0x3A] == b" 761295520", "ATOM_ATI_MAGIC")
    header = u16(rom, 0x48)
    check(rom[header + 4 : header + 8] == b"ATOM", "ATOM_ROM_MAGIC")
    check(sum(rom) % 256 == 0, "bytes do not add up to 0")
    pcir = u16(rom, 0x18)
    check(rom[pcir : pcir + 4] == b"PCIR", "PCI data structure")
    check(u16(rom, pcir + 6) == chip(name).properties["device_id"], "device id")


@pytest.mark.parametrize("name", NAMES)
def test_firmwareinfo_points_at_the_scratch_registers(name: str) -> None:
    """src: amdgpu_atomfirmware.c amdgpu_atomfirmware_scratch_regs_init(); nbio_4_3_0_offset.h and
    nbif_6_3_1_offset.h, nbio_7_9_0_offset.h: BIF_BX0_BIOS_SCRATCH_0 is 0x38 of segment 1, at 0x14
    """
    rom = vbios.build(name)
    at = data_table(rom, FIRMWARE_INFO)
    check(tuple(rom[at + 2 : at + 4]) == (3, 4), "format")
    check(struct.unpack_from("<I", rom, at + 0x18)[0] == 0x38 + 0x14, "scratch registers")
    clock = struct.unpack_from("<I", rom, data_table(rom, SMU_INFO) + 0x10)[0]
    check(clock == 10_000, f"core_refclk_10khz is {clock}")


@pytest.mark.parametrize("name", NAMES)
def test_memory_that_the_boot_rom_protects_is_reserved(name: str) -> None:
    """amdgpu keeps off the end of VRAM that firmwareinfo names, or off 64 KiB.

    src: amdgpu_ttm.c amdgpu_ttm_reserve_tmr(); atomfirmware.h atom_firmware_info_v3_4:
    fw_reserved_size_in_kb is at byte 84 (gcc); DISCOVERY_TMR_OFFSET
    """
    rom = vbios.build(name)
    kib = struct.unpack_from("<I", rom, data_table(rom, FIRMWARE_INFO) + 84)[0]
    vram = Bare(name).gpu.board.vram
    kept = vram.nbytes - (kib << 10 or 64 << 10)
    check(all(one.start >= kept for one in vram.guarded), f"{kib} KiB, {vram.guarded}")
    check(bool(kib) == bool(vram.guarded), f"{kib} KiB, {vram.guarded}")


def test_asic_init_ends_at_once() -> None:
    """src: atom.c opcode_table[91] is atom_op_eot; ATOM_CT_CODE_PTR is 6"""
    rom = vbios.build("gfx1100")
    program = u16(rom, u16(rom, u16(rom, 0x48) + 0x1E) + 4)
    check(rom[program + 6] == 91, "first opcode")

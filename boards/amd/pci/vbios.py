"""The expansion ROM of a board: an ATOM VBIOS, as small as Linux's parser takes it.

Every byte is made here. Modelled from the driver's side: tables have the formats of Linux's
atomfirmware.h, and only what amdgpu asks for; ASIC_Init, which the machine's firmware would have
run, is a program that ends at once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from boards.amd.chip import chip as chip_by_name
from boards.amd.cp.engine_types import Chip
from boards.amd.pci.ip_blocks import bases_dw
from boards.amd.pci.psp import BOOT_TMR, BOOT_TMR_FROM_END
from boards.amd.pci.register_table import table

ROM_BYTES = 0x4000
_BLOCK_BYTES, _RETF = 512, 0xCB
# src: atombios.h OFFSET_TO_ATOM_ROM_HEADER_POINTER; atom.h ATOM_ATI_MAGIC_PTR, ATOM_ROM_TABLE_PTR,
# ATOM_ROM_MAGIC_PTR, ATOM_ROM_CMD_PTR, ATOM_ROM_DATA_PTR
_MAGIC_AT, _PCIR_AT, _HEADER_POINTER_AT, _NAMES_AT, _DATE_AT = 0x30, 0x18, 0x48, 0x6E, 0x50
_STRINGS_COUNT_AT = 0x2F
_PCIR, _NAME, _VERSION, _HEADER, _COMMANDS, _PROGRAM, _DATA, _TABLES = (
    0x1C0, 0x100, 0x140, 0x200, 0x300, 0x3C0, 0x400, 0x800,
)  # fmt: skip
"""Where the parts lie here."""
_COMMAND_LISTS, _DATA_LISTS = 80, 35
"""src: atomfirmware.h atom_master_list_of_command_functions_v2_1, ..._data_tables_v2_1 (words)"""
# src: atomfirmware.h atom_master_list_of_data_tables_v2_1: position of each table's word
_SMC_DPM, _FIRMWARE, _SMU, _GFX, _INDIRECT, _UMC = 2, 4, 8, 14, 23, 24
_END_OF_TASK = 91
"""src: atom.c opcode_table: atom_op_eot"""
_SCRATCH_0 = "BIF_BX0_BIOS_SCRATCH_0"
_REFERENCE_10KHZ = 10_000
"""100 MHz. src: atomfirmware.h core_refclk_10khz"""
_GDDR6 = 0x70
"""src: atomfirmware.h ATOM_DGPU_VRAM_TYPE_GDDR6 of enum atom_dgpu_vram_type"""


@dataclass(frozen=True, slots=True)
class _Table:
    """A data table: its place in the master list, format, size, and words by byte offset."""

    place: int
    version: tuple[int, int]
    nbytes: int
    words: dict[int, int]


def scratch_dw(chip: Chip) -> int:
    """Where BIOS_SCRATCH_0 is, counted in dwords: firmwareinfo names it to drivers."""
    version = chip.ip["NBIF"]
    name = {4: "nbio_4_3_0", 6: "nbif_6_3_1", 7: "nbio_7_9_0"}[version[0]]
    register = table(name)[_SCRATCH_0]
    return bases_dw(chip, "NBIF", 0)[register.segment] + register.offset_dw


def _tables(chip: Chip) -> list[_Table]:
    """src: atomfirmware.h, the structs named behind each; offsets are theirs, in bytes."""
    boot_tmr = chip.ip["MP0"] in BOOT_TMR
    made = [
        _Table(_INDIRECT, (1, 1), 16, {}),
        # atom_firmware_info_v3_4: firmware_revision, bootup clocks, bios_scratch_reg_startaddr,
        # fw_reserved_size_in_kb (the end of VRAM; 0 is the discovery table's 64 KiB alone:
        # amdgpu_ttm.c amdgpu_ttm_reserve_tmr())
        _Table(
            _FIRMWARE, (3, 4), 132,
            {
                0x4: 0x1600_0001, 0x8: 50_000, 0xC: 9_600, 0x18: scratch_dw(chip),
                0x54: BOOT_TMR_FROM_END >> 10 if boot_tmr else 0,
            },
        ),
        # atom_smu_info_v3_6: core_refclk_10khz
        _Table(_SMU, (3, 6), 240, {0x10: _REFERENCE_10KHZ}),
        # atom_umc_info_v3_1: vram_type in byte 2 of the dword, mem_refclk_10khz
        _Table(_UMC, (3, 1), 32, {0x18: _GDDR6 << 16, 0x1C: _REFERENCE_10KHZ}),
    ]  # fmt: skip
    if chip.family == "gfx11":
        # src: smu_v13_0_0_ppt.c smu_v13_0_0_append_powerplay_table(): zeros leave the SMU's own
        made.append(_Table(_SMC_DPM, (4, 10), 4096, {}))
    if chip.family != "gfx9":
        made.append(_Table(_GFX, (3, 0), 112, {}))
    return made


class _Rom(bytearray):
    """Bytes, written by value."""

    def u16(self, at: int, value: int) -> None:
        struct.pack_into("<H", self, at, value)

    def u32(self, at: int, value: int) -> None:
        struct.pack_into("<I", self, at, value)

    def text(self, at: int, value: bytes) -> None:
        self[at : at + len(value)] = value


def _heads(rom: _Rom, device_id: int, class_code: int) -> None:
    """What a PCI expansion ROM and an ATOM BIOS begin with."""
    blocks = len(rom) // _BLOCK_BYTES
    rom.u16(0, 0xAA55)  # src: PCI Firmware 3.0, 5.1.1: signature, then length in 512 bytes
    rom[2] = blocks
    rom[3] = _RETF  # src: PCI Firmware 3.0, 5.1.1: a machine's firmware calls offset 3, far
    rom.text(_MAGIC_AT, b" 761295520")  # src: atom.h ATOM_ATI_MAGIC
    rom.u16(_PCIR_AT, _PCIR)
    rom.text(_PCIR, b"PCIR")
    rom.text(_PCIR + 4, struct.pack("<HHHHB", 0x1002, device_id, 0, 24, 0))
    rom.text(_PCIR + 13, class_code.to_bytes(3, "little"))
    rom.text(_PCIR + 16, struct.pack("<HHBB", blocks, 1, 0, 0x80))
    rom.text(_DATE_AT, b"01/01/26 00:00")
    rom[_STRINGS_COUNT_AT] = 1
    rom.u16(_NAMES_AT, _NAME)
    rom.text(_NAME, b"113-UNBOUND-000\0\r\nsoftware board\0")
    rom.text(_VERSION, b"ATOMBIOSBK-AMD VER022.001.002.003.000001\0")
    rom.u16(_HEADER_POINTER_AT, _HEADER)
    # src: atomfirmware.h atom_rom_header_v2_2: masterhwfunction_offset, masterdatatable_offset
    rom.text(_HEADER, struct.pack("<HBB4s", 0x28, 2, 2, b"ATOM"))
    rom.u16(_HEADER + 0x1E, _COMMANDS)
    rom.u16(_HEADER + 0x20, _DATA)


def _lists(rom: _Rom, chip: Chip) -> None:
    """Master lists of command functions, all but ASIC_Init absent, and of data tables."""
    rom.text(_COMMANDS, struct.pack("<HBBH", 4 + 2 * _COMMAND_LISTS, 2, 1, _PROGRAM))
    rom.text(_PROGRAM, struct.pack("<HBBHB", 7, 2, 1, 0, _END_OF_TASK))
    rom.text(_DATA, struct.pack("<HBB", 4 + 2 * _DATA_LISTS, 2, 1))
    at = _TABLES
    for made in _tables(chip):
        rom.u16(_DATA + 4 + 2 * made.place, at)
        rom.text(at, struct.pack("<HBB", made.nbytes, *made.version))
        for off, value in made.words.items():
            rom.u32(at + off, value)
        at += -(-made.nbytes // 16) * 16


def build(name: str) -> bytes:
    """The ROM of a chip's board, its bytes adding up to 0. Raises: KeyError."""
    chip = chip_by_name(name)
    rom = _Rom(ROM_BYTES)
    accelerator = chip.family == "gfx9"
    _heads(rom, chip.properties["device_id"], 0x120000 if accelerator else 0x030000)
    _lists(rom, chip)
    rom[-1] = -sum(rom) & 0xFF
    return bytes(rom)

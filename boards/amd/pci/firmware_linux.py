"""Firmware files that amdgpu asks for beyond those that a bare boot needs, all made here.

The graphics engines' and the scheduler's (MES) run nothing on a board, and neither do trusted
applications; Linux refuses to bind without the files.
"""

from __future__ import annotations

from collections.abc import Iterable

from boards.amd.chip_data import NUMBERS, Numbers
from boards.amd.pci.firmware_file import ENUMS, HEADERS, File, Made
from boards.amd.pci.firmware_maker import rs64
from boards.amd.pci.firmware_set import FOLDER, named

_TAS = ("ASD", "RAS", "HDCP", "DTM", "SECUREDISPLAY")
_MES_START, _MES_DATA = 0x7_0000_0000_4000, 0x7_0000_0010_0000
"""Where the scheduler's code and data begin in its own address space. Made up."""
_MES_CODE_BYTES, _MES_DATA_BYTES = 4096, 4096


def applications(mp: tuple[int, int]) -> Made:
    """Trusted applications, version 2.0. src: amdgpu_psp.c parse_ta_v2_microcode()"""
    file = File("ta_firmware_header_v2_0", (2, 0), mp, "ta")
    file.set("ta_fw_bin_count", len(_TAS))
    at = HEADERS["structs"]["ta_firmware_header_v2_0"]["size"]
    parts = []
    for kind in _TAS:
        place, piece = file.put(kind, 128)
        row = (ENUMS[f"TA_FW_TYPE_PSP_{kind}"], 0x1700_0001, place - file.room, len(piece))
        file.body[at : at + 16] = b"".join(word.to_bytes(4, "little") for word in row)
        at += HEADERS["structs"]["psp_fw_bin_desc"]["size"]
        parts.append((kind, piece))
    return Made(file.done(), parts)


def scheduler(kinds: tuple[str, str], gfx: int) -> Made:
    """A MES: code and data. src: amdgpu_mes.c amdgpu_mes_init_microcode()"""
    file = File("mes_firmware_header_v1_0", (1, 0), (gfx, 0), f"mes{kinds}")
    code_at, code = file.put(kinds[0], _MES_CODE_BYTES)
    data_at, data = file.put(kinds[1], _MES_DATA_BYTES)
    for name, value in (
        ("mes_ucode_size_bytes", len(code)), ("mes_ucode_offset_bytes", code_at),
        ("mes_ucode_data_size_bytes", len(data)), ("mes_ucode_data_offset_bytes", data_at),
        ("mes_uc_start_addr_lo", _MES_START & 0xFFFF_FFFF),
        ("mes_uc_start_addr_hi", _MES_START >> 32),
        ("mes_data_start_addr_lo", _MES_DATA & 0xFFFF_FFFF),
        ("mes_data_start_addr_hi", _MES_DATA >> 32),
    ):  # fmt: skip
        file.set(name, value)
    return Made(file.done(), [(kinds[0], code), (kinds[1], data)])


def _files(n: Numbers) -> dict[str, Made]:
    gc, mp = ("_".join(str(part) for part in version) for version in (n.gc, n.mp))
    made = {f"psp_{mp}_ta.bin": applications((n.mp[0], n.mp[1]))}
    if n.family == "gfx11":
        made |= {f"gc_{gc}_{block.lower()}.bin": rs64(block, 11) for block in ("PFP", "ME")}
        made[f"gc_{gc}_mes_2.bin"] = scheduler(("CP_MES", "MES_STACK"), 11)
        made[f"gc_{gc}_mes1.bin"] = scheduler(("CP_MES_KIQ", "MES_KIQ_STACK"), 11)
    if n.family == "gfx12":
        made[f"gc_{gc}_uni_mes.bin"] = scheduler(("CP_MES", "MES_STACK"), 12)
    return made


def files(archs: Iterable[str]) -> dict[str, bytes]:
    """Path to contents: everything amdgpu loads for these chips."""
    found: dict[str, bytes] = {}
    for arch in dict.fromkeys(archs):
        found |= {f"{FOLDER}/{name}": data for name, (_, data) in named(arch).items()}
        made = _files(NUMBERS[arch])
        found |= {f"{FOLDER}/{name}": one.data for name, one in made.items()}
    return found

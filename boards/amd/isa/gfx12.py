"""The encodings of gfx12 (RDNA4): gfx1200 and gfx1201."""

# src: "RDNA4" Instruction Set Architecture Reference Guide, chapter 15, Microcode Formats; the
# opcodes are LLVM 19.1.7's, and tests/abi compares every decoded text with its disassembler.

from __future__ import annotations

from boards.amd.isa import gfx12_memory as memory
from boards.amd.isa import gfx12_scalar as scalar
from boards.amd.isa import gfx12_vector as vector
from boards.amd.isa.decode import Family
from boards.amd.isa.gfx11 import (
    SCALAR_FIELDS,
    VOP3_FIELDS,
    VOP3P_FIELDS,
    VOP3SD_FIELDS,
    VOPD_FIELDS,
)
from boards.amd.isa.gfx12_names import HWREGS, MESSAGES, meanings
from boards.amd.isa.gfx12_text import TEXTS, flags, op_sel
from boards.amd.isa.layout import Encoding, FamilyOf, Waits
from boards.amd.isa.long_forms import vop3
from boards.amd.isa.table import Entries

_SMEM = {
    "b": (0, 6), "d": (6, 7), "p": (6, 5), "scope": (21, 2), "th": (23, 2), "offset": (32, 24),
    "soffset": (57, 7),
}  # fmt: skip
_FLAT = {
    "saddr": (0, 7), "segment": (24, 2), "d": (32, 8), "sve": (49, 1), "scope": (50, 2),
    "th": (52, 3), "glc": (52, 1), "x": (55, 8), "a": (64, 8), "offset": (72, 24),
}  # fmt: skip
"""`glc` is the lowest bit of `th`: for atomics it asks for the old value."""
_DS = {
    "offset0": (0, 8), "offset1": (8, 8), "gds": (0, 0), "a": (32, 8), "x": (40, 8), "y": (48, 8),
    "d": (56, 8),
}  # fmt: skip
_MUBUF = {
    "q": (0, 7), "tfe": (22, 1), "x": (32, 8), "r": (41, 9), "scope": (50, 2), "th": (52, 3),
    "glc": (52, 1), "format": (55, 7), "offen": (62, 1), "idxen": (63, 1), "a": (64, 8),
    "offset": (72, 24),
}  # fmt: skip

# src: RDNA4 ISA 16.5, S_WAIT_*; widths: LLVM AMDGPUBaseInfo.cpp, getLoadcntBitWidth and others.
# s_waitcnt: as LLVM assembles it for gfx1201, with the fields of gfx11; ROCr 6.4.3's fill kernel
# for gfx12 waits so for its scalar loads.
_WAITS: Waits = {
    "s_waitcnt": {"load": ((10, 6),), "exp": ((0, 3),), "ds": ((4, 6),), "km": ((4, 6),)},
    "s_wait_loadcnt": {"load": ((0, 6),)}, "s_wait_storecnt": {"store": ((0, 6),)},
    "s_wait_samplecnt": {"sample": ((0, 6),)}, "s_wait_bvhcnt": {"bvh": ((0, 3),)},
    "s_wait_expcnt": {"exp": ((0, 3),)}, "s_wait_dscnt": {"ds": ((0, 6),)},
    "s_wait_kmcnt": {"km": ((0, 5),)},
    "s_wait_loadcnt_dscnt": {"load": ((8, 6),), "ds": ((0, 6),)},
    "s_wait_idle": {"load": (), "store": (), "ds": (), "km": (), "exp": ()},
    "s_wait_storecnt_dscnt": {"store": ((8, 6),), "ds": ((0, 6),)},
}  # fmt: skip
# src: llvm SIInsertWaitcnts.cpp: a FLAT store may reach LDS, and counts there as well.
_COUNTERS = {
    "vm": ("load",), "lgkm": ("ds",), "smem": ("km",), "flat": ("load", "ds"),
    "flat store": ("ds",),
}  # fmt: skip

_ONLY_GLOBAL = frozenset({
    "inv", "wb", "wbinv", "load_addtid_b32", "store_addtid_b32", "load_tr_b128", "load_tr_b64",
    "atomic_ordered_add_b64",
})  # fmt: skip
_BLOCKS = frozenset({"load_block", "store_block"})


def _flat(*, scratch: bool) -> Entries:
    """FLAT and SCRATCH know fewer instructions than GLOBAL."""
    return {
        opcode: entry
        for opcode, entry in memory.FLAT.items()
        if entry.name not in _ONLY_GLOBAL
        and not (scratch and entry.name.startswith("atomic_"))
        and (scratch or entry.name not in _BLOCKS)
    }


_PLAIN, _CARRY = vop3(vector.VOP3, vector.VOPC, vector.VOP2, vector.VOP1)
_TABLES = (
    scalar.SOP2, scalar.SOPK, scalar.SOPP, memory.DS, memory.FLAT, memory.MUBUF, vector.VOP2,
    vector.VOP3, vector.VOP3P,
)  # fmt: skip

GFX12: Family = FamilyOf(
    "gfx12",
    (
        Encoding("SOPP", 0xFF800000, 0xBF800000, 1, (16, 7), {"i": (0, 16)}, scalar.SOPP),
        Encoding("SOPC", 0xFF800000, 0xBF000000, 1, (16, 7), SCALAR_FIELDS, scalar.SOPC),
        Encoding("SOP1", 0xFF800000, 0xBE800000, 1, (8, 8), {"d": (16, 7), "a": (0, 8)},
                 scalar.SOP1),
        Encoding("SOPK", 0xF0000000, 0xB0000000, 1, (23, 5), {"d": (16, 7), "i": (0, 16)},
                 scalar.SOPK),
        Encoding("SOP2", 0xC0000000, 0x80000000, 1, (23, 7), SCALAR_FIELDS, scalar.SOP2),
        Encoding("SMEM", 0xFC000000, 0xF4000000, 2, (13, 6), _SMEM, scalar.SMEM),
        Encoding("VOPD", 0xFC000000, 0xC8000000, 2, (17, 9), VOPD_FIELDS),
        Encoding("VOP3SD", 0xFC000000, 0xD4000000, 2, (16, 10), VOP3SD_FIELDS, _CARRY),
        Encoding("VOP3", 0xFC000000, 0xD4000000, 2, (16, 10), VOP3_FIELDS, _PLAIN),
        Encoding("VOP3P", 0xFF000000, 0xCC000000, 2, (16, 7), VOP3P_FIELDS, vector.VOP3P),
        Encoding("DS", 0xFC000000, 0xD8000000, 2, (18, 8), _DS, memory.DS),
        Encoding("FLAT", 0xFF000000, 0xEE000000, 3, (14, 8), _FLAT, memory.FLAT),
        Encoding("FLAT", 0xFF000000, 0xED000000, 3, (14, 8), _FLAT, _flat(scratch=True)),
        Encoding("FLAT", 0xFF000000, 0xEC000000, 3, (14, 8), _FLAT, _flat(scratch=False)),
        Encoding("MUBUF", 0xFF000000, 0xC4000000, 3, (14, 8), _MUBUF, memory.MUBUF),
        Encoding("VOP1", 0xFE000000, 0x7E000000, 1, (9, 8), {"d": (17, 8), "a": (0, 9)},
                 vector.VOP1),
        Encoding("VOPC", 0xFE000000, 0x7C000000, 1, (17, 8), {"b": (9, 8), "a": (0, 9)},
                 vector.VOPC),
        Encoding("VOP2", 0x80000000, 0x00000000, 1, (25, 6),
                 {"d": (17, 8), "b": (9, 8), "a": (0, 9)}, vector.VOP2),
    ),
    tuple(vector.DUAL), meanings=meanings(_TABLES, vector.DUAL), off=frozenset({124}),
    flat_offset_signed=True, group_ids_in_ttmp=True, waits=_WAITS, counters=_COUNTERS,
    permute_lanes=64, texts=TEXTS, flags=flags, op_sel=op_sel, hwregs=HWREGS,
    messages=MESSAGES,
)  # fmt: skip
"""GLOBAL, SCRATCH and FLAT are encodings of their own; everything else is found by its opcode."""

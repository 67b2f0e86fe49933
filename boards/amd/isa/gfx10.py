"""The encodings of gfx10.3 (RDNA2): gfx1030 and its siblings."""

# src: "RDNA 2" Instruction Set Architecture Reference Guide, chapter 13, Microcode Formats; the
# opcodes are LLVM 19.1.7's, and tests/abi compares every decoded text with its disassembler.

from __future__ import annotations

from boards.amd.isa import gfx10_memory as memory
from boards.amd.isa import gfx10_scalar as scalar
from boards.amd.isa import gfx10_vector as vector
from boards.amd.isa.decode import Family
from boards.amd.isa.gfx10_names import meanings
from boards.amd.isa.gfx10_text import HWREGS, MESSAGES, TEXTS
from boards.amd.isa.layout import WIDE_RESULTS, Encoding, FamilyOf, Waits
from boards.amd.isa.long_forms import vop3

_SCALAR = {"d": (16, 7), "b": (8, 8), "a": (0, 8)}
_SMEM = {
    "b": (0, 6), "d": (6, 7), "dlc": (14, 1), "glc": (16, 1), "offset": (32, 21),
    "soffset": (57, 7),
}  # fmt: skip
_VOP3_SOURCES = {"a": (32, 9), "b": (41, 9), "c": (50, 9), "neg": (61, 3)}
_VOP3 = {"d": (0, 8), "abs": (8, 3), "op_sel": (11, 4), "clamp": (15, 1), "omod": (59, 2)}
_VOP3SD = {"d": (0, 8), "s": (8, 7), "clamp": (15, 1), "omod": (59, 2), **_VOP3_SOURCES}
_VOP3P = {
    "d": (0, 8), "neg_hi": (8, 3), "op_sel": (11, 3), "hi_c": (14, 1), "clamp": (15, 1),
    "hi_ab": (59, 2),
}  # fmt: skip
_DS = {
    "offset0": (0, 8), "offset1": (8, 8), "gds": (17, 1), "a": (32, 8), "x": (40, 8), "y": (48, 8),
    "d": (56, 8),
}  # fmt: skip
_FLAT = {
    "offset": (0, 12), "dlc": (12, 1), "lds": (13, 1), "segment": (14, 2), "glc": (16, 1),
    "slc": (17, 1), "a": (32, 8), "x": (40, 8), "saddr": (48, 7), "d": (56, 8),
}  # fmt: skip
_MUBUF = {
    "offset": (0, 12), "offen": (12, 1), "idxen": (13, 1), "glc": (14, 1), "dlc": (15, 1),
    "lds": (16, 1), "a": (32, 8), "x": (40, 8), "r": (48, 5), "slc": (54, 1), "tfe": (55, 1),
    "q": (56, 8),
}  # fmt: skip
_PLAIN, _CARRY = vop3(vector.VOP3, vector.VOPC, vector.VOP2, vector.VOP1)
# src: RDNA2 ISA 12.5, S_WAITCNT: vmcnt 3:0 and 15:14, expcnt 6:4, lgkmcnt 13:8.
_WAITS: Waits = {
    "s_waitcnt": {"vm": ((0, 4), (14, 2)), "exp": ((4, 3),), "lgkm": ((8, 6),)},
    "s_waitcnt_vmcnt": {"vm": ((0, 6),)}, "s_waitcnt_lgkmcnt": {"lgkm": ((0, 6),)},
    "s_waitcnt_vscnt": {"vs": ((0, 6),)}, "s_waitcnt_expcnt": {"exp": ((0, 3),)},
    "s_wait_idle": {"vm": (), "lgkm": (), "vs": (), "exp": ()},
}  # fmt: skip
# src: llvm SIInsertWaitcnts.cpp: a FLAT store may reach LDS, and counts there as well.
_COUNTERS = {
    "vm": ("vm",), "lgkm": ("lgkm",), "smem": ("lgkm",), "flat": ("vm", "lgkm"),
    "flat store": ("lgkm",),
}  # fmt: skip
_TABLES = (
    scalar.SOP2, scalar.SOPK, scalar.SOP1, scalar.SOPC, scalar.SOPP, scalar.SMEM, vector.VOP1,
    vector.VOP2, vector.VOPC, vector.VOP3, vector.VOP3P, memory.DS, memory.FLAT, memory.MUBUF,
)  # fmt: skip

GFX10: Family = FamilyOf(
    "gfx10",
    (
        Encoding("SOPP", 0xFF800000, 0xBF800000, 1, (16, 7), {"i": (0, 16)}, scalar.SOPP),
        Encoding("SOPC", 0xFF800000, 0xBF000000, 1, (16, 7), _SCALAR, scalar.SOPC),
        Encoding("SOP1", 0xFF800000, 0xBE800000, 1, (8, 8), {"d": (16, 7), "a": (0, 8)},
                 scalar.SOP1),
        Encoding("SOPK", 0xF0000000, 0xB0000000, 1, (23, 5), {"d": (16, 7), "i": (0, 16)},
                 scalar.SOPK),
        Encoding("SOP2", 0xC0000000, 0x80000000, 1, (23, 7), _SCALAR, scalar.SOP2),
        Encoding("SMEM", 0xFC000000, 0xF4000000, 2, (18, 8), _SMEM, scalar.SMEM),
        Encoding("VOP3SD", 0xFC000000, 0xD4000000, 2, (16, 10), _VOP3SD, _CARRY),
        Encoding("VOP3", 0xFC000000, 0xD4000000, 2, (16, 10), _VOP3 | _VOP3_SOURCES, _PLAIN),
        Encoding("VOP3P", 0xFF000000, 0xCC000000, 2, (16, 7), _VOP3P | _VOP3_SOURCES, vector.VOP3P),
        Encoding("DS", 0xFC000000, 0xD8000000, 2, (18, 8), _DS, memory.DS),
        Encoding("FLAT", 0xFC000000, 0xDC000000, 2, (18, 7), _FLAT, memory.FLAT),
        Encoding("MUBUF", 0xFC000000, 0xE0000000, 2, (18, 8), _MUBUF, memory.MUBUF),
        Encoding("VOP1", 0xFE000000, 0x7E000000, 1, (9, 8), {"d": (17, 8), "a": (0, 9)},
                 vector.VOP1),
        Encoding("VOPC", 0xFE000000, 0x7C000000, 1, (17, 8), {"b": (9, 8), "a": (0, 9)},
                 vector.VOPC),
        Encoding("VOP2", 0x80000000, 0x00000000, 1, (25, 6),
                 {"d": (17, 8), "b": (9, 8), "a": (0, 9)}, vector.VOP2),
    ),
    meanings=meanings(*_TABLES),
    null=125, m0=124, off=frozenset({125, 127}), sdwa=True,
    dpp_encodings=frozenset({"VOP1", "VOP2"}), split_registers=False,
    zeroing=WIDE_RESULTS,
    packed_items=False, buffer_swizzle=(31, 1), own_scratch=True, waits=_WAITS,
    counters=_COUNTERS,
    texts=TEXTS, hwregs=HWREGS, messages=MESSAGES,
)  # fmt: skip
"""Tried in order; the opcode distinguishes the two kinds of VOP3."""

"""The encodings of gfx11 (RDNA3): gfx1100 and its siblings."""

# src: "RDNA3" Instruction Set Architecture Reference Guide, chapter 15, Microcode Formats; the
# opcodes are LLVM 19.1.7's, and tests/abi compares every decoded text with its disassembler.

from __future__ import annotations

from boards.amd.isa import gfx11_memory as memory
from boards.amd.isa import gfx11_scalar as scalar
from boards.amd.isa import gfx11_vector as vector
from boards.amd.isa.decode import Family
from boards.amd.isa.layout import Encoding, FamilyOf, Waits
from boards.amd.isa.long_forms import vop3

SCALAR_FIELDS = {"d": (16, 7), "b": (8, 8), "a": (0, 8)}
VOP3_SOURCES = {"a": (32, 9), "b": (41, 9), "c": (50, 9), "neg": (61, 3)}
_FLAT = {
    "offset": (0, 13), "dlc": (13, 1), "glc": (14, 1), "slc": (15, 1), "segment": (16, 2),
    "a": (32, 8), "x": (40, 8), "saddr": (48, 7), "sve": (55, 1), "d": (56, 8),
}  # fmt: skip
_DS = {
    "offset0": (0, 8), "offset1": (8, 8), "gds": (17, 1), "a": (32, 8), "x": (40, 8), "y": (48, 8),
    "d": (56, 8),
}  # fmt: skip
_MUBUF = {
    "offset": (0, 12), "slc": (12, 1), "dlc": (13, 1), "glc": (14, 1), "a": (32, 8), "x": (40, 8),
    "r": (48, 5), "tfe": (53, 1), "offen": (54, 1), "idxen": (55, 1), "q": (56, 8),
}  # fmt: skip
VOPD_FIELDS = {
    "opx": (22, 4), "opy": (17, 5), "src1x": (9, 8), "src0x": (0, 9), "dstx": (56, 8),
    "dsty": (49, 7), "src1y": (41, 8), "src0y": (32, 9),
}  # fmt: skip
VOP3_FIELDS = {
    "d": (0, 8), "abs": (8, 3), "op_sel": (11, 4), "clamp": (15, 1), "omod": (59, 2),
    **VOP3_SOURCES,
}  # fmt: skip
VOP3P_FIELDS = {
    "d": (0, 8), "neg_hi": (8, 3), "op_sel": (11, 3), "hi_c": (14, 1), "clamp": (15, 1),
    "hi_ab": (59, 2), **VOP3_SOURCES,
}  # fmt: skip

# src: RDNA3 ISA 16.5, S_WAITCNT: expcnt 2:0, lgkmcnt 9:4, vmcnt 15:10; the others are alone.
_WAITS: Waits = {
    "s_waitcnt": {"vm": ((10, 6),), "exp": ((0, 3),), "lgkm": ((4, 6),)},
    "s_waitcnt_vmcnt": {"vm": ((0, 6),)}, "s_waitcnt_lgkmcnt": {"lgkm": ((0, 6),)},
    "s_waitcnt_vscnt": {"vs": ((0, 6),)}, "s_waitcnt_expcnt": {"exp": ((0, 3),)},
    "s_wait_idle": {"vm": (), "lgkm": (), "vs": (), "exp": ()},
}  # fmt: skip
# src: llvm SIInsertWaitcnts.cpp: a FLAT store may reach LDS, and counts there as well.
COUNTERS = {
    "vm": ("vm",), "lgkm": ("lgkm",), "smem": ("lgkm",), "flat": ("vm", "lgkm"),
    "flat store": ("lgkm",),
}  # fmt: skip
# src: llvm/lib/Target/AMDGPU/SIDefines.h, enum Hwreg::Id (gfx11).
_HWREGS = {
    1: "HW_REG_MODE", 2: "HW_REG_STATUS", 3: "HW_REG_TRAPSTS", 5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC", 7: "HW_REG_IB_STS", 15: "HW_REG_SH_MEM_BASES",
    18: "HW_REG_PERF_SNAPSHOT_PC_LO", 19: "HW_REG_PERF_SNAPSHOT_PC_HI",
    20: "HW_REG_FLAT_SCR_LO", 21: "HW_REG_FLAT_SCR_HI", 23: "HW_REG_HW_ID1",
    24: "HW_REG_HW_ID2", 27: "HW_REG_PERF_SNAPSHOT_DATA", 29: "HW_REG_SHADER_CYCLES",
}  # fmt: skip
# src: SIDefines.h, SendMsg (gfx11): message numbers of s_sendmsg and s_sendmsg_rtn.
_MESSAGES = {
    1: "MSG_INTERRUPT", 2: "MSG_HS_TESSFACTOR", 3: "MSG_DEALLOC_VGPRS",
    5: "MSG_STALL_WAVE_GEN", 6: "MSG_HALT_WAVES", 9: "MSG_GS_ALLOC_REQ",
    128: "MSG_RTN_GET_DOORBELL", 129: "MSG_RTN_GET_DDID", 130: "MSG_RTN_GET_TMA",
    131: "MSG_RTN_GET_REALTIME", 132: "MSG_RTN_SAVE_WAVE", 133: "MSG_RTN_GET_TBA",
}  # fmt: skip
_PLAIN, _CARRY = vop3(vector.VOP3, vector.VOPC, vector.VOP2, vector.VOP1)
VOP3SD_FIELDS = {"d": (0, 8), "s": (8, 7), "clamp": (15, 1), "omod": (59, 2), **VOP3_SOURCES}

GFX11: Family = FamilyOf(
    "gfx11",
    (
        Encoding("SOPP", 0xFF800000, 0xBF800000, 1, (16, 7), {"i": (0, 16)}, scalar.SOPP),
        Encoding("SOPC", 0xFF800000, 0xBF000000, 1, (16, 7), SCALAR_FIELDS, scalar.SOPC),
        Encoding("SOP1", 0xFF800000, 0xBE800000, 1, (8, 8), {"d": (16, 7), "a": (0, 8)},
                 scalar.SOP1),
        Encoding("SOPK", 0xF0000000, 0xB0000000, 1, (23, 5), {"d": (16, 7), "i": (0, 16)},
                 scalar.SOPK),
        Encoding("SOP2", 0xC0000000, 0x80000000, 1, (23, 7), SCALAR_FIELDS, scalar.SOP2),
        Encoding("SMEM", 0xFC000000, 0xF4000000, 2, (18, 8),
                 {"b": (0, 6), "d": (6, 7), "dlc": (13, 1), "glc": (14, 1), "offset": (32, 21),
                "soffset": (57, 7)}, scalar.SMEM),
        Encoding("VOPD", 0xFC000000, 0xC8000000, 2, (17, 9), VOPD_FIELDS),
        Encoding("VOP3SD", 0xFC000000, 0xD4000000, 2, (16, 10), VOP3SD_FIELDS, _CARRY),
        Encoding("VOP3", 0xFC000000, 0xD4000000, 2, (16, 10), VOP3_FIELDS, _PLAIN),
        Encoding("VOP3P", 0xFF000000, 0xCC000000, 2, (16, 7), VOP3P_FIELDS, vector.VOP3P),
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
    tuple(vector.DUAL), waits=_WAITS, counters=COUNTERS,
    hwregs=_HWREGS, messages=_MESSAGES,
)  # fmt: skip
"""Tried in order; the opcode distinguishes the two kinds of VOP3."""

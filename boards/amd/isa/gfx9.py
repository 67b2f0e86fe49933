"""The encodings of gfx9 as gfx942 (CDNA3) has them."""

# src: "AMD Instinct MI300" (CDNA3) Instruction Set Architecture Reference Guide, chapter 13,
# Microcode Formats; the opcodes are LLVM 19.1.7's, and tests/abi compares every decoded text.

from __future__ import annotations

from boards.amd.isa import gfx9_matrix as matrix
from boards.amd.isa import gfx9_memory as memory
from boards.amd.isa import gfx9_scalar as scalar
from boards.amd.isa import gfx9_vector as vector
from boards.amd.isa.decode import Family
from boards.amd.isa.gfx9_names import ZEROING, meanings
from boards.amd.isa.gfx9_text import HWREGS, MESSAGES, REGISTERS, TEXTS, cache_controls
from boards.amd.isa.layout import (
    DPP_ROWS,
    DPP_SHARE,
    DPP_WAVES,
    PLAIN_NAMES,
    WIDE_RESULTS,
    Encoding,
    FamilyOf,
)
from boards.amd.isa.long_forms import vop3

_SCALAR = {"d": (16, 7), "b": (8, 8), "a": (0, 8)}
_SMEM = {
    "b": (0, 6), "d": (6, 7), "soe": (14, 1), "nv": (15, 1), "glc": (16, 1), "imm": (17, 1),
    "offset": (32, 21), "soffset": (57, 7),
}  # fmt: skip
_VOP3_SOURCES = {"a": (32, 9), "b": (41, 9), "c": (50, 9), "neg": (61, 3)}
_VOP3 = {"d": (0, 8), "abs": (8, 3), "op_sel": (11, 4), "clamp": (15, 1), "omod": (59, 2)}
_VOP3SD = {"d": (0, 8), "s": (8, 7), "clamp": (15, 1), "omod": (59, 2), **_VOP3_SOURCES}
_VOP3P = {
    "d": (0, 8), "neg_hi": (8, 3), "op_sel": (11, 3), "hi_c": (14, 1), "clamp": (15, 1),
    "hi_ab": (59, 2),
}  # fmt: skip
_MAI = {
    "d": (0, 8), "cbsz": (8, 3), "abid": (11, 4), "acc_cd": (15, 1), "a": (32, 9), "b": (41, 9),
    "c": (50, 9), "acc": (59, 2), "blgp": (61, 3),
}  # fmt: skip
_DS = {
    "offset0": (0, 8), "offset1": (8, 8), "gds": (16, 1), "acc": (25, 1), "a": (32, 8),
    "x": (40, 8), "y": (48, 8), "d": (56, 8),
}  # fmt: skip
# GLC is SC0 here: the same bit with the same meaning for atomics, their old value comes back.
_FLAT = {
    "offset": (0, 13), "sve": (13, 1), "segment": (14, 2), "glc": (16, 1), "nt": (17, 1),
    "sc1": (25, 1), "a": (32, 8), "x": (40, 8), "saddr": (48, 7), "acc": (55, 1), "d": (56, 8),
}  # fmt: skip
_MUBUF = {
    "offset": (0, 12), "offen": (12, 1), "idxen": (13, 1), "glc": (14, 1), "sc1": (15, 1),
    "lds": (16, 1), "nt": (17, 1), "a": (32, 8), "x": (40, 8), "r": (48, 5), "acc": (55, 1),
    "q": (56, 8),
}  # fmt: skip

_ONLY_SHORT = frozenset({
    "v_readfirstlane_b32", "v_swap_b32", "v_accvgpr_mov_b32", "v_fmamk_f32", "v_fmaak_f32",
    "v_madmk_f16", "v_madak_f16", "v_pk_fmac_f16", "v_nop", "v_clrexcp",
})  # fmt: skip
_PLAIN, _CARRY = vop3(
    vector.VOP3, vector.VOPC, vector.VOP2, vector.VOP1, vop1_at=0x140, only_short=_ONLY_SHORT
)

_LAYOUTS = (
    Encoding("SOPP", 0xFF800000, 0xBF800000, 1, (16, 7), {"i": (0, 16)}, scalar.SOPP),
    Encoding("SOPC", 0xFF800000, 0xBF000000, 1, (16, 7), _SCALAR, scalar.SOPC),
    Encoding("SOP1", 0xFF800000, 0xBE800000, 1, (8, 8), {"d": (16, 7), "a": (0, 8)}, scalar.SOP1),
    Encoding("SOPK", 0xF0000000, 0xB0000000, 1, (23, 5), {"d": (16, 7), "i": (0, 16)}, scalar.SOPK),
    Encoding("SOP2", 0xC0000000, 0x80000000, 1, (23, 7), _SCALAR, scalar.SOP2),
    Encoding("SMEM", 0xFC000000, 0xC0000000, 2, (18, 8), _SMEM, scalar.SMEM),
    Encoding("VOP3P", 0xFF800000, 0xD3800000, 2, (16, 7), _VOP3P | _VOP3_SOURCES, vector.VOP3P),
    Encoding("VOP3M", 0xFF800000, 0xD3800000, 2, (16, 7), _MAI, matrix.MAI),
    Encoding("VOP3SD", 0xFC000000, 0xD0000000, 2, (16, 10), _VOP3SD, _CARRY),
    Encoding("VOP3", 0xFC000000, 0xD0000000, 2, (16, 10), _VOP3 | _VOP3_SOURCES, _PLAIN),
    Encoding("DS", 0xFC000000, 0xD8000000, 2, (17, 8), _DS, memory.DS),
    Encoding("FLAT", 0xFC000000, 0xDC000000, 2, (18, 7), _FLAT, memory.FLAT),
    Encoding("MUBUF", 0xFC000000, 0xE0000000, 2, (18, 7), _MUBUF, memory.MUBUF),
    Encoding("VOP1", 0xFE000000, 0x7E000000, 1, (9, 8), {"d": (17, 8), "a": (0, 9)}, vector.VOP1),
    Encoding("VOPC", 0xFE000000, 0x7C000000, 1, (17, 8), {"b": (9, 8), "a": (0, 9)}, vector.VOPC),
    Encoding("VOP2", 0x80000000, 0x00000000, 1, (25, 6), {"d": (17, 8), "b": (9, 8), "a": (0, 9)},
           vector.VOP2),
)  # fmt: skip

# src: CDNA3 ISA 13.1.5, S_WAITCNT: vmcnt 15:14 and 3:0, lgkmcnt 11:8, expcnt 6:4.
_WAITS = {
    "s_waitcnt": {"vm": ((0, 4), (14, 2)), "exp": ((4, 3),), "lgkm": ((8, 4),)},
}  # fmt: skip
# src: CDNA3 ISA 4.4, counters: stores count like loads, and return in order with them.
_COUNTERS = {
    "vm": ("vm",), "lgkm": ("lgkm",), "smem": ("lgkm",), "flat": ("vm", "lgkm"), "store": ("vm",),
    "flat store": ("vm", "lgkm"),
}  # fmt: skip
_TABLES = (
    scalar.SOP1, scalar.SOP2, scalar.SOPC, scalar.SOPK, scalar.SOPP, scalar.SMEM, vector.VOP1,
    vector.VOP2, vector.VOP3, vector.VOPC, vector.VOP3P, memory.DS, memory.FLAT, memory.MUBUF,
)  # fmt: skip

GFX942: Family = FamilyOf(
    "gfx942",
    _LAYOUTS,
    meanings=meanings(*_TABLES),
    null=-1,
    m0=124,
    off=frozenset({127, 128}),
    flat_offset_signed=True,
    dpp_sources=frozenset({250}),
    long_literals=False,
    sdwa=True,
    dpp_encodings=frozenset({"VOP1", "VOP2"}),
    plain_names=PLAIN_NAMES - {"v_pk_fmac_f16", "v_dot2c_f32_f16", "v_dot4c_i32_i8"},
    row_share="row_newbcast",
    dpp_controls=DPP_ROWS | DPP_WAVES | DPP_SHARE,
    split_registers=False,
    zeroing=ZEROING | WIDE_RESULTS,
    # src: CDNA3 ISA 9.1.8, buffer resource: SWIZZLE_ENABLE is bit 63, and no word has OOB_SELECT;
    # 9.1.5, range checking: a stride of 0 counts bytes
    buffer_swizzle=(31, 1),
    buffer_check=None,
    lane_counts=(64,),
    vgpr_granule={64: 8},
    # src: LLVM AMDGPU.td, FeatureRequiresAlignedVGPRs (gfx90a and later of gfx9).
    aligned_vectors=True,
    accumulators=True,
    waits=_WAITS,
    counters=_COUNTERS,
    # src: llvm GCNSubtarget.h, hasFlatLgkmVMemCountInOrder and supportsWaveWideBPermute.
    unordered=frozenset({"smem", "flat", "flat store"}),
    permute_lanes=64,
    texts=TEXTS,
    hwregs=HWREGS,
    messages=MESSAGES,
    registers=REGISTERS,
    flags=cache_controls,
)
"""Tried in order; VOP3P and its matrix form share a signature, as do the two kinds of VOP3."""

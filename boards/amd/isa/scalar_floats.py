"""Floats in scalar registers, by opcode: what gfx11.5 (RDNA3.5) has, and gfx12 after it."""

from __future__ import annotations

from boards.amd.isa.table import table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx1151
# src: and gfx1201; "RDNA3.5" Instruction Set Architecture Reference Guide, chapter 16

SOP1 = table("""
d1 a1:
    0x60 s_ceil_f32 s_floor_f32 s_trunc_f32 s_rndne_f32 s_cvt_f32_i32 s_cvt_f32_u32
    s_cvt_i32_f32 s_cvt_u32_f32 s_cvt_f16_f32 s_cvt_f32_f16 s_cvt_hi_f32_f16 s_ceil_f16
    s_floor_f16 s_trunc_f16 s_rndne_f16
""")

SOPC = table("""
a1 b1:
    0x41 s_cmp_lt_f32 s_cmp_eq_f32 s_cmp_le_f32 s_cmp_gt_f32 s_cmp_lg_f32 s_cmp_ge_f32 s_cmp_o_f32
    s_cmp_u_f32 s_cmp_nge_f32 s_cmp_nlg_f32 s_cmp_ngt_f32 s_cmp_nle_f32 s_cmp_neq_f32 s_cmp_nlt_f32
    0x51 s_cmp_lt_f16 s_cmp_eq_f16 s_cmp_le_f16 s_cmp_gt_f16 s_cmp_lg_f16 s_cmp_ge_f16 s_cmp_o_f16
    s_cmp_u_f16 s_cmp_nge_f16 s_cmp_nlg_f16 s_cmp_ngt_f16 s_cmp_nle_f16 s_cmp_neq_f16 s_cmp_nlt_f16
""")

SOP2 = table("""
d1 a1 b1:
    0x40 s_add_f32 s_sub_f32 0x44 s_mul_f32 0x47 s_fmac_f32 s_cvt_pk_rtz_f16_f32 s_add_f16
    s_sub_f16 0x4d s_mul_f16 s_fmac_f16
d1 a1 b1 k:
    0x45 s_fmaak_f32
d1 a1 k b1:
    0x46 s_fmamk_f32
""")
"""Without minima and maxima, which have other names on gfx12."""

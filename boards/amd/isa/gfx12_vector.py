"""Vector instructions of gfx12 (RDNA4): opcode, mnemonic, operands; see `table.py`."""

from __future__ import annotations

from boards.amd.isa import gfx11_vector
from boards.amd.isa.table import listed, table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx1201.

VOP1 = gfx11_vector.VOP1 | table("""
d1 a1:
    0x6c v_cvt_f32_fp8 v_cvt_f32_bf8
d2 a1:
    0x6e v_cvt_pk_f32_fp8 v_cvt_pk_f32_bf8
""")

VOP2 = table("""
d1 a1 b1 V:
    0x01 v_cndmask_b32
d2 a2 b2:
    0x02 v_add_f64 0x06 v_mul_f64 0x0d v_min_num_f64 v_max_num_f64
d1 a1 b1:
    0x03 v_add_f32 v_sub_f32 v_subrev_f32 0x07 v_mul_dx9_zero_f32 v_mul_f32 v_mul_i32_i24
    v_mul_hi_i32_i24 v_mul_u32_u24 v_mul_hi_u32_u24 0x11 v_min_i32 v_max_i32 v_min_u32 v_max_u32
    v_min_num_f32 v_max_num_f32 0x18 v_lshlrev_b32 v_lshrrev_b32 v_ashrrev_i32 v_and_b32
    v_or_b32 v_xor_b32 v_xnor_b32 0x25 v_add_nc_u32 v_sub_nc_u32 v_subrev_nc_u32 0x2b v_fmac_f32
    0x2f v_cvt_pk_rtz_f16_f32 v_min_num_f16 v_max_num_f16 v_add_f16 v_sub_f16 v_subrev_f16
    v_mul_f16 v_fmac_f16 0x3b v_ldexp_f16 v_pk_fmac_f16
d2 a1 b2:
    0x1f v_lshlrev_b64
d1 V a1 b1 V:
    0x20 v_add_co_ci_u32 v_sub_co_ci_u32 v_subrev_co_ci_u32
d1 a1 k b1:
    0x2c v_fmamk_f32 0x37 v_fmamk_f16
d1 a1 b1 k:
    0x2d v_fmaak_f32 0x38 v_fmaak_f16
""")

VOP3 = table("""
d1 a1 b1 c1:
    0x209 v_fma_dx9_zero_f32 v_mad_i32_i24 v_mad_u32_u24 v_cubeid_f32 v_cubesc_f32 v_cubetc_f32
    v_cubema_f32 v_bfe_u32 v_bfe_i32 v_bfi_b32 v_fma_f32 0x215 v_lerp_u8 v_alignbit_b32
    v_alignbyte_b32 v_mullit_f32 0x21a v_min3_i32 v_min3_u32 0x21d v_max3_i32 v_max3_u32 0x220
    v_med3_i32 v_med3_u32 v_sad_u8 v_sad_hi_u8 v_sad_u16 v_sad_u32 v_cvt_pk_u8_f32
    v_div_fixup_f32 0x229 v_min3_num_f32 v_max3_num_f32 v_min3_num_f16 v_max3_num_f16
    v_minimum3_f32 v_maximum3_f32 v_minimum3_f16 v_maximum3_f16 v_med3_num_f32 v_med3_num_f16
    0x237 v_div_fmas_f32 0x239 v_msad_u8 0x240 v_xor3_b32 v_mad_u16 0x244 v_perm_b32 v_xad_u32
    v_lshl_add_u32 v_add_lshl_u32 v_fma_f16 0x24a v_min3_i16 v_min3_u16 0x24d v_max3_i16
    v_max3_u16 0x250 v_med3_i16 v_med3_u16 0x253 v_mad_i16 v_div_fixup_f16 v_add3_u32
    v_lshl_or_b32 v_and_or_b32 v_or3_b32 v_mad_u32_u16 v_mad_i32_i16 v_permlane16_b32
    v_permlanex16_b32 0x262 v_maxmin_u32 v_minmax_u32 v_maxmin_i32 v_minmax_i32 v_dot2_f16_f16
    v_dot2_bf16_bf16 v_minmax_num_f32 v_maxmin_num_f32 v_minmax_num_f16 v_maxmin_num_f16
    v_minimummaximum_f32 v_maximumminimum_f32 v_minimummaximum_f16 v_maximumminimum_f16
d2 a2 b2 c2:
    0x214 v_fma_f64 0x228 v_div_fixup_f64 0x238 v_div_fmas_f64
d2 a2 b1 c2:
    0x23a v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8
d4 a2 b1 c4:
    0x23d v_mqsad_u32_u8
d1 a1 b1 cm:
    0x25d v_cndmask_b16
D1 a1:
    0x280 v_s_exp_f32 v_s_exp_f16 v_s_log_f32 v_s_log_f16 v_s_rcp_f32 v_s_rcp_f16 v_s_rsq_f32
    v_s_rsq_f16 v_s_sqrt_f32 v_s_sqrt_f16
d1 sm a1 b1 c1:
    0x2fc v_div_scale_f32
d2 sm a2 b2 c2:
    0x2fd v_div_scale_f64
d2 sm a1 b1 c2:
    0x2fe v_mad_co_u64_u32 v_mad_co_i64_i32
d1 sm a1 b1:
    0x300 v_add_co_u32 v_sub_co_u32 v_subrev_co_u32
d1 a1 b1:
    0x303 v_add_nc_u16 v_sub_nc_u16 v_mul_lo_u16 v_cvt_pk_i16_f32 v_cvt_pk_u16_f32 0x309
    v_max_u16 v_max_i16 v_min_u16 v_min_i16 v_add_nc_i16 v_sub_nc_i16 v_permlane16_var_b32
    v_permlanex16_var_b32 v_pack_b32_f16 v_cvt_pk_norm_i16_f16 v_cvt_pk_norm_u16_f16 0x31c
    v_ldexp_f32 v_bfm_b32 v_bcnt_u32_b32 v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32
    v_cvt_pk_norm_i16_f32 v_cvt_pk_norm_u16_f32 v_cvt_pk_u16_u32 v_cvt_pk_i16_i32 v_sub_nc_i32
    v_add_nc_i32 0x32c v_mul_lo_u32 v_mul_hi_u32 v_mul_hi_i32 0x338 v_lshlrev_b16 v_lshrrev_b16
    v_ashrrev_i16 0x361 v_writelane_b32 v_and_b16 v_or_b16 v_xor_b16 v_minimum_f32 v_maximum_f32
    v_minimum_f16 v_maximum_f16 v_cvt_pk_fp8_f32 v_cvt_pk_bf8_f32 v_cvt_sr_fp8_f32
    v_cvt_sr_bf8_f32
d2 a2 b1:
    0x32b v_ldexp_f64 0x32f v_trig_preop_f64
d2 a1 b2:
    0x33d v_lshrrev_b64 v_ashrrev_i64
d2 a2 b2:
    0x341 v_minimum_f64 v_maximum_f64
D1 a1 b1:
    0x360 v_readlane_b32
""")

VOP3P = table("""
d1 a1 b1 c1:
    0x00 v_pk_mad_i16 0x09 v_pk_mad_u16 0x0e v_pk_fma_f16 0x13 v_dot2_f32_f16 0x16
    v_dot4_i32_iu8 v_dot4_u32_u8 v_dot8_i32_iu4 v_dot8_u32_u4 v_dot2_f32_bf16 0x20 v_fma_mix_f32
    v_fma_mixlo_f16 v_fma_mixhi_f16 0x24 v_dot4_f32_fp8_bf8 v_dot4_f32_bf8_fp8
    v_dot4_f32_fp8_fp8 v_dot4_f32_bf8_bf8
d1 a1 b1:
    0x01 v_pk_mul_lo_u16 v_pk_add_i16 v_pk_sub_i16 v_pk_lshlrev_b16 v_pk_lshrrev_b16
    v_pk_ashrrev_i16 v_pk_max_i16 v_pk_min_i16 0x0a v_pk_add_u16 v_pk_sub_u16 v_pk_max_u16
    v_pk_min_u16 0x0f v_pk_add_f16 v_pk_mul_f16 0x1b v_pk_min_num_f16 v_pk_max_num_f16
    v_pk_minimum_f16 v_pk_maximum_f16
dw8 aw4 bw4 cw8:
    0x40 v_wmma_f32_16x16x16_f16 v_wmma_f32_16x16x16_bf16
dw4 aw4 bw4 cw4:
    0x42 v_wmma_f16_16x16x16_f16 v_wmma_bf16_16x16x16_bf16
dw8 aw2 bw2 cw8:
    0x44 v_wmma_i32_16x16x16_iu8 0x46 v_wmma_f32_16x16x16_fp8_fp8 v_wmma_f32_16x16x16_fp8_bf8
    v_wmma_f32_16x16x16_bf8_fp8 v_wmma_f32_16x16x16_bf8_bf8 v_wmma_i32_16x16x32_iu4
dw8 a1 b1 cw8:
    0x45 v_wmma_i32_16x16x16_iu4
dw8 aw4 bw8 c1:
    0x50 v_swmmac_f32_16x16x32_f16 v_swmmac_f32_16x16x32_bf16
dw4 aw4 bw8 c1:
    0x52 v_swmmac_f16_16x16x32_f16 v_swmmac_bf16_16x16x32_bf16
dw8 aw2 bw4 c1:
    0x54 v_swmmac_i32_16x16x32_iu8 0x56 v_swmmac_i32_16x16x64_iu4 v_swmmac_f32_16x16x32_fp8_fp8
    v_swmmac_f32_16x16x32_fp8_bf8 v_swmmac_f32_16x16x32_bf8_fp8 v_swmmac_f32_16x16x32_bf8_bf8
dw8 a1 bw2 c1:
    0x55 v_swmmac_i32_16x16x32_iu4
""")

VOPC = {
    opcode: entry
    for opcode, entry in gfx11_vector.VOPC.items()
    if not entry.name.startswith(("v_cmp_f_", "v_cmp_t_", "v_cmpx_f_", "v_cmpx_t_"))
}
"""Those of gfx11 without the constant ones."""

DUAL = listed(
    "fmac_f32 fmaak_f32 fmamk_f32 mul_f32 add_f32 sub_f32 subrev_f32 mul_dx9_zero_f32 mov_b32 "
    "cndmask_b32 max_num_f32 min_num_f32 - - - - add_nc_u32 lshlrev_b32 and_b32"
)
"""The halves of a VOPD instruction by opcode; those from 16 on exist only as the second half."""

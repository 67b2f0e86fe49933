"""Vector instructions of gfx10 (RDNA2): opcode, mnemonic, operands; see `table.py`."""

from __future__ import annotations

from boards.amd.isa.table import MASK, Entry, Slot, listed, table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx1030.

VOP1 = table("""
:
    0x00 v_nop 0x1b v_pipeflush 0x41 v_clrexcp
d1 a1:
    0x01 v_mov_b32 0x05 v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_u32_f32 v_cvt_i32_f32 0x0a v_cvt_f16_f32
    v_cvt_f32_f16 v_cvt_rpi_i32_f32 v_cvt_flr_i32_f32 v_cvt_off_f32_i4 0x11 v_cvt_f32_ubyte0
    v_cvt_f32_ubyte1 v_cvt_f32_ubyte2 v_cvt_f32_ubyte3 0x20 v_fract_f32 v_trunc_f32 v_ceil_f32
    v_rndne_f32 v_floor_f32 v_exp_f32 0x27 v_log_f32 0x2a v_rcp_f32 v_rcp_iflag_f32 0x2e v_rsq_f32
    0x33 v_sqrt_f32 0x35 v_sin_f32 v_cos_f32 v_not_b32 v_bfrev_b32 v_ffbh_u32 v_ffbl_b32
    v_ffbh_i32 0x3f v_frexp_exp_i32_f32 v_frexp_mant_f32 0x42 v_movreld_b32 v_movrels_b32
    v_movrelsd_b32 0x48 v_movrelsd_2_b32 0x50 v_cvt_f16_u16 v_cvt_f16_i16 v_cvt_u16_f16
    v_cvt_i16_f16 v_rcp_f16 v_sqrt_f16 v_rsq_f16 v_log_f16 v_exp_f16 v_frexp_mant_f16
    v_frexp_exp_i16_f16 v_floor_f16 v_ceil_f16 v_trunc_f16 v_rndne_f16 v_fract_f16 v_sin_f16
    v_cos_f16 v_sat_pk_u8_i16 v_cvt_norm_i16_f16 v_cvt_norm_u16_f16 v_swap_b32 0x68 v_swaprel_b32
D1 a1:
    0x02 v_readfirstlane_b32
d1 a2:
    0x03 v_cvt_i32_f64 0x0f v_cvt_f32_f64 0x15 v_cvt_u32_f64 0x3c v_frexp_exp_i32_f64
d2 a1:
    0x04 v_cvt_f64_i32 0x10 v_cvt_f64_f32 0x16 v_cvt_f64_u32
d2 a2:
    0x17 v_trunc_f64 v_ceil_f64 v_rndne_f64 v_floor_f64 0x2f v_rcp_f64 0x31 v_rsq_f64 0x34
    v_sqrt_f64 0x3d v_frexp_mant_f64 v_fract_f64
""")

VOP2 = table("""
d1 a1 b1 V:
    0x01 v_cndmask_b32
d1 a1 b1:
    0x02 v_dot2c_f32_f16 v_add_f32 v_sub_f32 v_subrev_f32 v_fmac_legacy_f32 v_mul_legacy_f32
    v_mul_f32 v_mul_i32_i24 v_mul_hi_i32_i24 v_mul_u32_u24 v_mul_hi_u32_u24 v_dot4c_i32_i8 0x0f
    v_min_f32 v_max_f32 v_min_i32 v_max_i32 v_min_u32 v_max_u32 0x16 v_lshrrev_b32 0x18
    v_ashrrev_i32 0x1a v_lshlrev_b32 v_and_b32 v_or_b32 v_xor_b32 v_xnor_b32 0x25 v_add_nc_u32
    v_sub_nc_u32 v_subrev_nc_u32 0x2b v_fmac_f32 0x2f v_cvt_pkrtz_f16_f32 0x32 v_add_f16 v_sub_f16
    v_subrev_f16 v_mul_f16 v_fmac_f16 0x39 v_max_f16 v_min_f16 v_ldexp_f16 v_pk_fmac_f16
d1 V a1 b1 V:
    0x28 v_add_co_ci_u32 v_sub_co_ci_u32 v_subrev_co_ci_u32
d1 a1 k b1:
    0x2c v_fmamk_f32 0x37 v_fmamk_f16
d1 a1 b1 k:
    0x2d v_fmaak_f32 0x38 v_fmaak_f16
""")

VOP3 = table("""
d1 a1 b1:
    0x169 v_mul_lo_u32 v_mul_hi_u32 0x16c v_mul_hi_i32 0x303 v_add_nc_u16 v_sub_nc_u16
    v_mul_lo_u16 0x307 v_lshrrev_b16 v_ashrrev_i16 v_max_u16 v_max_i16 v_min_u16 v_min_i16
    v_add_nc_i16 v_sub_nc_i16 0x311 v_pack_b32_f16 v_cvt_pknorm_i16_f16 v_cvt_pknorm_u16_f16
    v_lshlrev_b16 0x362 v_ldexp_f32 v_bfm_b32 v_bcnt_u32_b32 v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32
    0x368 v_cvt_pknorm_i16_f32 v_cvt_pknorm_u16_f32 v_cvt_pk_u16_u32 v_cvt_pk_i16_i32 0x376
    v_sub_nc_i32 0x37f v_add_nc_i32 0x361 v_writelane_b32
d1 a1 b1 c1:
    0x140 v_fma_legacy_f32 0x142 v_mad_i32_i24 v_mad_u32_u24 v_cubeid_f32 v_cubesc_f32
    v_cubetc_f32 v_cubema_f32 v_bfe_u32 v_bfe_i32 v_bfi_b32 v_fma_f32 0x14d v_lerp_u8
    v_alignbit_b32 v_alignbyte_b32 v_mullit_f32 v_min3_f32 v_min3_i32 v_min3_u32 v_max3_f32
    v_max3_i32 v_max3_u32 v_med3_f32 v_med3_i32 v_med3_u32 v_sad_u8 v_sad_hi_u8 v_sad_u16
    v_sad_u32 v_cvt_pk_u8_f32 v_div_fixup_f32 0x16f v_div_fmas_f32 0x171 v_msad_u8 0x178
    v_xor3_b32 0x340 v_mad_u16 0x344 v_perm_b32 v_xad_u32 v_lshl_add_u32 v_add_lshl_u32 0x34b
    v_fma_f16 0x351 v_min3_f16 v_min3_i16 v_min3_u16 v_max3_f16 v_max3_i16 v_max3_u16 v_med3_f16
    v_med3_i16 v_med3_u16 0x35e v_mad_i16 v_div_fixup_f16 0x36d v_add3_u32 0x36f v_lshl_or_b32
    0x371 v_and_or_b32 v_or3_b32 v_mad_u32_u16 0x375 v_mad_i32_i16 0x377 v_permlane16_b32
    v_permlanex16_b32
d2 a2 b2 c2:
    0x14c v_fma_f64 0x160 v_div_fixup_f64 0x170 v_div_fmas_f64
d2 a2 b2:
    0x164 v_add_f64 v_mul_f64 v_min_f64 v_max_f64
d2 a2 b1:
    0x168 v_ldexp_f64 0x174 v_trig_preop_f64
d1 sm a1 b1 c1:
    0x16d v_div_scale_f32
d2 sm a2 b2 c2:
    0x16e v_div_scale_f64
d2 a2 b1 c2:
    0x172 v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8
d4 a2 b1 c4:
    0x175 v_mqsad_u32_u8
d2 sm a1 b1 c2:
    0x176 v_mad_u64_u32 v_mad_i64_i32
d2 a1 b2:
    0x2ff v_lshlrev_b64 v_lshrrev_b64 v_ashrrev_i64
d1 sm a1 b1:
    0x30f v_add_co_u32 v_sub_co_u32 0x319 v_subrev_co_u32
D1 a1 b1:
    0x360 v_readlane_b32
""")

VOP3P = table("""
d1 a1 b1 c1:
    0x00 v_pk_mad_i16 0x09 v_pk_mad_u16 0x0e v_pk_fma_f16 0x13 v_dot2_f32_f16 v_dot2_i32_i16
    v_dot2_u32_u16 v_dot4_i32_i8 v_dot4_u32_u8 v_dot8_i32_i4 v_dot8_u32_u4 0x20 v_fma_mix_f32
    v_fma_mixlo_f16 v_fma_mixhi_f16
d1 a1 b1:
    0x01 v_pk_mul_lo_u16 v_pk_add_i16 v_pk_sub_i16 v_pk_lshlrev_b16 v_pk_lshrrev_b16
    v_pk_ashrrev_i16 v_pk_max_i16 v_pk_min_i16 0x0a v_pk_add_u16 v_pk_sub_u16 v_pk_max_u16
    v_pk_min_u16 0x0f v_pk_add_f16 v_pk_mul_f16 v_pk_min_f16 v_pk_max_f16
""")

_CONDITIONS_F = listed("f lt eq le gt lg ge o u nge nlg ngt nle neq nlt tru")
_CONDITIONS_I = listed("f lt eq le gt ne ge t")
_CLASS = ["class"]
_EXEC = 0x10
_COMPARES = (
    ("f32", 0x00, _CONDITIONS_F), ("f64", 0x20, _CONDITIONS_F),
    ("i32", 0x80, _CONDITIONS_I), ("f32", 0x88, _CLASS), ("i16", 0x89, _CONDITIONS_I[1:7]),
    ("f16", 0x8F, _CLASS), ("i64", 0xA0, _CONDITIONS_I), ("f64", 0xA8, _CLASS),
    ("u16", 0xA9, _CONDITIONS_I[1:7]), ("u32", 0xC0, _CONDITIONS_I),
    ("f16", 0xC8, _CONDITIONS_F[:8]), ("u64", 0xE0, _CONDITIONS_I),
    ("f16", 0xE8, _CONDITIONS_F[8:]),
)  # fmt: skip
"""Type, first opcode, conditions; the compares that write EXEC follow 16 opcodes later."""


def _compares() -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    for kind, base, conditions in _COMPARES:
        width = 2 if kind.endswith("64") else 1
        second = 1 if conditions is _CLASS else width
        sources = (Slot("a", width), Slot("b", second))
        for number, condition in enumerate(conditions):
            op = base + number
            found[op] = Entry(f"v_cmp_{condition}_{kind}", op, (Slot("V", MASK), *sources))
            found[op + _EXEC] = Entry(f"v_cmpx_{condition}_{kind}", op + _EXEC, sources)
    return found


VOPC = _compares()

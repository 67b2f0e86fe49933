"""Vector instructions of gfx9 (gfx942, CDNA3): opcode, mnemonic, operands; see `table.py`."""

from __future__ import annotations

from boards.amd.isa.table import MASK, Entry, Slot, listed, table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx942.

VOP1 = table("""
:
    0x00 v_nop 0x35 v_clrexcp
d1 a1:
    0x01 v_mov_b32 0x05 v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_u32_f32 v_cvt_i32_f32 0x0a
    v_cvt_f16_f32 v_cvt_f32_f16 v_cvt_rpi_i32_f32 v_cvt_flr_i32_f32 v_cvt_off_f32_i4 0x11
    v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2 v_cvt_f32_ubyte3 0x1b v_fract_f32
    v_trunc_f32 v_ceil_f32 v_rndne_f32 v_floor_f32 v_exp_f32 v_log_f32 v_rcp_f32 v_rcp_iflag_f32
    v_rsq_f32 0x27 v_sqrt_f32 0x29 v_sin_f32 v_cos_f32 v_not_b32 v_bfrev_b32 v_ffbh_u32
    v_ffbl_b32 v_ffbh_i32 0x33 v_frexp_exp_i32_f32 v_frexp_mant_f32 0x39 v_cvt_f16_u16
    v_cvt_f16_i16 v_cvt_u16_f16 v_cvt_i16_f16 v_rcp_f16 v_sqrt_f16 v_rsq_f16 v_log_f16 v_exp_f16
    v_frexp_mant_f16 v_frexp_exp_i16_f16 v_floor_f16 v_ceil_f16 v_trunc_f16 v_rndne_f16
    v_fract_f16 v_sin_f16 v_cos_f16 v_exp_legacy_f32 v_log_legacy_f32 v_cvt_norm_i16_f16
    v_cvt_norm_u16_f16 v_sat_pk_u8_i16 0x51 v_swap_b32 v_accvgpr_mov_b32 0x54 v_cvt_f32_fp8
    v_cvt_f32_bf8
D1 a1:
    0x02 v_readfirstlane_b32
d1 a2:
    0x03 v_cvt_i32_f64 0x0f v_cvt_f32_f64 0x15 v_cvt_u32_f64 0x30 v_frexp_exp_i32_f64
d2 a1:
    0x04 v_cvt_f64_i32 0x10 v_cvt_f64_f32 0x16 v_cvt_f64_u32 0x56 v_cvt_pk_f32_fp8
    v_cvt_pk_f32_bf8
d2 a2:
    0x17 v_trunc_f64 v_ceil_f64 v_rndne_f64 v_floor_f64 0x25 v_rcp_f64 v_rsq_f64 0x28 v_sqrt_f64
    0x31 v_frexp_mant_f64 v_fract_f64 0x38 v_mov_b64
""")

VOP2 = table("""
d1 a1 b1 V:
    0x00 v_cndmask_b32
d1 a1 b1:
    0x01 v_add_f32 v_sub_f32 v_subrev_f32 0x05 v_mul_f32 v_mul_i32_i24 v_mul_hi_i32_i24
    v_mul_u32_u24 v_mul_hi_u32_u24 v_min_f32 v_max_f32 v_min_i32 v_max_i32 v_min_u32 v_max_u32
    v_lshrrev_b32 v_ashrrev_i32 v_lshlrev_b32 v_and_b32 v_or_b32 v_xor_b32 0x1f v_add_f16
    v_sub_f16 v_subrev_f16 v_mul_f16 v_mac_f16 0x26 v_add_u16 v_sub_u16 v_subrev_u16
    v_mul_lo_u16 v_lshlrev_b16 v_lshrrev_b16 v_ashrrev_i16 v_max_f16 v_min_f16 v_max_u16
    v_max_i16 v_min_u16 v_min_i16 v_ldexp_f16 v_add_u32 v_sub_u32 v_subrev_u32 v_dot2c_f32_f16
    v_dot2c_i32_i16 v_dot4c_i32_i8 v_dot8c_i32_i4 v_fmac_f32 v_pk_fmac_f16 v_xnor_b32
d2 a2 b2:
    0x04 v_fmac_f64
d1 a1 k b1:
    0x17 v_fmamk_f32 0x24 v_madmk_f16
d1 a1 b1 k:
    0x18 v_fmaak_f32 0x25 v_madak_f16
d1 V a1 b1:
    0x19 v_add_co_u32 v_sub_co_u32 v_subrev_co_u32
d1 V a1 b1 V:
    0x1c v_addc_co_u32 v_subb_co_u32 v_subbrev_co_u32
""")

VOP3 = table("""
d1 a1 b1 c1:
    0x1c2 v_mad_i32_i24 v_mad_u32_u24 v_cubeid_f32 v_cubesc_f32 v_cubetc_f32 v_cubema_f32
    v_bfe_u32 v_bfe_i32 v_bfi_b32 v_fma_f32 0x1cd v_lerp_u8 v_alignbit_b32 v_alignbyte_b32
    v_min3_f32 v_min3_i32 v_min3_u32 v_max3_f32 v_max3_i32 v_max3_u32 v_med3_f32 v_med3_i32
    v_med3_u32 v_sad_u8 v_sad_hi_u8 v_sad_u16 v_sad_u32 v_cvt_pk_u8_f32 v_div_fixup_f32 0x1e2
    v_div_fmas_f32 0x1e4 v_msad_u8 0x1ea v_mad_legacy_f16 v_mad_legacy_u16 v_mad_legacy_i16
    v_perm_b32 v_fma_legacy_f16 v_div_fixup_legacy_f16 0x1f1 v_mad_u32_u16 v_mad_i32_i16
    v_xad_u32 v_min3_f16 v_min3_i16 v_min3_u16 v_max3_f16 v_max3_i16 v_max3_u16 v_med3_f16
    v_med3_i16 v_med3_u16 v_lshl_add_u32 v_add_lshl_u32 v_add3_u32 v_lshl_or_b32 v_and_or_b32
    v_or3_b32 v_mad_f16 v_mad_u16 v_mad_i16 v_fma_f16 v_div_fixup_f16
d2 a2 b2 c2:
    0x1cc v_fma_f64 0x1df v_div_fixup_f64 0x1e3 v_div_fmas_f64
d1 sm a1 b1 c1:
    0x1e0 v_div_scale_f32
d2 sm a2 b2 c2:
    0x1e1 v_div_scale_f64
d2 a2 b1 c2:
    0x1e5 v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8 0x208 v_lshl_add_u64
d4 a2 b1 c4:
    0x1e7 v_mqsad_u32_u8
d2 sm a1 b1 c2:
    0x1e8 v_mad_u64_u32 v_mad_i64_i32
d1 a1 b1:
    0x1f0 v_cvt_pkaccum_u8_f32 0x285 v_mul_lo_u32 v_mul_hi_u32 v_mul_hi_i32 v_ldexp_f32 0x28a
    v_writelane_b32 v_bcnt_u32_b32 v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32 0x293 v_bfm_b32
    v_cvt_pknorm_i16_f32 v_cvt_pknorm_u16_f32 v_cvt_pkrtz_f16_f32 v_cvt_pk_u16_u32
    v_cvt_pk_i16_i32 v_cvt_pknorm_i16_f16 v_cvt_pknorm_u16_f16 0x29c v_add_i32 v_sub_i32
    v_add_i16 v_sub_i16 v_pack_b32_f16 v_mul_legacy_f32 v_cvt_pk_fp8_f32 v_cvt_pk_bf8_f32
    v_cvt_sr_fp8_f32 v_cvt_sr_bf8_f32
d2 a2 b2:
    0x280 v_add_f64 v_mul_f64 v_min_f64 v_max_f64
d2 a2 b1:
    0x284 v_ldexp_f64 0x292 v_trig_preop_f64
D1 a1 b1:
    0x289 v_readlane_b32
d2 a1 b2:
    0x28f v_lshlrev_b64 v_lshrrev_b64 v_ashrrev_i64
""")

VOP3P = table("""
d1 a1 b1 c1:
    0x00 v_pk_mad_i16 0x09 v_pk_mad_u16 0x0e v_pk_fma_f16 0x20 v_fma_mix_f32 v_fma_mixlo_f16
    v_fma_mixhi_f16 v_dot2_f32_f16 0x26 v_dot2_i32_i16 v_dot2_u32_u16 v_dot4_i32_i8
    v_dot4_u32_u8 v_dot8_i32_i4 v_dot8_u32_u4
d1 a1 b1:
    0x01 v_pk_mul_lo_u16 v_pk_add_i16 v_pk_sub_i16 v_pk_lshlrev_b16 v_pk_lshrrev_b16
    v_pk_ashrrev_i16 v_pk_max_i16 v_pk_min_i16 0x0a v_pk_add_u16 v_pk_sub_u16 v_pk_max_u16
    v_pk_min_u16 0x0f v_pk_add_f16 v_pk_mul_f16 v_pk_min_f16 v_pk_max_f16
d2 a2 b2 c2:
    0x30 v_pk_fma_f32
d2 a2 b2:
    0x31 v_pk_mul_f32 v_pk_add_f32 v_pk_mov_b32
""")


_CONDITIONS_F = listed("f lt eq le gt lg ge o u nge nlg ngt nle neq nlt tru")
_CONDITIONS_I = listed("f lt eq le gt ne ge t")
_COMPARE_BASE = {
    "f16": 0x20, "f32": 0x40, "f64": 0x60, "i16": 0xA0, "u16": 0xA8, "i32": 0xC0, "u32": 0xC8,
    "i64": 0xE0, "u64": 0xE8,
}  # fmt: skip
_CLASS = {"f32": 0x10, "f64": 0x12, "f16": 0x14}
_CMPX = 0x10


def _compares() -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    rows = [(kind, base, _CONDITIONS_F if kind[0] == "f" else _CONDITIONS_I, _CMPX)
            for kind, base in _COMPARE_BASE.items()]  # fmt: skip
    rows += [(kind, base, ["class"], 1) for kind, base in _CLASS.items()]
    for kind, base, names, distance in rows:
        width = 2 if kind.endswith("64") else 1
        second = 1 if names == ["class"] else width
        slots = (Slot("V", MASK), Slot("a", width), Slot("b", second))
        for prefix, first in (("v_cmp", base), ("v_cmpx", base + distance)):
            for number, condition in enumerate(names):
                name = f"{prefix}_{condition}_{kind}"
                found[first + number] = Entry(name, first + number, slots)
    return found


VOPC = _compares()
"""Compares: a condition, a type; v_cmpx writes EXEC as well as VCC."""

"""Scalar instructions of gfx9 (gfx942, CDNA3): opcode, mnemonic, operands; see `table.py`."""

from __future__ import annotations

from boards.amd.isa.table import table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx942.

SOP2 = table("""
d1 a1 b1:
    0x00 s_add_u32 s_sub_u32 s_add_i32 s_sub_i32 s_addc_u32 s_subb_u32 s_min_i32 s_min_u32
    s_max_i32 s_max_u32 s_cselect_b32 0x0c s_and_b32 0x0e s_or_b32 0x10 s_xor_b32 0x12
    s_andn2_b32 0x14 s_orn2_b32 0x16 s_nand_b32 0x18 s_nor_b32 0x1a s_xnor_b32 0x1c s_lshl_b32
    0x1e s_lshr_b32 0x20 s_ashr_i32 0x22 s_bfm_b32 0x24 s_mul_i32 s_bfe_u32 s_bfe_i32 0x2a
    s_absdiff_i32 0x2c s_mul_hi_u32 s_mul_hi_i32 s_lshl1_add_u32 s_lshl2_add_u32 s_lshl3_add_u32
    s_lshl4_add_u32 s_pack_ll_b32_b16 s_pack_lh_b32_b16 s_pack_hh_b32_b16
d2 a2 b2:
    0x0b s_cselect_b64 0x0d s_and_b64 0x0f s_or_b64 0x11 s_xor_b64 0x13 s_andn2_b64 0x15
    s_orn2_b64 0x17 s_nand_b64 0x19 s_nor_b64 0x1b s_xnor_b64
d2 a2 b1:
    0x1d s_lshl_b64 0x1f s_lshr_b64 0x21 s_ashr_i64 0x27 s_bfe_u64 s_bfe_i64
d2 a1 b1:
    0x23 s_bfm_b64
""")

SOPK = table("""
d1 i:
    0x00 s_movk_i32 s_cmovk_i32 s_cmpk_eq_i32 s_cmpk_lg_i32 s_cmpk_gt_i32 s_cmpk_ge_i32
    s_cmpk_lt_i32 s_cmpk_le_i32 s_cmpk_eq_u32 s_cmpk_lg_u32 s_cmpk_gt_u32 s_cmpk_ge_u32
    s_cmpk_lt_u32 s_cmpk_le_u32 s_addk_i32 s_mulk_i32
d1 h:
    0x11 s_getreg_b32
h d1:
    0x12 s_setreg_b32
h k:
    0x14 s_setreg_imm32_b32
d2 i:
    0x15 s_call_b64
""")

SOP1 = table("""
d1 a1:
    0x00 s_mov_b32 0x02 s_cmov_b32 0x04 s_not_b32 0x06 s_wqm_b32 0x08 s_brev_b32 0x0a
    s_bcnt0_i32_b32 0x0c s_bcnt1_i32_b32 0x0e s_ff0_i32_b32 0x10 s_ff1_i32_b32 0x12
    s_flbit_i32_b32 0x14 s_flbit_i32 0x16 s_sext_i32_i8 s_sext_i32_i16 s_bitset0_b32 0x1a
    s_bitset1_b32 0x28 s_quadmask_b32 0x2a s_movrels_b32 0x2c s_movreld_b32 0x30 s_abs_i32
a1:
    0x32 s_set_gpr_idx_idx
d2 a2:
    0x01 s_mov_b64 0x03 s_cmov_b64 0x05 s_not_b64 0x07 s_wqm_b64 0x09 s_brev_b64 0x1e
    s_swappc_b64 0x20 s_and_saveexec_b64 s_or_saveexec_b64 s_xor_saveexec_b64
    s_andn2_saveexec_b64 s_orn2_saveexec_b64 s_nand_saveexec_b64 s_nor_saveexec_b64
    s_xnor_saveexec_b64 0x29 s_quadmask_b64 0x2b s_movrels_b64 0x2d s_movreld_b64 0x33
    s_andn1_saveexec_b64 s_orn1_saveexec_b64 s_andn1_wrexec_b64 s_andn2_wrexec_b64
d1 a2:
    0x0b s_bcnt0_i32_b64 0x0d s_bcnt1_i32_b64 0x0f s_ff0_i32_b64 0x11 s_ff1_i32_b64 0x13
    s_flbit_i32_b64 0x15 s_flbit_i32_i64
d2 a1:
    0x19 s_bitset0_b64 0x1b s_bitset1_b64 0x37 s_bitreplicate_b64_b32
d2:
    0x1c s_getpc_b64
a2:
    0x1d s_setpc_b64 0x1f s_rfe_b64
""")

SOPC = table("""
a1 b1:
    0x00 s_cmp_eq_i32 s_cmp_lg_i32 s_cmp_gt_i32 s_cmp_ge_i32 s_cmp_lt_i32 s_cmp_le_i32
    s_cmp_eq_u32 s_cmp_lg_u32 s_cmp_gt_u32 s_cmp_ge_u32 s_cmp_lt_u32 s_cmp_le_u32 s_bitcmp0_b32
    s_bitcmp1_b32
a2 b1:
    0x0e s_bitcmp0_b64 s_bitcmp1_b64
a2 b2:
    0x12 s_cmp_eq_u64 s_cmp_lg_u64
a1:
    0x11 s_set_gpr_idx_on
""")

SOPP = table("""
i:
    0x00 s_nop s_endpgm s_branch 0x04 s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz
    s_cbranch_vccnz s_cbranch_execz s_cbranch_execnz 0x0b s_setkill s_waitcnt s_sethalt s_sleep
    s_setprio s_sendmsg s_sendmsghalt s_trap 0x14 s_incperflevel s_decperflevel 0x17
    s_cbranch_cdbgsys s_cbranch_cdbguser s_cbranch_cdbgsys_or_user s_cbranch_cdbgsys_and_user
    0x1d s_set_gpr_idx_mode
:
    0x03 s_wakeup 0x0a s_barrier 0x13 s_icache_inv 0x16 s_ttracedata 0x1b s_endpgm_saved
    s_set_gpr_idx_off 0x1e s_endpgm_ordered_ps_done
""")

SMEM = table("""
d1 b2 o:
    0x00 s_load_dword 0x10 s_store_dword
d2 b2 o:
    0x01 s_load_dwordx2 0x11 s_store_dwordx2
d4 b2 o:
    0x02 s_load_dwordx4 0x12 s_store_dwordx4
d8 b2 o:
    0x03 s_load_dwordx8
d16 b2 o:
    0x04 s_load_dwordx16
d1 b4 o:
    0x08 s_buffer_load_dword 0x18 s_buffer_store_dword
d2 b4 o:
    0x09 s_buffer_load_dwordx2 0x19 s_buffer_store_dwordx2
d4 b4 o:
    0x0a s_buffer_load_dwordx4 0x1a s_buffer_store_dwordx4
d8 b4 o:
    0x0b s_buffer_load_dwordx8
d16 b4 o:
    0x0c s_buffer_load_dwordx16
d2:
    0x24 s_memtime s_memrealtime
:
    0x20 s_dcache_inv s_dcache_wb s_dcache_inv_vol s_dcache_wb_vol
""")

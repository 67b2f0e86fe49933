"""Scalar instructions of gfx12 (RDNA4): opcode, mnemonic, operands; see `table.py`."""

from __future__ import annotations

from boards.amd.isa import gfx11_scalar, scalar_floats
from boards.amd.isa.table import table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx1201.

SOP2 = (
    table("""
d1 a1 b1:
    0x00 s_add_co_u32 s_sub_co_u32 s_add_co_i32 s_sub_co_i32 s_add_co_ci_u32 s_sub_co_ci_u32
    s_absdiff_i32 0x08 s_lshl_b32 0x0a s_lshr_b32 0x0c s_ashr_i32 0x0e s_lshl1_add_u32
    s_lshl2_add_u32 s_lshl3_add_u32 s_lshl4_add_u32 s_min_i32 s_min_u32 s_max_i32 s_max_u32
    s_and_b32 0x18 s_or_b32 0x1a s_xor_b32 0x1c s_nand_b32 0x1e s_nor_b32 0x20 s_xnor_b32 0x22
    s_and_not1_b32 0x24 s_or_not1_b32 0x26 s_bfe_u32 s_bfe_i32 0x2a s_bfm_b32 0x2c s_mul_i32
    s_mul_hi_u32 s_mul_hi_i32 0x30 s_cselect_b32 0x32 s_pack_ll_b32_b16 s_pack_lh_b32_b16
    s_pack_hh_b32_b16 s_pack_hl_b32_b16 0x42 s_min_num_f32 s_max_num_f32 0x4b s_min_num_f16
    s_max_num_f16 0x4f s_minimum_f32 s_maximum_f32 s_minimum_f16 s_maximum_f16
d2 a2 b1:
    0x09 s_lshl_b64 0x0b s_lshr_b64 0x0d s_ashr_i64 0x28 s_bfe_u64 s_bfe_i64
d2 a2 b2:
    0x17 s_and_b64 0x19 s_or_b64 0x1b s_xor_b64 0x1d s_nand_b64 0x1f s_nor_b64 0x21 s_xnor_b64
    0x23 s_and_not1_b64 0x25 s_or_not1_b64 0x31 s_cselect_b64 0x53 s_add_nc_u64 s_sub_nc_u64
    s_mul_u64
d2 a1 b1:
    0x2b s_bfm_b64
""")
    | scalar_floats.SOP2
)

SOPK = table("""
d1 i:
    0x00 s_movk_i32 0x02 s_cmovk_i32 0x0f s_addk_co_i32 s_mulk_i32
d1 h:
    0x11 s_getreg_b32
h d1:
    0x12 s_setreg_b32
h k:
    0x13 s_setreg_imm32_b32
d2 i:
    0x14 s_call_b64
""")

SOP1 = (
    gfx11_scalar.SOP1
    | scalar_floats.SOP1
    | table("""
d1 a1:
    0x50 s_get_barrier_state
a1:
    0x4e s_barrier_signal s_barrier_signal_isfirst 0x51 s_barrier_init s_barrier_join 0x57
    s_wakeup_barrier s_sleep_var
""")
)

SOPC = gfx11_scalar.SOPC | scalar_floats.SOPC

SOPP = table("""
i:
    0x00 s_nop s_setkill s_sethalt s_sleep 0x05 s_clause 0x07 s_delay_alu s_wait_alu s_waitcnt 0x0b
    s_wait_event 0x10 s_trap s_round_mode s_denorm_mode s_singleuse_vdst s_barrier_wait 0x20
    s_branch s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz s_cbranch_vccnz s_cbranch_execz
    s_cbranch_execnz 0x30 s_endpgm 0x35 s_setprio s_sendmsg s_sendmsghalt s_incperflevel
    s_decperflevel 0x3b s_ttracedata_imm 0x40 s_wait_loadcnt s_wait_storecnt s_wait_samplecnt
    s_wait_bvhcnt s_wait_expcnt 0x46 s_wait_dscnt s_wait_kmcnt s_wait_loadcnt_dscnt
    s_wait_storecnt_dscnt
:
    0x0a s_wait_idle 0x15 s_barrier_leave 0x1f s_code_end 0x31 s_endpgm_saved 0x34 s_wakeup 0x3a
    s_ttracedata 0x3c s_icache_inv
""")

SMEM = table("""
d1 b2 o:
    0x00 s_load_b32 0x08 s_load_i8 s_load_u8 s_load_i16 s_load_u16
d2 b2 o:
    0x01 s_load_b64
d4 b2 o:
    0x02 s_load_b128
d8 b2 o:
    0x03 s_load_b256
d16 b2 o:
    0x04 s_load_b512
d3 b2 o:
    0x05 s_load_b96
d1 b4 o:
    0x10 s_buffer_load_b32 0x18 s_buffer_load_i8 s_buffer_load_u8 s_buffer_load_i16
    s_buffer_load_u16
d2 b4 o:
    0x11 s_buffer_load_b64
d4 b4 o:
    0x12 s_buffer_load_b128
d8 b4 o:
    0x13 s_buffer_load_b256
d16 b4 o:
    0x14 s_buffer_load_b512
d3 b4 o:
    0x15 s_buffer_load_b96
:
    0x21 s_dcache_inv
b2 o p:
    0x24 s_prefetch_inst 0x26 s_prefetch_data
o p:
    0x25 s_prefetch_inst_pc_rel 0x28 s_prefetch_data_pc_rel
b4 o p:
    0x27 s_buffer_prefetch_data
""")

"""Memory instructions of gfx12 (RDNA4): opcode, mnemonic, operands; see `table.py`."""

from __future__ import annotations

from boards.amd.isa.table import table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx1201.

DS = table("""
a1 x1:
    0x00 ds_add_u32 ds_sub_u32 ds_rsub_u32 ds_inc_u32 ds_dec_u32 ds_min_i32 ds_max_i32
    ds_min_u32 ds_max_u32 ds_and_b32 ds_or_b32 ds_xor_b32 0x0d ds_store_b32 0x12 ds_min_num_f32
    ds_max_num_f32 0x15 ds_add_f32 0x1e ds_store_b8 ds_store_b16 0x98 ds_cond_sub_u32
    ds_sub_clamp_u32 ds_pk_add_f16 ds_pk_add_bf16 0xa0 ds_store_b8_d16_hi ds_store_b16_d16_hi
a1 x1 y1:
    0x0c ds_mskor_b32 0x0e ds_store_2addr_b32 ds_store_2addr_stride64_b32 ds_cmpstore_b32
:
    0x14 ds_nop
d1 a1 x1:
    0x20 ds_add_rtn_u32 ds_sub_rtn_u32 ds_rsub_rtn_u32 ds_inc_rtn_u32 ds_dec_rtn_u32
    ds_min_rtn_i32 ds_max_rtn_i32 ds_min_rtn_u32 ds_max_rtn_u32 ds_and_rtn_b32 ds_or_rtn_b32
    ds_xor_rtn_b32 0x2d ds_storexchg_rtn_b32 0x32 ds_min_num_rtn_f32 ds_max_num_rtn_f32 0x79
    ds_add_rtn_f32 0xa8 ds_cond_sub_rtn_u32 ds_sub_clamp_rtn_u32 ds_pk_add_rtn_f16
    ds_pk_add_rtn_bf16 0xb2 ds_permute_b32 ds_bpermute_b32
d1 a1 x1 y1:
    0x2c ds_mskor_rtn_b32 0x30 ds_cmpstore_rtn_b32
d2 a1 x1 y1:
    0x2e ds_storexchg_2addr_rtn_b32 ds_storexchg_2addr_stride64_rtn_b32
d1 a1:
    0x35 ds_swizzle_b32 ds_load_b32 0x39 ds_load_i8 ds_load_u8 ds_load_i16 ds_load_u16 0xa2
    ds_load_u8_d16 ds_load_u8_d16_hi ds_load_i8_d16 ds_load_i8_d16_hi ds_load_u16_d16
    ds_load_u16_d16_hi
d2 a1:
    0x37 ds_load_2addr_b32 ds_load_2addr_stride64_b32 0x76 ds_load_b64
d1:
    0x3d ds_consume ds_append 0xb1 ds_load_addtid_b32
a1 x2:
    0x40 ds_add_u64 ds_sub_u64 ds_rsub_u64 ds_inc_u64 ds_dec_u64 ds_min_i64 ds_max_i64
    ds_min_u64 ds_max_u64 ds_and_b64 ds_or_b64 ds_xor_b64 0x4d ds_store_b64 0x52 ds_min_num_f64
    ds_max_num_f64
a1 x2 y2:
    0x4c ds_mskor_b64 0x4e ds_store_2addr_b64 ds_store_2addr_stride64_b64 ds_cmpstore_b64
d2 a1 x2:
    0x60 ds_add_rtn_u64 ds_sub_rtn_u64 ds_rsub_rtn_u64 ds_inc_rtn_u64 ds_dec_rtn_u64
    ds_min_rtn_i64 ds_max_rtn_i64 ds_min_rtn_u64 ds_max_rtn_u64 ds_and_rtn_b64 ds_or_rtn_b64
    ds_xor_rtn_b64 0x6d ds_storexchg_rtn_b64 0x72 ds_min_num_rtn_f64 ds_max_num_rtn_f64 0x7e
    ds_condxchg32_rtn_b64
d2 a1 x2 y2:
    0x6c ds_mskor_rtn_b64 0x70 ds_cmpstore_rtn_b64
d4 a1 x2 y2:
    0x6e ds_storexchg_2addr_rtn_b64 ds_storexchg_2addr_stride64_rtn_b64
d4 a1:
    0x77 ds_load_2addr_b64 ds_load_2addr_stride64_b64 0xff ds_load_b128
x1:
    0xb0 ds_store_addtid_b32
a1 x3:
    0xde ds_store_b96
a1 x4:
    0xdf ds_store_b128
d3 a1:
    0xfe ds_load_b96
""")

FLAT = table("""
d1 a2:
    0x10 load_u8 load_i8 load_u16 load_i16 load_b32 0x1e load_d16_u8 load_d16_i8 load_d16_b16
    load_d16_hi_u8 load_d16_hi_i8 load_d16_hi_b16
d2 a2:
    0x15 load_b64 0x58 load_tr_b64
d3 a2:
    0x16 load_b96
d4 a2:
    0x17 load_b128 0x57 load_tr_b128
a2 x1:
    0x18 store_b8 store_b16 store_b32 0x24 store_d16_hi_b8 store_d16_hi_b16 0x33 atomic_swap_b32
    0x35 atomic_add_u32 atomic_sub_u32 atomic_sub_clamp_u32 atomic_min_i32 atomic_min_u32
    atomic_max_i32 atomic_max_u32 atomic_and_b32 atomic_or_b32 atomic_xor_b32 atomic_inc_u32
    atomic_dec_u32 0x50 atomic_cond_sub_u32 atomic_min_num_f32 atomic_max_num_f32 0x56
    atomic_add_f32 0x59 atomic_pk_add_f16 atomic_pk_add_bf16
a2 x2:
    0x1b store_b64 0x34 atomic_cmpswap_b32 0x41 atomic_swap_b64 0x43 atomic_add_u64
    atomic_sub_u64 atomic_min_i64 atomic_min_u64 atomic_max_i64 atomic_max_u64 atomic_and_b64
    atomic_or_b64 atomic_xor_b64 atomic_inc_u64 atomic_dec_u64 0x73 atomic_ordered_add_b64
a2 x3:
    0x1c store_b96
a2 x4:
    0x1d store_b128 0x42 atomic_cmpswap_b64
d1:
    0x28 load_addtid_b32
x1:
    0x29 store_addtid_b32
:
    0x2b inv wb 0x4f wbinv
d32 a2:
    0x53 load_block
a2 x32:
    0x54 store_block
""")

MUBUF = table("""
x1 a1 r4 q1:
    0x00 buffer_load_format_x 0x04 buffer_store_format_x 0x08 buffer_load_d16_format_x
    buffer_load_d16_format_xy 0x0c buffer_store_d16_format_x buffer_store_d16_format_xy 0x10
    buffer_load_u8 buffer_load_i8 buffer_load_u16 buffer_load_i16 buffer_load_b32 0x18
    buffer_store_b8 buffer_store_b16 buffer_store_b32 0x1e buffer_load_d16_u8 buffer_load_d16_i8
    buffer_load_d16_b16 buffer_load_d16_hi_u8 buffer_load_d16_hi_i8 buffer_load_d16_hi_b16
    buffer_store_d16_hi_b8 buffer_store_d16_hi_b16 buffer_load_d16_hi_format_x
    buffer_store_d16_hi_format_x 0x33 buffer_atomic_swap_b32 0x35 buffer_atomic_add_u32
    buffer_atomic_sub_u32 buffer_atomic_sub_clamp_u32 buffer_atomic_min_i32
    buffer_atomic_min_u32 buffer_atomic_max_i32 buffer_atomic_max_u32 buffer_atomic_and_b32
    buffer_atomic_or_b32 buffer_atomic_xor_b32 buffer_atomic_inc_u32 buffer_atomic_dec_u32 0x50
    buffer_atomic_cond_sub_u32 buffer_atomic_min_num_f32 buffer_atomic_max_num_f32 0x56
    buffer_atomic_add_f32 0x59 buffer_atomic_pk_add_f16 buffer_atomic_pk_add_bf16
x2 a1 r4 q1:
    0x01 buffer_load_format_xy 0x05 buffer_store_format_xy 0x0a buffer_load_d16_format_xyz
    buffer_load_d16_format_xyzw 0x0e buffer_store_d16_format_xyz buffer_store_d16_format_xyzw
    0x15 buffer_load_b64 0x1b buffer_store_b64 0x34 buffer_atomic_cmpswap_b32 0x41
    buffer_atomic_swap_b64 0x43 buffer_atomic_add_u64 buffer_atomic_sub_u64
    buffer_atomic_min_i64 buffer_atomic_min_u64 buffer_atomic_max_i64 buffer_atomic_max_u64
    buffer_atomic_and_b64 buffer_atomic_or_b64 buffer_atomic_xor_b64 buffer_atomic_inc_u64
    buffer_atomic_dec_u64
x3 a1 r4 q1:
    0x02 buffer_load_format_xyz 0x06 buffer_store_format_xyz 0x16 buffer_load_b96 0x1c
    buffer_store_b96
x4 a1 r4 q1:
    0x03 buffer_load_format_xyzw 0x07 buffer_store_format_xyzw 0x17 buffer_load_b128 0x1d
    buffer_store_b128 0x42 buffer_atomic_cmpswap_b64
""")

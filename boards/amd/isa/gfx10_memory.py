"""Memory instructions of gfx10 (RDNA2): opcode, mnemonic, operands; see `table.py`."""

from __future__ import annotations

from boards.amd.isa.table import table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx1030.

DS = table("""
a1 x1:
    0x00 ds_add_u32 ds_sub_u32 ds_rsub_u32 ds_inc_u32 ds_dec_u32 ds_min_i32 ds_max_i32 ds_min_u32
    ds_max_u32 ds_and_b32 ds_or_b32 ds_xor_b32 0x0d ds_write_b32 0x12 ds_min_f32 ds_max_f32 0x15
    ds_add_f32 0x1e ds_write_b8 ds_write_b16 0xa0 ds_write_b8_d16_hi ds_write_b16_d16_hi
a1 x1 y1:
    0x0c ds_mskor_b32 0x0e ds_write2_b32 ds_write2st64_b32 ds_cmpst_b32 ds_cmpst_f32
:
    0x14 ds_nop
d1 a1 x1:
    0x20 ds_add_rtn_u32 ds_sub_rtn_u32 ds_rsub_rtn_u32 ds_inc_rtn_u32 ds_dec_rtn_u32
    ds_min_rtn_i32 ds_max_rtn_i32 ds_min_rtn_u32 ds_max_rtn_u32 ds_and_rtn_b32 ds_or_rtn_b32
    ds_xor_rtn_b32 0x2d ds_wrxchg_rtn_b32 0x32 ds_min_rtn_f32 ds_max_rtn_f32 0x55 ds_add_rtn_f32
    0xb2 ds_permute_b32 ds_bpermute_b32
d1 a1 x1 y1:
    0x2c ds_mskor_rtn_b32 0x30 ds_cmpst_rtn_b32 ds_cmpst_rtn_f32 0x34 ds_wrap_rtn_b32
d2 a1 x1 y1:
    0x2e ds_wrxchg2_rtn_b32 ds_wrxchg2st64_rtn_b32
d1 a1:
    0x35 ds_swizzle_b32 ds_read_b32 0x39 ds_read_i8 ds_read_u8 ds_read_i16 ds_read_u16 0xa2
    ds_read_u8_d16 ds_read_u8_d16_hi ds_read_i8_d16 ds_read_i8_d16_hi ds_read_u16_d16
    ds_read_u16_d16_hi
d2 a1:
    0x37 ds_read2_b32 ds_read2st64_b32 0x76 ds_read_b64
d1:
    0x3d ds_consume ds_append 0xb1 ds_read_addtid_b32
a1 x2:
    0x40 ds_add_u64 ds_sub_u64 ds_rsub_u64 ds_inc_u64 ds_dec_u64 ds_min_i64 ds_max_i64 ds_min_u64
    ds_max_u64 ds_and_b64 ds_or_b64 ds_xor_b64 0x4d ds_write_b64 0x52 ds_min_f64 ds_max_f64
a1 x2 y2:
    0x4c ds_mskor_b64 0x4e ds_write2_b64 ds_write2st64_b64 ds_cmpst_b64 ds_cmpst_f64
d2 a1 x2:
    0x60 ds_add_rtn_u64 ds_sub_rtn_u64 ds_rsub_rtn_u64 ds_inc_rtn_u64 ds_dec_rtn_u64
    ds_min_rtn_i64 ds_max_rtn_i64 ds_min_rtn_u64 ds_max_rtn_u64 ds_and_rtn_b64 ds_or_rtn_b64
    ds_xor_rtn_b64 0x6d ds_wrxchg_rtn_b64 0x72 ds_min_rtn_f64 ds_max_rtn_f64 0x7e
    ds_condxchg32_rtn_b64
d2 a1 x2 y2:
    0x6c ds_mskor_rtn_b64 0x70 ds_cmpst_rtn_b64 ds_cmpst_rtn_f64
d4 a1 x2 y2:
    0x6e ds_wrxchg2_rtn_b64 ds_wrxchg2st64_rtn_b64
d4 a1:
    0x77 ds_read2_b64 ds_read2st64_b64 0xff ds_read_b128
x1:
    0xb0 ds_write_addtid_b32
a1 x3:
    0xde ds_write_b96
a1 x4:
    0xdf ds_write_b128
d3 a1:
    0xfe ds_read_b96
""")

FLAT = table("""
d1 a2:
    0x08 load_ubyte load_sbyte load_ushort load_sshort load_dword 0x20 load_ubyte_d16
    load_ubyte_d16_hi load_sbyte_d16 load_sbyte_d16_hi load_short_d16 load_short_d16_hi
d2 a2:
    0x0d load_dwordx2
d4 a2:
    0x0e load_dwordx4
d3 a2:
    0x0f load_dwordx3
d1:
    0x16 load_dword_addtid
x1:
    0x17 store_dword_addtid
a2 x1:
    0x18 store_byte store_byte_d16_hi store_short store_short_d16_hi store_dword 0x30 atomic_swap
    0x32 atomic_add atomic_sub atomic_csub atomic_smin atomic_umin atomic_smax atomic_umax
    atomic_and atomic_or atomic_xor atomic_inc atomic_dec 0x3f atomic_fmin atomic_fmax
a2 x2:
    0x1d store_dwordx2 0x31 atomic_cmpswap 0x3e atomic_fcmpswap 0x50 atomic_swap_x2 0x52
    atomic_add_x2 atomic_sub_x2 0x55 atomic_smin_x2 atomic_umin_x2 atomic_smax_x2 atomic_umax_x2
    atomic_and_x2 atomic_or_x2 atomic_xor_x2 atomic_inc_x2 atomic_dec_x2 0x5f atomic_fmin_x2
    atomic_fmax_x2
a2 x4:
    0x1e store_dwordx4 0x51 atomic_cmpswap_x2 0x5e atomic_fcmpswap_x2
a2 x3:
    0x1f store_dwordx3
""")

MUBUF = table("""
x1 a1 r4 q1:
    0x00 buffer_load_format_x 0x04 buffer_store_format_x 0x08 buffer_load_ubyte buffer_load_sbyte
    buffer_load_ushort buffer_load_sshort buffer_load_dword 0x18 buffer_store_byte
    buffer_store_byte_d16_hi buffer_store_short buffer_store_short_d16_hi buffer_store_dword 0x20
    buffer_load_ubyte_d16 buffer_load_ubyte_d16_hi buffer_load_sbyte_d16 buffer_load_sbyte_d16_hi
    buffer_load_short_d16 buffer_load_short_d16_hi buffer_load_format_d16_hi_x
    buffer_store_format_d16_hi_x 0x30 buffer_atomic_swap 0x32 buffer_atomic_add buffer_atomic_sub
    buffer_atomic_csub buffer_atomic_smin buffer_atomic_umin buffer_atomic_smax buffer_atomic_umax
    buffer_atomic_and buffer_atomic_or buffer_atomic_xor buffer_atomic_inc buffer_atomic_dec 0x3f
    buffer_atomic_fmin buffer_atomic_fmax 0x80 buffer_load_format_d16_x buffer_load_format_d16_xy
    0x84 buffer_store_format_d16_x buffer_store_format_d16_xy
x2 a1 r4 q1:
    0x01 buffer_load_format_xy 0x05 buffer_store_format_xy 0x0d buffer_load_dwordx2 0x1d
    buffer_store_dwordx2 0x31 buffer_atomic_cmpswap 0x3e buffer_atomic_fcmpswap 0x50
    buffer_atomic_swap_x2 0x52 buffer_atomic_add_x2 buffer_atomic_sub_x2 0x55
    buffer_atomic_smin_x2 buffer_atomic_umin_x2 buffer_atomic_smax_x2 buffer_atomic_umax_x2
    buffer_atomic_and_x2 buffer_atomic_or_x2 buffer_atomic_xor_x2 buffer_atomic_inc_x2
    buffer_atomic_dec_x2 0x5f buffer_atomic_fmin_x2 buffer_atomic_fmax_x2 0x82
    buffer_load_format_d16_xyz buffer_load_format_d16_xyzw 0x86 buffer_store_format_d16_xyz
    buffer_store_format_d16_xyzw
x3 a1 r4 q1:
    0x02 buffer_load_format_xyz 0x06 buffer_store_format_xyz 0x0f buffer_load_dwordx3 0x1f
    buffer_store_dwordx3
x4 a1 r4 q1:
    0x03 buffer_load_format_xyzw 0x07 buffer_store_format_xyzw 0x0e buffer_load_dwordx4 0x1e
    buffer_store_dwordx4 0x51 buffer_atomic_cmpswap_x2 0x5e buffer_atomic_fcmpswap_x2
:
    0x71 buffer_gl0_inv buffer_gl1_inv
""")

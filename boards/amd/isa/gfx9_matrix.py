"""Matrix instructions of gfx9 (gfx942, CDNA3): opcode, mnemonic, operands; see `table.py`."""

from __future__ import annotations

from boards.amd.isa.table import table

# src: the AMDGPU disassembler of LLVM 19.1.7 (libLLVM C API), asked for every opcode of gfx942.

MAI = table("""
d4 a2 b2 c4:
    0x3e v_mfma_f32_16x16x8_xf32 0x4a v_mfma_f32_4x4x4_16b_f16 0x4d v_mfma_f32_16x16x16_f16 0x57
    v_mfma_i32_16x16x32_i8 0x5f v_mfma_f32_4x4x4_16b_bf16 0x61 v_mfma_f32_16x16x16_bf16 0x70
    v_mfma_f32_16x16x32_bf8_bf8 v_mfma_f32_16x16x32_bf8_fp8 v_mfma_f32_16x16x32_fp8_bf8
    v_mfma_f32_16x16x32_fp8_fp8
d16 a2 b2 c16:
    0x3f v_mfma_f32_32x32x4_xf32 0x49 v_mfma_f32_16x16x4_4b_f16 0x4c v_mfma_f32_32x32x8_f16 0x56
    v_mfma_i32_32x32x16_i8 0x5e v_mfma_f32_16x16x4_4b_bf16 0x60 v_mfma_f32_32x32x8_bf16 0x74
    v_mfma_f32_32x32x16_bf8_bf8 v_mfma_f32_32x32x16_bf8_fp8 v_mfma_f32_32x32x16_fp8_bf8
    v_mfma_f32_32x32x16_fp8_fp8
d32 a1 b1 c32:
    0x40 v_mfma_f32_32x32x1_2b_f32 0x50 v_mfma_i32_32x32x4_2b_i8
d16 a1 b1 c16:
    0x41 v_mfma_f32_16x16x1_4b_f32 0x44 v_mfma_f32_32x32x2_f32 0x51 v_mfma_i32_16x16x4_4b_i8
d4 a1 b1 c4:
    0x42 v_mfma_f32_4x4x1_16b_f32 0x45 v_mfma_f32_16x16x4_f32 0x52 v_mfma_i32_4x4x4_16b_i8
d32 a2 b2 c32:
    0x48 v_mfma_f32_32x32x4_2b_f16 0x5d v_mfma_f32_32x32x4_2b_bf16
d4 a2 b4 c1:
    0x62 v_smfmac_f32_16x16x32_f16 0x66 v_smfmac_f32_16x16x32_bf16 0x6a v_smfmac_i32_16x16x64_i8
    0x78 v_smfmac_f32_16x16x64_bf8_bf8 v_smfmac_f32_16x16x64_bf8_fp8
    v_smfmac_f32_16x16x64_fp8_bf8 v_smfmac_f32_16x16x64_fp8_fp8
d16 a2 b4 c1:
    0x64 v_smfmac_f32_32x32x16_f16 0x68 v_smfmac_f32_32x32x16_bf16 0x6c v_smfmac_i32_32x32x32_i8
    0x7c v_smfmac_f32_32x32x32_bf8_bf8 v_smfmac_f32_32x32x32_bf8_fp8
    v_smfmac_f32_32x32x32_fp8_bf8 v_smfmac_f32_32x32x32_fp8_fp8
d8 a2 b2 c8:
    0x6e v_mfma_f64_16x16x4_f64
d1 a1:
    0x58 v_accvgpr_read_b32 v_accvgpr_write_b32
d2 a2 b2 c2:
    0x6f v_mfma_f64_4x4x4_4b_f64
""")

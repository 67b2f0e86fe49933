"""The encodings of gfx90a (CDNA2): gfx942's without what that added, other matrix products."""

# src: "AMD Instinct MI200" (CDNA2) Instruction Set Architecture Reference Guide, chapter 12; the
# opcodes are LLVM 19.1.7's, and tests/abi compares every decoded text with its disassembler.

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from boards.amd.isa.decode import Instruction
from boards.amd.isa.gfx9 import GFX942
from boards.amd.isa.layout import Bits, Encoding
from boards.amd.isa.table import Entries, table

MAI = table("""
d32 a1 b1 c32:
    0x40 v_mfma_f32_32x32x1f32 0x50 v_mfma_i32_32x32x4i8 0x68 v_mfma_f32_32x32x2bf16
d16 a1 b1 c16:
    0x41 v_mfma_f32_16x16x1f32 0x44 v_mfma_f32_32x32x2f32 0x51 v_mfma_i32_16x16x4i8 0x54
    v_mfma_i32_32x32x8i8 0x69 v_mfma_f32_16x16x2bf16 0x6c v_mfma_f32_32x32x4bf16
d4 a1 b1 c4:
    0x42 v_mfma_f32_4x4x1f32 0x45 v_mfma_f32_16x16x4f32 0x52 v_mfma_i32_4x4x4i8 0x55
    v_mfma_i32_16x16x16i8 0x6b v_mfma_f32_4x4x2bf16 0x6d v_mfma_f32_16x16x8bf16
d32 a2 b2 c32:
    0x48 v_mfma_f32_32x32x4f16 0x63 v_mfma_f32_32x32x4bf16_1k
d16 a2 b2 c16:
    0x49 v_mfma_f32_16x16x4f16 0x4c v_mfma_f32_32x32x8f16 0x64 v_mfma_f32_16x16x4bf16_1k 0x66
    v_mfma_f32_32x32x8bf16_1k
d4 a2 b2 c4:
    0x4a v_mfma_f32_4x4x4f16 0x4d v_mfma_f32_16x16x16f16 0x65 v_mfma_f32_4x4x4bf16_1k 0x67
    v_mfma_f32_16x16x16bf16_1k
d8 a2 b2 c8:
    0x6e v_mfma_f64_16x16x4f64
d2 a2 b2 c2:
    0x6f v_mfma_f64_4x4x4f64
d1 a1:
    0x58 v_accvgpr_read_b32 v_accvgpr_write_b32
""")
_NAME = re.compile(r"v_mfma_([fi]\d+)_(\d+)x\d+x(\d+)(f32|f16|bf16|i8|f64)(_1k)?$")
_LANES = 64
_PER_LANE = {"f32": 1, "f16": 4, "bf16": 2, "bf16_1k": 4, "i8": 4, "f64": 1}
"""Numbers of a factor that one lane holds. # src: CDNA2 ISA 7.1"""


def matrix_meaning(name: str) -> str:
    """gfx942's name of a product: there the number of blocks is part of it."""
    match = _NAME.match(name)
    if match is None:
        return name
    result, m, k, kind = match[1], int(match[2]), int(match[3]), match[4]
    blocks = _LANES * _PER_LANE[kind + (match[5] or "")] // (m * k)
    many = f"{blocks}b_" if blocks > 1 else ""
    return f"v_mfma_{result}_{m}x{m}x{k}_{many}{kind}"


# src: LLVM AMDGPU.td, FeatureGFX940Insts, FeatureFP8ConversionInsts; tests/abi compares the rest.
_LATER = frozenset({
    "v_lshl_add_u64", "v_mov_b64", "ds_pk_add_f16", "ds_pk_add_bf16", "ds_pk_add_rtn_f16",
    "ds_pk_add_rtn_bf16", "atomic_pk_add_bf16", "buffer_inv", "v_fmamk_f32", "v_fmaak_f32",
})  # fmt: skip
_LATER_PARTS = ("fp8", "bf8", "load_lds_")
_MORE: dict[str, Entries] = {
    "VOP2": table("""
d1 a1 b1:
    0x16 v_mac_f32
d1 a1 k b1:
    0x17 v_madmk_f32
d1 a1 b1 k:
    0x18 v_madak_f32
"""),
    "VOP3": table("""
d1 a1 b1 c1:
    0x1c0 v_mad_legacy_f32 v_mad_f32
d1 a1 b1:
    0x116 v_mac_f32
"""),
    "MUBUF": table("""
:
    0x29 buffer_invl2
"""),
}
_XCC_ID = 20
"""The first of the hardware registers that gfx942 added."""
_CACHE = (("glc", "glc"), ("nt", "slc"), ("sc1", "scc"))


def _entries(layout: Encoding) -> Entries:
    if layout.name == "VOP3M":
        return MAI
    kept = {
        opcode: entry
        for opcode, entry in layout.entries.items()
        if entry.name not in _LATER and not any(part in entry.name for part in _LATER_PARTS)
    }
    return {**kept, **_MORE.get(layout.name, {})}


def _fields(layout: Encoding) -> Mapping[str, Bits]:
    """SVE, which says that SCRATCH takes a vector address, is LDS here."""
    return {("lds" if name == "sve" else name): bits for name, bits in layout.fields.items()}


def _cache_controls(inst: Instruction) -> str:
    return "".join(f" {shown}" for name, shown in _CACHE if inst.fields.get(name))


_MATRIX = {entry.name: matrix_meaning(entry.name) for entry in MAI.values()}

GFX90A = replace(
    GFX942,
    name="gfx90a",
    layouts=tuple(
        replace(layout, fields=_fields(layout), entries=_entries(layout))
        for layout in GFX942.layouts
    ),
    meanings={**GFX942.meanings, **_MATRIX, "buffer_invl2": "buffer_inv"},
    plain_names=GFX942.plain_names | {"v_madmk_f32", "v_madak_f32"},
    own_scratch=True,
    # src: LLVM AMDGPUUsage, "Flat Scratch": gfx9 kernels set FLAT_SCRATCH, a pair of registers
    flat_scratch=102,
    hwregs={number: name for number, name in GFX942.hwregs.items() if number < _XCC_ID},
    flags=_cache_controls,
)
"""Not executed: v_mad_legacy_f32, and signs that BLGP gives factors of f64."""

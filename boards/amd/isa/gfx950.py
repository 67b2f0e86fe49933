"""The encodings of gfx950 (CDNA4): gfx942's without xf32, with OCP's 8-bit floats and more."""

# src: "AMD Instinct CDNA4" Instruction Set Architecture Reference Guide, chapters 12 and 13; the
# opcodes are LLVM 22.1.8's, whose texts tests/boards/test_isa_gfx950.py holds.

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from boards.amd.isa import text_special as special
from boards.amd.isa.decode import Instruction
from boards.amd.isa.gfx9 import GFX942
from boards.amd.isa.gfx9_names import meaning
from boards.amd.isa.gfx9_text import TEXTS
from boards.amd.isa.layout import Bits, Encoding
from boards.amd.isa.table import Entries, table
from boards.amd.isa.text import show

_VOP1 = """
    0x58 v_prng_b32 v_permlane16_swap_b32 v_permlane32_swap_b32 v_cvt_f32_bf16
"""
_MORE: dict[str, Entries] = {
    "VOP1": table(f"d1 a1:{_VOP1}"),
    "VOP2": table("d1 a1 b1:\n0x16 v_dot2c_f32_bf16"),
    "VOP3": table("""
d1 a1 b1 c1:
    0x233 v_bitop3_b16 v_bitop3_b32 v_cvt_scalef32_pk_fp8_f32 v_cvt_scalef32_pk_bf8_f32 0x23d
    v_cvt_scalef32_pk_fp4_f32 0x265 v_ashr_pk_i8_i32 v_ashr_pk_u8_i32 0x2a8 v_minimum3_f32
    v_maximum3_f32
d1 a1 b1:
    0x116 v_dot2c_f32_bf16 0x23b v_cvt_scalef32_f32_fp8 v_cvt_scalef32_f32_bf8 0x240
    v_cvt_scalef32_pk_fp8_f16 v_cvt_scalef32_pk_bf8_f16 0x244 v_cvt_scalef32_pk_fp8_bf16
    v_cvt_scalef32_pk_bf8_bf16 0x248 v_cvt_scalef32_pk_f16_fp8 v_cvt_scalef32_pk_f16_bf8
    v_cvt_scalef32_f16_fp8 v_cvt_scalef32_f16_bf8
    v_cvt_scalef32_pk_fp4_f16 v_cvt_scalef32_pk_fp4_bf16 0x250 v_cvt_scalef32_pk_f16_fp4
    v_cvt_scalef32_pk_bf16_fp4 0x267 v_cvt_pk_f16_f32 v_cvt_pk_bf16_f32
    v_cvt_scalef32_pk_bf16_fp8 v_cvt_scalef32_pk_bf16_bf8
d2 a1 b1:
    0x239 v_cvt_scalef32_pk_f32_fp8 v_cvt_scalef32_pk_f32_bf8 0x23f v_cvt_scalef32_pk_f32_fp4
d1 a1:
    0x198 v_prng_b32 v_permlane16_swap_b32 v_permlane32_swap_b32 v_cvt_f32_bf16
"""),
    "VOP3P": table("""
d1 a1 b1 c1:
    0x1a v_dot2_f32_bf16 v_pk_minimum3_f16 v_pk_maximum3_f16
"""),
    "VOP3M": table("""
d4 a8 b8 c4:
    0x2d v_mfma_f32_16x16x128_f8f6f4
d16 a8 b8 c16:
    0x2e v_mfma_f32_32x32x64_f8f6f4
d4 a4 b4 c4:
    0x35 v_mfma_f32_16x16x32_bf16 v_mfma_i32_16x16x64_i8 0x54 v_mfma_f32_16x16x32_f16
d16 a4 b4 c16:
    0x37 v_mfma_f32_32x32x16_bf16 v_mfma_i32_32x32x32_i8 0x55 v_mfma_f32_32x32x16_f16
"""),
    "DS": table("""
d2 a1:
    0xe0 ds_read_b64_tr_b4 0xe2 ds_read_b64_tr_b8 ds_read_b64_tr_b16
d3 a1:
    0xe1 ds_read_b96_tr_b6
"""),
    "FLAT": table("""
a2:
    0x7d load_lds_dwordx4 load_lds_dwordx3
"""),
    "MUBUF": table("""
x1 a1 r4 q1:
    0x52 buffer_atomic_pk_add_bf16
"""),
}
_SCALED = table("""
d4 a8 b8 c4 m1 n1:
    0xd3ad v_mfma_scale_f32_16x16x128_f8f6f4
d16 a8 b8 c16 m1 n1:
    0xd3ae v_mfma_scale_f32_32x32x64_f8f6f4
""")
"""Scales of A (m) and B (n) in a first half of 64 bits, the product in the second."""
_SECOND = 64
_PREFIX = {"m": (32, 9), "n": (41, 9), "scale_low": (11, 2), "scale_high": (59, 2)}


def _scaled_fields() -> dict[str, Bits]:
    """The fields of a scaled product: those of the plain one, behind the scales."""
    plain = next(layout.fields for layout in GFX942.layouts if layout.name == "VOP3M")
    moved = {name: (low + _SECOND, width) for name, (low, width) in plain.items()}
    return {**moved, **_PREFIX}


def _entries(layout: Encoding) -> Entries:
    kept = {o: entry for o, entry in layout.entries.items() if "xf32" not in entry.name}
    return {**kept, **_MORE.get(layout.name, {})}


_OCP = re.compile(r"(fp8|bf8)(?!_?(?:fnuz|ocp))")


def _meaning(name: str) -> str:
    """The executor's name: 8-bit floats are OCP's, and scaled conversions say so themselves."""
    if "scalef32" in name:
        return name
    if name == "v_dot2c_f32_bf16":
        return "v_dot2acc_f32_bf16"
    return _OCP.sub(r"\1ocp", meaning(name).replace("fnuz", ""))


def _pick(fields: dict[str, int]) -> str:
    low, high = fields["scale_low"], fields["scale_high"]
    lows = f" op_sel:[{low & 1},{low >> 1},0]" if low else ""
    return f"{lows} op_sel_hi:[{high & 1},{high >> 1},0]"


def _scaled(inst: Instruction) -> str:
    """A scaled product: operands, bytes of the scales, formats of A and B."""
    f = dict(inst.fields)
    head = f"{inst.name} {', '.join(show(inst, o) for o in inst.operands)}{_pick(f)}"
    return head + "".join(f" {name}:{f[name]}" for name in ("cbsz", "blgp") if f[name])


def _bit_function(inst: Instruction) -> str | None:
    """v_bitop3, whose table lies where other instructions have signs and a factor."""
    if not inst.name.startswith("v_bitop3"):
        return None
    f = inst.fields
    table_bits = f["omod"] << 6 | f["abs"] << 3 | f["neg"]
    head = f"{inst.name} {', '.join(show(inst, o) for o in inst.operands)}"
    head += f" bitop3:{table_bits:#x}" if table_bits else ""
    return head + (special.op_sel(inst) if f["op_sel"] else "")


def _op_sel(inst: Instruction) -> str | None:
    """What op_sel says to exchanges of rows, and as the number of a byte of the result."""
    bits = inst.fields["op_sel"]
    if inst.name.endswith("_swap_b32"):
        return (" bound_ctrl:1" if bits & 2 else "") + (" fi:1" if bits & 1 else "")
    if inst.name.startswith(_BYTES):
        return f" op_sel:[{','.join(str(bits >> i & 1) for i in range(4))}]"
    return None


_BYTES = ("v_cvt_sr_", "v_cvt_scalef32_pk_fp4_")
_OWN_TEXTS: dict[str, Callable[[Instruction], str | None]] = {
    **TEXTS, "VOP3PX": _scaled, "VOP3": _bit_function,
}  # fmt: skip
_LAYOUTS = (
    Encoding("VOP3PX", 0xFFFF0000, 0xD3AC0000, 4, (_SECOND + 16, 16), _scaled_fields(), _SCALED),
    *(replace(layout, entries=_entries(layout)) for layout in GFX942.layouts),
)
_NAMES = {entry.name for layout in _LAYOUTS for entry in layout.entries.values()}

GFX950 = replace(
    GFX942,
    name="gfx950",
    layouts=_LAYOUTS,
    meanings={name: _meaning(name) for name in _NAMES if _meaning(name) != name},
    texts=_OWN_TEXTS,
    op_sel=_op_sel,
)
"""Not executed: conversions of 32 six-bit floats at once, stochastic ones of pairs, products of
sparse matrices."""

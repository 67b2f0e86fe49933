"""Conversions to and from eight-bit floats, and dot products of them (gfx12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.isa.small_floats import (
    BF8,
    BF8_FNUZ,
    FP8,
    FP8_FNUZ,
    Small,
    narrow,
    narrow_random,
    widen,
)
from boards.amd.wave.dpp import fetch
from boards.amd.wave.operands import UnsupportedOperand, reader, with_signs, writer
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]


def _form(name: str) -> Small:
    if "fnuz" in name:
        return BF8_FNUZ if "bf8" in name else FP8_FNUZ
    return BF8 if "bf8" in name else FP8


def _bytes(raw: Array, first: int, count: int) -> list[Array]:
    return [raw >> np.uint32(8 * (first + i)) & np.uint32(0xFF) for i in range(count)]


def _widen(inst: Instruction) -> Run:
    """v_cvt_f32_fp8: one byte, chosen by op_sel in the long encoding."""
    # src: LLVM 19 for gfx1201, byte_sel: op_sel[0] is its upper bit, op_sel[1] the lower one.
    target, source = inst.operands
    form, select = _form(inst.name), inst.fields.get("op_sel", 0)
    byte = (select & 1) << 1 | select >> 1 & 1
    read, put = fetch(inst, source, "u32"), writer(target, "f32")
    _no_modifiers(inst)

    def run(w: Waves) -> None:
        (code,) = _bytes(read(w), byte, 1)
        put(w, widen(code, form).astype(np.float32), w.mask)

    return run


def _widen_pair(inst: Instruction) -> Run:
    """v_cvt_pk_f32_fp8: two bytes of one half become two registers."""
    target, source = inst.operands
    form, half = _form(inst.name), inst.fields.get("op_sel", 0) & 1
    read = reader(inst, source, "u32")
    puts = [writer(target._replace(code=target.code + i), "f32") for i in range(2)]
    _no_modifiers(inst)

    def run(w: Waves) -> None:
        codes = _bytes(read(w), 2 * half, 2)
        for put, code in zip(puts, codes, strict=True):
            put(w, widen(code, form).astype(np.float32), w.mask)

    return run


def _narrow_pair(inst: Instruction) -> Run:
    """v_cvt_pk_fp8_f32: two floats become one half of a register, the other half is kept."""
    target, *sources = inst.operands
    form, f = _form(inst.name), inst.fields
    reads = [with_signs(reader(inst, o, "f32"), "f32", bool(f["neg"] >> i & 1),
                        bool(f["abs"] >> i & 1)) for i, o in enumerate(sources)]  # fmt: skip
    put = writer(target, "u16", high=bool(f["op_sel"] >> 3 & 1))

    def run(w: Waves) -> None:
        low, high = (narrow(read(w), form) for read in reads)
        put(w, (low | high << np.uint32(8)).astype(np.uint16), w.mask)

    return run


def _narrow_random(inst: Instruction) -> Run:
    """v_cvt_sr_fp8_f32: stochastic rounding into one byte of a register."""
    # src: LLVM 19 for gfx1201, byte_sel: op_sel[3:2].
    target, source, seed = inst.operands
    form, f = _form(inst.meaning), inst.fields
    shift = np.uint32(8 * (f["op_sel"] >> 2))
    read = with_signs(reader(inst, source, "f32"), "f32", bool(f["neg"] & 1), bool(f["abs"] & 1))
    read_seed, old = reader(inst, seed, "u32"), reader(inst, target, "u32")
    put = writer(target, "u32")

    def run(w: Waves) -> None:
        code = narrow_random(read(w), form, read_seed(w))
        kept = old(w) & ~(np.uint32(0xFF) << shift)
        put(w, kept | code << shift, w.mask)

    return run


def _dot(inst: Instruction) -> Run:
    """v_dot4_f32_fp8_bf8: the sum of four products and an f32, rounded once."""
    target, a, b, c = inst.operands
    forms = [_form(kind) for kind in inst.name.removeprefix("v_dot4_f32_").split("_")]
    if inst.fields["neg"] & 3 or inst.fields["neg_hi"] & 3:
        raise UnsupportedOperand(f"signs of {inst.name}")
    reads = [reader(inst, o, "u32") for o in (a, b)]
    f = inst.fields
    signs = bool(f["neg"] & 4), bool(f["neg_hi"] & 4)
    base = with_signs(reader(inst, c, "f32"), "f32", *signs)
    put = writer(target, "f32")

    def run(w: Waves) -> None:
        total = base(w).astype(np.float64)
        left, right = (
            [widen(code, form) for code in _bytes(read(w), 0, 4)]
            for read, form in zip(reads, forms, strict=True)
        )
        for x, y in zip(left, right, strict=True):
            total = total + x * y
        put(w, total.astype(np.float32), w.mask)

    return run


def _no_modifiers(inst: Instruction) -> None:
    if any(inst.fields.get(name, 0) for name in ("neg", "abs", "clamp", "omod")):
        raise UnsupportedOperand(f"modifiers of {inst.name}")


_BINDERS: dict[str, Callable[[Instruction], Run]] = {
    "v_cvt_f32_{}": _widen,
    "v_cvt_pk_f32_{}": _widen_pair,
    "v_cvt_pk_{}_f32": _narrow_pair,
    "v_cvt_sr_{}_f32": _narrow_random,
    "v_dot4_f32_{}_fp8": _dot,
    "v_dot4_f32_{}_bf8": _dot,
}
CONVERSIONS = {
    name.format(kind): bind for kind in ("fp8", "bf8") for name, bind in _BINDERS.items()
}
for _kind in ("fp8fnuz", "bf8fnuz", "fp8ocp", "bf8ocp"):  # gfx942's and gfx950's, by meaning
    CONVERSIONS[f"v_cvt_sr_{_kind}_f32"] = _narrow_random
"""By mnemonic."""

"""Conversions with a scale (gfx950): between floats and those of 8 and 4 bits in blocks (MX)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.isa.floats import bf16
from boards.amd.isa.small_floats import BF8, FP8, narrow, widen
from boards.amd.wave.operands import UnsupportedOperand, raw_bits, reader, with_signs, writer
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
_WIDEN = re.compile(r"v_cvt_scalef32_(pk_)?(f32|f16|bf16)_(fp8|bf8|fp4)$")
_NARROW = re.compile(r"v_cvt_scalef32_pk_(fp8|bf8|fp4)_(f32|f16|bf16)$")
# src: OCP Microscaling Formats 1.0, FP4 (E2M1): a sign, then these.
_FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_MIDDLES = (_FP4[1:] + _FP4[:-1]) / 2
_LAST = len(_FP4) - 1
_BIAS = 127
_FORMS = {"fp8": FP8, "bf8": BF8}


def fp4_values(codes: Array) -> Array:
    """Codes of four bits as f64."""
    size = _FP4[codes & codes.dtype.type(7)]
    return np.asarray(np.where(codes & codes.dtype.type(8), -size, size))


def fp4_codes(values: Array) -> Array:
    """The nearest codes of four bits, ties to even; what is larger becomes the largest."""
    size = np.abs(values)
    below = np.searchsorted(_MIDDLES, size)
    tie = _MIDDLES[np.minimum(below, _LAST - 1)] == size
    code = np.where(tie & (below % 2 == 1), below + 1, below)
    return np.asarray(code | np.where(np.signbit(values), 8, 0), np.uint32)


def bind_scaled(inst: Instruction) -> Run | None:
    """A function for a scaled conversion, or None."""
    match = _WIDEN.match(inst.meaning)
    if match is not None:
        return _widen(inst, bool(match[1]), match[2], match[3])
    match = _NARROW.match(inst.meaning)
    return _narrow(inst, match[1], match[2]) if match is not None else None


def _power(scale: Array) -> Array:
    """The power of two of a scale in f32: its exponent alone counts."""
    # src: CDNA4 ISA, V_CVT_SCALEF32_PK_F32_FP4: scale = exponent(S1.f32)
    exponent = (scale >> np.uint32(23) & np.uint32(0xFF)).astype(np.int32)
    return np.where(exponent == 0xFF, np.nan, np.ldexp(1.0, exponent - _BIAS))


def _result(values: Array, kind: str) -> Array:
    """f64 rounded to a kind of float, as raw bits."""
    if kind == "bf16":
        return bf16(values.astype(np.float32))
    return raw_bits(values, kind)


def _widen(inst: Instruction, pair: bool, kind: str, form: str) -> Run:
    """Codes that op_sel picks: a byte of two fp4, a half of two fp8, a byte of one."""
    # src: LLVM 22, llvm.amdgcn.cvt.scalef32.*: the number of the byte or half is op_sel[1:0].
    target, source, scale = inst.operands
    f = inst.fields
    if f["neg"] or f["abs"] or f["clamp"] or f["omod"]:
        raise UnsupportedOperand(f"modifiers of {inst.name}")
    bits, step = (4, 8) if form == "fp4" else (8, 16 if pair else 8)
    shifts = [step * (f["op_sel"] & 3) + bits * i for i in range(1 + pair)]
    if shifts[-1] >= 32:
        raise UnsupportedOperand(f"op_sel of {inst.name}")
    read, read_scale = reader(inst, source, "u32"), reader(inst, scale, "u32")
    high = bool(f["op_sel"] >> 3)
    wide = [writer(target._replace(code=target.code + i), "f32") for i in range(1 + pair)]
    both, half = writer(target, "u32"), writer(target, "u16", high=high)

    def run(w: Waves) -> None:
        raw, power = read(w), _power(read_scale(w))
        codes = [raw >> np.uint32(shift) & np.uint32((1 << bits) - 1) for shift in shifts]
        values = [fp4_values(c) if bits == 4 else widen(c, _FORMS[form]) for c in codes]
        values = [np.broadcast_to(v * power, (w.n, w.lanes)) for v in values]
        if kind == "f32":
            for put, value in zip(wide, values, strict=True):
                put(w, value.astype(np.float32), w.mask)
            return
        parts = [_result(value, kind).astype(np.uint32) for value in values]
        if pair:
            both(w, parts[0] | parts[1] << np.uint32(16), w.mask)
        else:
            half(w, parts[0].astype(np.uint16), w.mask)

    return run


def _narrow(inst: Instruction, form: str, kind: str) -> Run:
    """Two floats divided by the scale: a byte of two fp4, or a half of two fp8."""
    # src: LLVM 22: op_sel[3:2] is the byte, op_sel[3] the half; the rest of the register stays.
    target, *sources, scale = inst.operands
    f = inst.fields
    reads = [_source(inst, i, kind) for i in range(2)]
    read_scale, old = reader(inst, scale, "u32"), reader(inst, target, "u32")
    width = 8 if form == "fp4" else 16
    shift = np.uint32(width * (f["op_sel"] >> 2) if width == 8 else width * (f["op_sel"] >> 3))
    mask = np.uint32((1 << width) - 1)
    if len(sources) > 1 and kind != "f32":
        raise UnsupportedOperand(inst.name)

    def run(w: Waves) -> None:
        power = _power(read_scale(w))
        values = [read(w) / power for read in reads]
        if form == "fp4":
            low, high = (fp4_codes(value) for value in values)
            packed = low | high << np.uint32(4)
        else:
            low, high = (narrow(value, _FORMS[form]) for value in values)
            packed = low | high << np.uint32(8)
        kept = old(w) & ~(mask << shift)
        writer(target, "u32")(w, kept | packed << shift, w.mask)

    return run


def _source(inst: Instruction, number: int, kind: str) -> Callable[[Waves], Array]:
    """One of the two floats, as f64: two operands of f32, or the halves of one."""
    f = inst.fields
    if kind == "f32":
        signs = bool(f["neg"] >> number & 1), bool(f["abs"] >> number & 1)
        read = with_signs(reader(inst, inst.operands[1 + number], "f32"), "f32", *signs)
        return lambda w: read(w).astype(np.float64)
    if f["neg"] or f["abs"]:
        raise UnsupportedOperand(f"signs of {inst.name}")
    both, shift = reader(inst, inst.operands[1], "p"), np.uint32(16 * number)

    def half(w: Waves) -> Array:
        raw = both(w) >> shift & np.uint32(0xFFFF)
        if kind == "bf16":
            return (raw << np.uint32(16)).view(np.float32).astype(np.float64)
        return raw.astype(np.uint16).view(np.float16).astype(np.float64)

    return half

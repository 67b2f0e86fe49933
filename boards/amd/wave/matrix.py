"""WMMA: 16x16x16 matrix products spread over the lanes of a wave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction, Operand
from boards.amd.wave.operands import UnsupportedOperand, constant
from boards.amd.wave.state import Waves
from boards.amd.wave.vector import Run
from boards.machine.arrays import Array

_SIZE = 16
Load = Callable[[Waves, Operand], Array]


def registers(w: Waves, o: Operand) -> Array:
    """The dwords of an operand: (n, lanes, dwords)."""
    first = o.code - VGPR
    if first < 0:
        raise UnsupportedOperand("a matrix operand that is no vector register")
    rows = [w.vgpr[first + i][w.sel] for i in range(o.dwords)]
    return np.ascontiguousarray(np.stack(rows, axis=-1))


def _row_dwords(w: Waves, o: Operand) -> Array:
    """A (or B transposed): lane i of the first 16 holds row i, (n, 16, dwords)."""
    # src: RDNA3 ISA 7.9, WMMA: lanes 16..31 (and 32..63) hold copies of lanes 0..15.
    raw = registers(w, o)
    copies = raw.reshape(w.n, -1, _SIZE, o.dwords)
    if (copies[:, 1:] != copies[:, :1]).any():
        raise UnsupportedOperand("a WMMA factor whose lanes 16 and up are no copies of 0 to 15")
    return raw[:, :_SIZE]


def _f16_rows(w: Waves, o: Operand) -> Array:
    return _row_dwords(w, o).view(np.float16).astype(np.float64)


def _bf16_rows(w: Waves, o: Operand) -> Array:
    raw = _row_dwords(w, o).view(np.uint16).astype(np.uint32) << np.uint32(16)
    return raw.view(np.float32).astype(np.float64)


def _int_rows(w: Waves, o: Operand, bits: int, signed: bool) -> Array:
    return int_fields(_row_dwords(w, o), bits, signed)


def int_fields(raw: Array, bits: int, signed: bool) -> Array:
    """Dwords (n, lanes, dwords) as their bit fields (n, lanes, elements)."""
    low = np.arange(0, 32, bits).astype(np.uint32)
    parts = (raw[..., None] >> low & np.uint32((1 << bits) - 1)).astype(np.int64)
    value = parts.reshape(*raw.shape[:2], -1)
    return np.where(value >= 1 << (bits - 1), value - (1 << bits), value) if signed else value


def _accumulator(w: Waves, inst: Instruction, kind: Any) -> Array:
    """C as (n, 16 rows, 16 columns): register i of lane l is row (lanes/16)*i + l//16."""
    o = inst.operands[3]
    if o.code < VGPR:
        name = "f32" if kind is np.float32 else "i32"
        bits = constant(o.code, name, inst.literal)
        if bits is None:
            raise UnsupportedOperand("a scalar accumulator")
        value = np.array([bits], np.uint32).view(kind)[0]
        return np.full((w.n, _SIZE, _SIZE), value)
    dwords = registers(w, o).view(kind)
    shaped = dwords.reshape(w.n, w.lanes // _SIZE, _SIZE, o.dwords)
    answer: Array = shaped.transpose(0, 3, 1, 2).reshape(w.n, _SIZE, _SIZE)
    return answer


def _store(w: Waves, o: Operand, result: Array) -> None:
    rows = result.reshape(w.n, o.dwords, w.lanes // _SIZE, _SIZE)
    first = o.code - VGPR
    for i in range(o.dwords):
        value = np.ascontiguousarray(rows[:, i]).view(np.uint32).reshape(w.n, w.lanes)
        w.put(first + i, value, None)


def _float(load: Load) -> Callable[[Instruction], Run]:
    """f32 accumulation. The board rounds once, from f64; silicon's order of sums is its own."""

    def bind(inst: Instruction) -> Run:
        target, a, b, _ = inst.operands
        no_signs(inst)

        def run(w: Waves) -> None:
            c = _accumulator(w, inst, np.float32)
            product = load(w, a) @ load(w, b).transpose(0, 2, 1)
            _store(w, target, (product + c).astype(np.float32))

        return run

    return bind


def no_signs(inst: Instruction) -> None:
    """Refuse the sign modifiers of float products."""
    if inst.fields["neg"] or inst.fields["neg_hi"]:
        raise UnsupportedOperand("sign modifiers of a float WMMA")


def _narrow(load: Load, kind: str) -> Callable[[Instruction], Run]:
    """16-bit accumulation: a half of each dword holds an element, op_sel picks which."""

    def bind(inst: Instruction) -> Run:
        target, a, b, accumulator = inst.operands
        no_signs(inst)
        shift = np.uint32(16 if inst.fields["op_sel"] >> 2 & 1 else 0)

        def run(w: Waves) -> None:
            old = registers(w, accumulator)
            shaped = old.reshape(w.n, w.lanes // _SIZE, _SIZE, accumulator.dwords)
            c = shaped.transpose(0, 3, 1, 2).reshape(w.n, _SIZE, _SIZE) >> shift
            product = load(w, a) @ load(w, b).transpose(0, 2, 1)
            halves = to_bits(product + from_bits(c, kind), kind).astype(np.uint32) << shift
            keep = np.uint32(0xFFFF) << (np.uint32(16) - shift)
            current = registers(w, target)
            shaped = current.reshape(w.n, w.lanes // _SIZE, _SIZE, target.dwords)
            before = shaped.transpose(0, 3, 1, 2).reshape(w.n, _SIZE, _SIZE)
            _store(w, target, (before & keep) | halves)

        return run

    return bind


def from_bits(c: Array, kind: str) -> Array:
    """The low halves of dwords as f64."""
    low = c & np.uint32(0xFFFF)
    if kind == "f16":
        return low.astype(np.uint16).view(np.float16).astype(np.float64)
    return (low << np.uint32(16)).view(np.float32).astype(np.float64)


def to_bits(value: Array, kind: str) -> Array:
    """f64 rounded to 16 bits."""
    if kind == "f16":
        return value.astype(np.float16).view(np.uint16)
    raw = value.astype(np.float32).view(np.uint32)
    rounded = raw + np.uint32(0x7FFF) + (raw >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(value), raw | np.uint32(0x400000), rounded) >> np.uint32(16)


def _integer(bits: int) -> Callable[[Instruction], Run]:
    """i32 accumulation; `neg` bit 0 makes A signed, bit 1 B; clamp saturates."""

    def bind(inst: Instruction) -> Run:
        target, a, b, _ = inst.operands
        signs = inst.fields["neg"]
        clamp = bool(inst.fields["clamp"])

        def run(w: Waves) -> None:
            c = _accumulator(w, inst, np.int32).astype(np.int64)
            left = _int_rows(w, a, bits, bool(signs & 1))
            right = _int_rows(w, b, bits, bool(signs & 2))
            total = left @ right.transpose(0, 2, 1) + c
            if clamp:
                total = total.clip(-(1 << 31), (1 << 31) - 1)
            _store(w, target, total.astype(np.int32))

        return run

    return bind


MATRIX: dict[str, Callable[[Instruction], Run]] = {
    "v_wmma_f32_16x16x16_f16": _float(_f16_rows),
    "v_wmma_f32_16x16x16_bf16": _float(_bf16_rows),
    "v_wmma_f16_16x16x16_f16": _narrow(_f16_rows, "f16"),
    "v_wmma_bf16_16x16x16_bf16": _narrow(_bf16_rows, "bf16"),
    "v_wmma_i32_16x16x16_iu8": _integer(8),
    "v_wmma_i32_16x16x16_iu4": _integer(4),
}
"""WMMA ignores EXEC: every lane of the wave takes part."""

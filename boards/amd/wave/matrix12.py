"""WMMA of gfx12: 16x16 results whose factors are spread over all lanes of a wave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction, Operand
from boards.amd.isa.small_floats import BF8, FP8, widen
from boards.amd.wave.matrix import from_bits, int_fields, no_signs, registers, to_bits
from boards.amd.wave.operands import UnsupportedOperand, constant
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
Elements = Callable[[Array], Array]
"""Dwords (n, lanes, dwords) -> elements (n, lanes, count)."""
_SIZE, _HALF_WAVE = 16, 32


def _spread(lanes: int, count: int) -> Array:
    """The row (of C) that each group of 16 lanes holds as its elements: (groups, count)."""
    # src: GPUOpen llpc, lgc/lowering/LowerCooperativeMatrix.cpp, Gfx12BaseLayout.
    group = np.arange(lanes // _SIZE)[:, None]
    return np.asarray(8 * (group & 1) + 4 * (group >> 1) + np.arange(count))


def _factor(w: Waves, o: Operand, elements: Elements) -> Array:
    """A, or B transposed: (n, 16, K). In which order the lanes hold K is the same for both."""
    values = elements(registers(w, o))
    grouped = values.reshape(w.n, w.lanes // _SIZE, _SIZE, -1)
    answer: Array = grouped.transpose(0, 2, 1, 3).reshape(w.n, _SIZE, -1)
    return answer


def _halves(dwords: Array) -> Array:
    return dwords.view(np.float16).astype(np.float64)


def _brains(dwords: Array) -> Array:
    raw = dwords.view(np.uint16).astype(np.uint32) << np.uint32(16)
    return raw.view(np.float32).astype(np.float64)


def _bytes(kind: str) -> Elements:
    form = BF8 if kind == "bf8" else FP8
    return lambda dwords: widen(dwords.view(np.uint8), form)


def _integers(bits: int, signed: bool) -> Elements:
    return lambda dwords: int_fields(dwords, bits, signed)


def _gather(w: Waves, values: Array) -> Array:
    """C as (n, 16 rows, 16 columns) from what lanes hold, (n, lanes, count)."""
    count = values.shape[2]
    result = np.empty((w.n, _SIZE, _SIZE), values.dtype)
    grouped = values.reshape(w.n, w.lanes // _SIZE, _SIZE, count)
    for rows, part in zip(_spread(w.lanes, count), grouped.transpose(1, 0, 3, 2), strict=True):
        result[:, rows] = part
    return result


def _scatter(w: Waves, o: Operand, result: Array) -> None:
    """Write (n, 16, 16) to the registers of D; 16-bit elements are packed in pairs."""
    count = o.dwords * 4 // result.itemsize
    rows = _spread(w.lanes, count)
    held = result[:, rows].transpose(0, 1, 3, 2)
    dwords = np.ascontiguousarray(held).view(np.uint32).reshape(w.n, w.lanes, o.dwords)
    for i in range(o.dwords):
        w.put(o.code - VGPR + i, dwords[:, :, i], None)


def _accumulator(w: Waves, inst: Instruction, dtype: Any, kind: str) -> Array:
    o = inst.operands[3]
    if o.code >= VGPR:
        return _gather(w, registers(w, o).view(dtype))
    bits = constant(o.code, kind, inst.literal)
    if bits is None:
        raise UnsupportedOperand("a scalar accumulator")
    value = np.array([bits], np.uint32).view(dtype)[0]
    return np.full((w.n, _SIZE, _SIZE), value)


def _float(left: Elements, right: Elements) -> Callable[[Instruction], Run]:
    """f32 accumulation. The board rounds once, from f64; silicon's order of sums is its own."""

    def bind(inst: Instruction) -> Run:
        target, a, b, _ = inst.operands
        no_signs(inst)

        def run(w: Waves) -> None:
            c = _accumulator(w, inst, np.float32, "f32")
            product = _factor(w, a, left) @ _factor(w, b, right).transpose(0, 2, 1)
            _scatter(w, target, (product + c).astype(np.float32))

        return run

    return bind


def _narrow(load: Elements, kind: str) -> Callable[[Instruction], Run]:
    """16-bit accumulation."""

    def bind(inst: Instruction) -> Run:
        target, a, b, accumulator = inst.operands
        no_signs(inst)
        if accumulator.code < VGPR and accumulator.code != _ZERO:
            raise UnsupportedOperand("a constant 16-bit accumulator")

        def run(w: Waves) -> None:
            c = from_bits(_accumulator(w, inst, np.uint16, "u32").astype(np.uint32), kind)
            product = _factor(w, a, load) @ _factor(w, b, load).transpose(0, 2, 1)
            _scatter(w, target, to_bits(product + c, kind).astype(np.uint16))

        return run

    return bind


_ZERO = 128


def _integer(bits: int) -> Callable[[Instruction], Run]:
    """i32 accumulation; `neg` bit 0 makes A signed, bit 1 B; clamp saturates."""

    def bind(inst: Instruction) -> Run:
        target, a, b, _ = inst.operands
        signs, clamp = inst.fields["neg"], bool(inst.fields["clamp"])
        left, right = _integers(bits, bool(signs & 1)), _integers(bits, bool(signs & 2))
        small = bits == 4 and "x16_iu4" in inst.name

        def run(w: Waves) -> None:
            c = _accumulator(w, inst, np.int32, "i32").astype(np.int64)
            x, y = _factor(w, a, left), _factor(w, b, right)
            if small and w.lanes > _HALF_WAVE:  # the upper half of the wave has no share of K
                x, y = x[:, :, :_SIZE], y[:, :, :_SIZE]
            total = x @ y.transpose(0, 2, 1) + c
            if clamp:
                total = total.clip(-(1 << 31), (1 << 31) - 1)
            _scatter(w, target, total.astype(np.int32))

        return run

    return bind


MATRIX12: dict[str, Callable[[Instruction], Run]] = {
    "v_wmma12_f32_16x16x16_f16": _float(_halves, _halves),
    "v_wmma12_f32_16x16x16_bf16": _float(_brains, _brains),
    "v_wmma12_f16_16x16x16_f16": _narrow(_halves, "f16"),
    "v_wmma12_bf16_16x16x16_bf16": _narrow(_brains, "bf16"),
    "v_wmma12_i32_16x16x16_iu8": _integer(8),
    "v_wmma12_i32_16x16x16_iu4": _integer(4),
    "v_wmma12_i32_16x16x32_iu4": _integer(4),
    **{
        f"v_wmma12_f32_16x16x16_{a}_{b}": _float(_bytes(a), _bytes(b))
        for a in ("fp8", "bf8")
        for b in ("fp8", "bf8")
    },
}
"""WMMA ignores EXEC: every lane of the wave takes part."""

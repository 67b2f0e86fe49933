"""Matrix products of gfx950 whose factors are floats of 8, 6 or 4 bits, with scales or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.isa.small_floats import BF8, FP8, widen
from boards.amd.wave.operands import reader
from boards.amd.wave.scaled import fp4_values
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
_LANES, _BLOCK, _CHUNK, _BIAS, _NAN = 64, 32, 16, 127, 0xFF
# src: OCP Microscaling Formats 1.0: FP6 is E2M3 or E3M2, without infinities or NaN.
_SIX = {2: (3, 1), 3: (2, 3)}
"""Code of a format -> bits of the mantissa, bias."""


class _Side(NamedTuple):
    """A factor: which operand, its format, and its scale's operand and byte."""

    operand: int
    form: int
    scale: int
    byte: int


def six_bits(codes: Array, mantissa: int, bias: int) -> Array:
    """Codes of six bits as f64."""
    magnitude = codes & codes.dtype.type(31)
    exponent = (magnitude >> codes.dtype.type(mantissa)).astype(np.int32)
    fraction = (magnitude & codes.dtype.type((1 << mantissa) - 1)) / (1 << mantissa)
    size = np.where(
        exponent == 0, np.ldexp(fraction, 1 - bias), np.ldexp(1 + fraction, exponent - bias)
    )
    return np.asarray(np.where(codes & codes.dtype.type(32), -size, size))


def _values(raw: Array, form: int) -> Array:
    """Dwords (n, lanes, d) as 32 numbers of each lane, in f64."""
    octets = np.ascontiguousarray(raw).view(np.uint8)
    if form in (0, 1):
        return widen(octets, BF8 if form else FP8)
    if form == 4:
        pairs = np.stack([octets & np.uint8(15), octets >> np.uint8(4)], axis=-1)
        return fp4_values(pairs.reshape(*raw.shape[:2], _BLOCK))
    bits = np.unpackbits(octets, axis=-1, bitorder="little").reshape(*raw.shape[:2], _BLOCK, 6)
    codes = (bits << np.arange(6, dtype=np.uint8)).sum(axis=-1).astype(np.uint8)
    return six_bits(codes, *_SIX[form])


def _places(m: int, form: int) -> Array:
    """The k of each lane's 32 numbers: in one row for 4 and 6 bits, in two of 16 for 8 bits."""
    # src: ROCm blog "Matrix Core Programming on AMD CDNA3 and CDNA4", layouts of
    # v_mfma_scale_f32_32x32x64_f8f6f4: 32 in a row of FP4, 16 and 16 of FP8.
    group, number = np.arange(_LANES)[:, None] // m, np.arange(_BLOCK)[None, :]
    if form > 1:
        return group * _BLOCK + number
    groups = _LANES // m
    return (number // _CHUNK * groups + group) * _CHUNK + number % _CHUNK


def bind_formats(
    inst: Instruction, m: int, k: int, registers: Callable[..., Array],
    accumulate: Callable[[Waves, Array], None],
) -> Run:  # fmt: skip
    """A product that `accumulate` adds to C: factors as (n, m, k), with their scales."""
    f = inst.fields
    scaled = inst.encoding == "VOP3PX"
    low, high = (f["scale_low"], f["scale_high"]) if scaled else (0, 0)
    sides = [
        _Side(1 + i, f[("cbsz", "blgp")[i]], 4 + i, (low >> i & 1) | (high >> i & 1) << 1)
        for i in range(2)
    ]

    def factor(w: Waves, side: _Side) -> Array:
        values = _values(registers(w, inst.operands[side.operand]), side.form)
        rows = np.broadcast_to(np.arange(_LANES)[:, None] % m, (_LANES, _BLOCK))
        whole = np.empty((w.n, m, k))
        whole[:, rows, _places(m, side.form)] = values
        if not scaled:
            return whole
        codes = reader(inst, inst.operands[side.scale], "u32")(w) >> np.uint32(8 * side.byte)
        exponent = np.broadcast_to(codes & np.uint32(0xFF), (w.n, _LANES)).astype(np.int32)
        power = np.where(exponent == _NAN, np.nan, np.ldexp(1.0, exponent - _BIAS))
        blocks = power.reshape(w.n, _LANES // m, m).transpose(0, 2, 1)
        return np.asarray(whole * np.repeat(blocks, _BLOCK, axis=2))

    def run(w: Waves) -> None:
        left, right = (factor(w, side) for side in sides)
        accumulate(w, left @ right.transpose(0, 2, 1))

    return run

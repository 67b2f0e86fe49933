"""Integers as the ALU computes them: functions of arrays of uint32 or uint16 (int32, int16).

src: Mesa 25.0.7, src/freedreno/ir3/ir3_compiler_nir.c (which NIR operation is which instruction),
src/compiler/nir/nir_opcodes.py (their values), src/freedreno/isa/ir3-cat3.xml (shrm ... dp4acc)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from boards.machine.arrays import Array

Function = Callable[..., Array]
_LOW: Final = 0xFFFF


def width(a: Array) -> int:
    """Bits of an item."""
    return a.dtype.itemsize * 8


def _unsigned(a: Array) -> Array:
    return a.view(f"u{a.dtype.itemsize}")


def _shift(function: Callable[[Array, Array], Array]) -> Function:
    """The amount is taken modulo the width."""

    def run(a: Array, b: Array) -> Array:
        return function(a, (_unsigned(b) & (width(a) - 1)).astype(a.dtype, copy=False))

    return run


def saturating(a: Array, b: Array, *, minus: bool) -> Array:
    """a + b or a - b, clamped to the range of their type."""
    wide = a.astype(np.int64) - b if minus else a.astype(np.int64) + b
    limits = np.iinfo(a.dtype)
    return np.clip(wide, limits.min, limits.max).astype(a.dtype)


def _low24_signed(a: Array) -> Array:
    return a << 8 >> 8 if width(a) == 32 else a


def multiply_u24(a: Array, b: Array) -> Array:
    """The low half of the product of the low 24 bits."""
    return (a & 0xFFFFFF) * (b & 0xFFFFFF) if width(a) == 32 else a * b


def multiply_s24(a: Array, b: Array) -> Array:
    """The low half of the product of the low 24 bits with their sign."""
    return _low24_signed(a) * _low24_signed(b)


def multiply_low(a: Array, b: Array) -> Array:
    """mull.u: the product of the low halves."""
    return ((a & _LOW) * (b & _LOW)).astype(a.dtype)


def madsh_m16(a: Array, b: Array, c: Array) -> Array:
    """The low half of a times the high half of b, shifted left by 16, plus c."""
    return (((a & _LOW) * (b >> 16)) << 16) + c


def reverse(a: Array) -> Array:
    """The bits the other way round."""
    raw = np.ascontiguousarray(_unsigned(a)).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)
    turned = np.packbits(np.unpackbits(raw, axis=-1, bitorder="little"), axis=-1)
    octets = np.ascontiguousarray(turned[..., ::-1])
    return np.asarray(octets.view(a.dtype).reshape(a.shape))


def leading_zeros(a: Array) -> Array:
    """clz.b: zeros before the highest one; all ones for zero."""
    raw = _unsigned(a)
    _, exponent = np.frexp(raw.astype(np.float64))
    return np.where(raw == 0, -1, width(a) - exponent).astype(a.dtype)


def leading_signs(a: Array) -> Array:
    """clz.s: from the top, the first bit that differs from the sign; all ones if none does."""
    raw = a.view(f"i{a.dtype.itemsize}")
    return leading_zeros(np.where(raw < 0, ~raw, raw)).astype(a.dtype)


def _bits_of(a: Array) -> Array:
    return np.bitwise_count(_unsigned(a)).astype(a.dtype)


def select(a: Array, b: Array, c: Array) -> Array:
    """sel.b: a where b is not zero, else c."""
    answer: Array = np.where(b != 0, a, c)
    return answer


def _octets(a: Array) -> Array:
    raw = np.ascontiguousarray(a.astype(np.uint32))
    return raw.view(np.uint8).reshape(*a.shape, 4).astype(np.int64)


def dot(a: Array, b: Array, c: Array, *, mixed: bool, both: bool, first: int, count: int) -> Array:
    """dp2acc, dp4acc: bytes of a (signed: `mixed`) times bytes of b (signed: `both`), plus c."""
    left, right = _octets(a), _octets(b)
    if mixed:
        left = (left ^ 0x80) - 0x80
    if both:
        right = (right ^ 0x80) - 0x80
    part = slice(first, first + count)
    total = np.sum(left[..., part] * right[..., part], axis=-1)
    answer: Array = (total + c.astype(np.int64)).astype(np.uint32)
    return answer


TWO: Final[Mapping[str, Function]] = {
    "add.u": lambda a, b: a + b,
    "add.s": lambda a, b: a + b,
    "sub.u": lambda a, b: a - b,
    "sub.s": lambda a, b: a - b,
    "min.u": np.minimum,
    "min.s": np.minimum,
    "max.u": np.maximum,
    "max.s": np.maximum,
    "and.b": np.bitwise_and,
    "or.b": np.bitwise_or,
    "xor.b": np.bitwise_xor,
    "mul.u24": multiply_u24,
    "mul.s24": multiply_s24,
    "mull.u": multiply_low,
    "shl.b": _shift(np.left_shift),
    "shr.b": _shift(np.right_shift),
    "ashr.b": _shift(lambda a, b: a.view(f"i{a.dtype.itemsize}") >> b),
    "getbit.b": _shift(lambda a, b: a >> b & 1),
}
ONE: Final[Mapping[str, Function]] = {
    "absneg.s": lambda a: a,
    "not.b": np.invert,
    "bfrev.b": reverse,
    "clz.s": leading_signs,
    "clz.b": leading_zeros,
    "cbits.b": _bits_of,
}
THREE: Final[Mapping[str, Function]] = {
    "mad.u16": lambda a, b, c: a * b + c,
    "mad.s16": lambda a, b, c: a * b + c,
    "mad.u24": lambda a, b, c: multiply_u24(a, b) + c,
    "mad.s24": lambda a, b, c: multiply_s24(a, b) + c,
    "madsh.m16": madsh_m16,
    "sel.b16": select,
    "sel.b32": select,
    "sad.s16": lambda a, b, c: a + b + c,
    "sad.s32": lambda a, b, c: a + b + c,
    "shrm": lambda a, b, c: _shift(np.right_shift)(b, a) & c,
    "shlm": lambda a, b, c: _shift(np.left_shift)(b, a) & c,
    "shrg": lambda a, b, c: _shift(np.right_shift)(b, a) | c,
    "shlg": lambda a, b, c: _shift(np.left_shift)(b, a) | c,
    "andg": lambda a, b, c: b & a | c,
}

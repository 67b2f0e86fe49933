"""float16 and bfloat16 as 16-bit integers: widening, rounding, and products of pairs.

Where the printer converts float16 in hardware (`native`), a cast does it. bfloat16 stays
arithmetic: x86's own instruction flushes denormals to zero.
"""

from __future__ import annotations

from math import copysign, isnan
from struct import pack, unpack

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.expr import const
from compilers.ir import Expr
from compilers.math.build import bitcast, bits, cast, is_nan, mad, op, where

U32 = dt.uint32
F16_EXPONENT_BIAS_GAP = 112
"""float32's exponent bias less float16's."""
SHORT_NAN = frozenset({"add", "sub", "mul", "div", "sqrt"})
"""Operations on float32 values that were bfloat16 whose NaN results have 16 zeros at the end, where
each is an operand's NaN made quiet, or a default one like 0x7FC00000. A printer for other machines
says so (`Expander(short_nans=False)`): NVIDIA's default NaN is 0x7FFFFFFF.
# src: IEEE 754-2019 6.2.3; default NaN: Intel SDM vol. 1 4.8.3.7, Arm DDI 0487 FPCR.DN, GPUs'
# instruction set documents; PTX ISA 8.5, 9.7.3"""


def widen(x: Expr, dtype: DType, *, native: bool) -> Expr:
    """float32 value of the 16 bits `x` of a float16 or bfloat16; exact."""
    wide = cast(x, U32)
    if dtype is dt.bfloat16:
        return bitcast(op("shl", wide, 16), dt.float32)
    if native:
        return cast(bitcast(x, dt.float16), dt.float32)
    sign = op("shl", op("and", wide, 0x8000), 16)
    magnitude = op("and", wide, 0x7FFF)
    shifted = op("shl", magnitude, 13)
    normal = op("add", shifted, F16_EXPONENT_BIAS_GAP << 23)
    tiny = op("mul", cast(magnitude, dt.float32), 2.0**-24)
    found = where(op("le", 0x7C00, magnitude), op("or", shifted, 0x7F800000), normal)
    found = where(op("lt", magnitude, 0x400), bits(tiny), found)
    return bitcast(op("or", found, sign), dt.float32)


def narrow(x: Expr, dtype: DType, *, native: bool, short_nan: bool = False) -> Expr:
    """The 16 bits of float32 `x` rounded to `dtype`, half to even; NaN stays NaN.

    `short_nan`: a NaN in `x` is quiet and its lower 16 bits are 0, so that rounding to bfloat16
    leaves it alone; see `SHORT_NAN`.
    """
    if dtype is dt.float16:
        return bitcast(cast(x, dtype), dt.uint16) if native else _narrow_float16(x)
    word = bits(x)
    top = op("shr", word, 16)
    rounded = op("shr", op("add", op("add", word, 0x7FFF), op("and", top, 1)), 16)
    found = rounded if short_nan else where(is_nan(x), op("or", top, 0x40), rounded)
    return cast(found, dt.uint16)


def high_half(x: Expr) -> Expr:
    """The 16 bits of a bfloat16 that float32 `x` is exactly: every integer of 8 bits is one."""
    return cast(op("shr", bits(x), 16), dt.uint16)


def _narrow_float16(x: Expr) -> Expr:
    word = bits(x)
    sign = op("and", op("shr", word, 16), 0x8000)
    magnitude = op("and", word, 0x7FFFFFFF)
    odd = op("and", op("shr", magnitude, 13), 1)
    biased = op("sub", magnitude, F16_EXPONENT_BIAS_GAP << 23)
    rounded = op("shr", op("add", op("add", biased, 0xFFF), odd), 13)
    magic = const(0.5, dt.float32)  # its unit in the last place is the smallest float16
    tiny = op("sub", bits(op("add", bitcast(magnitude, dt.float32), magic)), bits(magic))
    found = where(op("lt", magnitude, 113 << 23), tiny, rounded)
    found = where(op("le", 143 << 23, magnitude), 0x7C00, found)
    found = where(op("lt", 0x7F800000, magnitude), 0x7E00, found)
    return cast(op("or", found, sign), dt.uint16)


def to_odd(x: Expr) -> Expr:
    """float64 `x` as a float32 rounded to odd, so that rounding it again is exact."""
    near = cast(x, dt.float32)
    back, word = cast(near, dt.float64), bits(near)
    away = op("lt", op("abs", x), op("abs", back))
    sticky = op("or", where(away, op("sub", word, 1), word), 1)
    return bitcast(where(op("ne", back, x), sticky, word), dt.float32)


def pair_product(a: Expr, b: Expr, c: Expr) -> Expr:
    """dot2 where there is no instruction: the high halves first, denormals kept."""
    for name, amount in (("and", 0xFFFF0000), ("shl", 16)):
        x, y = (bitcast(op(name, word, amount), dt.float32) for word in (a, b))
        c = mad(x, y, c)
    return c


def half_bits(value: float, dtype: DType) -> int:
    """The bits of a number as a 16-bit float, rounded to the nearest."""
    if dtype is dt.float16:
        try:
            word: int = unpack("<H", pack("<e", value))[0]
        except OverflowError:  # rounds to infinity
            word = 0xFC00 if value < 0 else 0x7C00
        return word
    if isnan(value):
        return 0xFFC0 if copysign(1.0, value) < 0 else 0x7FC0
    return _bfloat_bits(value)


def half_value(word: int, dtype: DType) -> float:
    """The number that these bits are as a 16-bit float."""
    if dtype is dt.float16:
        value: float = unpack("<e", pack("<H", word))[0]
    else:
        value = unpack("<f", pack("<I", word << 16))[0]
    return value


def _bfloat_bits(value: float) -> int:
    """float64 has 45 bits more than bfloat16 keeps: rounded once, by its own bits."""
    try:
        near: int = unpack("<I", pack("<f", value))[0]
    except OverflowError:
        return 0xFF80 if value < 0 else 0x7F80
    back: float = unpack("<f", pack("<I", near))[0]
    if back != value:  # a float32 rounded to odd rounds again exactly
        near = (near - (abs(value) < abs(back))) | 1
    return (near + 0x7FFF + (near >> 16 & 1)) >> 16

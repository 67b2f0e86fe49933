"""float16 and bfloat16 as 16-bit integers: widening and rounding in integer arithmetic.

Where the target converts float16 in hardware ("f16c" or wider) two ops do it: `widen_half` and
`narrow_half`. bfloat16 stays arithmetic: x86's own instruction flushes denormals to zero.
"""

from __future__ import annotations

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import Expr
from compilers.math_build import bitcast, bits, cast, const, is_nan, like, mad, op, where

U32 = dt.uint32
F16_EXPONENT_BIAS_GAP = 112
"""float32's exponent bias less float16's."""


def widen(x: Expr, dtype: DType, *, native: bool) -> Expr:
    """float32 value of the 16 bits `x` of a float16 or bfloat16; exact."""
    if dtype is dt.bfloat16:
        return bitcast(op("shl", cast(x, U32), const(16, U32)), dt.float32)
    if native:
        return Expr("widen_half", dt.float32, (x,))
    wide = cast(x, U32)
    sign = op("shl", op("and", wide, const(0x8000, U32)), const(16, U32))
    magnitude = op("and", wide, const(0x7FFF, U32))
    shifted = op("shl", magnitude, const(13, U32))
    normal = op("add", shifted, const(F16_EXPONENT_BIAS_GAP << 23, U32))
    special = op("or", shifted, const(0x7F800000, U32))
    tiny = op("mul", cast(magnitude, dt.float32), const(2.0**-24, dt.float32))
    found = where(op("le", const(0x7C00, U32), magnitude), special, normal)
    found = where(op("lt", magnitude, const(0x400, U32)), bits(tiny), found)
    return bitcast(op("or", found, sign), dt.float32)


def narrow(x: Expr, dtype: DType, *, native: bool) -> Expr:
    """The 16 bits of float32 `x` rounded to `dtype`, half to even; NaN stays NaN."""
    if dtype is dt.bfloat16:
        word = bits(x)
        top = op("shr", word, const(16, U32))
        odd = op("and", top, const(1, U32))
        rounded = op("add", op("add", word, const(0x7FFF, U32)), odd)
        quiet = op("or", top, const(0x40, U32))
        return cast(where(is_nan(x), quiet, op("shr", rounded, const(16, U32))), dt.uint16)
    if native:
        return Expr("narrow_half", dt.uint16, (x,))
    return _narrow_float16(x)


def _narrow_float16(x: Expr) -> Expr:
    word = bits(x)
    sign = op("and", op("shr", word, const(16, U32)), const(0x8000, U32))
    magnitude = op("and", word, const(0x7FFFFFFF, U32))
    odd = op("and", op("shr", magnitude, const(13, U32)), const(1, U32))
    biased = op("sub", magnitude, const(F16_EXPONENT_BIAS_GAP << 23, U32))
    rounded = op("shr", op("add", op("add", biased, const(0xFFF, U32)), odd), const(13, U32))
    magic = const(0.5, dt.float32)  # its unit in the last place is the smallest float16
    tiny = op("sub", bits(op("add", bitcast(magnitude, dt.float32), magic)), bits(magic))
    found = where(op("lt", magnitude, const(113 << 23, U32)), tiny, rounded)
    infinite = op("le", const(143 << 23, U32), magnitude)
    found = where(infinite, const(0x7C00, U32), found)
    found = where(op("lt", const(0x7F800000, U32), magnitude), const(0x7E00, U32), found)
    return cast(op("or", found, sign), dt.uint16)


def to_odd(x: Expr) -> Expr:
    """float64 `x` as a float32 rounded to odd, so that rounding it again is exact."""
    near = cast(x, dt.float32)
    back = cast(near, dt.float64)
    word = bits(near)
    away = op("lt", op("abs", x), op("abs", back))
    toward = where(away, op("sub", word, like(word, 1)), word)
    sticky = op("or", toward, like(word, 1))
    return bitcast(where(op("ne", back, x), sticky, word), dt.float32)


def op_dot2(src: list[Expr]) -> Expr:
    """The instruction itself."""
    return Expr("dot2", dt.float32, tuple(src))


def pair_product(src: list[Expr], fused: bool) -> Expr:
    """dot2 where there is no instruction: the high halves first, denormals kept."""
    a, b, c = src
    top = const(0xFFFF0000, U32)
    for half in ("high", "low"):
        x, y = (
            bitcast(
                op("and", v, top) if half == "high" else op("shl", v, const(16, U32)), dt.float32
            )
            for v in (a, b)
        )
        c = mad(x, y, c, fused)
    return c

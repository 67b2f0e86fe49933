"""Short constructors for the expressions that the math rewrites are made of."""

from __future__ import annotations

import struct

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.ir import Expr

HALVES = (dt.float16, dt.bfloat16)
UNSIGNED = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}


def const(value: float, dtype: DType) -> Expr:
    """A constant of `dtype`."""
    return Expr("const", dtype, (), value)


def like(x: Expr, value: float) -> Expr:
    """A constant of the dtype of `x`."""
    return Expr("const", x.dtype, (), value)


def op(name: str, *src: Expr) -> Expr:
    """An op whose result has its operands' dtype; comparisons give bool."""
    return Expr(name, dt.bool_ if name in COMPARE else src[0].dtype, src)


def where(condition: Expr, a: Expr, b: Expr) -> Expr:
    """`a` where the condition holds, else `b`."""
    return Expr("where", a.dtype, (condition, a, b))


def cast(x: Expr, dtype: DType) -> Expr:
    """The same number in another dtype; integers wrap."""
    return x if x.dtype is dtype else Expr("cast", dtype, (x,))


def bitcast(x: Expr, dtype: DType) -> Expr:
    """The same bits in another dtype."""
    return x if x.dtype is dtype else Expr("bitcast", dtype, (x,))


def call(name: str, *src: Expr) -> Expr:
    """A C library function, lane by lane; `name` is that of the double version."""
    suffix = "f" if src[0].dtype is dt.float32 else ""
    return Expr("call", src[0].dtype, src, name + suffix)


def patch(name: str, condition: Expr, fast: Expr, *src: Expr) -> Expr:
    """`fast`, but the C library function in the lanes where `condition` holds: a rare branch."""
    suffix = "f" if fast.dtype is dt.float32 else ""
    return Expr("patch", fast.dtype, (condition, fast, *src), name + suffix)


def bits(x: Expr) -> Expr:
    """The unsigned integer with the same bytes."""
    return bitcast(x, UNSIGNED[x.dtype.itemsize])


def is_nan(x: Expr) -> Expr:
    """Whether a float is NaN."""
    return op("ne", x, x)


def either(a: Expr, b: Expr) -> Expr:
    """Logical or."""
    return op("or", a, b)


def both(a: Expr, b: Expr) -> Expr:
    """Logical and."""
    return op("and", a, b)


def negate(condition: Expr) -> Expr:
    """Logical not."""
    return op("xor", condition, const(True, dt.bool_))


def as_float(value: float, dtype: DType) -> float:
    """`value` rounded to float32 when `dtype` is float32."""
    if dtype is dt.float64:
        return float(value)
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def half_bits(value: float, dtype: DType) -> int:
    """The bit pattern of `value` in float16 or bfloat16, rounded once, half to even."""
    if dtype is dt.float16:
        try:
            found: int = struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
        return found
    if value != value:
        return 0x7FC0
    single = as_float(value, dt.float32)
    word: int = struct.unpack("<I", struct.pack("<f", single))[0]
    if single != value:  # round to odd first, so that the second rounding is the only one
        word = (word - 1 if abs(single) > abs(value) else word) | 1
    return (word + 0x7FFF + (word >> 16 & 1)) >> 16


def mad(a: Expr, b: Expr, c: Expr, fused: bool) -> Expr:
    """a * b + c, with one rounding where the target can."""
    return op("fma", a, b, c) if fused else op("add", op("mul", a, b), c)


def poly(x: Expr, coefficients: tuple[float, ...], fused: bool) -> Expr:
    """Horner's rule; coefficients from the constant upwards."""
    result = like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = mad(result, x, like(x, coefficient), fused)
    return result

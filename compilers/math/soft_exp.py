"""float64 exponentials, logarithms and powers in target ops.

exp: x = n ln 2 + r, then the exponential series of r. log: x = 2**e m with m around 1, then
log m = 2 atanh((m - 1) / (m + 1)), whose series in the square of that quotient is short.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, inf, nan

from compilers import dtype as dt
from compilers.expr import const
from compilers.ir import Expr
from compilers.math.build import bitcast, bits, cast, is_nan, mad, negate, op, poly, sum_pair, where

MANTISSA = 52
BIAS = 1023
LOG2_E = 1.4426950408889634
LN2_HIGH = float.fromhex("0x1.62e42fefa3800p-1")
LN2_LOW = float.fromhex("0x1.ef35793c76730p-45")
"""ln 2 in 42 bits, so that products with exponents are exact, and the next 53."""
LOG10_E = 0.4342944819032518
LOG10_2_HIGH = float.fromhex("0x1.34413509f7800p-2")
LOG10_2_LOW = float.fromhex("0x1.fef311f12b358p-46")
EXP_TERMS, LOG_TERMS = 14, 12
EXP = tuple(1 / factorial(n) for n in range(EXP_TERMS))
EXP_TAIL = tuple(1 / factorial(n + 2) for n in range(EXP_TERMS - 1))
"""(exp(r) - 1 - r) / r**2."""
ATANH_TAIL = tuple(2 / (2 * n + 3) for n in range(LOG_TERMS))
"""(2 atanh(s) - 2 s) / s**3 in s**2."""
EXP_LOW, EXP_HIGH = -746.0, 711.0
EXP2_LOW, EXP2_HIGH = -1077.0, 1026.0
EXPM1_LOW, EXPM1_HIGH = -40.0, 709.9
"""e**709.9 is infinite, and its half's exponent is not."""
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
SMALLEST_NORMAL, LIFT = 2.0**-1022, 54
ODD_LIMIT = {dt.float64: 2.0**53, dt.float32: 2.0**24}
"""From here on every number is an even integer."""


def clamp(x: Expr, low: float, high: float) -> Expr:
    """NaN stays NaN."""
    raised = where(op("lt", x, low), low, x)
    return where(op("lt", high, raised), high, raised)


def power_of_two(n: Expr) -> Expr:
    """2.0**n of an int64 in the exponent's range."""
    return bitcast(op("shl", op("add", n, BIAS), MANTISSA), dt.float64)


def scale(x: Expr, n: Expr) -> Expr:
    """x * 2**n for |n| < 2100, rounded once where the result is denormal."""
    half = op("shr", n, 1)
    return op("mul", op("mul", x, power_of_two(half)), power_of_two(op("sub", n, half)))


def _reduce(x: Expr) -> tuple[Expr, Expr]:
    """n as int64 and r with x = n ln 2 + r."""
    n = op("rint", op("mul", x, LOG2_E))
    return cast(n, dt.int64), mad(n, -LN2_LOW, mad(n, -LN2_HIGH, x))


def _finite(x: Expr) -> Expr:
    """x, or 0 for NaN, so that a conversion to an integer is defined."""
    return where(is_nan(x), 0.0, x)


def _nan_of(x: Expr, value: Expr) -> Expr:
    return where(is_nan(x), x, value)


def exp(x: Expr) -> Expr:
    """e**x."""
    n, r = _reduce(_finite(clamp(x, EXP_LOW, EXP_HIGH)))
    return _nan_of(x, scale(poly(r, EXP), n))


def exp2(x: Expr) -> Expr:
    """2**x."""
    inside = _finite(clamp(x, EXP2_LOW, EXP2_HIGH))
    n = op("rint", inside)
    rest = op("sub", inside, n)
    r = mad(rest, LN2_HIGH, op("mul", rest, LN2_LOW))
    return _nan_of(x, scale(poly(r, EXP), cast(n, dt.int64)))


def expm1(x: Expr) -> Expr:
    """e**x - 1 = 2 (h (e**r - 1) + (h - 1/2)) with h = 2**(n - 1); the first part for n = 0."""
    n, r = _reduce(_finite(clamp(x, EXPM1_LOW, EXPM1_HIGH)))
    grown = mad(op("mul", r, r), poly(r, EXP_TAIL), r)
    half = power_of_two(op("sub", n, 1))
    total = mad(half, grown, op("sub", half, 0.5))
    result = where(op("eq", n, 0), grown, op("add", total, total))
    return _nan_of(x, where(op("eq", x, 0.0), x, result))


def split(x: Expr) -> tuple[Expr, Expr]:
    """e as a float64 and m - 1 for x = 2**e m > 0, m from sqrt(1/2) to sqrt(2)."""
    small = op("lt", x, SMALLEST_NORMAL)
    word = bitcast(where(small, op("mul", x, 2.0**LIFT), x), dt.int64)
    e = op("shr", op("sub", word, SQRT_HALF_BITS), MANTISSA)
    m = bitcast(op("sub", word, op("shl", e, MANTISSA)), dt.float64)
    whole = cast(where(small, op("sub", e, LIFT), e), dt.float64)
    return whole, op("sub", m, 1.0)


def _log_of(f: Expr) -> Expr:
    """log(1 + f) = f - (f**2 / 2 - s (f**2 / 2 + R)), which keeps the largest part exact."""
    s = op("div", f, op("add", f, 2.0))
    square = op("mul", s, s)
    rest = op("mul", square, poly(square, ATANH_TAIL))
    half = op("mul", op("mul", f, f), 0.5)
    return op("sub", f, op("sub", half, op("mul", s, op("add", half, rest))))


def _log_special(x: Expr, result: Expr) -> Expr:
    """0 gives -inf, below it NaN; infinity and NaN stay."""
    result = where(op("lt", x, inf), result, x)
    result = where(op("eq", x, 0.0), -inf, result)
    return where(op("lt", x, 0.0), nan, result)


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    e, f = split(x)
    value = mad(e, LN2_HIGH, mad(e, LN2_LOW, _log_of(f)))
    return _log_special(x, value)


def log2(x: Expr) -> Expr:
    """The binary logarithm; exact for powers of two."""
    e, f = split(x)
    return _log_special(x, mad(_log_of(f), LOG2_E, e))


def log10(x: Expr) -> Expr:
    """The decimal logarithm."""
    e, f = split(x)
    value = mad(e, LOG10_2_HIGH, mad(e, LOG10_2_LOW, op("mul", _log_of(f), LOG10_E)))
    return _log_special(x, value)


def log1p(x: Expr) -> Expr:
    """log(1 + x): the rounding error of 1 + x is added back, relative to it."""
    u = op("add", x, 1.0)
    large = op("lt", op("abs", x), 1.0)
    lost = where(large, op("sub", x, op("sub", u, 1.0)), op("sub", 1.0, op("sub", u, x)))
    value = op("add", log(u), op("div", lost, u))
    usual = op("and", op("lt", x, inf), op("lt", -1.0, x))
    return where(op("eq", x, 0.0), x, where(usual, value, log(u)))


def _log_pair(x: Expr) -> tuple[Expr, Expr]:
    """log(x) of a positive finite x as a sum of two float64."""
    e, f = split(x)
    d = op("add", f, 2.0)
    d_lost = op("sub", f, op("sub", d, 2.0))
    s = op("div", f, d)
    s_lost = op("div", op("sub", op("fma", op("neg", s), d, f), op("mul", s, d_lost)), d)
    square = op("mul", s, s)
    cubic = op("mul", op("mul", s, square), poly(square, ATANH_TAIL))
    high, low = sum_pair(op("add", s, s), cubic)
    low = op("add", low, op("add", s_lost, s_lost))
    whole = op("mul", e, LN2_HIGH)
    total, lost = sum_pair(whole, high)
    other, other_lost = sum_pair(high, whole)
    near = op("eq", e, 0.0)
    total, lost = where(near, other, total), where(near, other_lost, lost)
    return total, op("add", lost, mad(e, LN2_LOW, low))


def _magnitude(x: Expr, y: Expr) -> Expr:
    """|x|**y for finite |x| > 0."""
    high, low = _log_pair(x)
    product = op("mul", high, y)
    lost = mad(low, y, op("fma", high, y, op("neg", product)))
    inside = clamp(product, EXP_LOW, EXP_HIGH)
    lost = where(op("lt", op("abs", product), -EXP_LOW), lost, 0.0)
    n, r = _reduce(_finite(inside))
    value = scale(poly(op("add", r, lost), EXP), n)
    return _nan_of(product, value)


def power(x: Expr, y: Expr, of_size: Callable[[Expr, Expr], Expr] = _magnitude) -> Expr:
    """x**y. `of_size`: of finite x > 0."""
    dtype = x.dtype
    size = op("abs", x)
    rest = op("eq", op("floor", y), y)
    halved = op("mul", y, 0.5)
    odd = op("and", rest, op("and", op("ne", op("floor", halved), halved),
                             op("lt", op("abs", y), ODD_LIMIT[dtype])))  # fmt: skip
    value = of_size(where(op("and", op("lt", 0.0, size), op("lt", size, inf)), size, 1.0), y)
    up = op("lt", 0.0, y)
    value = where(op("eq", size, 0.0), where(up, const(0.0, dtype), inf), value)
    value = where(op("eq", size, inf), where(up, const(inf, dtype), 0.0), value)
    value = where(op("and", op("eq", size, 1.0), op("eq", op("abs", y), inf)), 1.0, value)
    negative = op("ne", op("shr", bits(x), dtype.bits - 1), 0)
    value = where(op("and", negative, odd), op("neg", value), value)
    bad = op("and", op("lt", x, 0.0), op("and", negate(rest), op("lt", size, inf)))
    value = where(bad, nan, value)
    value = where(op("or", is_nan(x), is_nan(y)), nan, value)
    return where(op("or", op("eq", x, 1.0), op("eq", y, 0.0)), 1.0, value)

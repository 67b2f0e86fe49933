"""Powers of float32 without float64, and remainders of integers.

The power's logarithm is a sum of two float32, within 2**-33 of itself. Products that are parts of
an exact sum are products of 12-bit parts: exact, whether a compiler fuses them or not.
"""

from __future__ import annotations

from math import inf, log, log2, nan
from typing import Final, NamedTuple

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.expr import const
from compilers.ir import Expr
from compilers.math.build import (
    bitcast,
    bits,
    cast,
    high_part,
    is_nan,
    mad,
    op,
    pick,
    poly,
    rarely,
    sum_pair,
    where,
)
from compilers.math.poly import EXP2, clamp, nearest, scale_by, split_normal
from compilers.math.soft_exp import power as power_of

STEPS: Final = 16
FIRST, LAST = -5, 7
"""Sixteenths from 1 to the nearest of sqrt(1/2) and of sqrt(2)."""
LOGS: Final = tuple(log2(1 + number / STEPS) for number in range(FIRST, LAST + 1))
HEADS: Final = tuple(round(one * 2.0**12) / 2.0**12 for one in LOGS)
"""Binary logarithms of those, to 12 bits after the point: with an exponent added they are exact."""
FACTOR: Final = 2 / log(2)
FACTOR_HIGH: Final = round(FACTOR * 2.0**10) / 2.0**10
"""2 / ln 2 in 12 bits."""
ATANH: Final = (1 / 3, 1 / 5, 1 / 7)
"""(atanh(s) - s) / s**3 in s**2, for |s| < 1/44."""
MOST: Final = 2.0**32
"""An exponent from here on makes of every number but 1 zero or infinity."""
LEAST_LOG, MOST_LOG = -160.0, 140.0


def _quotient(f: Expr, near: Expr) -> tuple[Expr, Expr]:
    """(m - c) / (m + c) as a sum of two, for m = 1 + f and c = 1 + near, a sixteenth."""
    up, m, c = op("sub", f, near), op("add", f, 1.0), op("add", near, 1.0)
    down = op("add", m, c)
    high = high_part(op("div", up, down))
    m_high = high_part(m)
    rest = op("sub", op("sub", up, op("mul", high, c)), op("mul", high, m_high))
    rest = op("sub", rest, op("mul", high, op("sub", m, m_high)))
    return high, op("div", rest, down)


def _log2_pair(x: Expr) -> tuple[Expr, Expr]:
    """log2(x) as 12 bits and the rest, for finite x > 0."""
    e, f = split_normal(x)
    step = op("rint", op("mul", f, float(STEPS)))
    high, low = _quotient(f, op("mul", step, 1 / STEPS))
    s = op("add", high, low)
    square = op("mul", s, s)
    cubic = op("mul", op("mul", s, square), poly(square, ATANH))
    index = op("sub", cast(step, dt.int32), FIRST)
    head = pick([const(one, dt.float32) for one in HEADS], index)
    tail = pick([const(a - b, dt.float32) for a, b in zip(LOGS, HEADS, strict=True)], index)
    rest = mad(high, FACTOR - FACTOR_HIGH, op("mul", op("add", low, cubic), FACTOR))
    total, lost = sum_pair(op("add", e, head), op("mul", high, FACTOR_HIGH))
    lost = op("add", lost, op("add", rest, tail))
    top = high_part(op("add", total, lost))
    return top, op("sub", lost, op("sub", top, total))


def _of_size(x: Expr, y: Expr) -> Expr:
    """x**y for finite x > 0."""
    y = clamp(y, -MOST, MOST)
    high, low = _log2_pair(x)
    y_high = high_part(y)
    rest = op("add", op("mul", op("sub", y, y_high), high), op("mul", y, low))
    total, lost = sum_pair(op("mul", y_high, high), rest)
    inside = clamp(total, LEAST_LOG, MOST_LOG)
    lost = where(op("eq", inside, total), lost, 0.0)
    n, held = nearest(inside, 1)
    r = op("add", op("sub", inside, n), lost)
    return scale_by(poly(r, (1.0, *EXP2)), held)


def power(x: Expr, y: Expr) -> Expr:
    """x**y."""
    return power_of(x, y, _of_size)


class _Form(NamedTuple):
    """How the bits of a dtype are a number."""

    word: DType
    signed: DType
    mantissa: int
    bias: int
    """Of the exponent of 1."""
    step_bits: int
    """What a remainder is shifted by at once."""
    most_steps: int
    """So many for the largest distance of exponents."""


FORMS: Final = {
    dt.float32: _Form(dt.uint32, dt.int32, 23, 127, step_bits=8, most_steps=32),
    dt.float64: _Form(dt.uint64, dt.int64, 52, 1023, step_bits=50, most_steps=41),
}


def _parts(size: Expr, form: _Form) -> tuple[Expr, Expr]:
    """Integers m and e with size = m * 2**(e - bias - mantissa's bits)."""
    word = bits(size)
    exponent = op("shr", word, form.mantissa)
    mantissa = op("and", word, (1 << form.mantissa) - 1)
    tiny = op("eq", exponent, 0)
    mantissa = where(tiny, mantissa, op("or", mantissa, 1 << form.mantissa))
    return mantissa, bitcast(where(tiny, 1, exponent), form.signed)


def _two_to(e: Expr, form: _Form, dtype: DType) -> Expr:
    """2**e of an integer in the range of normal numbers."""
    return bitcast(op("shl", bits(op("add", e, form.bias)), form.mantissa), dtype)


def _shifted(rest: Expr, left: Expr, whole: Expr, form: _Form) -> tuple[Expr, Expr]:
    """The remainder of `rest` times a power of two, and what of its exponent is left.

    In float64 the quotient is estimated, less than one off: the lower 64 bits of both products
    are enough for a remainder that may be negative.
    """
    amount = where(op("lt", left, form.step_bits), left, form.step_bits)
    grown, left = op("shl", rest, bits(amount)), op("sub", left, amount)
    if form.word.bits == dt.uint32.bits:
        return op("imod", grown, whole), left
    size = cast(bitcast(rest, form.signed), dt.float64)
    size = op("mul", size, _two_to(amount, form, dt.float64))
    count = op("rint", op("mul", size, op("div", 1.0, cast(whole, dt.float64))))
    return op("sub", grown, op("mul", bits(cast(count, form.signed)), whole)), left


def fmod(x: Expr, y: Expr) -> Expr:
    """C's remainder, of the mantissas as integers: exact. Most quotients need two steps."""
    dtype, form = x.dtype, FORMS[x.dtype]
    a, b = op("abs", x), op("abs", y)
    (rest, ea), (whole, eb) = _parts(a, form), _parts(b, form)
    whole = where(op("eq", whole, 0), 1, whole)
    left = op("sub", ea, eb)
    left = where(op("lt", left, 0), 0, left)
    rest = op("imod", rest, whole)
    rest, left = _shifted(rest, left, whole, form)
    usual, far = rest, op("lt", 0, left)
    for _ in range(form.most_steps - 1):
        rest, left = _shifted(rest, left, whole, form)
    rest = rarely(far, usual, rest)
    negative = op("ne", op("shr", rest, form.word.bits - 1), 0)
    rest = where(negative, op("add", rest, whole), rest)
    e = op("sub", eb, form.bias + form.mantissa)
    half = op("shr", e, 1)
    size = op("mul", cast(rest, dtype), _two_to(half, form, dtype))
    size = op("mul", size, _two_to(op("sub", e, half), form, dtype))
    value = where(op("lt", a, b), x, op("copysign", size, x))
    bad = op("or", op("eq", a, inf), op("eq", b, 0.0))
    return where(op("or", bad, op("or", is_nan(x), is_nan(y))), nan, value)

"""Circular functions of float32 in float32, for devices that have no float64.

From pi/4 on, the angle's mantissa is multiplied with those bits of 2/pi that matter, as in
`compilers/math/soft_trig.py`, in 32-bit words. Within 2 units in the last place. No step relies on
how a product before a sum is rounded: products that are parts of an exact sum are exact themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from math import atan as host_atan
from math import inf, nan, pi
from struct import pack, unpack
from typing import Final

from compilers import dtype as dt
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
    sum_pair,
    where,
)
from compilers.math.soft_trig import TABLE
from compilers.math.trig import COS, SIN

NEAR: Final = pi / 4
SIGN: Final = 0x80000000
LOW_BITS: Final = 0xFFFF
WORD: Final = 32
WORDS: Final = (0, 0, *(word >> shift & 0xFFFFFFFF for word in TABLE[1:4] for shift in (WORD, 0)))
"""Two words of zeros, then the binary digits of 2/pi."""
FIRST_EXPONENT: Final = 96
"""Biased exponent of a number whose window of 2/pi begins at the first bit of WORDS."""
HALF_PI_HIGH: Final = float.fromhex("0x1.92p+0")
HALF_PI_MIDDLE: Final = pi / 2 - HALF_PI_HIGH
HALF_PI: Final = float.fromhex("0x1.921fb6p+0")
HALF_PI_LOW: Final = pi / 2 - HALF_PI
"""pi/2 in 9 bits and the rest; in a float32 and the rest."""
STEPS: Final = 8
EXACT: Final = tuple(host_atan(number / STEPS) for number in range(STEPS + 1))
ANGLES: Final = unpack(f"{len(EXACT)}f", pack(f"{len(EXACT)}f", *EXACT))
"""Of which tan is so many eighths, and those as float32."""
ATAN: Final = (-1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11)
"""(atan(u) - u) / u**3 in u**2, for |u| <= 3/16."""
ASIN: Final = (0.1666666567325592, 0.07500098645687103, 0.04459803178906441, 0.03111615590751171,
               0.017077859491109848, 0.03380574658513069)  # fmt: skip
"""(asin(u) - u) / u**3 in u**2, for |u| <= 1/2: a fit within 0.05 units in the last place."""


def _wide_product(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The upper and the lower 32 bits of a product of 32-bit words."""
    a_low, a_high = op("and", a, LOW_BITS), op("shr", a, 16)
    b_low, b_high = op("and", b, LOW_BITS), op("shr", b, 16)
    cross = op("add", op("mul", a_high, b_low), op("shr", op("mul", a_low, b_low), 16))
    more = op("add", op("mul", a_low, b_high), op("and", cross, LOW_BITS))
    upper = op("add", op("mul", a_high, b_high), op("shr", cross, 16))
    return op("add", upper, op("shr", more, 16)), op("mul", a, b)


def _window(start: Expr) -> list[Expr]:
    """Three words of WORDS, from a bit on."""
    at, shift = op("shr", start, 5), op("and", start, WORD - 1)
    table = [const(word, dt.uint32) for word in (*WORDS, 0, 0, 0)]
    held = [pick(table[i : i + len(WORDS)], at) for i in range(4)]
    back = op("sub", WORD - 1, shift)
    return [
        op("or", op("shl", held[i], shift), op("shr", op("shr", held[i + 1], 1), back))
        for i in range(3)
    ]


def _far(size: Expr) -> tuple[Expr, Expr, Expr]:
    """The quadrant of an angle >= pi/4, and what is left in it as a sum of two."""
    word = bits(size)
    exponent = op("shr", word, 23)
    start = op("sub", where(op("lt", exponent, FIRST_EXPONENT), FIRST_EXPONENT, exponent),
               FIRST_EXPONENT)  # fmt: skip
    mantissa = op("shl", op("or", word, 1 << 23), 8)
    first, second, third = _window(start)
    carried, low = _wide_product(mantissa, second)
    middle = op("add", low, _wide_product(mantissa, third)[0])
    top = op("add", op("mul", mantissa, first), carried)
    top = op("add", top, cast(op("lt", middle, low), dt.uint32))
    quadrant = op("shr", op("add", top, 1 << 29), 30)
    fraction = bitcast(op("or", op("shl", top, 2), op("shr", middle, 30)), dt.int32)
    rest = op("shl", middle, 2)
    begin = op("mul", cast(op("shr", fraction, 8), dt.float32), 2.0**-24)
    after = op("or", op("shl", op("and", bits(fraction), 0xFF), 16), op("shr", rest, 16))
    turns, lost = sum_pair(begin, op("mul", cast(after, dt.float32), 2.0**-48))
    last = op("mul", cast(op("and", rest, LOW_BITS), dt.float32), 2.0**-64)
    return quadrant, *_angle_of(turns, op("add", lost, last))


def _angle_of(turns: Expr, lost: Expr) -> tuple[Expr, Expr]:
    """(turns + lost) * pi / 2."""
    high = high_part(turns)
    low = op("add", op("sub", turns, high), lost)
    tail = op("add", op("mul", high, HALF_PI_MIDDLE), op("mul", low, pi / 2))
    return sum_pair(op("mul", high, HALF_PI_HIGH), tail)


def _reduced(x: Expr) -> tuple[Expr, Expr, Expr]:
    """Of |x|: the quadrant, and the angle in it as a sum of two."""
    size = op("abs", x)
    near = op("lt", size, NEAR)
    quadrant, angle, lost = _far(size)
    return where(near, 0, quadrant), where(near, size, angle), where(near, 0.0, lost)


def _sine(r: Expr, lost: Expr) -> tuple[Expr, Expr]:
    """As a sum of two."""
    square = op("mul", r, r)
    slope = mad(square, -0.5, 1.0)
    rest = mad(op("mul", square, r), poly(square, SIN), op("mul", lost, slope))
    return sum_pair(r, rest)


def _cosine(r: Expr, lost: Expr) -> tuple[Expr, Expr]:
    """As a sum of two. The rounding of 1 - r**2 / 2 is added back."""
    square = op("mul", r, r)
    half = op("mul", square, 0.5)
    whole = op("sub", 1.0, half)
    rounding = op("sub", op("sub", 1.0, whole), half)
    rounding = op("sub", rounding, op("mul", r, lost))
    return sum_pair(whole, mad(op("mul", square, square), poly(square, COS), rounding))


def _bit(quadrant: Expr, value: int) -> Expr:
    return op("ne", op("and", quadrant, value), 0)


def _signed(value: Expr, sign: Expr) -> Expr:
    """The value, negated where the first bit of `sign` is set."""
    return bitcast(op("xor", bits(value), op("and", sign, SIGN)), dt.float32)


def _finite(x: Expr, value: Expr) -> Expr:
    """NaN for NaN and infinities."""
    return where(op("lt", op("abs", x), inf), value, nan)


def _wave(x: Expr, ahead: int) -> Expr:
    quadrant, r, lost = _reduced(x)
    quadrant = op("add", quadrant, ahead)
    value = where(_bit(quadrant, 1), _cosine(r, lost)[0], _sine(r, lost)[0])
    sign = op("shl", quadrant, 30)
    return _finite(x, _signed(value, sign if ahead else op("xor", sign, bits(x))))


def sin(x: Expr) -> Expr:
    """The sine."""
    return _wave(x, 0)


def cos(x: Expr) -> Expr:
    """The cosine."""
    return _wave(x, 1)


def tan(x: Expr) -> Expr:
    """The tangent: the quotient of two sums."""
    quadrant, r, lost = _reduced(x)
    odd = _bit(quadrant, 1)
    parts = zip(_sine(r, lost), _cosine(r, lost), strict=True)
    (up, down), (up_low, down_low) = ((where(odd, c, s), where(odd, s, c)) for s, c in parts)
    near = op("div", up, down)
    value = op("add", near, op("div", op("sub", up_low, op("mul", near, down_low)), down))
    return _finite(x, _signed(value, op("xor", op("shl", quadrant, 31), bits(x))))


def _arc(t: Expr) -> tuple[Expr, Expr]:
    """atan(t) for 0 <= t <= 1, as the angle of the nearest eighth but the first, and the rest."""
    step = op("rint", op("mul", t, float(STEPS)))
    step = where(op("lt", step, 2.0), 0.0, step)
    near = op("mul", step, 1 / STEPS)
    u = op("div", op("sub", t, near), op("add", op("mul", t, near), 1.0))
    square = op("mul", u, u)
    rest = mad(op("mul", square, u), poly(square, ATAN), u)
    index = cast(step, dt.int32)
    base = pick([const(angle, dt.float32) for angle in ANGLES], index)
    lost = pick([const(a - b, dt.float32) for a, b in zip(EXACT, ANGLES, strict=True)], index)
    return base, op("add", rest, lost)


def _angle(low: Expr, high: Expr, steep: Expr) -> Expr:
    """atan(low / high) for 0 <= low <= high, or pi/2 less that where `steep`."""
    empty = op("eq", high, 0.0)
    ratio = op("div", low, where(empty, 1.0, high))
    ratio = where(op("eq", low, inf), 1.0, ratio)
    base, rest = _arc(where(is_nan(ratio), 0.0, ratio))
    head, lost = sum_pair(const(HALF_PI, dt.float32), op("neg", base))
    across = op("sub", head, op("sub", op("sub", rest, HALF_PI_LOW), lost))
    return where(steep, across, op("add", base, rest))


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y). Both are scaled where their quotient might not be one."""
    wide, tall = op("abs", x), op("abs", y)
    steep = op("lt", wide, tall)
    low, high = where(steep, wide, tall), where(steep, tall, wide)
    factor = where(op("lt", 2.0**60, high), const(2.0**-60, dt.float32), 1.0)
    factor = where(op("lt", high, 2.0**-60), 2.0**60, factor)
    angle = _angle(op("mul", low, factor), op("mul", high, factor), steep)
    left = op("ne", op("and", bits(x), SIGN), 0)
    beyond = op("sub", 2 * HALF_PI, op("sub", angle, 2 * HALF_PI_LOW))
    angle = where(left, beyond, angle)
    return where(op("or", is_nan(x), is_nan(y)), nan, op("copysign", angle, y))


def atan(x: Expr) -> Expr:
    """The inverse tangent."""
    return atan2(x, const(1.0, dt.float32))


def _arcsine(size: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """For 0 <= size <= 1: whether it is below 1/2; asin(u) = u + v + tail for u, v = size, 0 there,
    else u + v = sqrt((1 - size) / 2)."""
    below = op("lt", size, 0.5)
    half = op("mul", op("sub", 1.0, size), 0.5)
    square = where(below, op("mul", size, size), half)
    root = op("sqrt", half)
    u = where(below, size, high_part(root))
    rest = op("div", op("sub", half, op("mul", u, u)), op("add", root, u))
    v = where(op("or", below, op("eq", root, 0.0)), 0.0, rest)
    tail = op("mul", op("mul", where(below, size, root), square), poly(square, ASIN))
    return below, u, v, tail


def asin(x: Expr) -> Expr:
    """The inverse sine: from 1/2 on, pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    size = op("abs", x)
    below, u, v, tail = _arcsine(size)
    rest = op("add", v, tail)
    twice = op("sub", op("add", rest, rest), HALF_PI_LOW)
    far = op("sub", op("sub", HALF_PI, op("add", u, u)), twice)
    value = op("copysign", where(below, op("add", u, rest), far), x)
    return where(op("le", size, 1.0), value, nan)


def acos(x: Expr) -> Expr:
    """The inverse cosine."""
    size = op("abs", x)
    below, u, v, tail = _arcsine(size)
    rest = op("add", v, tail)
    sine = op("copysign", op("add", u, rest), x)
    middle = op("sub", HALF_PI, op("sub", sine, HALF_PI_LOW))
    twice = op("add", op("add", u, u), op("add", rest, rest))
    left = op("sub", 2 * HALF_PI, op("sub", twice, 2 * HALF_PI_LOW))
    value = where(below, middle, where(op("lt", x, 0.0), left, twice))
    return where(op("le", size, 1.0), value, nan)


TRIG: Final[dict[str, Callable[..., Expr]]] = {
    "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan, "atan2": atan2,
}  # fmt: skip
"""Function -> rewrite of its float32 arguments."""

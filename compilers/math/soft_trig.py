"""float64 circular functions in target ops.

Up to 2**20 the angle is reduced with pi/2 in three parts; beyond, its mantissa is multiplied with
those bits of 2/pi that matter (Payne and Hanek, "Radian reduction for trigonometric
functions", 1983).
"""

from __future__ import annotations

from math import atan as host_atan
from math import factorial, inf, pi

from compilers import dtype as dt
from compilers.expr import const
from compilers.ir import Expr
from compilers.math.build import bitcast, bits, cast, is_nan, mad, op, pick, poly, where

NEAR = 2.0**20
TWO_OVER_PI = 2 / pi
HALF_PI = (float.fromhex("0x1.921fb54400000p+0"), float.fromhex("0x1.0b4611a600000p-34"),
           float.fromhex("0x1.3198a2e037073p-69"))  # fmt: skip
"""pi/2 in 33 bits, the next 33, and the next 53."""
HALF_PI_LOW = 6.123233995736766e-17
"""pi/2 less its float64."""
SIN = tuple((-1) ** (n + 1) / factorial(2 * n + 3) for n in range(8))
COS = tuple((-1) ** n / factorial(2 * n + 4) for n in range(7))
"""(sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2."""
ATAN_STEPS = 8
ATAN = tuple((-1) ** (n + 1) / (2 * n + 3) for n in range(8))
"""(atan(u) - u) / u**3 in u**2."""
WORD = 64
TABLE_WORDS = 22
_PI_BITS = TABLE_WORDS * WORD + 32


def _arctan_inverse(n: int, unit: int) -> int:
    """unit * atan(1 / n), by its series."""
    total, term, sign = 0, unit // n, 1
    for k in range(1, 2 * unit.bit_length(), 2):
        total += sign * (term // k)
        term, sign = term // (n * n), -sign
    return total


def _two_over_pi_words() -> tuple[int, ...]:
    """A word of zeros, then the binary digits of 2/pi. # src: Machin's formula for pi."""
    unit = 1 << (2 * _PI_BITS)
    circle = 4 * (4 * _arctan_inverse(5, unit) - _arctan_inverse(239, unit))
    digits = (2 * unit << (TABLE_WORDS * WORD)) // circle
    mask = (1 << WORD) - 1
    words = [digits >> WORD * (TABLE_WORDS - 1 - i) & mask for i in range(TABLE_WORDS)]
    return (0, *words)


TABLE = _two_over_pi_words()


def _high_product(a: Expr, b: Expr) -> Expr:
    """The upper 64 bits of a 64 x 64 bit product."""
    a_low, a_high = op("and", a, 0xFFFFFFFF), op("shr", a, 32)
    b_low, b_high = op("and", b, 0xFFFFFFFF), op("shr", b, 32)
    cross = op("add", op("mul", a_high, b_low), op("shr", op("mul", a_low, b_low), 32))
    more = op("add", op("mul", a_low, b_high), op("and", cross, 0xFFFFFFFF))
    upper = op("add", op("mul", a_high, b_high), op("shr", cross, 32))
    return op("add", upper, op("shr", more, 32))


def _far(x: Expr) -> tuple[Expr, Expr]:
    """The quadrant's word and the remainder of x >= 2**20 (anything for infinity and NaN)."""
    word = bits(x)
    exponent = op("sub", op("and", op("shr", word, 52), 0x7FF), 1075)
    mantissa = op("or", op("and", word, (1 << 52) - 1), 1 << 52)
    start = op("and", op("add", exponent, WORD - 2), 0x7FF)
    at, shift = op("shr", start, 6), op("and", start, 63)
    table = [const(word, dt.uint64) for word in (*TABLE, 0, 0, 0)]
    held = [pick(table[i : i + len(TABLE)], at) for i in range(4)]
    back = op("sub", 63, shift)
    window = [
        op("or", op("shl", held[i], shift), op("shr", op("shr", held[i + 1], 1), back))
        for i in range(3)
    ]
    low = op("mul", mantissa, window[1])
    middle = op("add", low, _high_product(mantissa, window[2]))
    carry = cast(op("lt", middle, low), dt.uint64)
    top = op("add", op("mul", mantissa, window[0]), _high_product(mantissa, window[1]))
    top = op("add", top, carry)
    quadrant = op("shr", op("add", top, 1 << 61), 62)
    fraction = bitcast(op("or", op("shl", top, 2), op("shr", middle, 62)), dt.int64)
    a = cast(op("shr", fraction, 32), dt.float64)
    b = cast(op("and", fraction, 0xFFFFFFFF), dt.float64)
    c = cast(op("shr", op("shl", middle, 2), 32), dt.float64)
    turns = op("add", mad(a, 2.0**-32, op("mul", b, 2.0**-64)), op("mul", c, 2.0**-96))
    rest = mad(turns, pi / 2, op("mul", turns, HALF_PI_LOW))
    return quadrant, rest


def _reduced(x: Expr) -> tuple[Expr, Expr]:
    """Of |x|: the quadrant's word and the angle left in it; NaN for infinity."""
    size = op("abs", x)
    near = op("lt", size, NEAR)
    inside = where(near, size, 0.0)
    n = op("rint", op("mul", inside, TWO_OVER_PI))
    rest = inside
    for part in HALF_PI:
        rest = mad(n, -part, rest)
    far_quadrant, far_rest = _far(size)
    quadrant = where(near, cast(n, dt.uint64), far_quadrant)
    rest = where(near, rest, far_rest)
    return quadrant, where(op("lt", size, inf), rest, op("sub", x, x))


def _sine(r: Expr) -> Expr:
    square = op("mul", r, r)
    return mad(op("mul", square, r), poly(square, SIN), r)


def _cosine(r: Expr) -> Expr:
    """The rounding of 1 - r**2 / 2 is added back."""
    square = op("mul", r, r)
    half = op("mul", square, 0.5)
    whole = op("sub", 1.0, half)
    lost = op("sub", op("sub", 1.0, whole), half)
    return op("add", whole, mad(op("mul", square, square), poly(square, COS), lost))


def _bit(quadrant: Expr, value: int) -> Expr:
    return op("ne", op("and", quadrant, value), 0)


def _wave(x: Expr, ahead: int) -> Expr:
    quadrant, r = _reduced(x)
    quadrant = op("add", quadrant, ahead)
    value = where(_bit(quadrant, 1), _cosine(r), _sine(r))
    return where(_bit(quadrant, 2), op("neg", value), value)


def sin(x: Expr) -> Expr:
    """The sine."""
    value = _wave(x, 0)
    negative = op("lt", x, 0.0)
    return where(op("eq", x, 0.0), x, where(negative, op("neg", value), value))


def cos(x: Expr) -> Expr:
    """The cosine."""
    return _wave(x, 1)


def tan(x: Expr) -> Expr:
    """The tangent."""
    quadrant, r = _reduced(x)
    s, c, odd = _sine(r), _cosine(r), _bit(quadrant, 1)
    value = op("div", where(odd, c, s), where(odd, op("neg", s), c))
    value = where(op("lt", x, 0.0), op("neg", value), value)
    return where(op("eq", x, 0.0), x, value)


def _arc(t: Expr) -> tuple[Expr, Expr]:
    """atan(t) for 0 <= t <= 1, as the angle of the nearest eighth and the rest."""
    step = op("rint", op("mul", t, float(ATAN_STEPS)))
    near = op("mul", step, 1 / ATAN_STEPS)
    u = op("div", op("sub", t, near), mad(t, near, 1.0))
    square = op("mul", u, u)
    rest = mad(op("mul", square, u), poly(square, ATAN), u)
    base = const(0.0, dt.float64)
    for number in range(1, ATAN_STEPS + 1):
        here = op("eq", step, float(number))
        base = where(here, const(host_atan(number / ATAN_STEPS), dt.float64), base)
    return base, rest


def _angle(low: Expr, high: Expr, steep: Expr) -> Expr:
    """atan(low / high) for 0 <= low <= high, or pi/2 less that where `steep`."""
    empty = op("eq", high, 0.0)
    ratio = op("div", low, where(empty, 1.0, high))
    ratio = where(op("eq", low, inf), 1.0, ratio)
    base, rest = _arc(ratio)
    across = op("sub", op("sub", pi / 2, base), op("sub", rest, HALF_PI_LOW))
    return where(steep, across, op("add", base, rest))


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y)."""
    wide, tall = op("abs", x), op("abs", y)
    steep = op("lt", wide, tall)
    angle = _angle(where(steep, wide, tall), where(steep, tall, wide), steep)
    left = op("ne", op("shr", bits(x), 63), 0)
    angle = where(left, op("sub", pi, op("sub", angle, 2 * HALF_PI_LOW)), angle)
    angle = where(op("or", is_nan(x), is_nan(y)), op("add", x, y), angle)
    return op("copysign", angle, y)


def atan(x: Expr) -> Expr:
    """The inverse tangent."""
    return atan2(x, const(1.0, dt.float64))


def _other_side(x: Expr) -> Expr:
    """sqrt(1 - x**2)."""
    return op("sqrt", op("mul", op("sub", 1.0, x), op("add", 1.0, x)))


def asin(x: Expr) -> Expr:
    """The inverse sine."""
    return atan2(x, _other_side(x))


def acos(x: Expr) -> Expr:
    """The inverse cosine."""
    return atan2(_other_side(x), x)

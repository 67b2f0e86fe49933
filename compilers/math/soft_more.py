"""float64 hyperbolic functions, erf, hypot and fmod in target ops."""

from __future__ import annotations

from math import exp as host_exp
from math import inf, nan, pi, sqrt

from compilers import dtype as dt
from compilers.ir import Expr
from compilers.math.build import bitcast, cast, is_nan, mad, op, poly, where
from compilers.math.soft_exp import BIAS, MANTISSA, exp, expm1, log, log1p, power_of_two

LN2 = 0.6931471805599453
LARGE = 2.0**28
"""From here on x + sqrt(x**2 +- 1) is 2 x."""
HUGE = 700.0
TANH_END = 22.0
ERF_NEAR, ERF_END = 1.5, 6.0
ERF_TERMS, ERF_POINTS, ERF_STEP = 36, 12, 0.5


def _erf_series() -> tuple[float, ...]:
    """erf(x) exp(x**2) / x in x**2: all terms positive, without cancellation."""
    terms, value = [], 2 / sqrt(pi)
    for n in range(ERF_TERMS):
        terms.append(value)
        value *= 2 / (2 * n + 3)
    return tuple(terms)


ERF = _erf_series()
FMOD_BITS, FMOD_STEPS, FMOD_SINGLE_STEPS = 50, 42, 6
"""What one step reduces, and steps for the largest distance of two exponents: 2,098 bits, and 277
of float32."""
TINY, TINY_LIFT = 2.0**-1022, 54


def _odd(x: Expr, of_size: Expr) -> Expr:
    """A function of |x| with the sign of x; NaN stays."""
    return where(is_nan(x), x, op("copysign", of_size, x))


def sinh(x: Expr) -> Expr:
    """(t + t / (t + 1)) / 2 with t = e**|x| - 1; a square where e**|x| would overflow."""
    size = op("abs", x)
    t = expm1(size)
    plain = op("mul", op("add", t, op("div", t, op("add", t, 1.0))), 0.5)
    half = exp(op("mul", size, 0.5))
    far = op("mul", op("mul", half, 0.5), half)
    return _odd(x, where(op("lt", size, HUGE), plain, far))


def cosh(x: Expr) -> Expr:
    """(e**|x| + e**-|x|) / 2."""
    size = op("abs", x)
    grown = exp(size)
    plain = op("mul", op("add", grown, op("div", 1.0, grown)), 0.5)
    half = exp(op("mul", size, 0.5))
    far = op("mul", op("mul", half, 0.5), half)
    return where(op("lt", size, HUGE), plain, far)


def tanh(x: Expr) -> Expr:
    """t / (t + 2) with t = e**2|x| - 1."""
    size = op("abs", x)
    inside = where(op("lt", size, TANH_END), size, TANH_END)
    t = expm1(op("add", inside, inside))
    return _odd(x, op("div", t, op("add", t, 2.0)))


def asinh(x: Expr) -> Expr:
    """log1p(|x| + x**2 / (1 + sqrt(x**2 + 1)))."""
    size = op("abs", x)
    square = op("mul", size, size)
    near = op("div", square, op("add", op("sqrt", op("add", square, 1.0)), 1.0))
    value = where(op("lt", size, LARGE), log1p(op("add", size, near)), op("add", log(size), LN2))
    return _odd(x, value)


def acosh(x: Expr) -> Expr:
    """log1p(t + sqrt(2 t + t**2)) with t = x - 1."""
    t = op("sub", x, 1.0)
    root = op("sqrt", mad(t, t, op("add", t, t)))
    value = where(op("lt", x, LARGE), log1p(op("add", t, root)), op("add", log(x), LN2))
    return where(op("lt", x, 1.0), nan, value)


def atanh(x: Expr) -> Expr:
    """log1p(2 |x| / (1 - |x|)) / 2."""
    size = op("abs", x)
    ratio = op("div", op("add", size, size), op("sub", 1.0, size))
    value = op("mul", log1p(ratio), 0.5)
    return where(op("lt", 1.0, size), nan, _odd(x, value))


def _erf_rest(x: Expr, decay: Expr) -> Expr:
    """1 - erf(x) from 1.5 on: the trapezoidal rule for an integral of it, and its one pole's part.

    # src: Matta and Reichl, "Uniform computation of the error function", 1971
    """
    square = op("mul", x, x)
    total = op("div", 0.5, square)
    for k in range(1, ERF_POINTS):
        place = (k * ERF_STEP) ** 2
        total = op("add", total, op("div", host_exp(-place), op("add", square, place)))
    value = op("mul", op("mul", x, op("mul", decay, 2 * ERF_STEP / pi)), total)
    return op("sub", value, op("div", 2.0, expm1(op("mul", x, 2 * pi / ERF_STEP))))


def erf(x: Expr) -> Expr:
    """x exp(-x**2) times the series near 0; the rounding error of the square is added back."""
    size = op("abs", x)
    inside = where(op("lt", size, ERF_END), size, ERF_END)
    square = op("mul", inside, inside)
    lost = op("fma", inside, inside, op("neg", square))
    decay = exp(op("neg", square))
    decay = mad(decay, op("neg", lost), decay)
    close = where(op("lt", size, ERF_NEAR), square, 1.0)
    near = op("mul", op("mul", inside, poly(close, ERF)), decay)
    outer = where(op("lt", size, ERF_NEAR), ERF_NEAR, inside)
    far = op("sub", 1.0, _erf_rest(outer, decay))
    value = where(op("lt", size, ERF_NEAR), near, far)
    return _odd(x, where(op("lt", size, ERF_END), value, 1.0))


def hypot(x: Expr, y: Expr) -> Expr:
    """sqrt(x**2 + y**2), scaled by a power of two where squares leave the range."""
    a, b = op("abs", x), op("abs", y)
    swap = op("lt", a, b)
    large, small = where(swap, b, a), where(swap, a, b)
    factor = where(op("lt", 2.0**500, large), 2.0**-600, where(op("lt", large, 2.0**-400),
                   op("add", op("mul", large, 0.0), 2.0**600), 1.0))  # fmt: skip
    back = where(op("lt", 2.0**500, large), 2.0**600, where(op("lt", large, 2.0**-400),
                 op("add", op("mul", large, 0.0), 2.0**-600), 1.0))  # fmt: skip
    p, q = op("mul", large, factor), op("mul", small, factor)
    root = op("mul", op("sqrt", mad(p, p, op("mul", q, q))), back)
    root = where(op("or", is_nan(x), is_nan(y)), nan, root)
    return where(op("or", op("eq", a, inf), op("eq", b, inf)), inf, root)


def _parts(x: Expr) -> tuple[Expr, Expr]:
    """int64 e and m from 1 to 2 with x = 2**e m, for finite x > 0."""
    small = op("lt", x, TINY)
    word = bitcast(where(small, op("mul", x, 2.0**TINY_LIFT), x), dt.int64)
    e = op("sub", op("shr", word, MANTISSA), BIAS)
    one = BIAS << MANTISSA
    m = bitcast(op("or", op("and", word, (1 << MANTISSA) - 1), one), dt.float64)
    return where(small, op("sub", e, TINY_LIFT), e), m


def fmod(x: Expr, y: Expr, steps: int = FMOD_STEPS) -> Expr:
    """C's remainder, exact: the mantissa of x is shifted up to 50 bits at a time, and after each
    shift reduced to at most half of that of y by a multiple that fma subtracts exactly."""
    a, b = op("abs", x), op("abs", y)
    usual = op("and", op("lt", 0.0, b), op("and", op("lt", b, inf), op("le", b, a)))
    usual = op("and", usual, op("lt", a, inf))
    ea, rest = _parts(where(usual, a, 1.0))
    eb, whole = _parts(where(usual, b, 1.0))
    inverse = op("div", 1.0, whole)
    left = op("sub", ea, eb)
    for _ in range(steps):
        rest = mad(op("rint", op("mul", rest, inverse)), op("neg", whole), rest)
        step = where(op("lt", left, FMOD_BITS), left, FMOD_BITS)
        left = op("sub", left, step)
        rest = op("mul", rest, power_of_two(step))
    rest = mad(op("rint", op("mul", rest, inverse)), op("neg", whole), rest)
    rest = where(op("lt", rest, 0.0), op("add", rest, whole), rest)
    half = op("shr", eb, 1)
    rest = op("mul", op("mul", rest, power_of_two(half)), power_of_two(op("sub", eb, half)))
    bad = op("or", op("eq", a, inf), op("eq", b, 0.0))
    value = where(usual, op("copysign", rest, x), where(bad, nan, x))
    return where(op("or", is_nan(x), is_nan(y)), cast(op("add", x, y), dt.float64), value)

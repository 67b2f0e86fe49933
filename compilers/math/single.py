"""Functions of float32 in float32, for devices that have no float64 and no good ones of their own.

Made of the polynomials of `compilers/math/poly.py`: within 8 units in the last place; special cases
as in C Annex F.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log10, nan
from typing import Final

from compilers.expr import const
from compilers.ir import Expr
from compilers.math.build import is_nan, mad, op, where
from compilers.math.poly import exp, expm1, log, log1p, log2
from compilers.math.single_power import fmod, power
from compilers.math.single_trig import TRIG

LN2: Final = 0.6931471805599453
LARGE: Final = 2.0**13
"""From here on x + sqrt(x**2 +- 1) is 2 x."""
HUGE: Final = 80.0
"""Below it e**x does not overflow."""


def _odd(x: Expr, of_size: Expr) -> Expr:
    """A function of |x| with the sign of x; NaN stays."""
    return where(is_nan(x), x, op("copysign", of_size, x))


def _far(size: Expr) -> Expr:
    """e**size / 2, also where e**size would overflow."""
    half = exp(op("mul", size, 0.5))
    return op("mul", op("mul", half, 0.5), half)


def log_10(x: Expr) -> Expr:
    """The decimal logarithm."""
    return op("mul", log2(x), log10(2))


def sinh(x: Expr) -> Expr:
    """(t + t / (t + 1)) / 2 with t = e**|x| - 1."""
    size = op("abs", x)
    t = expm1(size)
    plain = op("mul", op("add", t, op("div", t, op("add", t, 1.0))), 0.5)
    return _odd(x, where(op("lt", size, HUGE), plain, _far(size)))


def cosh(x: Expr) -> Expr:
    """(e**|x| + e**-|x|) / 2."""
    size = op("abs", x)
    grown = exp(size)
    plain = op("mul", op("add", grown, op("div", 1.0, grown)), 0.5)
    return where(op("lt", size, HUGE), plain, _far(size))


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


def hypot(x: Expr, y: Expr) -> Expr:
    """Without overflow of the squares; an infinity wins over NaN."""
    a, b = op("abs", x), op("abs", y)
    less = op("lt", a, b)
    large, small = where(less, b, a), where(less, a, b)
    ratio = op("div", small, large)
    found = op("mul", large, op("sqrt", op("add", op("mul", ratio, ratio), 1.0)))
    found = where(op("eq", large, 0.0), large, found)
    found = where(op("or", is_nan(a), is_nan(b)), op("add", a, b), found)
    return where(op("or", op("eq", a, inf), op("eq", b, inf)), const(inf, x.dtype), found)


SINGLES: Final[dict[str, Callable[..., Expr]]] = {
    "log10": log_10, "sinh": sinh, "cosh": cosh, "asinh": asinh, "acosh": acosh, "atanh": atanh,
    "hypot": hypot, **TRIG,
}  # fmt: skip
"""Function -> rewrite of its float32 arguments."""
CALLED: Final[dict[str, Callable[..., Expr]]] = {"fmodf": fmod, "powf": power}
"""The C library's functions that other ops are made of -> rewrite of their arguments."""
WIDE: Final[dict[str, Callable[..., Expr]]] = {"fmodf": fmod, "fmod": fmod}
"""Those of them that need more than float64: one rounding of a product and a sum."""

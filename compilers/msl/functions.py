"""Functions of float32 for a GPU without float64: MSL's own, and the few that it lacks.

MSL promises an accuracy for its own (with fast math off: 4 ulp for exp and log, 6 for tan, 16 for
pow). The others are made of these.
# src: Metal Shading Language Specification 3.1, 7.4 "Numerical Accuracy", 6.5 "Math Functions"
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt
from typing import Final

from compilers.ir import Expr
from compilers.math.build import is_nan, op, poly, where
from compilers.math.single import hypot

NATIVE: Final = frozenset({
    "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "fmod",
})  # fmt: skip
"""Of MSL by the same name. `pow` is, too, after the exponents that one op does exactly."""
SURE_EXPM1: Final = 17.0
"""From here on exp(x) - 1 is exp(x), rounded."""
SMALL_ERF: Final = 0.5
ERF: Final = tuple(
    2 / sqrt(pi) * one for one in (1, -1 / 3, 1 / 10, -1 / 42, 1 / 216, -1 / 1320, 1 / 9360)
)
"""erf(x) / x in x**2: its Maclaurin series, whose next term is below 1e-9 for |x| < 1/2."""
ERFC: Final = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
    1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
"""log(erfc(x) / t) + x**2 in t = 1 / (1 + x / 2), within 1.2e-7 of erfc(x).
# src: Press et al., Numerical Recipes, 6.2, erfcc"""


def log1p(x: Expr) -> Expr:
    """The rounding of 1 + x is divided out. # src: W. Kahan, in HP-15C Advanced Functions"""
    whole = op("add", 1.0, x)
    rest = op("sub", whole, 1.0)
    found = op("mul", op("log", whole), op("div", x, rest))
    found = where(op("eq", rest, 0.0), x, found)
    return where(op("eq", x, inf), x, found)


def expm1(x: Expr) -> Expr:
    """The same of exp(x)."""
    whole = op("exp", x)
    rest = op("sub", whole, 1.0)
    found = op("mul", rest, op("div", x, op("log", whole)))
    found = where(op("eq", rest, -1.0), rest, found)
    found = where(op("lt", SURE_EXPM1, x), whole, found)
    return where(op("eq", whole, 1.0), x, found)


def erf(x: Expr) -> Expr:
    """A series for small x, else 1 - erfc(x)."""
    a, square = op("abs", x), op("mul", x, x)
    t = op("div", 1.0, op("add", op("mul", a, 0.5), 1.0))
    rest = op("mul", t, op("exp", op("sub", poly(t, ERFC), square)))
    large = op("copysign", op("sub", 1.0, rest), x)
    small = op("mul", x, poly(square, ERF))
    found = where(op("lt", a, SMALL_ERF), small, large)
    return where(is_nan(x), x, found)


MADE: Final[dict[str, Callable[..., Expr]]] = {
    "log1p": log1p, "expm1": expm1, "hypot": hypot, "erf": erf,
}  # fmt: skip

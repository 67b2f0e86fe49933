"""The special cases of elementwise functions, as the standard (2024.12) lists them.

A case is (inputs..., expected). Where the standard says "an implementation-dependent
approximation", a few units in the last place are allowed; zeros must have the right sign.
"""

from __future__ import annotations

from math import e, inf, nan, pi

ODD = [(nan, nan), (0.0, 0.0), (-0.0, -0.0)]
ROUND = [*ODD, (inf, inf), (-inf, -inf), (3.0, 3.0), (-7.0, -7.0)]

UNARY: dict[str, list[tuple[float, float]]] = {
    "abs": [(nan, nan), (-0.0, 0.0), (-inf, inf), (-2.5, 2.5)],
    "acos": [(nan, nan), (1.5, nan), (-1.5, nan), (1.0, 0.0), (0.0, pi / 2)],
    "acosh": [(nan, nan), (0.5, nan), (1.0, 0.0), (inf, inf)],
    "asin": [*ODD, (1.5, nan), (-1.5, nan), (1.0, pi / 2)],
    "asinh": [*ODD, (inf, inf), (-inf, -inf)],
    "atan": [*ODD, (inf, pi / 2), (-inf, -pi / 2)],
    "atanh": [*ODD, (-1.5, nan), (1.5, nan), (-1.0, -inf), (1.0, inf)],
    "ceil": [*ROUND, (-0.5, -0.0), (1.25, 2.0)],
    "cos": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "cosh": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf)],
    "exp": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (1.0, e)],
    "expm1": [*ODD, (inf, inf), (-inf, -1.0), (1.0, e - 1)],
    "floor": [*ROUND, (-0.5, -1.0), (0.5, 0.0), (1.75, 1.0)],
    "log": [(nan, nan), (-1.0, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "log1p": [*ODD, (-2.0, nan), (-1.0, -inf), (inf, inf)],
    "log2": [
        (nan, nan),
        (-1.0, nan),
        (0.0, -inf),
        (-0.0, -inf),
        (1.0, 0.0),
        (inf, inf),
        (8.0, 3.0),
    ],
    "log10": [(nan, nan), (-1.0, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)],
    "negative": [(nan, nan), (0.0, -0.0), (-0.0, 0.0), (inf, -inf)],
    "positive": [(nan, nan), (-0.0, -0.0), (-inf, -inf)],
    "reciprocal": [(nan, nan), (inf, 0.0), (-inf, -0.0), (0.0, inf), (-0.0, -inf), (4.0, 0.25)],
    "round": [*ROUND, (0.5, 0.0), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0), (-2.5, -2.0)],
    "sign": [(nan, nan), (0.0, 0.0), (-0.0, 0.0), (inf, 1.0), (-3.0, -1.0)],
    "sin": [*ODD, (inf, nan), (-inf, nan)],
    "sinh": [*ODD, (inf, inf), (-inf, -inf)],
    "sqrt": [*ODD, (-1.0, nan), (-inf, nan), (inf, inf), (6.25, 2.5)],
    "square": [(nan, nan), (-0.0, 0.0), (-inf, inf), (-1.5, 2.25)],
    "tan": [*ODD, (inf, nan), (-inf, nan)],
    "tanh": [*ODD, (inf, 1.0), (-inf, -1.0)],
    "trunc": [*ROUND, (-0.5, -0.0), (0.5, 0.0), (-1.75, -1.0)],
    "erf": [*ODD, (inf, 1.0), (-inf, -1.0)],
    "exp2": [(nan, nan), (0.0, 1.0), (inf, inf), (-inf, 0.0), (3.0, 8.0), (-1.0, 0.5)],
}

PREDICATES: dict[str, list[tuple[float, bool]]] = {
    "isfinite": [(nan, False), (inf, False), (-inf, False), (0.0, True), (-2.0, True)],
    "isinf": [(nan, False), (inf, True), (-inf, True), (0.0, False), (-2.0, False)],
    "isnan": [(nan, True), (inf, False), (-inf, False), (0.0, False), (-2.0, False)],
    "signbit": [(0.0, False), (-0.0, True), (inf, False), (-inf, True), (-nan, True), (nan, False)],
}

_NANS = [(nan, 1.0, nan), (1.0, nan, nan), (nan, nan, nan)]

BINARY: dict[str, list[tuple[float, float, float]]] = {
    "add": [
        *_NANS, (inf, -inf, nan), (-inf, inf, nan), (inf, inf, inf), (-inf, -inf, -inf),
        (inf, 1.0, inf), (1.0, -inf, -inf), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0),
        (0.0, -0.0, 0.0), (2.0, -2.0, 0.0), (-0.0, 3.0, 3.0),
    ],
    "atan2": [
        *_NANS, (1.0, 0.0, pi / 2), (1.0, -0.0, pi / 2), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0),
        (0.0, -0.0, pi), (0.0, -1.0, pi), (-0.0, 1.0, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -pi),
        (-0.0, -1.0, -pi), (-1.0, 0.0, -pi / 2), (-1.0, -0.0, -pi / 2), (1.0, inf, 0.0),
        (1.0, -inf, pi), (-1.0, inf, -0.0), (-1.0, -inf, -pi), (inf, 1.0, pi / 2),
        (-inf, 1.0, -pi / 2), (inf, inf, pi / 4), (inf, -inf, 3 * pi / 4), (-inf, inf, -pi / 4),
        (-inf, -inf, -3 * pi / 4),
    ],
    "copysign": [
        (1.0, -0.0, -1.0), (-1.0, 0.0, 1.0), (inf, -2.0, -inf), (0.0, -1.0, -0.0), (nan, 1.0, nan),
    ],
    "divide": [
        *_NANS, (inf, inf, nan), (inf, -inf, nan), (0.0, 0.0, nan), (-0.0, 0.0, nan),
        (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, -0.0), (-0.0, -1.0, 0.0), (1.0, 0.0, inf),
        (1.0, -0.0, -inf), (-1.0, 0.0, -inf), (-1.0, -0.0, inf), (inf, 2.0, inf), (inf, -2.0, -inf),
        (-inf, 2.0, -inf), (-inf, -2.0, inf), (2.0, inf, 0.0), (2.0, -inf, -0.0), (-2.0, inf, -0.0),
        (-2.0, -inf, 0.0), (1.0, 4.0, 0.25),
    ],
    "floor_divide": [
        *_NANS, (inf, inf, nan), (0.0, 0.0, nan), (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0),
        (1.0, 0.0, inf), (1.0, -0.0, -inf), (-1.0, 0.0, -inf), (-1.0, -0.0, inf), (2.0, inf, 0.0),
        (-7.0, 2.0, -4.0), (7.0, 2.0, 3.0), (7.0, -2.0, -4.0),
    ],
    "hypot": [
        (inf, nan, inf), (nan, -inf, inf), (inf, 1.0, inf), (1.0, inf, inf), (nan, 1.0, nan),
        (1.0, nan, nan), (3.0, 4.0, 5.0), (-0.0, -0.0, 0.0),
    ],
    "logaddexp": [*_NANS, (inf, 1.0, inf), (-inf, -inf, -inf), (inf, inf, inf), (-inf, 2.0, 2.0)],
    "maximum": [*_NANS, (1.0, 2.0, 2.0), (-inf, 3.0, 3.0), (inf, -inf, inf)],
    "minimum": [*_NANS, (1.0, 2.0, 1.0), (-inf, 3.0, -inf), (inf, -inf, -inf)],
    "multiply": [
        *_NANS, (inf, 0.0, nan), (-0.0, inf, nan), (inf, -inf, -inf), (-inf, -inf, inf),
        (inf, -2.0, -inf), (2.0, inf, inf), (0.0, -2.0, -0.0), (-0.0, -2.0, 0.0), (1.5, 2.0, 3.0),
    ],
    "nextafter": [(nan, 1.0, nan), (1.0, nan, nan), (-0.0, 0.0, 0.0), (0.0, -0.0, -0.0),
                  (2.0, 2.0, 2.0)],
    "pow": [
        (1.0, nan, 1.0), (1.0, inf, 1.0), (2.0, nan, nan), (nan, 0.0, 1.0), (nan, -0.0, 1.0),
        (2.0, 0.0, 1.0), (nan, 2.0, nan), (2.0, inf, inf), (2.0, -inf, 0.0), (-1.0, inf, 1.0),
        (-1.0, -inf, 1.0), (0.5, inf, 0.0), (0.5, -inf, inf), (inf, 2.0, inf), (inf, -2.0, 0.0),
        (-inf, 3.0, -inf), (-inf, 2.0, inf), (-inf, -3.0, -0.0), (-inf, -2.0, 0.0),
        (0.0, 2.0, 0.0), (0.0, -2.0, inf), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, -3.0, -inf),
        (-0.0, -2.0, inf), (-2.0, 0.5, nan), (-2.0, 3.0, -8.0),
    ],
    "remainder": [
        *_NANS, (inf, 1.0, nan), (-inf, 2.0, nan), (0.0, 0.0, nan), (-0.0, 0.0, nan),
        (0.0, 1.0, 0.0), (-0.0, 1.0, 0.0), (0.0, -1.0, -0.0), (-0.0, -1.0, -0.0), (1.0, 0.0, nan),
        (1.0, inf, 1.0), (1.0, -inf, -inf), (-1.0, inf, inf), (-1.0, -inf, -1.0), (-7.0, 3.0, 2.0),
        (7.0, -3.0, -2.0), (6.0, 3.0, 0.0), (-6.0, -3.0, -0.0),
    ],
    "subtract": [
        *_NANS, (inf, inf, nan), (inf, -inf, inf), (1.0, inf, -inf), (0.0, 0.0, 0.0),
        (-0.0, 0.0, -0.0), (0.0, -0.0, 0.0), (5.0, 2.0, 3.0),
    ],
}  # fmt: skip

COMPARISONS: dict[str, list[tuple[float, float, bool]]] = {
    "equal": [(nan, nan, False), (nan, 1.0, False), (inf, inf, True), (-inf, inf, False),
              (0.0, -0.0, True), (2.0, 2.0, True)],
    "not_equal": [(nan, nan, True), (1.0, nan, True), (inf, inf, False), (0.0, -0.0, False)],
    "less": [(nan, 1.0, False), (1.0, nan, False), (-inf, 1.0, True), (-0.0, 0.0, False)],
    "less_equal": [(nan, nan, False), (1.0, 1.0, True), (0.0, -0.0, True), (inf, 1.0, False)],
    "greater": [(nan, 1.0, False), (inf, 1.0, True), (0.0, -0.0, False), (2.0, 1.0, True)],
    "greater_equal": [(nan, nan, False), (1.0, 1.0, True), (-0.0, 0.0, True), (1.0, inf, False)],
}  # fmt: skip

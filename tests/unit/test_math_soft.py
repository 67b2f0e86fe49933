"""The software versions of the C library's functions, evaluated in numpy, against numpy's own."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from compilers import dtype as dt
from compilers.ir import Expr
from compilers.math.soft import SOFT
from tests.support import check

Array = np.ndarray[Any, Any]
OPS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "abs": np.abs,
    "neg": np.negative, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift, "lt": np.less, "le": np.less_equal,
    "eq": np.equal, "ne": np.not_equal, "where": np.where,
}  # fmt: skip
SAMPLES = 60
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 3, 1e-310, -1e-310,
                    1e308, -1e308, 1e-17, 0.99999, 1.00001, 5e-324])  # fmt: skip
NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
         "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2", "pow": "power"}  # fmt: skip
RANGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(-740, 700)], "exp2": [(-1070, 1020)], "expm1": [(-50, 700), (-1, 1), (-1e-5, 1e-5)],
    "log": [(0, 1e3), (0.5, 1.5)], "log2": [(0, 1e3), (0.5, 1.5)], "log10": [(0, 1e3), (0.5, 1.5)],
    "log1p": [(-1, 1e3), (-0.5, 0.5), (-1e-9, 1e-9)],
    "sin": [(-10, 10), (-1e6, 1e6), (-1e18, 1e18), (-1e300, 1e300)],
    "cos": [(-10, 10), (-1e6, 1e6), (-1e300, 1e300)],
    "tan": [(-10, 10), (-1e6, 1e6), (-1e300, 1e300)],
    "asin": [(-1, 1)], "acos": [(-1, 1)], "atan": [(-3, 3), (-1e3, 1e3)],
    "sinh": [(-2, 2), (-705, 705)], "cosh": [(-2, 2), (-705, 705)], "tanh": [(-2, 2), (-30, 30)],
    "asinh": [(-2, 2), (-1e9, 1e9)], "acosh": [(1, 3), (1, 1e10)], "atanh": [(-1, 1)],
    "erf": [(-1, 1), (-6, 6)],
}  # fmt: skip
ULPS = 3.0


def _fma(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once."""
    if all(map(math.isfinite, (a, b, c))):
        try:
            return float(Fraction(a) * Fraction(b) + Fraction(c))
        except OverflowError:
            return math.copysign(math.inf, a) * math.copysign(1, b)
    return a * b + c


fma = np.vectorize(_fma, otypes=[np.float64])


def value(expr: Expr, memo: dict[Expr, Array]) -> Array:
    """An expression in numpy."""
    if expr not in memo:
        source = [value(operand, memo) for operand in expr.src]
        memo[expr] = _apply(expr, source)
    return memo[expr]


def _apply(expr: Expr, source: list[Array]) -> Array:
    if expr.op == "const":
        if expr.dtype is dt.int64:
            return np.array(int(expr.arg) & (1 << 64) - 1, np.uint64).view(np.int64)
        return np.array(expr.arg, expr.dtype.storage)
    if expr.op in ("mad", "fma"):
        return fma(*np.broadcast_arrays(*source))
    if expr.op == "cast":
        return source[0].astype(expr.dtype.storage)
    if expr.op == "bitcast":
        return source[0].view(expr.dtype.storage)
    return np.asarray(OPS.get(expr.op, getattr(np, expr.op, None))(*source))


def close(got: Array, want: Array) -> None:
    """Special values and signs alike, others within ULPS."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    units = np.abs(got[finite] - want[finite]) / np.spacing(np.abs(want[finite]))
    check(bool((units <= ULPS).all()), f"{units.max(initial=0)} units")


def expected(name: str, *arguments: Array) -> Array:
    if name == "erf":
        return np.vectorize(math.erf, otypes=[np.float64])(*arguments)
    return np.asarray(getattr(np, NAMES.get(name, name))(*arguments))


@pytest.mark.parametrize("name", RANGES)
def test_one_argument(name: str) -> None:
    random = np.random.default_rng(1)
    ranges = [random.uniform(low, high, SAMPLES) for low, high in RANGES[name]]
    x = np.concatenate([*ranges, SPECIAL])
    with np.errstate(all="ignore"):
        parameter = Expr("param", dt.float64)
        close(value(SOFT[name](parameter), {parameter: x}), expected(name, x))


@pytest.mark.parametrize("name", ["pow", "atan2", "hypot", "fmod"])
def test_two_arguments(name: str) -> None:
    random = np.random.default_rng(2)
    pairs = [random.uniform(-10, 10, (2, SAMPLES)), np.exp(random.uniform(-300, 300, (2, SAMPLES)))]
    pairs.append(np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1))
    x, y = np.concatenate(pairs, axis=1)
    with np.errstate(all="ignore"):
        a, b = Expr("param", dt.float64), Expr("param", dt.float64)
        close(value(SOFT[name](a, b), {a: x, b: y}), expected(name, x, y))


def test_every_function_is_covered() -> None:
    check(set(SOFT) == {*RANGES, "pow", "atan2", "hypot", "fmod"}, "a function without a test")

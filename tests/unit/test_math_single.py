"""float32 functions without float64, evaluated in numpy, against numpy's own in float64.

A compiler may fuse a product into the sum that it is a part of: both ways are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compilers import dtype as dt
from compilers.ir import Expr
from compilers.math.single_power import fmod, power
from compilers.math.single_trig import TRIG
from tests.support import check

Array = np.ndarray[Any, Any]
OPS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "abs": np.abs,
    "neg": np.negative, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift, "lt": np.less, "le": np.less_equal,
    "eq": np.equal, "ne": np.not_equal, "where": np.where, "imod": np.remainder,
}  # fmt: skip
NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}
COUNT = 20_000
ULPS = 2.0
TINY = np.float32(2.0**-126)
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e-40, -1e-40, 1e30, -1e30, 2**24, 2**24 - 1,
     1 - 2**-24, 1 + 2**-23, 2**-24 - 1, 3e38, np.inf, -np.inf, np.nan], np.float32)  # fmt: skip
CLOSE = np.array([16367173.0 * 2.0**72, np.pi / 2, np.pi, 11 * np.pi, 1e5 * np.pi], np.float32)
"""Multiples of pi / 2, or nearly: of float32, the first is the nearest one."""


def evaluated(root: Expr, known: dict[Expr, Array], *, fused: bool) -> Array:
    """An expression in numpy. `fused`: products that are operands of sums are not rounded."""
    exact: dict[Expr, Array] = {}

    def operand(expr: Expr) -> Array:
        return exact[expr] if fused and expr in exact else known[expr].astype(np.float64)

    stack = [root]
    while stack:
        expr = stack[-1]
        inside = (*expr.src, expr.arg) if expr.op == "rarely" else expr.src
        missing = [one for one in inside if one not in known]
        if missing:
            stack += missing
            continue
        stack.pop()
        src = [known[one] for one in inside]
        single = expr.dtype is dt.float32
        if single and expr.op == "mul":
            exact[expr] = np.multiply(*(one.astype(np.float64) for one in src))
        if single and expr.op in ("add", "sub"):
            known[expr] = OPS[expr.op](*map(operand, expr.src)).astype(np.float32)
        else:
            known[expr] = _apply(expr, src, fused=fused)
    return known[root]


def _apply(expr: Expr, src: list[Array], *, fused: bool) -> Array:
    if expr.op == "const":
        return np.array(expr.arg, expr.dtype.storage)
    if expr.op == "mad":
        a, b, c = (one.astype(np.float64) for one in src) if fused else src
        return (a * b + c).astype(np.float32)
    if expr.op == "cast":
        return src[0].astype(expr.dtype.storage)
    if expr.op == "bitcast":
        return src[0].view(expr.dtype.storage)
    if expr.op == "rarely":
        return np.where(src[0], src[2], src[1])
    return np.asarray(OPS.get(expr.op, getattr(np, expr.op, None))(*src))


def computed(made: Callable[..., Expr], *arguments: Array, fused: bool) -> Array:
    """A function of float32 arrays."""
    parameters = [Expr("param", dt.float32) for _ in arguments]
    known = dict(zip(parameters, arguments, strict=True))
    with np.errstate(all="ignore"):
        return evaluated(made(*parameters), known, fused=fused)


def close(got: Array, want: Array) -> None:
    """`want` in float64. Special values and signs alike, others within ULPS of float32."""
    with np.errstate(all="ignore"):
        single = want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(single))
    number = ~np.isnan(single)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(single[number]))
    finite = np.isfinite(single) & np.isfinite(got)
    np.testing.assert_array_equal(got[~finite], single[~finite])
    unit = np.spacing(np.maximum(np.abs(single[finite]), TINY)).astype(np.float64)
    units = np.abs(got[finite] - want[finite]) / unit
    check(bool((units <= ULPS).all()), f"{units.max(initial=0)} units")


def any_bits(seed: int) -> Array:
    """Numbers of every size."""
    words = np.random.default_rng(seed).integers(0, 1 << 32, COUNT, dtype=np.uint32)
    return words.view(np.float32)


def two_sets(seed: int) -> tuple[Array, Array]:
    """Any bits, numbers around 1, whole numbers, and all pairs of SPECIAL."""
    random = np.random.default_rng(seed)
    sets = [np.array([any_bits(seed), any_bits(seed + 1)]), random.normal(size=(2, COUNT)),
            random.integers(-40, 40, (2, COUNT)),
            np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)]  # fmt: skip
    x, y = np.concatenate([one.astype(np.float32) for one in sets], axis=1)
    return x, y


def theirs(name: str, *arguments: Array) -> Array:
    """numpy's, in float64."""
    with np.errstate(all="ignore"):
        wide = (one.astype(np.float64) for one in arguments)
        return np.asarray(getattr(np, NAMES.get(name, name))(*wide))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "atan"])
def test_one_argument(name: str, fused: bool) -> None:
    random = np.random.default_rng(3)
    turns = random.integers(1, 1 << 22, COUNT) * (np.pi / 4)
    sets = [SPECIAL, CLOSE, turns, any_bits(3), random.uniform(-1, 1, COUNT)]
    x = np.concatenate([one.astype(np.float32) for one in sets])
    close(computed(TRIG[name], x, fused=fused), theirs(name, x))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["atan2", "pow"])
def test_two_arguments(name: str, fused: bool) -> None:
    x, y = two_sets(5)
    close(computed({**TRIG, "pow": power}[name], x, y, fused=fused), theirs(name, x, y))


@pytest.mark.parametrize("fused", [False, True])
def test_powers_of_every_size(fused: bool) -> None:
    random = np.random.default_rng(7)
    x = np.exp(np.concatenate([random.uniform(-85, 85, COUNT), random.uniform(-0.4, 0.4, COUNT)]))
    x = x.astype(np.float32)
    y = (random.uniform(-100, 88, x.size) / np.log(x.astype(np.float64))).astype(np.float32)
    close(computed(power, x, y, fused=fused), theirs("pow", x, y))


def test_remainders_of_float64_are_exact() -> None:
    random = np.random.default_rng(29)
    x, y = random.integers(0, 1 << 64, (2, 500), dtype=np.uint64).view(np.float64)
    x = np.append(x, [1.7e308, -1.7e308, 7.5, -0.0, 5e-324])
    y = np.append(y, [5e-324, 1e-310, 2.0, 3.0, -5e-324])
    a, b = Expr("param", dt.float64), Expr("param", dt.float64)
    with np.errstate(all="ignore"):
        got = evaluated(fmod(a, b), {a: x, b: y}, fused=False)
        np.testing.assert_array_equal(got, np.fmod(x, y))


@pytest.mark.parametrize("fused", [False, True])
def test_remainders_are_exact(fused: bool) -> None:
    x, y = two_sets(11)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    got = computed(fmod, x, y, fused=fused)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))

"""Float instructions and conversions of ir3 on the board, 20,000 vectors each, against exact
sums and products, and against Python's fractions where a rounding is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from boards.machine.arrays import Array
from tests.boards.ir3_runner import results
from tests.support import check

_ROWS: Final = 20_000
_SMALLEST: Final = {np.dtype(np.float32): 2.0**-126, np.dtype(np.float16): 2.0**-14}
"""What is less is 0. # src: Mesa 25.0.7, tu_device.cc: shaderDenormPreserveFloat16 and Float32"""


def _values(seed: int, dtype: type[np.floating[Any]] = np.float32) -> Array:
    """Bits of all kinds: ordinary numbers, subnormal ones, infinities, NaN."""
    made = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    raw = made.integers(0, 1 << kind.itemsize * 8, _ROWS, f"u{kind.itemsize}").view(kind)
    plain = (made.standard_normal(_ROWS) * 2.0 ** made.integers(-9, 9, _ROWS)).astype(kind)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5], kind)
    choice = made.random(_ROWS)
    return np.where(choice < 0.5, plain, np.where(choice < 0.9, raw, made.choice(special, _ROWS)))


def _flushed(values: Array) -> Array:
    small = np.abs(values) < _SMALLEST[values.dtype]
    return np.where(small, np.copysign(values.dtype.type(0), values), values)


def _same(got: Array, want: Array, op: str) -> None:
    equal = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    wrong = np.flatnonzero(~equal)
    check(not len(wrong), f"{op}: {len(wrong)} rows, {got[wrong[:3]]} is not {want[wrong[:3]]}")


def _rounded(wide: Array, dtype: np.dtype[np.generic]) -> Array:
    """A float64 that is exact, or so near that rounding it again is rounding once."""
    return _flushed(wide.astype(dtype))


def _two(op: str, a: Array, b: Array) -> Array:
    x, y = _flushed(a).astype(np.float64), _flushed(b).astype(np.float64)
    return _rounded(x + y if op.startswith("add") else x * y, a.dtype)


_ARITHMETIC: Final = ("add.f {out}, {0}, {1}", "mul.f {out}, {0}, {1}")


@pytest.mark.parametrize("half", ["", "hhh"])
@pytest.mark.parametrize("op", _ARITHMETIC)
def test_sum_and_product(op: str, half: str) -> None:
    """float64 is wide enough for both, of f32 and of f16."""
    dtype = np.float16 if half else np.float32
    a, b = _values(1, dtype), _values(2, dtype)
    with np.errstate(all="ignore"):
        want = _two(op, a, b)
    got = results(op, [a, b], half=half)
    _same(_of(got, half), want, op)


def _of(got: Array, half: str) -> Array:
    return got.astype(np.uint16).view(np.float16) if half else got.view(np.float32)


@pytest.mark.parametrize("half", ["", "hhhh"])
def test_mad_rounds_its_product(half: str) -> None:
    """The product is rounded, then the sum."""
    dtype = np.float16 if half else np.float32
    a, b, c = _values(3, dtype), _values(4, dtype), _values(5, dtype)
    op = f"mad.{'f16' if half else 'f32'} {{out}}, {{0}}, {{1}}, {{2}}"
    with np.errstate(all="ignore"):
        want = _two("add", _two("mul", a, b), c)
    _same(_of(results(op, [a, b, c], half=half), half), want, op)


def _number_of(first: float, second: float, least: bool) -> float:
    if math.isnan(first) or math.isnan(second):
        return second if math.isnan(first) else first
    ordered = sorted([first, second], key=lambda x: (x, math.copysign(1, x)))
    return ordered[0 if least else 1]


_ONE: Final[dict[str, Callable[[float], float]]] = {
    "floor.f {out}, {0}": lambda a: a if not math.isfinite(a) else math.copysign(math.floor(a), a),
    "ceil.f {out}, {0}": lambda a: a if not math.isfinite(a) else math.copysign(math.ceil(a), a),
    "trunc.f {out}, {0}": lambda a: a if not math.isfinite(a) else math.copysign(math.trunc(a), a),
    "rndne.f {out}, {0}": lambda a: a if not math.isfinite(a) else math.copysign(round(a), a),
    "rndaz.f {out}, {0}": lambda a: a if not math.isfinite(a) else math.copysign(
        math.floor(Fraction(abs(a)) + Fraction(1, 2)), a
    ),
    "absneg.f {out}, (abs){0}": abs,
    "absneg.f {out}, (absneg){0}": lambda a: -abs(a),
    "(sat)absneg.f {out}, (neg){0}": lambda a: 0.0 if math.isnan(a) else min(max(-a, 0.0), 1.0),
    "sign.f {out}, {0}": lambda a: float((a > 0) - (a < 0)),
}  # fmt: skip


@pytest.mark.parametrize("op", _ONE)
def test_one_source(op: str) -> None:
    """Rounding to integers, signs and modifiers."""
    a = _values(6)
    want = np.array([_ONE[op](x) for x in _flushed(a).tolist()], np.float32)
    got = results(op, [a]).view(np.float32)
    if "sat" in op or "sign" in op:
        got, want = np.abs(got) * np.sign(got), np.abs(want) * np.sign(want)
    _same(got, want, op)


@pytest.mark.parametrize("op", ["min.f {out}, {0}, {1}", "max.f {out}, {0}, {1}"])
def test_least_and_largest(op: str) -> None:
    """Of a NaN and a number the number."""
    a, b = _values(7), _values(8)
    b[::9] = a[::9]
    pairs = zip(_flushed(a).tolist(), _flushed(b).tolist(), strict=True)
    want = np.array([_number_of(x, y, op.startswith("min")) for x, y in pairs], np.float32)
    _same(results(op, [a, b]).view(np.float32), want, op)


_CONDITIONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip


@pytest.mark.parametrize("condition", _CONDITIONS)
def test_comparisons(condition: str) -> None:
    """1 or 0; with a NaN only ne holds."""
    a, b = _values(9), _values(10)
    b[::5] = a[::5]
    pairs = zip(_flushed(a).tolist(), _flushed(b).tolist(), strict=True)
    want = np.array([_CONDITIONS[condition](x, y) for x, y in pairs], np.uint32)
    got = results(f"cmps.f.{condition} {{out}}, {{0}}, {{1}}", [a, b])
    check(np.array_equal(got, want), condition)


_SPECIAL: Final[dict[str, Callable[[float], float]]] = {
    "rcp": lambda a: 1 / a, "sqrt": math.sqrt, "rsq": lambda a: 1 / math.sqrt(a),
    "log2": math.log2, "exp2": lambda a: 2.0**a, "sin": math.sin, "cos": math.cos,
}  # fmt: skip


@pytest.mark.parametrize("op", _SPECIAL)
def test_special_functions(op: str) -> None:
    """Category 4: as float64 gives it, rounded once; a unit in the last place is allowed libm."""
    made = np.random.default_rng(11)
    a = (np.exp2(made.uniform(-6, 5, _ROWS))).astype(np.float32)
    want = np.array([_SPECIAL[op](x) for x in a.tolist()])
    got = results(f"{op} {{out}}, {{0}}", [a]).view(np.float32)
    step = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    check(bool((np.abs(got - want) <= 0.501 * step).all()), op)


_ROUNDINGS: Final = {"": 0, "(even)": 1, "(pos_infinity)": 2, "(neg_infinity)": 3}


def _neighbours(value: float, dtype: np.dtype[np.floating[Any]]) -> tuple[float, float]:
    """The floats at and below, at and above a number of any size."""
    near = np.array([value]).astype(dtype)
    below = near if float(near[0]) <= value else np.nextafter(near, dtype.type(-np.inf))
    above = near if float(near[0]) >= value else np.nextafter(near, dtype.type(np.inf))
    return float(below[0]), float(above[0])


def _picked(value: float, dtype: np.dtype[np.floating[Any]], rounding: int) -> float:
    if not math.isfinite(value):
        return value
    below, above = _neighbours(value, dtype)
    if rounding == 1:
        return float(np.array([value]).astype(dtype)[0])
    down = rounding == 3 or (rounding == 0 and value > 0)
    return below if down else above


@pytest.mark.parametrize("rounding", _ROUNDINGS)
def test_narrowing(rounding: str) -> None:
    """f32 to f16, in each direction."""
    a = _values(12)
    a[::2] = (np.random.default_rng(13).standard_normal(_ROWS // 2) * 900).astype(np.float32)
    kind = np.dtype(np.float16)
    with np.errstate(all="ignore"):
        inputs = _flushed(a).tolist()
        want = np.array([_picked(x, kind, _ROUNDINGS[rounding]) for x in inputs])
    got = results(f"cov.f32f16 {rounding}{{out}}, {{0}}", [a], half="fh")
    _same(_of(got, "h"), _flushed(want.astype(np.float16)), rounding)


def test_widening() -> None:
    """Every float16, to f32."""
    raw = np.arange(1 << 16, dtype=np.uint16)
    want = _flushed(raw.view(np.float16)).astype(np.float32)
    _same(results("cov.f16f32 {out}, {0}", [raw], half="hf").view(np.float32), want, "f16f32")


@pytest.mark.parametrize("rounding", _ROUNDINGS)
@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_integers_as_floats(kind: str, rounding: str) -> None:
    """Of 32 bits, of which a float keeps 24."""
    raw = np.random.default_rng(14).integers(0, 1 << 32, _ROWS, np.uint32)
    raw >>= np.random.default_rng(15).integers(0, 32, _ROWS).astype(np.uint32)
    values = raw if kind == "u32" else raw.view(np.int32)
    dtype = np.dtype(np.float32)
    want = np.array([_picked(float(x), dtype, _ROUNDINGS[rounding]) for x in values.tolist()])
    got = results(f"cov.{kind}f32 {rounding}{{out}}, {{0}}", [raw]).view(np.float32)
    _same(got, want.astype(np.float32), f"{kind} {rounding}")


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_floats_as_integers(kind: str) -> None:
    """Towards zero, clamped to the range; NaN is 0."""
    a = _values(16)
    with np.errstate(all="ignore"):
        a[::2] *= np.float32(1e6)
    low, high = (0, (1 << 32) - 1) if kind == "u32" else (-(1 << 31), (1 << 31) - 1)
    want = [
        0 if math.isnan(x) else low if x <= low else high if x >= high else math.trunc(x)
        for x in _flushed(a).tolist()
    ]
    got = results(f"cov.f32{kind} {{out}}, {{0}}", [a])
    check(np.array_equal(got, np.array(want, np.int64).astype(np.uint32)), kind)


def test_octets_are_extended_with_their_sign() -> None:
    """u8 to s32: the only direction that silicon converts in one step."""
    raw = np.random.default_rng(17).integers(0, 1 << 16, _ROWS).astype(np.uint16)
    got = results("cov.u8s32 {out}, {0}", [raw], half="hf")
    check(np.array_equal(got, raw.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)))

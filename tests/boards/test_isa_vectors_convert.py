"""Conversions, roundings, scalings and divisions on >= 20,000 operands, from exact integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.boards import isa_exact as exact
from tests.boards.isa_vectors import (
    COUNT,
    PLAIN_MODE,
    instructions,
    random_bits,
    random_floats,
    vector,
)
from tests.boards.test_isa_vectors_float import same_floats

_FORMS = {"f16": (exact.F16, np.float16), "f32": (exact.F32, np.float32),
          "f64": (exact.F64, np.float64)}  # fmt: skip
_INTEGERS: dict[str, Any] = {"i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32}


def _floats(kind: str, seed: int = 0) -> Any:
    """Floats of all kinds, a third of them of a size that integers have."""
    values = random_floats(seed, _FORMS[kind][1])
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        medium = np.ldexp(rng.standard_normal(len(values)), rng.integers(-3, 36, len(values)))
        halves = np.rint(rng.standard_normal(len(values)) * 99) / 2
        values[::3], values[1::6] = medium[::3], halves[1::6]
    return values


def _value(number: exact.Number) -> Fraction:
    size = -number.size if number.sign else number.size
    return Fraction(size) * Fraction(2) ** number.power


def _encoded(numbers: list[exact.Number], kind: str, mode: int = 0) -> Any:
    form, dtype = _FORMS[kind]
    return np.array([exact.encode(n, form, mode) for n in numbers], f"u{form.bits // 8}").view(
        dtype
    )


_TO_FLOAT = [f"v_cvt_{to}_{source}" for to, source in (
    ("f32", "f16"), ("f64", "f32"), ("f16", "f32"), ("f32", "f64"), ("f32", "i32"), ("f32", "u32"),
    ("f64", "i32"), ("f64", "u32"), ("f16", "i16"), ("f16", "u16"))]  # fmt: skip


@pytest.mark.parametrize("mode", range(4), ids=["nearest", "up", "down", "zero"])
@instructions(_TO_FLOAT)
def test_conversions_to_float(name: str, mode: int) -> None:
    to, source = name.removeprefix("v_cvt_").split("_")
    if source in _FORMS:
        values = _floats(source)
        numbers = exact.numbers(values, _FORMS[source][0])
    else:
        values = random_bits(1, _INTEGERS[source])
        numbers = [exact.of_integer(v) for v in values.tolist()]
    bits = mode | mode << 2
    found = vector(name, [values], _FORMS[to][1], mode=PLAIN_MODE | bits)
    same_floats(found, _encoded(numbers, to, mode))


def _limited(number: exact.Number, kind: str, rule: Callable[[Fraction], int]) -> int:
    info = np.iinfo(_INTEGERS[kind])
    if number.special == "nan":
        return 0
    if number.special:
        return int(info.min if number.sign else info.max)
    return max(int(info.min), min(int(info.max), rule(_value(number))))


_TO_INTEGER: dict[str, Callable[[Fraction], int]] = {
    **{f"v_cvt_{i}_{f}": math.trunc for i, f in (("i16", "f16"), ("u16", "f16"), ("i32", "f32"),
       ("u32", "f32"), ("i32", "f64"), ("u32", "f64"))},
    "v_cvt_nearest_i32_f32": lambda v: math.floor(v + Fraction(1, 2)),
    "v_cvt_rpi_i32_f32": lambda v: math.floor(v + Fraction(1, 2)),
    "v_cvt_floor_i32_f32": math.floor, "v_cvt_flr_i32_f32": math.floor,
}  # fmt: skip


@instructions(_TO_INTEGER)
def test_conversions_to_integer(name: str) -> None:
    target, source = name.split("_")[-2:]
    values = _floats(source)
    rule = _TO_INTEGER[name]
    expected = [_limited(n, target, rule) for n in exact.numbers(values, _FORMS[source][0])]
    found = vector(name, [values], _INTEGERS[target])
    np.testing.assert_array_equal(found, np.array(expected, _INTEGERS[target]))


def _norm(number: exact.Number, scale: int, low: int) -> int:
    if number.special == "nan":
        return 0
    limit = Fraction(low if number.sign else 1)
    value = limit if number.special else max(Fraction(low), min(Fraction(1), _value(number)))
    return round(value * scale) & 0xFFFF


_PACKING: dict[str, tuple[str, Callable[[exact.Number], int]]] = {
    "v_cvt_pk_rtz_f16_f32": ("f32", lambda n: exact.encode(n, exact.F16, exact.ZERO)),
    "v_cvt_pkrtz_f16_f32": ("f32", lambda n: exact.encode(n, exact.F16, exact.ZERO)),
    "v_cvt_pk_i16_f32": ("f32", lambda n: _limited(n, "i16", math.trunc)),
    "v_cvt_pk_u16_f32": ("f32", lambda n: _limited(n, "u16", math.trunc)),
    "v_cvt_pk_norm_i16_f32": ("f32", lambda n: _norm(n, 32767, -1)),
    "v_cvt_pk_norm_u16_f32": ("f32", lambda n: _norm(n, 65535, 0)),
    "v_cvt_pk_norm_i16_f16": ("f16", lambda n: _norm(n, 32767, -1)),
    "v_cvt_pk_norm_u16_f16": ("f16", lambda n: _norm(n, 65535, 0)),
    "v_pack_b32_f16": ("f16", lambda n: exact.encode(n, exact.F16)),
}


@instructions(_PACKING)
def test_two_results_in_a_register(name: str) -> None:
    kind, function = _PACKING[name]
    sources = [_floats(kind, seed) for seed in (1, 2)]
    if name.startswith("v_pack"):
        sources = [np.where(np.isnan(s), s.dtype.type(1), s) for s in sources]
    low, high = ([function(n) & 0xFFFF for n in exact.numbers(s, _FORMS[kind][0])] for s in sources)
    found = vector(name, sources, np.uint32)
    if "f16_f32" in name:
        halves = np.array([low, high], np.uint16).T.copy().view(np.float16)
        same_floats(found.view(np.float16), halves.reshape(-1))
    else:
        expected = [x | y << 16 for x, y in zip(low, high, strict=True)]
        np.testing.assert_array_equal(found, np.array(expected, np.uint32))


@instructions([f"v_cvt_f32_ubyte{i}" for i in range(4)])
def test_bytes_to_float(name: str) -> None:
    values = random_bits(3)
    octets = values.astype("<u4").view(np.uint8).reshape(-1, 4)[:, int(name[-1])]
    np.testing.assert_array_equal(vector(name, [values], np.float32), octets)


def _integral(number: exact.Number, rule: Callable[[Fraction], int]) -> exact.Number:
    if number.special or number.power >= 0:
        return number
    return exact.Number(number.sign, abs(rule(_value(number))), 0)


def _fraction(number: exact.Number, form: exact.Format) -> exact.Number:
    if number.special:
        return exact.NAN
    value = _value(number)
    part = value - math.floor(value)
    word = exact.encode(_of(part), form)
    one = exact.encode(exact.of_integer(1), form)
    return exact.number(min(word, one - 1), form)


def _of(value: Fraction) -> exact.Number:
    """A rational whose denominator is a power of two."""
    return exact.Number(int(value < 0), abs(value.numerator), 1 - value.denominator.bit_length())


_ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "rndne": round,
}  # fmt: skip


@instructions([f"v_{n}_{k}" for n in (*_ROUNDINGS, "fract") for k in _FORMS])
def test_roundings_to_integral(name: str) -> None:
    _, operation, kind = name.split("_")
    form, dtype = _FORMS[kind]
    values = _floats(kind)
    numbers = exact.numbers(values, form)
    if operation == "fract":
        expected = [_fraction(n, form) for n in numbers]
    else:
        expected = [_integral(n, _ROUNDINGS[operation]) for n in numbers]
    same_floats(vector(name, [values], dtype), _encoded(expected, kind))


@instructions([f"v_ldexp_{kind}" for kind in _FORMS])
def test_scaling_is_rounded_once(name: str) -> None:
    kind = name[-3:]
    form, dtype = _FORMS[kind]
    values = _floats(kind)
    counts = np.random.default_rng(4).integers(-2 * form.top, 2 * form.top, len(values))
    counts[::2] = counts[::2] % 80 - 40
    counts = counts.clip(-30000, 30000).astype(np.int16 if kind == "f16" else np.int32)
    rows = zip(exact.numbers(values, form), counts.tolist(), strict=True)
    expected = [n if n.special else exact.scale(n, count) for n, count in rows]
    same_floats(vector(name, [values, counts], dtype), _encoded(expected, kind))


@instructions([f"v_frexp_mant_{kind}" for kind in _FORMS])
def test_mantissa_and_exponent(name: str) -> None:
    kind = name[-3:]
    form, dtype = _FORMS[kind]
    values = _floats(kind)
    numbers = exact.numbers(values, form)
    exponents = [n.power + n.size.bit_length() if n.size else 0 for n in numbers]
    pairs = list(zip(numbers, exponents, strict=True))
    expected = [exact.scale(n, -e) if n.size else n for n, e in pairs]
    same_floats(vector(name, [values], dtype), _encoded(expected, kind))
    result = np.int16 if kind == "f16" else np.int32
    name = f"v_frexp_exp_{'i16' if kind == 'f16' else 'i32'}_{kind}"
    np.testing.assert_array_equal(vector(name, [values], result), exponents)


@instructions([f"v_{n}_{k}" for n in ("rcp", "sqrt", "rsq") for k in _FORMS])
def test_approximations_are_within_an_ulp(name: str) -> None:
    _, operation, kind = name.split("_")
    form, dtype = _FORMS[kind]
    values = np.abs(_floats(kind))
    values = values[np.isfinite(values) & (values >= np.finfo(dtype).tiny)]
    values = np.resize(values, COUNT)
    with np.errstate(over="ignore", under="ignore"):
        wide = values.astype(np.longdouble)
        truth = {"rcp": lambda v: 1 / v, "sqrt": np.sqrt, "rsq": lambda v: 1 / np.sqrt(v)}
        expected = truth[operation](wide).astype(dtype)
    found = vector(name, [values], dtype)
    raw = [v.view(f"i{form.bits // 8}").astype(np.int64) for v in (found, expected)]
    np.testing.assert_array_less(np.abs(raw[0] - raw[1]), 2)


def _divide(kind: str, n: Any, d: Any) -> Any:
    """The instructions that compilers emit for a division."""
    dtype = _FORMS[kind][1]

    def fma(a: Any, b: Any, c: Any, neg: int = 0) -> Any:
        return vector(f"v_fma_{kind}", [a, b, c], dtype, neg=neg)

    one = np.ones(len(n), dtype)
    ds, _ = vector(f"v_div_scale_{kind}", [d, d, n], dtype, "m")
    ns, mask = vector(f"v_div_scale_{kind}", [n, d, n], dtype, "m")
    r = vector(f"v_rcp_{kind}", [ds], dtype)
    for _ in range(1 if kind == "f32" else 2):
        r = fma(fma(ds, r, one, neg=1), r, r)
    q = vector(f"v_mul_{kind}", [ns, r], dtype)
    if kind == "f32":
        q = fma(fma(ds, q, ns, neg=1), r, q)
    rest = fma(ds, q, ns, neg=1)
    q = vector(f"v_div_fmas_{kind}", [rest, r, q, mask], dtype)
    return vector(f"v_div_fixup_{kind}", [q, d, n], dtype)


@instructions(["v_div_scale_f32", "v_div_scale_f64"])
def test_division_is_correctly_rounded(name: str) -> None:
    kind = name[-3:]
    form, dtype = _FORMS[kind]
    n, d = (random_floats(seed, dtype) for seed in (20, 21))
    numbers = [exact.numbers(v, form) for v in (n, d)]
    expected = exact.rounded(exact.divide, numbers, form).view(dtype)
    same_floats(_divide(kind, n, d), expected)

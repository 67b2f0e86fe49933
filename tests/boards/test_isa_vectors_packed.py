"""Packed halves, dot products, mixed precision and matrices on >= 20,000 operands or results."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.boards import isa_exact as exact
from tests.boards.isa_vectors import COUNT, instructions, random_bits, random_floats, vector
from tests.boards.test_isa_vectors_float import same_floats

_HIGH = {"hi_ab": 3, "hi_c": 1}
"""The upper half of the result comes from the upper halves of the sources."""


def _short(value: int) -> int:
    value &= 0xFFFF
    return value - (1 << 16) if value >> 15 else value


_SHORTS: dict[str, tuple[int, Callable[..., int]]] = {
    "v_pk_add_u16": (2, lambda a, b: a + b), "v_pk_sub_u16": (2, lambda a, b: a - b),
    "v_pk_add_i16": (2, lambda a, b: a + b), "v_pk_sub_i16": (2, lambda a, b: a - b),
    "v_pk_mul_lo_u16": (2, lambda a, b: a * b), "v_pk_min_u16": (2, min),
    "v_pk_max_u16": (2, max), "v_pk_min_i16": (2, min), "v_pk_max_i16": (2, max),
    "v_pk_mad_u16": (3, lambda a, b, c: a * b + c), "v_pk_mad_i16": (3, lambda a, b, c: a * b + c),
    "v_pk_lshlrev_b16": (2, lambda a, b: b << (a & 15)),
    "v_pk_lshrrev_b16": (2, lambda a, b: b >> (a & 15)),
    "v_pk_ashrrev_i16": (2, lambda a, b: b >> (a & 15)),
}  # fmt: skip


def _halves(values: Any, *, upper: bool) -> list[int]:
    found: list[int] = (values >> 16 if upper else values & 0xFFFF).tolist()
    return found


@pytest.mark.parametrize("swap", [0, 5, 7])
@instructions(_SHORTS)
def test_packed_integers(name: str, swap: int) -> None:
    """`swap`: the sources whose halves change places (op_sel of both results)."""
    count, function = _SHORTS[name]
    swap &= (1 << count) - 1
    sources = [random_bits(seed) for seed in range(count)]
    high = ~swap & 7
    found = vector(name, sources, np.uint32, op_sel=swap, hi_ab=high & 3, hi_c=high >> 2)
    convert = _short if name.endswith("i16") else int
    for upper in (False, True):
        columns = [_halves(s, upper=upper != bool(swap >> i & 1)) for i, s in enumerate(sources)]
        rows = zip(*columns, strict=True)
        expected = [function(*map(convert, row)) & 0xFFFF for row in rows]
        np.testing.assert_array_equal(_halves(found, upper=upper), expected)


def _packed_floats(seed: int) -> Any:
    low, high = (random_floats(s, np.float16) for s in (seed, seed + 50))
    return np.stack([low, high], axis=1).copy().view(np.uint32)[:, 0]


_FLOATS: dict[str, tuple[int, Callable[..., exact.Number]]] = {
    "v_pk_add_f16": (2, exact.add), "v_pk_mul_f16": (2, exact.multiply),
    "v_pk_fma_f16": (3, exact.fused),
}  # fmt: skip


@pytest.mark.parametrize(("neg", "neg_hi"), [(0, 0), (1, 2), (3, 1)])
@instructions(_FLOATS)
def test_packed_floats(name: str, neg: int, neg_hi: int) -> None:
    count, function = _FLOATS[name]
    sources = [_packed_floats(seed) for seed in range(count)]
    found = vector(name, sources, np.uint32, neg=neg, neg_hi=neg_hi, **_HIGH)
    for part, signs in ((0, neg), (1, neg_hi)):
        halves = [np.ascontiguousarray(s.view(np.uint16).reshape(-1, 2)[:, part]) for s in sources]
        signed = [h ^ np.uint16((signs >> i & 1) << 15) for i, h in enumerate(halves)]
        expected = exact.rounded(function, [exact.numbers(s, exact.F16) for s in signed], exact.F16)
        got = np.ascontiguousarray(found.view(np.uint16).reshape(-1, 2)[:, part])
        same_floats(got.view(np.float16), expected.view(np.float16))


@instructions(["v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32"])
def test_packed_words(name: str) -> None:
    count, function = _FLOATS[name.replace("f32", "f16")]
    sources = [
        np.stack([random_floats(s, np.float32) for s in (seed, seed + 50)], axis=1)
        for seed in range(count)
    ]
    found = vector(name, sources, 2, **_HIGH)
    for part in (0, 1):
        columns = [exact.numbers(s[:, part], exact.F32) for s in sources]
        expected = exact.rounded(function, columns, exact.F32).view(np.float32)
        same_floats(np.ascontiguousarray(found[:, part]).view(np.float32), expected)


@pytest.mark.parametrize("form", ["whole", "low", "high"])
@instructions(["v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"])
def test_mixed_precision(name: str, form: str) -> None:
    """Sources are whole f32, or a half of each register."""
    if form == "whole":
        sources = [random_floats(seed, np.float32) for seed in range(3)]
        columns = [exact.numbers(s, exact.F32) for s in sources]
        select = {}
    else:
        sources = [_packed_floats(seed) for seed in range(3)]
        part = int(form == "high")
        columns = [exact.numbers(s.view(np.uint16)[part::2], exact.F16) for s in sources]
        select = {"op_sel": 7 * part, **_HIGH}
    narrow = name != "v_fma_mix_f32"
    target, dtype = (exact.F16, np.float16) if narrow else (exact.F32, np.float32)
    expected = exact.rounded(exact.fused, columns, target).view(dtype)
    found = vector(name, sources, np.uint32, **select)
    if narrow:
        found = np.ascontiguousarray(found.view(np.uint16)[int("mixhi" in name) :: 2])
    same_floats(found.view(dtype), expected)


def _fields(word: int, bits: int, *, signed: bool) -> list[int]:
    values = [word >> at & (1 << bits) - 1 for at in range(0, 32, bits)]
    return [v - (1 << bits) if signed and v >> (bits - 1) else v for v in values]


_INTEGER_DOTS = ("v_dot4_i32_iu8", "v_dot4_u32_u8", "v_dot8_i32_iu4", "v_dot8_u32_u4",
                 "v_dot4_i32_i8", "v_dot8_i32_i4")  # fmt: skip


@pytest.mark.parametrize("clamp", [0, 1])
@instructions(_INTEGER_DOTS)
def test_integer_dot_products(name: str, clamp: int) -> None:
    bits = 8 if "dot4" in name else 4
    a, b, c = (random_bits(seed) for seed in range(3))
    c[::3] = np.where(c[::3] >> 31, np.uint32(0x7FFFFFF0), np.uint32(0x80000001))
    wide = "_i32_" in name
    for signs in range(4) if "_iu" in name else [0]:
        always = name.endswith(("i8", "i4"))
        signed = always or bool(signs & 1), always or bool(signs & 2)
        expected = []
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
            pairs = zip(
                _fields(x, bits, signed=signed[0]), _fields(y, bits, signed=signed[1]), strict=True
            )
            total = sum(p * q for p, q in pairs) + (z - (1 << 32) if wide and z >> 31 else z)
            if clamp:
                low, high = (-(1 << 31), (1 << 31) - 1) if wide else (0, (1 << 32) - 1)
                total = max(low, min(high, total))
            expected.append(total & 0xFFFFFFFF)
        found = vector(name, [a, b, c], np.uint32, neg=signs, clamp=clamp, **_HIGH)
        np.testing.assert_array_equal(found, np.array(expected, np.uint32), f"signs {signs}")


@instructions(["v_dot2_f32_f16", "v_dot2_f32_bf16"])
def test_float_dot_products(name: str) -> None:
    """Within the error of a sum of three terms: the order of the additions is the hardware's."""
    form = exact.BF16 if name.endswith("bf16") else exact.F16
    rng = np.random.default_rng(5)
    exponent = form.top >> 1
    words = rng.integers(-8, 8, (2, COUNT, 2)) + exponent << form.fraction
    words |= rng.integers(0, 1 << form.fraction, words.shape)
    words |= rng.integers(0, 2, words.shape) << 15
    a, b = words.astype(np.uint16)
    c = rng.standard_normal(COUNT).astype(np.float32)
    sources = [np.ascontiguousarray(v).view(np.uint32)[:, 0] for v in (a, b)]
    found = vector(name, [*sources, c], np.float32, **_HIGH).astype(np.float64)
    left, right = (_wide(v, form) for v in (a, b))
    terms = np.concatenate([left * right, c[:, None].astype(np.float64)], axis=1)
    bound = np.abs(terms).sum(axis=1) * 2.0**-22
    np.testing.assert_array_less(np.abs(found - terms.sum(axis=1)), bound)


def _wide(words: Any, form: exact.Format) -> Any:
    """f64 of finite normal encodings."""
    fraction = words & (1 << form.fraction) - 1 | 1 << form.fraction
    power = (words >> form.fraction & form.top).astype(np.int64) + form.low - 1
    return np.ldexp(fraction.astype(np.float64), power) * np.where(words >> 15, -1, 1)


_TILES = {"v_wmma_f32_16x16x16_f16": exact.F16, "v_wmma_f32_16x16x16_bf16": exact.BF16}


@instructions(_TILES)
def test_matrix_products(name: str) -> None:
    """80 tiles of 256 sums against f64, within what sixteen roundings can lose."""
    form = _TILES[name]
    tiles = COUNT // 256
    rng = np.random.default_rng(6)
    words = rng.integers(-6, 6, (2, tiles, 16, 16)) + (form.top >> 1) << form.fraction
    words |= (
        rng.integers(0, 1 << form.fraction, words.shape) | rng.integers(0, 2, words.shape) << 15
    )
    a, b = words.astype(np.uint16)
    c = rng.standard_normal((tiles, 16, 16)).astype(np.float32)
    # src: RDNA3 ISA 7.9: lanes 0..15 and again 16..31 hold the rows; register i, lane l of the
    # sum is row 2 i + l // 16, column l % 16.
    rows = [np.ascontiguousarray(v).view(np.uint32).reshape(tiles, 16, 8) for v in (a, b)]
    lanes = [np.concatenate([r, r], axis=1).reshape(-1, 8) for r in rows]
    spread = c.reshape(tiles, 8, 32).transpose(0, 2, 1)
    total = np.ascontiguousarray(spread).view(np.uint32).reshape(-1, 8)
    result = vector(name, [*lanes, total], 8, only=["gfx1100"], **_HIGH)
    found = result.reshape(tiles, 32, 8).transpose(0, 2, 1).reshape(tiles, 16, 16)
    found = np.ascontiguousarray(found).view(np.float32).astype(np.float64)
    left, right = _wide(a, form), _wide(b, form).transpose(0, 2, 1)
    bound = (np.abs(left) @ np.abs(right) + np.abs(c)) * 2.0**-20
    np.testing.assert_array_less(np.abs(found - (left @ right + c)), bound)


def test_the_reference_rounds_as_rationals_do() -> None:
    """The exact reference against Fractions and the host's conversions."""
    rng = np.random.default_rng(7)
    values = rng.integers(0, 256, 8 * 2000, np.uint8).view(np.float64)
    values = values[np.isfinite(values)]
    for value in values.tolist():
        word = exact.words(np.array([value]))[0]
        number = exact.number(word, exact.F64)
        size = Fraction(number.size) * Fraction(2) ** number.power
        np.testing.assert_equal(float(-size if number.sign else size), value)
    with np.errstate(all="ignore"):
        narrow = values.astype(np.float32)
    found = [exact.encode(n, exact.F32) for n in exact.numbers(values, exact.F64)]
    np.testing.assert_array_equal(np.array(found, np.uint32).view(np.float32), narrow)


def _numbers_of(seed: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Packed pairs of small numbers, and the numbers (n, 2)."""
    numbers = np.random.default_rng(seed).integers(-64, 64, (COUNT, 2)) / 8
    if kind == "f16":
        return numbers.astype(np.float16).view(np.uint32)[:, 0], numbers
    raw = numbers.astype(np.float32).view(np.uint32) >> 16
    return (raw[:, 0] | raw[:, 1] << 16).astype(np.uint32), numbers


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("select", [0, 4, 8, 12])
def test_dot_products_of_halves(kind: str, select: int) -> None:
    """src: RDNA3 ISA, V_DOT2_F16_F16: two products and a half that op_sel picks, to such a half."""
    (a, x), (b, y), (c, z) = (_numbers_of(seed, kind) for seed in range(3))
    old = random_bits(9)
    found = vector(f"v_dot2_{kind}_{kind}", [a, b, c, old], np.uint32, op_sel=select, neg=1, abs=2)
    sums = -x[:, 0] * np.abs(y[:, 0]) - x[:, 1] * np.abs(y[:, 1]) + z[:, select >> 2 & 1]
    if kind == "f16":
        bits = sums.astype(np.float16).view(np.uint16).astype(np.uint32)
    else:  # the sums are exact in f32: 20 bits of them
        raw = sums.astype(np.float32).view(np.uint32)
        bits = (raw + 0x7FFF + (raw >> 16 & 1)) >> 16
    high = select >> 3
    expected = bits << 16 | old & 0xFFFF if high else old & 0xFFFF0000 | bits
    zero = sums == 0  # of either sign
    np.testing.assert_array_equal(np.where(zero, 0, found), np.where(zero, 0, expected))


def test_the_product_of_lighting() -> None:
    """src: RDNA3 ISA, V_MULLIT_F32: 0 * x = 0; -MAX for S1 of -MAX, -INF or NaN, S2 <= 0 or NaN."""
    least, inf, nan = -np.finfo(np.float32).max, np.inf, np.nan
    rows = np.array([
        (2, 3, 1, 6), (0, inf, 1, 0), (nan, 0, 1, 0), (2, 3, 0, least), (2, 3, -1, least),
        (2, 3, nan, least), (2, nan, 1, least), (2, -inf, 1, least), (2, least, 1, least),
        (2, inf, inf, inf), (-2, 3, 0.5, -6),
    ])  # fmt: skip
    many = np.resize(rows, (COUNT, 4)).astype(np.float32)
    a, b, c, expected = (np.ascontiguousarray(many[:, i]) for i in range(4))
    np.testing.assert_array_equal(vector("v_mullit_f32", [a, b, c], np.float32), expected)

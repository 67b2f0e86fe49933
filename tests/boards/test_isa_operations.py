"""Single instructions on 20,480 random operands against Python integers and wider floats."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from boards.amd.isa.decode import VGPR, decode
from boards.amd.isa.gfx11 import GFX11
from boards.amd.wave.execute import bind
from boards.amd.wave.state import EXEC, Waves, unpack_bits
from tests.support import check

_WAVES, _LANES = 640, 32
_COUNT = _WAVES * _LANES
_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1
_ALL = np.uint32(0xFFFFFFFF)
_RESULT, _SOURCES, _MASK = 0, (10, 20, 30), 40
_PLAIN_MODE = 0xF0


def _word(name: str, **fields: int) -> list[int]:
    """The VOP3 (or VOP3P) dwords of an instruction, from register numbers."""
    for layout in GFX11.layouts:
        if layout.name not in ("VOP3", "VOP3SD", "VOP3P"):
            continue
        for opcode, entry in layout.entries.items():
            if entry.name == name:
                word = layout.value | opcode << layout.opcode[0]
                for field, value in fields.items():
                    if field in layout.fields:
                        word |= value << layout.fields[field][0]
                return [word & _M32, word >> 32]
    raise KeyError(name)


def _waves(mode: int = _PLAIN_MODE) -> Waves:
    w = Waves(_WAVES, _LANES, 64, 0, _WAVES)
    w.sgpr[EXEC] = _ALL
    w.set_mode(np.full(_WAVES, mode, np.uint32))
    w.select(np.arange(_WAVES))
    return w


def _put(w: Waves, register: int, values: np.ndarray) -> None:
    if values.itemsize < 4:
        values = values.view(f"u{values.itemsize}").astype(np.uint32)
    words = np.ascontiguousarray(values).view(np.uint32).reshape(_COUNT, -1)
    for i in range(words.shape[1]):
        w.vgpr[register + i] = words[:, i].reshape(_WAVES, _LANES)


def run(name: str, sources: list[np.ndarray], dtype: Any, *, mode: int = _PLAIN_MODE,
        mask: np.ndarray | None = None, **modifiers: int) -> np.ndarray:  # fmt: skip
    """Execute one instruction for all lanes; the destination as `dtype`."""
    w = _waves(mode)
    fields = {"d": _RESULT, **modifiers}
    for field, register, values in zip("abc", _SOURCES, sources, strict=False):
        _put(w, register, values)
        fields[field] = VGPR + register
    if mask is not None:
        fields["c"] = _MASK
        w.put_mask(_MASK, mask.reshape(_WAVES, _LANES))
    w.vgpr[_RESULT] = 0
    inst = decode(GFX11, [*_word(name, **fields), 0, 0], 0)
    execute = bind(inst)
    if execute is None:
        raise AssertionError(f"{name} has no meaning")
    with np.errstate(all="ignore"):
        execute(w)
    if dtype == "mask":
        return unpack_bits(w.scalar_mask(_RESULT)).reshape(-1)
    size = np.dtype(dtype).itemsize
    low = w.vgpr[_RESULT].reshape(-1)
    if size == 8:
        high = w.vgpr[_RESULT + 1].reshape(-1)
        return np.stack([low, high], axis=1).copy().view(dtype)[:, 0]
    return low.astype(np.uint16).view(dtype) if size == 2 else low.copy().view(dtype)


def _bits(seed: int, dtype: Any = np.uint32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 256, _COUNT * np.dtype(dtype).itemsize, np.uint8).view(dtype).copy()
    if np.dtype(dtype).kind in "iu":
        edges = np.array([0, 1, 31, 32, -1, -2, 1 << 15], np.int64).astype(dtype)
        values[::17] = rng.choice(edges, len(values[::17]))
    return values


def _s(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _bfe(a: int, b: int, c: int) -> int:
    return (a >> (b & 31)) & ((1 << (c & 31)) - 1)


def _sbfe(a: int, b: int, c: int) -> int:
    width = c & 31
    if not width:
        return 0
    start = b & 31
    return _s((_s(a) >> start), width) if start + width < 32 else _s(a) >> start


def _perm(a: int, b: int, c: int) -> int:
    pair, result = a << 32 | b, 0
    for i in range(4):
        pick = c >> 8 * i & 0xFF
        if pick >= 13:
            byte = 0xFF
        elif pick == 12:
            byte = 0
        elif pick >= 8:
            byte = 0xFF if pair >> (16 * (pick - 8) + 15) & 1 else 0
        else:
            byte = pair >> 8 * pick & 0xFF
        result |= byte << 8 * i
    return result


def _sad(a: int, b: int, bits: int) -> int:
    mask = (1 << bits) - 1
    return sum(abs((a >> i & mask) - (b >> i & mask)) for i in range(0, 32, bits))


def _leading_signs(a: int) -> int:
    if a in (0, _M32):
        return -1
    return 32 - (~a & _M32 if a >> 31 else a).bit_length()


_INTEGER: dict[str, tuple[int, Callable[..., int]]] = {
    "v_add3_u32": (3, lambda a, b, c: a + b + c),
    "v_lshl_add_u32": (3, lambda a, b, c: (a << (b & 31)) + c),
    "v_add_lshl_u32": (3, lambda a, b, c: (a + b & _M32) << (c & 31)),
    "v_lshl_or_b32": (3, lambda a, b, c: (a << (b & 31)) | c),
    "v_and_or_b32": (3, lambda a, b, c: a & b | c),
    "v_or3_b32": (3, lambda a, b, c: a | b | c),
    "v_xor3_b32": (3, lambda a, b, c: a ^ b ^ c),
    "v_xad_u32": (3, lambda a, b, c: (a ^ b) + c),
    "v_bfi_b32": (3, lambda a, b, c: a & b | ~a & c),
    "v_bfe_u32": (3, _bfe),
    "v_bfe_i32": (3, _sbfe),
    "v_alignbit_b32": (3, lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "v_alignbyte_b32": (3, lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    "v_perm_b32": (3, _perm),
    "v_mad_u32_u24": (3, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "v_mad_i32_i24": (3, lambda a, b, c: _s(a, 24) * _s(b, 24) + c),
    "v_min3_i32": (3, lambda a, b, c: min(_s(a), _s(b), _s(c))),
    "v_max3_u32": (3, max),
    "v_med3_i32": (3, lambda a, b, c: sorted([_s(a), _s(b), _s(c)])[1]),
    "v_med3_u32": (3, lambda a, b, c: sorted([a, b, c])[1]),
    "v_minmax_u32": (3, lambda a, b, c: max(min(a, b), c)),
    "v_maxmin_i32": (3, lambda a, b, c: min(max(_s(a), _s(b)), _s(c))),
    "v_sad_u8": (3, lambda a, b, c: c + _sad(a, b, 8)),
    "v_sad_u16": (3, lambda a, b, c: c + _sad(a, b, 16)),
    "v_sad_u32": (3, lambda a, b, c: c + abs(a - b)),
    "v_add_nc_u32": (2, lambda a, b: a + b),
    "v_sub_nc_u32": (2, lambda a, b: a - b),
    "v_subrev_nc_u32": (2, lambda a, b: b - a),
    "v_mul_lo_u32": (2, lambda a, b: a * b),
    "v_mul_hi_u32": (2, lambda a, b: a * b >> 32),
    "v_mul_hi_i32": (2, lambda a, b: _s(a) * _s(b) >> 32),
    "v_mul_hi_u32_u24": (2, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    "v_mul_hi_i32_i24": (2, lambda a, b: _s(a, 24) * _s(b, 24) >> 32),
    "v_bfm_b32": (2, lambda a, b: (1 << (a & 31)) - 1 << (b & 31)),
    "v_bcnt_u32_b32": (2, lambda a, b: bin(a).count("1") + b),
    "v_xnor_b32": (2, lambda a, b: ~(a ^ b)),
    "v_lshlrev_b32": (2, lambda a, b: b << (a & 31)),
    "v_lshrrev_b32": (2, lambda a, b: b >> (a & 31)),
    "v_ashrrev_i32": (2, lambda a, b: _s(b) >> (a & 31)),
    "v_cvt_pk_u16_u32": (2, lambda a, b: min(a, 0xFFFF) | min(b, 0xFFFF) << 16),
    "v_cvt_pk_i16_i32": (2, lambda a, b: (min(max(_s(a), -32768), 32767) & 0xFFFF)
                         | (min(max(_s(b), -32768), 32767) & 0xFFFF) << 16),
    "v_bfrev_b32": (1, lambda a: int(f"{a:032b}"[::-1], 2)),
    "v_clz_i32_u32": (1, lambda a: 32 - a.bit_length() if a else -1),
    "v_ctz_i32_b32": (1, lambda a: (a & -a).bit_length() - 1 if a else -1),
    "v_cls_i32": (1, lambda a: _leading_signs(a)),
    "v_not_b32": (1, lambda a: ~a),
}  # fmt: skip


@pytest.mark.parametrize("name", _INTEGER)
def test_integer_instruction(name: str) -> None:
    count, function = _INTEGER[name]
    sources = [_bits(seed) for seed in range(count)]
    found = run(name, sources, np.uint32)
    rows = zip(*[s.tolist() for s in sources], strict=True)
    np.testing.assert_array_equal(found, np.array([function(*r) & _M32 for r in rows], np.uint32))


def test_shifts_of_64_bits() -> None:
    count, value = _bits(1), _bits(2, np.uint64)
    pairs = list(zip(count.tolist(), value.tolist(), strict=True))
    for name, function in (
        ("v_lshlrev_b64", lambda a, b: b << (a & 63)),
        ("v_lshrrev_b64", lambda a, b: b >> (a & 63)),
        ("v_ashrrev_i64", lambda a, b: _s(b, 64) >> (a & 63)),
    ):
        expected = np.array([function(a, b) & _M64 for a, b in pairs], np.uint64)
        np.testing.assert_array_equal(run(name, [count, value], np.uint64), expected)


def test_wide_multiply_add() -> None:
    a, b, c = _bits(1), _bits(2), _bits(3, np.uint64)
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    expected = np.array([x * y + z & _M64 for x, y, z in rows], np.uint64)
    np.testing.assert_array_equal(run("v_mad_u64_u32", [a, b, c], np.uint64, s=50), expected)
    expected = np.array([_s(x) * _s(y) + z & _M64 for x, y, z in rows], np.uint64)
    np.testing.assert_array_equal(run("v_mad_i64_i32", [a, b, c], np.uint64, s=50), expected)


@pytest.mark.parametrize("name", ["v_add_co_ci_u32", "v_sub_co_ci_u32", "v_subrev_co_ci_u32"])
def test_carry_chain(name: str) -> None:
    a, b = _bits(1), _bits(2)
    carry = np.random.default_rng(3).integers(0, 2, _COUNT).astype(bool)
    rows = zip(a.tolist(), b.tolist(), carry.tolist(), strict=True)
    functions = {"v_add_co_ci_u32": lambda x, y, c: x + y + c,
                 "v_sub_co_ci_u32": lambda x, y, c: x - y - c,
                 "v_subrev_co_ci_u32": lambda x, y, c: y - x - c}  # fmt: skip
    expected = np.array([functions[name](*r) & _M32 for r in rows], np.uint32)
    np.testing.assert_array_equal(run(name, [a, b], np.uint32, mask=carry, s=50), expected)


def _exact_fma(a: float, b: float, c: float) -> float:
    """The correctly rounded f64 of a * b + c for finite operands, from rationals."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exact.numerator / exact.denominator


def test_f64_fma_is_rounded_once() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(_COUNT) * 2.0 ** rng.integers(-400, 400, _COUNT) for _ in range(2))
    c = -a * b * (1 + rng.integers(-4, 4, _COUNT) * 2.0**-52)
    c[::2] = rng.standard_normal(len(c[::2]))
    found = run("v_fma_f64", [a, b, c], np.float64)
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    np.testing.assert_array_equal(found, [_exact_fma(*r) for r in rows])


def _narrow(exact: Fraction) -> np.float32:
    """The nearest f32 of a rational, ties to even, by comparing neighbours exactly."""
    near = np.float32(exact.numerator / exact.denominator)
    candidates = [np.nextafter(near, np.float32(d)) for d in (-np.inf, np.inf)] + [near]
    best = min(abs(Fraction(float(x)) - exact) for x in candidates)
    tied = [x for x in candidates if abs(Fraction(float(x)) - exact) == best]
    return tied[0] if len(tied) == 1 else next(x for x in tied if not x.view(np.uint32) & 1)


def test_f32_fma_is_rounded_once() -> None:
    rng = np.random.default_rng(5)
    a, b = (np.float32(rng.integers(1 << 23, 1 << 24, _COUNT)) for _ in range(2))
    c = rng.integers(-(1 << 20), 1 << 20, _COUNT) * 2.0 ** rng.integers(-30, 30, _COUNT)
    c = c.astype(np.float32)
    scale = np.float32(2.0) ** rng.integers(-80, 10, _COUNT).astype(np.float32)
    a = (a * scale).astype(np.float32)
    found = run("v_fma_f32", [a, b, c], np.float32)
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    expected = [_narrow(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in rows]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


@pytest.mark.parametrize("mode", [1, 2, 3], ids=["up", "down", "zero"])
@pytest.mark.parametrize("name", ["v_add_f32", "v_mul_f32", "v_fma_f32"])
def test_directed_rounding(name: str, mode: int) -> None:
    rng = np.random.default_rng(6)
    a, b, c = (rng.standard_normal(_COUNT).astype(np.float32) for _ in range(3))
    sources = [a, b, c] if name == "v_fma_f32" else [a, b]
    found = run(name, sources, np.float32, mode=_PLAIN_MODE | mode)
    exact = {"v_add_f32": lambda x, y: x + y, "v_mul_f32": lambda x, y: x * y,
             "v_fma_f32": lambda x, y, z: x * y + z}[name]  # fmt: skip
    for index in range(0, _COUNT, 3):
        truth = exact(*[Fraction(float(s[index])) for s in sources])
        got = Fraction(float(found[index]))
        toward = {1: got >= truth, 2: got <= truth, 3: abs(got) <= abs(truth)}[mode]
        check(toward, f"{name} went the wrong way at {index}")
        neighbour = np.spacing(np.abs(found[index]))
        check(abs(got - truth) < Fraction(float(neighbour)), f"{name} is not next at {index}")


def test_denormals_are_flushed_where_mode_says_so() -> None:
    tiny = np.float32(1e-40)
    a = np.full(_COUNT, tiny, np.float32)
    one, zero = np.ones(_COUNT, np.float32), np.zeros(_COUNT, np.float32)
    half = np.full(_COUNT, 2.0**-30, np.float32)
    small = np.full(_COUNT, 2.0**-110, np.float32)
    np.testing.assert_array_equal(run("v_mul_f32", [a, one], np.float32), a)
    np.testing.assert_array_equal(run("v_mul_f32", [a, one], np.float32, mode=0xE0), zero)
    np.testing.assert_array_equal(run("v_mul_f32", [small, half], np.float32, mode=0xD0), zero)
    product = small * half
    check((product > 0).all())
    np.testing.assert_array_equal(run("v_mul_f32", [small, half], np.float32), product)


def test_modifiers_and_clamp() -> None:
    a, b = (np.random.default_rng(s).standard_normal(_COUNT).astype(np.float32) for s in (1, 2))
    found = run("v_add_f32", [a, b], np.float32, neg=1, abs=2)
    np.testing.assert_array_equal(found, -a + np.abs(b))
    found = run("v_mul_f32", [a, b], np.float32, clamp=1)
    np.testing.assert_array_equal(found, (a * b).clip(0, 1))
    x, y = _bits(3), _bits(4)
    wide = np.minimum(x.astype(np.uint64) + y, _M32).astype(np.uint32)
    np.testing.assert_array_equal(run("v_add_nc_u32", [x, y], np.uint32, clamp=1), wide)


def test_classes_of_floats() -> None:
    a = _bits(5).view(np.float32).copy()
    special = np.array([0x7F800001, 0x7FC00000, 0xFF800000, 0x80000001, 0x80000000, 0, 1,
                        0x7F800000], np.uint32).view(np.float32)  # fmt: skip
    a[::2] = np.random.default_rng(6).choice(special, len(a[::2]))
    raw = a.view(np.uint32)
    exponent, fraction, sign = raw >> 23 & 0xFF, raw & 0x7FFFFF, raw >> 31 != 0
    number = np.where(exponent == 255, np.where(sign, 2, 9), np.where(sign, 3, 8))
    number = np.where((exponent == 0) & (fraction != 0), np.where(sign, 4, 7), number)
    number = np.where((exponent == 0) & (fraction == 0), np.where(sign, 5, 6), number)
    nan = (exponent == 255) & (fraction != 0)
    number = np.where(nan, np.where(fraction >> 22 != 0, 1, 0), number)
    mask = _bits(7) & np.uint32(0x3FF)
    expected = (mask >> number.astype(np.uint32) & 1).astype(bool)
    np.testing.assert_array_equal(run("v_cmp_class_f32", [a, mask], "mask"), expected)


@pytest.mark.parametrize("signs", [0, 1, 2, 3])
def test_dot_products_of_bytes(signs: int) -> None:
    a, b, c = (_bits(s) for s in (8, 9, 10))
    left = a.view(np.int8 if signs & 1 else np.uint8).reshape(-1, 4).astype(np.int64)
    right = b.view(np.int8 if signs & 2 else np.uint8).reshape(-1, 4).astype(np.int64)
    expected = ((left * right).sum(axis=1) + c.view(np.int32)).astype(np.uint32)
    modifiers = {"neg": signs, "hi_ab": 3, "hi_c": 1}
    found = run("v_dot4_i32_iu8", [a, b, c], np.uint32, **modifiers)
    np.testing.assert_array_equal(found, expected)


def test_packed_halves_with_selection() -> None:
    rng = np.random.default_rng(11)
    a, b, c = (rng.standard_normal((_COUNT, 2)).astype(np.float16) for _ in range(3))
    packed = [np.ascontiguousarray(v).view(np.uint32)[:, 0] for v in (a, b, c)]
    found = run("v_pk_fma_f16", packed, np.uint32, op_sel=1, hi_ab=1, hi_c=1, neg=2)
    wide = [v.astype(np.float64) for v in (a, b, c)]
    low = wide[0][:, 1] * -wide[1][:, 0] + wide[2][:, 0]
    high = wide[0][:, 1] * wide[1][:, 0] + wide[2][:, 1]
    halves = found.view(np.float16).reshape(-1, 2)
    np.testing.assert_array_equal(halves[:, 0], low.astype(np.float16))
    np.testing.assert_array_equal(halves[:, 1], high.astype(np.float16))

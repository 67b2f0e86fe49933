"""Integer vector instructions on >= 20,000 operands against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.boards.isa_vectors import (
    CHIPS,
    each,
    entry_of,
    instructions,
    known,
    random_bits,
    vector,
)

_TYPES: dict[str, Any] = {
    "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64,
    "u64": np.uint64,
}  # fmt: skip
_M24, _M32 = (1 << 24) - 1, (1 << 32) - 1
Case = tuple[str, str, Callable[..., int]]


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _s24(value: int) -> int:
    return signed(value, 24)


def _bfe(a: int, b: int, c: int) -> int:
    return (a >> (b & 31)) & ((1 << (c & 31)) - 1)


def _bfe_signed(a: int, b: int, c: int) -> int:
    start, width = b & 31, c & 31
    return signed(a >> start, min(width, 32 - start)) if width else 0


def _middle(*values: int) -> int:
    return sorted(values)[1]


def _shorts() -> dict[str, Case]:
    """16 bits: the upper half of each source register is not looked at."""
    cases: dict[str, Case] = {}
    for kind in ("u16", "i16"):
        two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
        cases |= {
            f"v_add_nc_{kind}": (two, kind, lambda a, b: a + b),
            f"v_sub_nc_{kind}": (two, kind, lambda a, b: a - b),
            f"v_add_{kind}": (two, kind, lambda a, b: a + b),
            f"v_sub_{kind}": (two, kind, lambda a, b: a - b),
            f"v_min_{kind}": (two, kind, min),
            f"v_max_{kind}": (two, kind, max),
            f"v_mad_{kind}": (three, kind, lambda a, b, c: a * b + c),
            f"v_min3_{kind}": (three, kind, min),
            f"v_max3_{kind}": (three, kind, max),
            f"v_med3_{kind}": (three, kind, _middle),
        }
    return cases | {
        "v_mul_lo_u16": ("u16 u16", "u16", lambda a, b: a * b),
        "v_lshlrev_b16": ("u16 u16", "u16", lambda a, b: b << (a & 15)),
        "v_lshrrev_b16": ("u16 u16", "u16", lambda a, b: b >> (a & 15)),
        "v_ashrrev_i16": ("u16 i16", "u16", lambda a, b: b >> (a & 15)),
        "v_and_b16": ("u16 u16", "u16", lambda a, b: a & b),
        "v_or_b16": ("u16 u16", "u16", lambda a, b: a | b),
        "v_xor_b16": ("u16 u16", "u16", lambda a, b: a ^ b),
        "v_not_b16": ("u16", "u16", lambda a: ~a),
        "v_mad_u32_u16": ("u16 u16 u32", "u32", lambda a, b, c: a * b + c),
        "v_mad_i32_i16": ("i16 i16 i32", "u32", lambda a, b, c: a * b + c),
        "v_cvt_i32_i16": ("i16", "u32", lambda a: a),
        "v_cvt_u32_u16": ("u16", "u32", lambda a: a),
    }


def _words() -> dict[str, Case]:
    """32 bits: what test_isa_operations does not have, and the sums and products of each kind."""
    two, three = "u32 u32", "u32 u32 u32"
    cases: dict[str, Case] = {
        "v_and_b32": (two, "u32", lambda a, b: a & b),
        "v_or_b32": (two, "u32", lambda a, b: a | b),
        "v_xor_b32": (two, "u32", lambda a, b: a ^ b),
        "v_add_u32": (two, "u32", lambda a, b: a + b),
        "v_sub_u32": (two, "u32", lambda a, b: a - b),
        "v_subrev_u32": (two, "u32", lambda a, b: b - a),
        "v_add_nc_i32": ("i32 i32", "u32", lambda a, b: a + b),
        "v_sub_nc_i32": ("i32 i32", "u32", lambda a, b: a - b),
        "v_min_i32": ("i32 i32", "u32", min), "v_max_i32": ("i32 i32", "u32", max),
        "v_min_u32": (two, "u32", min), "v_max_u32": (two, "u32", max),
        "v_min3_u32": (three, "u32", min), "v_max3_i32": ("i32 i32 i32", "u32", max),
        "v_maxmin_u32": (three, "u32", lambda a, b, c: min(max(a, b), c)),
        "v_minmax_i32": ("i32 i32 i32", "u32", lambda a, b, c: max(min(a, b), c)),
        "v_mul_u32_u24": (two, "u32", lambda a, b: (a & _M24) * (b & _M24)),
        "v_mul_i32_i24": (two, "u32", lambda a, b: _s24(a) * _s24(b)),
        "v_mul_hi_u32_u24": (two, "u32", lambda a, b: (a & _M24) * (b & _M24) >> 32),
        "v_mul_hi_i32_i24": (two, "u32", lambda a, b: _s24(a) * _s24(b) >> 32),
        "v_mad_u32_u24": (three, "u32", lambda a, b, c: (a & _M24) * (b & _M24) + c),
        "v_mad_i32_i24": (three, "u32", lambda a, b, c: _s24(a) * _s24(b) + c),
        "v_mul_lo_u32": (two, "u32", lambda a, b: a * b),
        "v_mul_hi_u32": (two, "u32", lambda a, b: a * b >> 32),
        "v_mul_hi_i32": ("i32 i32", "u32", lambda a, b: a * b >> 32),
        "v_bfe_u32": (three, "u32", _bfe),
        "v_bfe_i32": (three, "u32", _bfe_signed),
        "v_bfi_b32": (three, "u32", lambda a, b, c: a & b | ~a & c),
        "v_mov_b32": ("u32", "u32", lambda a: a),
        "v_xor3_b32": (three, "u32", lambda a, b, c: a ^ b ^ c),
        "v_sat_pk_u8_i16": ("u32", "u32", lambda a: _saturated(a) | _saturated(a >> 16) << 8),
        "v_ffbh_u32": ("u32", "u32", lambda a: 32 - a.bit_length() if a else -1),
        "v_ffbl_b32": ("u32", "u32", lambda a: (a & -a).bit_length() - 1 if a else -1),
    }  # fmt: skip
    return cases


def _saturated(value: int) -> int:
    return max(0, min(255, signed(value, 16)))


def _pairs() -> dict[str, Case]:
    return {
        "v_lshlrev_b64": ("u32 u64", "u64", lambda a, b: b << (a & 63)),
        "v_lshrrev_b64": ("u32 u64", "u64", lambda a, b: b >> (a & 63)),
        "v_ashrrev_i64": ("u32 i64", "u64", lambda a, b: b >> (a & 63)),
        "v_lshl_add_u64": ("u64 u32 u64", "u64", lambda a, b, c: (a << (b & 7)) + c),
        "v_add_nc_u64": ("u64 u64", "u64", lambda a, b: a + b),
    }


_CASES = {**_shorts(), **_words(), **_pairs()}


@instructions(_CASES)
def test_integer_instruction(name: str) -> None:
    kinds, result, function = _CASES[name]
    sources = [random_bits(i, _TYPES[kind]) for i, kind in enumerate(kinds.split())]
    found = vector(name, sources, _TYPES[result])
    expected = each(function, sources, _TYPES[result.replace("i", "u")])
    np.testing.assert_array_equal(found.view(expected.dtype), expected)


_CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "f": lambda a, b: False, "lt": lambda a, b: a < b, "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b, "t": lambda a, b: True,
}  # fmt: skip


@instructions([f"v_cmp_lt_{kind}" for kind in _TYPES])
def test_compares_in_every_condition(name: str) -> None:
    kind = name.removeprefix("v_cmp_lt_")
    a, b = (random_bits(seed, _TYPES[kind]) for seed in (1, 2))
    b[::3] = a[::3]
    rows = list(zip(a.tolist(), b.tolist(), strict=True))
    for condition, function in _CONDITIONS.items():
        compare = f"v_cmp_{condition}_{kind}"
        if known([compare]):
            expected = [function(*row) for row in rows]
            np.testing.assert_array_equal(vector(compare, [a, b], "m"), expected, compare)


_SATURATING: dict[str, tuple[str, Callable[..., int]]] = {
    "v_add_nc_u32": ("u32", lambda a, b: a + b), "v_sub_nc_u32": ("u32", lambda a, b: a - b),
    "v_add_nc_i32": ("i32", lambda a, b: a + b), "v_sub_nc_i32": ("i32", lambda a, b: a - b),
    "v_add_nc_i16": ("i16", lambda a, b: a + b), "v_sub_nc_i16": ("i16", lambda a, b: a - b),
    "v_add_nc_u16": ("u16", lambda a, b: a + b), "v_sub_nc_u16": ("u16", lambda a, b: a - b),
    "v_add_u32": ("u32", lambda a, b: a + b), "v_sub_u32": ("u32", lambda a, b: a - b),
    "v_add_i32": ("i32", lambda a, b: a + b), "v_sub_i32": ("i32", lambda a, b: a - b),
    "v_add_u16": ("u16", lambda a, b: a + b), "v_add_i16": ("i16", lambda a, b: a + b),
}  # fmt: skip


@instructions(_SATURATING)
def test_clamp_saturates(name: str) -> None:
    kind, function = _SATURATING[name]
    info = np.iinfo(_TYPES[kind])
    a, b = (random_bits(seed, _TYPES[kind]) for seed in (3, 4))
    low, high = int(info.min), int(info.max)
    rows = zip(a.tolist(), b.tolist(), strict=True)
    expected = [max(low, min(high, function(*row))) for row in rows]
    np.testing.assert_array_equal(vector(name, [a, b], _TYPES[kind], clamp=1), expected)


_CARRIES: dict[str, Callable[[int, int, int], int]] = {
    "v_add_co_u32": lambda a, b, c: a + b,
    "v_sub_co_u32": lambda a, b, c: a - b,
    "v_subrev_co_u32": lambda a, b, c: b - a,
    "v_add_co_ci_u32": lambda a, b, c: a + b + c,
    "v_sub_co_ci_u32": lambda a, b, c: a - b - c,
    "v_subrev_co_ci_u32": lambda a, b, c: b - a - c,
    "v_addc_co_u32": lambda a, b, c: a + b + c,
    "v_subb_co_u32": lambda a, b, c: a - b - c,
    "v_subbrev_co_u32": lambda a, b, c: b - a - c,
}


@instructions(_CARRIES)
def test_sums_with_carry(name: str) -> None:
    a, b, carry = random_bits(5), random_bits(6), random_bits(7) & 1 == 1
    takes = "_ci_" in name or "addc" in name or "subb" in name
    found, out = vector(name, [a, b, carry] if takes else [a, b], np.uint32, "m")
    exact = [
        _CARRIES[name](*row) for row in zip(a.tolist(), b.tolist(), carry.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(found, np.array([v & _M32 for v in exact], np.uint32))
    np.testing.assert_array_equal(out, [not 0 <= v <= _M32 for v in exact])


@instructions(["v_mad_u64_u32", "v_mad_i64_i32"])
def test_wide_multiply_add(name: str) -> None:
    kind = name[6]
    narrow, wide = _TYPES[f"{kind}32"], _TYPES[f"{kind}64"]
    a, b, c = (
        random_bits(8, narrow),
        random_bits(9, narrow),
        random_bits(10, wide),
    )
    found, out = vector(name, [a, b, c], np.uint64, "m")
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    exact = [x * y + z for x, y, z in rows]
    np.testing.assert_array_equal(found, np.array([v & (1 << 64) - 1 for v in exact], np.uint64))
    # src: RDNA3 ISA, V_MAD_U64_U32 and V_MAD_I64_I32: { D1, D0 } are the sum's 65 bits.
    np.testing.assert_array_equal(out, [v >> 64 & 1 for v in exact])


@instructions(["v_cndmask_b32"])
def test_select(name: str) -> None:
    a, b, mask = random_bits(11), random_bits(12), random_bits(13) & 1 == 1
    found = vector(name, [a, b, mask], np.uint32)
    np.testing.assert_array_equal(
        found, [y if m else x for x, y, m in zip(a, b, mask, strict=True)]
    )


def test_every_family_has_the_common_instructions() -> None:
    common = ("v_and_b32", "v_mul_lo_u32", "v_bfe_u32", "v_lshrrev_b64", "v_cmp_lt_i64")
    kinds = ("VOP3", "VOP3SD")
    missing = [(c.name, n) for c in CHIPS for n in common if not entry_of(c.family, n, kinds)]
    np.testing.assert_equal(missing, [])

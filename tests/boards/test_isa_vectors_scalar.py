"""Scalar instructions on >= 20,000 operands against Python's integers: result and SCC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.boards.isa_vectors import instructions, random_bits, scalar

_TYPES: dict[str, Any] = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}
_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1
Rule = tuple[str, str, Callable[..., Any]]


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _mask(bits: int) -> int:
    return (1 << bits) - 1


def _nonzero(function: Callable[..., int], bits: int) -> Callable[..., tuple[int, bool]]:
    """Most results set SCC when they are not zero."""
    return lambda *v: (r := function(*v[:-1]) & _mask(bits), r != 0)


def _kept(function: Callable[..., int]) -> Callable[..., tuple[int, bool]]:
    return lambda *v: (function(*v[:-1]), bool(v[-1]))


def _logic(bits: int) -> dict[str, Rule]:
    kind = f"u{bits}"
    two = f"{kind} {kind}"
    table: dict[str, Callable[[int, int], int]] = {
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
        "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
        "and_not1": lambda a, b: a & ~b, "or_not1": lambda a, b: a | ~b,
        "andn2": lambda a, b: a & ~b, "orn2": lambda a, b: a | ~b,
    }  # fmt: skip
    rules: dict[str, Rule] = {
        f"s_{n}_b{bits}": (two, kind, _nonzero(f, bits)) for n, f in table.items()
    }
    low = bits - 1
    return rules | {
        f"s_not_b{bits}": (kind, kind, _nonzero(lambda a: ~a, bits)),
        f"s_mov_b{bits}": (kind, kind, _kept(lambda a: a)),
        f"s_lshl_b{bits}": (f"{kind} u32", kind, _nonzero(lambda a, b: a << (b & low), bits)),
        f"s_lshr_b{bits}": (f"{kind} u32", kind, _nonzero(lambda a, b: a >> (b & low), bits)),
        f"s_ashr_i{bits}": (f"i{bits} u32", kind, _nonzero(lambda a, b: a >> (b & low), bits)),
        f"s_bfe_u{bits}": (f"{kind} u32", kind, _nonzero(lambda a, b: _field(a, b, bits), bits)),
        f"s_bfe_i{bits}": (f"{kind} u32", kind, _nonzero(lambda a, b: _field_i(a, b, bits), bits)),
        f"s_bfm_b{bits}": ("u32 u32", kind, _kept(lambda a, b: _mask(a & low) << (b & low))),
        f"s_brev_b{bits}": (kind, kind, _kept(lambda a: int(f"{a:0{bits}b}"[::-1], 2))),
        f"s_bcnt1_i32_b{bits}": (kind, "u32", _nonzero(lambda a: a.bit_count(), 32)),
        f"s_bcnt0_i32_b{bits}": (kind, "u32", _nonzero(lambda a: bits - a.bit_count(), 32)),
        f"s_clz_i32_u{bits}": (kind, "u32", _kept(lambda a: bits - a.bit_length() if a else -1)),
        f"s_ctz_i32_b{bits}": (kind, "u32", _kept(lambda a: (a & -a).bit_length() - 1)),
        f"s_cselect_b{bits}": (two, kind, lambda a, b, scc: (a if scc else b, bool(scc))),
        f"s_bitcmp0_b{bits}": (f"{kind} u32", "", lambda a, b, scc: not a >> (b & low) & 1),
        f"s_bitcmp1_b{bits}": (f"{kind} u32", "", lambda a, b, scc: a >> (b & low) & 1),
        f"s_cmp_eq_u{bits}": (two, "", lambda a, b, scc: a == b),
        f"s_cmp_lg_u{bits}": (two, "", lambda a, b, scc: a != b),
    }


def _field(a: int, control: int, bits: int) -> int:
    return a >> (control & (bits - 1)) & _mask(control >> 16 & 0x7F)


def _field_i(a: int, control: int, bits: int) -> int:
    start, width = control & (bits - 1), control >> 16 & 0x7F
    width = min(width, bits - start)
    return _signed(a >> start, width) if width else 0


def _carry(total: int) -> tuple[int, bool]:
    return total, not 0 <= total <= _M32


def _overflow(total: int) -> tuple[int, bool]:
    return total, not -(1 << 31) <= total < 1 << 31


def _arithmetic() -> dict[str, Rule]:
    u, i = "u32 u32", "i32 i32"
    rules: dict[str, Rule] = {
        "s_add_u32": (u, "u32", lambda a, b, scc: _carry(a + b)),
        "s_sub_u32": (u, "u32", lambda a, b, scc: _carry(a - b)),
        "s_add_i32": (i, "u32", lambda a, b, scc: _overflow(a + b)),
        "s_sub_i32": (i, "u32", lambda a, b, scc: _overflow(a - b)),
        "s_addc_u32": (u, "u32", lambda a, b, scc: _carry(a + b + scc)),
        "s_subb_u32": (u, "u32", lambda a, b, scc: _carry(a - b - scc)),
        "s_mul_i32": (u, "u32", _kept(lambda a, b: a * b)),
        "s_mul_hi_u32": (u, "u32", _kept(lambda a, b: a * b >> 32)),
        "s_mul_hi_i32": (i, "u32", _kept(lambda a, b: a * b >> 32)),
        "s_mul_u64": ("u64 u64", "u64", _kept(lambda a, b: a * b)),
        "s_add_nc_u64": ("u64 u64", "u64", _kept(lambda a, b: a + b)),
        "s_sub_nc_u64": ("u64 u64", "u64", _kept(lambda a, b: a - b)),
        "s_absdiff_i32": (i, "u32", _nonzero(lambda a, b: abs(_signed(a - b, 32)), 32)),
        "s_abs_i32": ("i32", "u32", _nonzero(abs, 32)),
        "s_sext_i32_i8": ("u32", "u32", _kept(lambda a: _signed(a, 8))),
        "s_sext_i32_i16": ("u32", "u32", _kept(lambda a: _signed(a, 16))),
        "s_min_i32": (i, "u32", lambda a, b, scc: (min(a, b), a < b)),
        "s_min_u32": (u, "u32", lambda a, b, scc: (min(a, b), a < b)),
        "s_max_i32": (i, "u32", lambda a, b, scc: (max(a, b), a >= b)),
        "s_max_u32": (u, "u32", lambda a, b, scc: (max(a, b), a >= b)),
        "s_cls_i32": ("i32", "u32", _kept(_leading_signs)),
    }
    for count in range(1, 5):
        rules[f"s_lshl{count}_add_u32"] = (
            u, "u32", lambda a, b, scc, n=count: _carry((a << n) + b),
        )  # fmt: skip
    for name, function in (
        ("ll", lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16),
        ("lh", lambda a, b: a & 0xFFFF | b & 0xFFFF0000),
        ("hh", lambda a, b: a >> 16 | b & 0xFFFF0000),
        ("hl", lambda a, b: a >> 16 | (b & 0xFFFF) << 16),
    ):
        rules[f"s_pack_{name}_b32_b16"] = (u, "u32", _kept(function))
    for condition, compare in (
        ("gt", lambda a, b, scc: a > b), ("ge", lambda a, b, scc: a >= b),
        ("lt", lambda a, b, scc: a < b), ("le", lambda a, b, scc: a <= b),
        ("eq", lambda a, b, scc: a == b), ("lg", lambda a, b, scc: a != b),
    ):  # fmt: skip
        rules[f"s_cmp_{condition}_i32"] = (i, "", compare)
        rules[f"s_cmp_{condition}_u32"] = (u, "", compare)
    return rules


def _leading_signs(a: int) -> int:
    folded = ~a if a < 0 else a
    return 32 - folded.bit_length() if folded else -1


_RULES: dict[str, Rule] = {**_logic(32), **_logic(64), **_arithmetic()}


@instructions(_RULES)
def test_scalar_instruction(name: str) -> None:
    kinds, result, function = _RULES[name]
    sources = [random_bits(i, _TYPES[kind]) for i, kind in enumerate(kinds.split())]
    if len(sources) > 1 and sources[0].dtype == sources[1].dtype:
        sources[1][::7] = sources[0][::7]
    scc = random_bits(9) & 1 == 1
    found, flag = scalar(name, sources, _TYPES[result] if result else None, scc)
    rows = [
        function(*row) for row in zip(*[s.tolist() for s in sources], scc.tolist(), strict=True)
    ]
    if not result:
        np.testing.assert_array_equal(flag, np.array(rows, bool))
        return
    mask = _M64 if result == "u64" else _M32
    np.testing.assert_array_equal(found, np.array([r[0] & mask for r in rows], _TYPES[result]))
    np.testing.assert_array_equal(flag, [r[1] for r in rows])

"""What scalar instructions compute: types in, type out, and what becomes of SCC.

Functions take arrays (one element a wave) and give the result, or (result, scc).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.isa.vector_ops import pack16, shift_count

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """`scc`: "" untouched, "nonzero" of the result, "given" as a second result, "only" a result."""

    sources: tuple[str, ...]
    result: str
    function: Callable[..., Any]
    scc: str = ""
    reads_scc: bool = False
    accumulate: bool = False
    """The destination's old value is the last source."""


SCALAR: dict[str, ScalarOp] = {}


def _define(signature: str, scc: str = "", /, **functions: Callable[..., Any]) -> None:
    left, result = signature.split("->")
    for name, function in functions.items():
        SCALAR[name] = ScalarOp(tuple(left.split()), result.strip(), function, scc)


def _logic() -> None:
    table: dict[str, Callable[..., Any]] = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "nand": lambda a, b: ~(a & b),
        "nor": lambda a, b: ~(a | b),
        "xnor": lambda a, b: ~(a ^ b),
        "and_not1": lambda a, b: a & ~b,
        "or_not1": lambda a, b: a | ~b,
    }
    for bits, kind in ((32, "u32"), (64, "u64")):
        for name, function in table.items():
            _define(f"{kind} {kind} -> {kind}", "nonzero", **{f"s_{name}_b{bits}": function})
        _define(f"{kind} -> {kind}", "nonzero", **{f"s_not_b{bits}": lambda a: ~a})
        _define(f"{kind} -> {kind}", **{f"s_mov_b{bits}": lambda a: a})
        _define(f"{kind} u32 -> {kind}", "nonzero", **{
            f"s_lshl_b{bits}": lambda a, b, n=bits: a << shift_count(b, n).astype(a.dtype),
            f"s_lshr_b{bits}": lambda a, b, n=bits: a >> shift_count(b, n).astype(a.dtype),
            f"s_bfe_u{bits}": lambda a, b, n=bits: _extract(a, b, n, False),
        })  # fmt: skip
        signed = f"i{bits}"
        _define(f"{signed} u32 -> {signed}", "nonzero", **{
            f"s_ashr_i{bits}": lambda a, b, n=bits: a >> shift_count(b, n).astype(a.dtype),
            f"s_bfe_i{bits}": lambda a, b, n=bits: _extract(a, b, n, True),
        })  # fmt: skip
        _define(f"u32 u32 -> {kind}", **{f"s_bfm_b{bits}": lambda a, b, n=bits: _mask(a, b, n)})


def _extract(a: Array, control: Array, bits: int, signed: bool) -> Array:
    """Bit field of `control`: offset in the low bits, width in 22:16."""
    start = (control & np.uint32(bits - 1)).astype(np.int64)
    width = np.minimum((control >> np.uint32(16) & np.uint32(0x7F)).astype(np.int64), bits - start)
    left = (bits - start - width).astype(a.dtype)
    right = (bits - width).clip(0, bits - 1).astype(a.dtype)
    answer: Array = np.where(width == 0, a.dtype.type(0), (a << left) >> right)
    return answer


def _mask(count: Array, start: Array, bits: int) -> Array:
    one = np.uint64(1)
    ones = (one << shift_count(count, bits).astype(np.uint64)) - one
    value = ones << shift_count(start, bits).astype(np.uint64)
    return value if bits == 64 else value.astype(np.uint32)


def _arithmetic() -> None:
    _define("u32 u32 -> u32", "given", s_add_u32=_add, s_sub_u32=_sub)
    _define("i32 i32 -> i32", "given", s_add_i32=_add_signed, s_sub_i32=_sub_signed)
    _define(
        "u32 u32 -> u32",
        s_mul_i32=lambda a, b: a * b,
        s_mul_hi_u32=lambda a, b: np.multiply(a, b, dtype=np.uint64) >> np.uint64(32),
        s_pack_ll_b32_b16=lambda a, b: _pack(a, b),
        s_pack_lh_b32_b16=lambda a, b: _pack(a, b >> np.uint32(16)),
        s_pack_hh_b32_b16=lambda a, b: _pack(a >> np.uint32(16), b >> np.uint32(16)),
        s_pack_hl_b32_b16=lambda a, b: _pack(a >> np.uint32(16), b),
    )
    _define(
        "u64 u64 -> u64",
        s_add_nc_u64=lambda a, b: a + b,
        s_sub_nc_u64=lambda a, b: a - b,
        s_mul_u64=lambda a, b: a * b,
    )
    _define("i32 i32 -> i32", s_mul_hi_i32=lambda a, b: np.multiply(a, b, dtype=np.int64) >> 32)
    for kind in ("i32", "u32"):
        _define(f"{kind} {kind} -> {kind}", "given", **{
            f"s_min_{kind}": lambda a, b: (np.minimum(a, b), a < b),
            f"s_max_{kind}": lambda a, b: (np.maximum(a, b), a >= b),
        })  # fmt: skip
    _define("i32 i32 -> i32", "nonzero", s_absdiff_i32=_absolute_difference)
    for count in range(1, 5):
        _define("u32 u32 -> u32", "given", **{
            f"s_lshl{count}_add_u32": lambda a, b, n=count: _shift_add(a, b, n),
        })  # fmt: skip
    for name, function in (("s_addc_u32", _add), ("s_subb_u32", _sub)):
        SCALAR[name] = ScalarOp(("u32", "u32"), "u32", function, "given", reads_scc=True)
    for bits in (32, 64):
        kind = f"u{bits}"
        SCALAR[f"s_cselect_b{bits}"] = ScalarOp(
            (kind, kind), kind, lambda a, b, scc: np.where(scc, a, b), reads_scc=True
        )


def _pack(low: Array, high: Array) -> Array:
    return pack16(low.astype(np.uint16), high.astype(np.uint16))


def _add(a: Array, b: Array, carry: Any = False) -> tuple[Array, Array]:
    total = np.add(a, b, dtype=np.uint64) + np.asarray(carry, np.uint64)
    return total.astype(np.uint32), total >> np.uint64(32) != 0


def _sub(a: Array, b: Array, borrow: Any = False) -> tuple[Array, Array]:
    total = a.astype(np.int64) - b.astype(np.int64) - np.asarray(borrow, np.int64)
    return total.astype(np.uint32), total < 0


def _add_signed(a: Array, b: Array) -> tuple[Array, Array]:
    total = np.add(a, b, dtype=np.int64)
    result = total.astype(np.int32)
    return result, result != total


def _sub_signed(a: Array, b: Array) -> tuple[Array, Array]:
    total = np.subtract(a, b, dtype=np.int64)
    result = total.astype(np.int32)
    return result, result != total


def _absolute_difference(a: Array, b: Array) -> Array:
    answer: Array = np.abs(a - b)
    return answer


def _shift_add(a: Array, b: Array, count: int) -> tuple[Array, Array]:
    total = (a.astype(np.uint64) << np.uint64(count)) + b
    return total.astype(np.uint32), total >> np.uint64(32) != 0


def _unary() -> None:
    for bits in (32, 64):
        kind = f"u{bits}"
        _define(f"{kind} -> u32", **{f"s_clz_i32_u{bits}": partial(_leading_zeros, bits=bits)})
        _define(f"{kind} -> u32", **{f"s_ctz_i32_b{bits}": _trailing_zeros})
        _define(f"{kind} -> u32", "nonzero", **{
            f"s_bcnt1_i32_b{bits}": lambda a: np.bitwise_count(a).astype(np.uint32),
            f"s_bcnt0_i32_b{bits}": lambda a: np.bitwise_count(~a).astype(np.uint32),
        })  # fmt: skip
        _define(f"{kind} -> {kind}", **{f"s_brev_b{bits}": _reverse})
    _define("u32 -> u32", s_cls_i32=lambda a: _leading_signs(a))
    _define("i32 -> i32", "nonzero", s_abs_i32=np.abs)
    _define("u32 -> i32", s_sext_i32_i8=lambda a: a.astype(np.int8).astype(np.int32))
    _define("u32 -> i32", s_sext_i32_i16=lambda a: a.astype(np.int16).astype(np.int32))


def _leading_zeros(a: Array, bits: int) -> Array:
    """-1 for 0."""
    value = np.zeros(a.shape, np.int64)
    rest = a.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        big = rest >> np.uint64(step) != 0
        value += np.where(big, step, 0)
        rest = np.where(big, rest >> np.uint64(step), rest)
    return np.where(a == 0, -1, bits - 1 - value).astype(np.int32).view(np.uint32)


def _trailing_zeros(a: Array) -> Array:
    lowest = a & (~a + a.dtype.type(1))
    below = np.bitwise_count(lowest - a.dtype.type(1)).astype(np.int32)
    return np.where(a == 0, -1, below).astype(np.int32).view(np.uint32)


def _leading_signs(a: Array) -> Array:
    folded = np.where(a >> np.uint32(31) != 0, ~a, a)
    return np.where(folded == 0, np.uint32(0xFFFFFFFF), _leading_zeros(folded, 32))


def _reverse(a: Array) -> Array:
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.itemsize)
    flipped = np.packbits(np.unpackbits(octets, axis=-1)[..., ::-1], axis=-1)
    return np.ascontiguousarray(flipped).view(a.dtype)[..., 0]


def _compares() -> None:
    table: dict[str, Callable[..., Any]] = {
        "eq": lambda a, b: a == b,
        "lg": lambda a, b: a != b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
    }
    for name, function in table.items():
        for kind in ("i32", "u32"):
            _define(f"{kind} {kind} -> {kind}", "only", **{f"s_cmp_{name}_{kind}": function})
            _define(f"{kind} {kind} -> {kind}", "only", **{f"s_cmpk_{name}_{kind}": function})
    _define("u64 u64 -> u64", "only", s_cmp_eq_u64=table["eq"], s_cmp_lg_u64=table["lg"])
    for bits in (32, 64):
        for wanted in (0, 1):
            _define(f"u{bits} u32 -> u32", "only", **{
                f"s_bitcmp{wanted}_b{bits}": lambda a, b, v=wanted, n=bits: _bit(a, b, n) == v,
            })  # fmt: skip


def _bit(a: Array, b: Array, bits: int) -> Array:
    answer: Array = a >> shift_count(b, bits).astype(a.dtype) & a.dtype.type(1)
    return answer


for _install in (_logic, _arithmetic, _unary, _compares):
    _install()

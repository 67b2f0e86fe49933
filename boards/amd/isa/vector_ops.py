"""What every vector instruction computes: types in, type out, one function of arrays.

The functions use operators and numpy only; how operands are fetched, negated, flushed, clamped and
written is the same for all and lives in the executor. Types: f16 f32 f64 i16 u16 i32 u32 i64 u64,
`m` a lane mask (bool), `p` two packed 16-bit values as u32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Op:
    """One instruction's meaning: `results` of `function(*sources)`.

    `accumulate`: the destination's old value is the last source.
    """

    results: tuple[str, ...]
    sources: tuple[str, ...]
    function: Function
    accumulate: bool = False
    addends: Function | None = None
    """Sources (in f64, or rationals where the result is f64) -> two exact numbers whose sum,
    rounded once, is the result: from them any rounding mode follows."""


OPS: dict[str, Op] = {}
"""Mnemonic (without _e32, _e64) -> meaning."""


def define(signature: str, /, **functions: Function) -> None:
    """define("f32 f32 -> f32", v_add_f32=...): several instructions of one signature.

    A source written `+f32` is the old value of the destination.
    """
    left, right = signature.split("->")
    accumulate = "+" in left
    sources = tuple(left.replace("+", "").split())
    for name, function in functions.items():
        OPS[name] = Op(tuple(right.split()), sources, function, accumulate)


def round_with(addends: Function, names: Iterable[str]) -> None:
    """Give instructions that exist their `addends`, so that they can round in any direction."""
    for name in names:
        if name in OPS:
            OPS[name] = replace(OPS[name], addends=addends)


def shift_count(count: Array, bits: int) -> Array:
    """Shift counts are taken modulo the width."""
    masked: Array = count & count.dtype.type(bits - 1)
    return masked


def _integers() -> None:
    u32 = "u32 u32 -> u32"
    define(
        u32,
        v_and_b32=lambda a, b: a & b,
        v_or_b32=lambda a, b: a | b,
        v_xor_b32=lambda a, b: a ^ b,
        v_xnor_b32=lambda a, b: ~(a ^ b),
        v_add_nc_u32=lambda a, b: a + b,
        v_sub_nc_u32=lambda a, b: a - b,
        v_subrev_nc_u32=lambda a, b: b - a,
        v_lshlrev_b32=lambda a, b: b << shift_count(a, 32),
        v_lshrrev_b32=lambda a, b: b >> shift_count(a, 32),
        v_min_u32=np.minimum,
        v_max_u32=np.maximum,
        v_mul_lo_u32=lambda a, b: a * b,
        v_mul_hi_u32=lambda a, b: (np.multiply(a, b, dtype=np.uint64) >> 32).astype(np.uint32),
        v_mul_u32_u24=lambda a, b: (a & _M24) * (b & _M24),
        v_mul_hi_u32_u24=lambda a, b: _high(np.multiply(a & _M24, b & _M24, dtype=np.uint64)),
        v_bfm_b32=lambda a, b: ((_ONE << shift_count(a, 32)) - _ONE) << shift_count(b, 32),
        v_bcnt_u32_b32=lambda a, b: np.bitwise_count(a).astype(np.uint32) + b,
    )
    define(
        "i32 i32 -> i32",
        v_min_i32=np.minimum,
        v_max_i32=np.maximum,
        v_add_nc_i32=lambda a, b: a + b,
        v_sub_nc_i32=lambda a, b: a - b,
        v_mul_hi_i32=lambda a, b: (np.multiply(a, b, dtype=np.int64) >> 32).astype(np.int32),
        v_mul_i32_i24=lambda a, b: _s24(a) * _s24(b),
        v_mul_hi_i32_i24=lambda a, b: _high(np.multiply(_s24(a), _s24(b), dtype=np.int64)),
    )
    define("u32 i32 -> i32", v_ashrrev_i32=lambda a, b: b >> shift_count(a, 32).astype(np.int32))
    define(
        "u32 u64 -> u64",
        v_lshlrev_b64=lambda a, b: b << shift_count(a, 64).astype(np.uint64),
        v_lshrrev_b64=lambda a, b: b >> shift_count(a, 64).astype(np.uint64),
    )
    define("u32 i64 -> i64", v_ashrrev_i64=lambda a, b: b >> shift_count(a, 64).astype(np.int64))


_M24 = np.uint32(0xFFFFFF)
_ONE = np.uint32(1)


def _s24(a: Array) -> Array:
    return (a << np.int32(8)) >> np.int32(8)


def _high(product: Array) -> Array:
    return (product >> 32).astype(np.int32 if product.dtype.kind == "i" else np.uint32)


def _integers3() -> None:
    define(
        "u32 u32 u32 -> u32",
        v_add3_u32=lambda a, b, c: a + b + c,
        v_lshl_add_u32=lambda a, b, c: (a << shift_count(b, 32)) + c,
        v_add_lshl_u32=lambda a, b, c: (a + b) << shift_count(c, 32),
        v_lshl_or_b32=lambda a, b, c: (a << shift_count(b, 32)) | c,
        v_and_or_b32=lambda a, b, c: (a & b) | c,
        v_or3_b32=lambda a, b, c: a | b | c,
        v_xor3_b32=lambda a, b, c: a ^ b ^ c,
        v_xad_u32=lambda a, b, c: (a ^ b) + c,
        v_bfi_b32=lambda a, b, c: (a & b) | (~a & c),
        v_bfe_u32=lambda a, b, c: _bfe(a.astype(np.uint64), b, c).astype(np.uint32),
        v_mad_u32_u24=lambda a, b, c: (a & _M24) * (b & _M24) + c,
        v_min3_u32=lambda a, b, c: np.minimum(np.minimum(a, b), c),
        v_max3_u32=lambda a, b, c: np.maximum(np.maximum(a, b), c),
        v_med3_u32=lambda a, b, c: median(a, b, c),
        v_maxmin_u32=lambda a, b, c: np.minimum(np.maximum(a, b), c),
        v_minmax_u32=lambda a, b, c: np.maximum(np.minimum(a, b), c),
        v_alignbit_b32=lambda a, b, c: _align(a, b, shift_count(c, 32)),
        v_alignbyte_b32=lambda a, b, c: _align(a, b, (c & np.uint32(3)) * np.uint32(8)),
        v_perm_b32=lambda a, b, c: _permute_bytes(a, b, c),
        v_sad_u8=lambda a, b, c: c + _sad(a, b, 8),
        v_sad_u16=lambda a, b, c: c + _sad(a, b, 16),
        v_sad_u32=lambda a, b, c: c + (np.maximum(a, b) - np.minimum(a, b)),
    )
    define(
        "i32 i32 i32 -> i32",
        v_bfe_i32=lambda a, b, c: _bfe(a, b, c),
        v_mad_i32_i24=lambda a, b, c: _s24(a) * _s24(b) + c,
        v_min3_i32=lambda a, b, c: np.minimum(np.minimum(a, b), c),
        v_max3_i32=lambda a, b, c: np.maximum(np.maximum(a, b), c),
        v_med3_i32=lambda a, b, c: median(a, b, c),
        v_maxmin_i32=lambda a, b, c: np.minimum(np.maximum(a, b), c),
        v_minmax_i32=lambda a, b, c: np.maximum(np.minimum(a, b), c),
    )
    define("u16 u16 u32 -> u32", v_mad_u32_u16=lambda a, b, c: _wide_u(a) * _wide_u(b) + c)
    define("i16 i16 i32 -> i32", v_mad_i32_i16=lambda a, b, c: _wide_i(a) * _wide_i(b) + c)


def _wide_u(a: Array) -> Array:
    return a.astype(np.uint32)


def _wide_i(a: Array) -> Array:
    return a.astype(np.int32)


def median(a: Array, b: Array, c: Array) -> Array:
    """The middle value of three."""
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _bfe(a: Array, offset: Array, width: Array) -> Array:
    """Bit field extract; a width of 0 gives 0, the sign extends for signed types."""
    start = offset & offset.dtype.type(31)
    size = width & width.dtype.type(31)
    if a.dtype.kind == "u":
        mask = (np.uint64(1) << size.astype(np.uint64)) - np.uint64(1)
        answer: Array = (a >> start.astype(np.uint64)) & mask
        return answer
    end = np.minimum(start + size, 32).astype(np.int64)
    raised = a.astype(np.int64) << (64 - end)
    return np.where(size == 0, 0, raised >> (64 - (end - start).clip(1))).astype(np.int32)


def _align(a: Array, b: Array, count: Array) -> Array:
    pair = a.astype(np.uint64) << np.uint64(32) | b
    return np.asarray(pair >> count.astype(np.uint64), np.uint64).astype(np.uint32)


def _sad(a: Array, b: Array, bits: int) -> Array:
    mask = np.uint32((1 << bits) - 1)
    total: Array = np.zeros(1, np.uint32)
    for low in range(0, 32, bits):
        x, y = a >> np.uint32(low) & mask, b >> np.uint32(low) & mask
        total = total + (np.maximum(x, y) - np.minimum(x, y))
    return total


def _permute_bytes(a: Array, b: Array, select: Array) -> Array:
    """v_perm_b32: each byte of `select` picks a byte of {a, b}, a sign or a constant."""
    pair = a.astype(np.uint64) << np.uint64(32) | b
    result: Array = np.zeros(1, np.uint32)
    for low in range(0, 32, 8):
        pick = (select >> np.uint32(low) & np.uint32(0xFF)).astype(np.uint64)
        byte = pair >> ((pick & np.uint64(7)) * np.uint64(8)) & np.uint64(0xFF)
        sign_byte = (pick - np.uint64(8)).clip(0, 3) * np.uint64(16) + np.uint64(15)
        sign = (pair >> sign_byte & np.uint64(1)) * np.uint64(0xFF)
        value = np.where(pick < 8, byte, np.where(pick < 12, sign, 0))
        value = np.where(pick >= 13, 0xFF, value)
        result = result | value.astype(np.uint32) << np.uint32(low)
    return result


def _named(kind: str, /, **functions: Function) -> dict[str, Function]:
    return {f"{name}_{kind}": function for name, function in functions.items()}


def _shorts() -> None:
    for kind in ("u16", "i16"):
        define(
            f"{kind} {kind} -> {kind}",
            **_named(
                kind,
                v_add_nc=lambda a, b: a + b,
                v_sub_nc=lambda a, b: a - b,
                v_min=np.minimum,
                v_max=np.maximum,
            ),
        )
        define(
            f"{kind} {kind} {kind} -> {kind}",
            **{
                f"v_mad_{kind}": lambda a, b, c: a * b + c,
                f"v_min3_{kind}": lambda a, b, c: np.minimum(np.minimum(a, b), c),
                f"v_max3_{kind}": lambda a, b, c: np.maximum(np.maximum(a, b), c),
                f"v_med3_{kind}": median,
            },
        )
    define(
        "u16 u16 -> u16",
        v_mul_lo_u16=lambda a, b: a * b,
        v_lshlrev_b16=lambda a, b: b << shift_count(a, 16),
        v_lshrrev_b16=lambda a, b: b >> shift_count(a, 16),
        v_and_b16=lambda a, b: a & b,
        v_or_b16=lambda a, b: a | b,
        v_xor_b16=lambda a, b: a ^ b,
    )
    define("u16 i16 -> i16", v_ashrrev_i16=lambda a, b: b >> shift_count(a, 16).astype(np.int16))
    define("u16 -> u16", v_not_b16=lambda a: ~a, v_mov_b16=lambda a: a)
    define("f16 f16 -> p", v_pack_b32_f16=lambda a, b: pack16(a, b))


def pack16(low: Array, high: Array) -> Array:
    """Two 16-bit arrays as one of 32 bits."""
    x, y = (np.ascontiguousarray(v).view(np.uint16).astype(np.uint32) for v in (low, high))
    return x | y << np.uint32(16)


def _carries() -> None:
    define(
        "u32 u32 -> u32 m",
        v_add_co_u32=lambda a, b: _add_carry(a, b, False),
        v_sub_co_u32=lambda a, b: _sub_borrow(a, b, False),
        v_subrev_co_u32=lambda a, b: _sub_borrow(b, a, False),
    )
    define(
        "u32 u32 m -> u32 m",
        v_add_co_ci_u32=_add_carry,
        v_sub_co_ci_u32=_sub_borrow,
        v_subrev_co_ci_u32=lambda a, b, c: _sub_borrow(b, a, c),
    )
    define("u32 u32 m -> u32", v_cndmask_b32=lambda a, b, m: np.where(m, b, a))
    define("u16 u16 m -> u16", v_cndmask_b16=lambda a, b, m: np.where(m, b, a))
    define("u32 u32 u64 -> u64 m", v_mad_u64_u32=_mad_u64)
    define("i32 i32 i64 -> i64 m", v_mad_i64_i32=_mad_i64)


def _add_carry(a: Array, b: Array, carry: Any) -> tuple[Array, Array]:
    total = a + b
    out = total < a
    if carry is not False:
        total = total + np.asarray(carry, np.uint32)
        out = out | (total == 0) & carry
    return total, out


def _sub_borrow(a: Array, b: Array, borrow: Any) -> tuple[Array, Array]:
    total = a.astype(np.int64) - b.astype(np.int64) - np.asarray(borrow, np.int64)
    return total.astype(np.uint32), total < 0


def _mad_u64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    total = np.multiply(a, b, dtype=np.uint64) + c
    return total, total < c


def _mad_i64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """The sum and its bit 64, which is the sign of the exact one."""
    # src: RDNA3 ISA, V_MAD_I64_I32: { D1, D0.i64 } = 65'B(65'I(S0.i32) * 65'I(S1.i32) + ...).
    product = np.multiply(a, b, dtype=np.int64)
    total = product + c
    overflow = ((product ^ total) & (c ^ total)) < 0
    return total, overflow ^ (total < 0)


def _bits() -> None:
    define(
        "u32 -> u32",
        v_mov_b32=lambda a: a,
        v_not_b32=lambda a: ~a,
        v_bfrev_b32=lambda a: reverse_bits(a),
        v_clz_i32_u32=lambda a: _leading(a),
        v_ctz_i32_b32=lambda a: _trailing(a),
        v_cls_i32=lambda a: _leading_signs(a),
    )
    define("i16 -> i32", v_cvt_i32_i16=_wide_i)
    define("u16 -> u32", v_cvt_u32_u16=_wide_u)
    define("p -> u16", v_sat_pk_u8_i16=_saturate_pack)
    define("u32 u32 -> p", v_cvt_pk_u16_u32=lambda a, b: pack16(_clip_u16(a), _clip_u16(b)))
    define("i32 i32 -> p", v_cvt_pk_i16_i32=lambda a, b: pack16(_clip_i16(a), _clip_i16(b)))


def _saturate_pack(a: Array) -> Array:
    pair = np.ascontiguousarray(a).view(np.int16).reshape(*a.shape, 2)
    limited = pair.clip(0, 255).astype(np.uint32)
    return (limited[..., 0] | limited[..., 1] << np.uint32(8)).astype(np.uint16)


def _clip_u16(a: Array) -> Array:
    return np.minimum(a, np.uint32(0xFFFF)).astype(np.uint16)


def _clip_i16(a: Array) -> Array:
    return a.clip(-32768, 32767).astype(np.int16)


def reverse_bits(a: Array) -> Array:
    """The bits of 32-bit values in the opposite order."""
    x = np.ascontiguousarray(a)
    for low, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F)):
        m, count = np.uint32(mask), np.uint32(low)
        x = (x >> count & m) | ((x & m) << count)
    return x.byteswap()


def _leading(a: Array) -> Array:
    """Zeros above the highest one; all ones for 0."""
    exponent = np.frexp(a.astype(np.float64))[1]
    return np.where(a == 0, -1, 32 - exponent).astype(np.int32).view(np.uint32)


def _trailing(a: Array) -> Array:
    lowest = a & (~a + np.uint32(1))
    exponent = np.frexp(lowest.astype(np.float64))[1] - 1
    return np.where(a == 0, -1, exponent).astype(np.int32).view(np.uint32)


def _leading_signs(a: Array) -> Array:
    signed = np.ascontiguousarray(a).view(np.int32)
    folded = np.where(signed < 0, ~signed, signed).view(np.uint32)
    return np.where(folded == 0, np.uint32(0xFFFFFFFF), _leading(folded))


for _install in (_integers, _integers3, _shorts, _carries, _bits):
    _install()

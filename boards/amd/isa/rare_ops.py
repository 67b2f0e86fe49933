"""Instructions that compilers seldom emit: quads of lanes, bits of 2/pi, sums of bytes, norms."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.isa.convert_ops import to_integer
from boards.amd.isa.scalar_ops import SCALAR, ScalarOp
from boards.amd.isa.vector_ops import define

Array = NDArray[Any]
_QUAD, _OCTET = 4, 8
_TWO_OVER_PI_BITS = 1201
_MANTISSA = 53
_FAR_EXPONENT, _HUGE_EXPONENT, _RESCUE = 1077, 1968, 128


@cache
def two_over_pi() -> int:
    """The first 1201 bits of 2/pi, by Machin's formula in integers."""
    guard = _TWO_OVER_PI_BITS + 64
    one = 1 << guard
    pi = 4 * (4 * _arctan_inverse(5, one) - _arctan_inverse(239, one))
    return (2 * one * one // pi) >> (guard - _TWO_OVER_PI_BITS)


def _arctan_inverse(x: int, one: int) -> int:
    """arctan(1 / x) times `one`."""
    total = power = one // x
    for n in range(3, one.bit_length(), 2):
        power //= -x * x
        total += power // n
    return total


def _trig_preop(a: Array, segment: Array) -> Array:
    """53 bits of 2/pi for argument reduction, chosen by the exponent and a segment number."""
    # src: RDNA2 ISA, V_TRIG_PREOP_F64 (the same in RDNA3 and CDNA3).
    values, segments = np.broadcast_arrays(a, segment)
    out = np.empty(values.shape)
    bits = two_over_pi()
    exponents = (np.ascontiguousarray(values).view(np.uint64) >> np.uint64(52)) & np.uint64(0x7FF)
    for index in np.ndindex(values.shape):
        exponent = int(exponents[index])
        shift = (int(segments[index]) & 31) * _MANTISSA + max(0, exponent - _FAR_EXPONENT)
        kept = bits << shift & (1 << _TWO_OVER_PI_BITS) - 1
        mantissa = kept >> (_TWO_OVER_PI_BITS - _MANTISSA)
        scale = -_MANTISSA - shift + (_RESCUE if exponent >= _HUGE_EXPONENT else 0)
        out[index] = np.ldexp(float(mantissa), scale)
    return out


def _byte(a: Array, number: int) -> Array:
    return a >> np.uint32(8 * number) & np.uint32(0xFF)


def _lerp(a: Array, b: Array, c: Array) -> Array:
    """Means of bytes; the lowest bit of c's byte rounds up."""
    total: Array = np.zeros(1, np.uint32)
    for i in range(4):
        mean = (_byte(a, i) + _byte(b, i) + (_byte(c, i) & np.uint32(1))) >> np.uint32(1)
        total = total | mean << np.uint32(8 * i)
    return total


def _sad(a: Array, b: Array, masked: bool) -> Array:
    total: Array = np.zeros(1, np.uint32)
    for i in range(4):
        x, y = _byte(a, i), _byte(b, i)
        difference = np.maximum(x, y) - np.minimum(x, y)
        total = total + (np.where(y == 0, np.uint32(0), difference) if masked else difference)
    return total


def _off_i4(a: Array) -> Array:
    low = (a & np.uint32(15)).astype(np.int32)
    return (np.where(low > 7, low - 16, low) / np.float32(16)).astype(np.float32)


def _norm(kind: str, low: float, scale: float) -> Any:
    def apply(a: Array) -> Array:
        return to_integer(np.rint(a.astype(np.float64).clip(low, 1.0) * scale), kind)

    return apply


def _vectors() -> None:
    define("f64 u32 -> f64", v_trig_preop_f64=_trig_preop)
    define(
        "u32 u32 u32 -> u32",
        v_lerp_u8=_lerp,
        v_sad_hi_u8=lambda a, b, c: (_sad(a, b, False) << np.uint32(16)) + c,
        v_msad_u8=lambda a, b, c: _sad(a, b, True) + c,
    )
    define("u32 -> f32", v_cvt_off_f32_i4=_off_i4)
    define("f16 -> i16", v_cvt_norm_i16_f16=_norm("i16", -1.0, 32767.0))
    define("f16 -> u16", v_cvt_norm_u16_f16=_norm("u16", 0.0, 65535.0))


def _quads(a: Array) -> Array:
    """Bool (n, quads): whether any bit of four is set."""
    bits = a.dtype.itemsize * _OCTET
    shifts = np.arange(bits, dtype=a.dtype)
    lanes = (a[:, None] >> shifts & a.dtype.type(1)).reshape(len(a), bits // _QUAD, _QUAD)
    answer: Array = lanes.any(axis=2)
    return answer


def _packed(bits: Array, dtype: Any) -> Array:
    """Bools (n, k) as numbers, the first one lowest."""
    weights = np.array([1 << i for i in range(bits.shape[1])], np.uint64)
    return np.asarray((bits * weights).sum(axis=1, dtype=np.uint64)).astype(dtype)


def _whole_quads(a: Array) -> Array:
    return _packed(np.repeat(_quads(a), _QUAD, axis=1), a.dtype)


def _replicate(a: Array) -> Array:
    shifts = np.arange(32, dtype=np.uint32)
    return _packed(np.repeat((a[:, None] >> shifts & np.uint32(1)) != 0, 2, axis=1), np.uint64)


def _first_zero(a: Array) -> Array:
    ones = ~a
    lowest = ones & (~ones + ones.dtype.type(1))
    below = np.bitwise_count(lowest - ones.dtype.type(1)).astype(np.int32)
    return np.where(ones == 0, np.int32(-1), below).view(np.uint32)


def _leading_signs64(a: Array) -> Array:
    """How many bits are the sign's, -1 when all are."""
    folded = np.where(a >> np.uint64(63) != 0, ~a, a)
    counts = [64 - int(value).bit_length() if value else -1 for value in folded]
    return np.array(counts, np.int32).view(np.uint32)


def _scalars() -> None:
    for kind in ("u32", "u64"):
        bits = kind[1:]
        SCALAR[f"s_wqm_b{bits}"] = ScalarOp((kind,), kind, _whole_quads, "nonzero")
        SCALAR[f"s_quadmask_b{bits}"] = ScalarOp(
            (kind,), kind, lambda a: _packed(_quads(a), a.dtype), "nonzero"
        )
        SCALAR[f"s_ff0_i32_b{bits}"] = ScalarOp((kind,), "u32", _first_zero)
    SCALAR["s_bitreplicate_b64_b32"] = ScalarOp(("u32",), "u64", _replicate)
    SCALAR["s_cls_i32_i64"] = ScalarOp(("u64",), "u32", _leading_signs64)


for _install in (_vectors, _scalars):
    _install()

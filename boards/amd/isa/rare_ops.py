"""Vector instructions that compilers seldom emit: bits of 2/pi, means and sums of bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.isa.vector_ops import define

Array = NDArray[Any]
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


def _vectors() -> None:
    define("f64 u32 -> f64", v_trig_preop_f64=_trig_preop)
    define(
        "u32 u32 u32 -> u32",
        v_lerp_u8=_lerp,
        v_sad_hi_u8=lambda a, b, c: (_sad(a, b, False) << np.uint32(16)) + c,
        v_msad_u8=lambda a, b, c: _sad(a, b, True) + c,
    )


_vectors()

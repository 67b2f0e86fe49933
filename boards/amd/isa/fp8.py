"""Eight-bit floats of gfx12: fp8 (1.4.3, no infinity) and bf8 (1.5.2), as OCP defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MANTISSA = {"fp8": 3, "bf8": 2}
_SIGN, _MAGNITUDES = 0x80, 0x80


def _positive(kind: str) -> Array:
    """The value of every code without a sign."""
    # src: OCP 8-bit Floating Point Specification 1.0: E4M3 (bias 7), E5M2 (bias 15).
    code = np.arange(_MAGNITUDES)
    mantissa = _MANTISSA[kind]
    exponent, fraction = code >> mantissa, code & ((1 << mantissa) - 1)
    bias = (1 << (6 - mantissa)) - 1
    normal = (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias)
    value = np.where(exponent == 0, fraction / (1 << mantissa) * 2.0 ** (1 - bias), normal)
    if kind == "fp8":
        value[_MAGNITUDES - 1] = np.nan
    else:
        top = exponent == exponent.max()
        value = np.where(top, np.where(fraction == 0, np.inf, np.nan), value)
    return np.asarray(value)


_POSITIVE = {kind: _positive(kind) for kind in _MANTISSA}
_VALUES = {kind: np.concatenate([v, -v]) for kind, v in _POSITIVE.items()}
_FINITE = {kind: v[np.isfinite(v)] for kind, v in _POSITIVE.items()}
_OVERFLOW = {"fp8": 0x7F, "bf8": 0x7C}
"""What a number beyond the largest becomes: NaN, or infinity."""
_NAN = 0x7F


def decode(codes: Array, kind: str) -> Array:
    """Codes (the low 8 bits) as f64."""
    answer: Array = _VALUES[kind][codes & codes.dtype.type(0xFF)]
    return answer


def encode(values: Array, kind: str) -> Array:
    """The nearest codes, ties to even, as u32."""
    size = np.abs(values.astype(np.float64))
    finite = _FINITE[kind]
    above = np.searchsorted(finite, size).clip(1, len(finite) - 1)
    low, high = finite[above - 1], finite[above]
    middle = (low + high) / 2
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    code = np.where(up, above, above - 1)
    limit = finite[-1] + (finite[-1] - finite[-2]) / 2
    code = np.where((size > limit) | _ties_away(size, limit, len(finite)), _OVERFLOW[kind], code)
    code = np.where(np.isnan(values), _NAN, code)
    return np.asarray(code | np.where(np.signbit(values), _SIGN, 0), np.uint32)


def _ties_away(size: Array, limit: float, count: int) -> Array:
    """Half a step beyond the largest number rounds to even: away when that one is odd."""
    return np.asarray((size == limit) & ((count - 1) % 2 == 1))


def encode_random(values: Array, kind: str, random: Array) -> Array:
    """Stochastic rounding: random bits are added below the mantissa, then it is cut."""
    # src: RDNA4 ISA, V_CVT_SR_FP8_F32 and V_CVT_SR_BF8_F32.
    mantissa = _MANTISSA[kind]
    spare = 23 - mantissa
    size = np.abs(values.astype(np.float64))
    smallest = int(np.log2(_FINITE[kind][1])) + mantissa
    exponent = np.frexp(np.where(np.isfinite(size), size, 1))[1] - 1
    step = np.ldexp(1.0, np.maximum(exponent, smallest) - mantissa)
    fraction = (random >> np.uint32(32 - spare)) / (1 << spare)
    cut = np.copysign(np.floor(size / step + fraction) * step, values)
    return encode(np.where(np.isfinite(values), cut, values), kind)

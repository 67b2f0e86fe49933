"""Floating point in 8 bits: OCP's formats, which gfx12 has, and the FNUZ ones of gfx942."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_SIGN, _MAGNITUDES = 0x80, 0x80
_F32_FRACTION_BITS = 23


class Small(NamedTuple):
    """Bits of the mantissa, the exponent's bias, and the codes that are no numbers.

    A sign and the exponent are the rest; `last` is the largest code of a number.
    """

    mantissa: int
    bias: int
    last: int
    overflow: int
    """What is beyond the largest number becomes this."""
    nan: int

    @property
    def unsigned_zero(self) -> bool:
        """-0 is NaN, so that small negative numbers become +0."""
        return self.nan == _SIGN


# src: OCP 8-bit Floating Point Specification 1.0: E4M3 has a NaN and no infinity, E5M2 has both.
FP8, BF8 = Small(3, 7, 0x7E, 0x7F, 0x7F), Small(2, 15, 0x7B, 0x7C, 0x7F)
# src: CDNA3 ISA 6.2: FP8 is E4M3 with bias 8, BF8 is E5M2 with bias 16 ("FNUZ": 0x80 is NaN).
# src: HIP amd_hip_fp8.h: conversions that saturate clip with v_med3_f32, the instruction does not.
FP8_FNUZ, BF8_FNUZ = Small(3, 8, 0x7F, _SIGN, _SIGN), Small(2, 16, 0x7F, _SIGN, _SIGN)


@lru_cache
def _values(form: Small) -> Array:
    """The number of every code."""
    code = np.arange(_MAGNITUDES)
    fraction = (code & (1 << form.mantissa) - 1) / (1 << form.mantissa)
    exponent = code >> form.mantissa
    normal = (1 + fraction) * 2.0 ** (exponent - form.bias)
    size = np.where(exponent == 0, fraction * 2.0 ** (1 - form.bias), normal)
    size[form.last + 1 :] = np.nan
    if form.overflow != form.nan:
        size[form.overflow] = np.inf
    values = np.concatenate([size, -size])
    values[form.nan] = np.nan
    return values


def widen(codes: Array, form: Small) -> Array:
    """8-bit codes (the low bits of larger ones) as f64."""
    answer: Array = _values(form)[codes & codes.dtype.type(0xFF)]
    return answer


def narrow(values: Array, form: Small) -> Array:
    """The nearest codes, ties to even, as u32."""
    finite = _values(form)[: form.last + 1]
    size = np.abs(values.astype(np.float64))
    above = np.searchsorted(finite, size).clip(1, form.last)
    middle = (finite[above - 1] + finite[above]) / 2
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    code = np.where(up, above, above - 1)
    limit = finite[-1] + (finite[-1] - finite[-2]) / 2
    beyond = (size > limit) | ((size == limit) & (form.last % 2 == 1))
    code = np.where(beyond, form.overflow, code)
    code = np.where(np.isnan(size), form.nan, code)
    negative = np.signbit(values) & ~((code == 0) & form.unsigned_zero)
    return np.asarray(code | np.where(negative, _SIGN, 0), np.uint32)


def narrow_random(values: Array, form: Small, random: Array) -> Array:
    """Stochastic rounding: random bits are added below the mantissa, then it is cut."""
    # src: RDNA4 ISA, V_CVT_SR_FP8_F32 and V_CVT_SR_BF8_F32.
    spare = _F32_FRACTION_BITS - form.mantissa
    size = np.abs(values.astype(np.float64))
    exponent = np.frexp(np.where(np.isfinite(size), size, 1))[1] - 1
    step = np.ldexp(1.0, np.maximum(exponent, 1 - form.bias) - form.mantissa)
    fraction = (random >> np.uint32(32 - spare)) / (1 << spare)
    cut = np.copysign(np.floor(size / step + fraction) * step, values)
    return narrow(np.where(np.isfinite(values), cut, values), form)

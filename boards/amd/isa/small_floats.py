"""Floating point in 8 bits, as gfx942 has it: no infinities, no -0, one NaN."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Small(NamedTuple):
    """Bits of the mantissa and the exponent's bias; a sign and the exponent are the rest."""

    mantissa: int
    bias: int


# src: CDNA3 ISA 6.2: FP8 is E4M3 with bias 8, BF8 is E5M2 with bias 16 ("FNUZ": 0x80 is NaN).
FP8, BF8 = Small(3, 8), Small(2, 16)
_NAN = 0x80


@lru_cache
def _values(form: Small) -> Array:
    """The number of every code."""
    code = np.arange(256)
    mantissa = code & (1 << form.mantissa) - 1
    exponent = (code & 0x7F) >> form.mantissa
    scale = 1 << form.mantissa
    normal = (1 + mantissa / scale) * 2.0 ** (exponent - form.bias)
    small = mantissa / scale * 2.0 ** (1 - form.bias)
    size = np.where(exponent == 0, small, normal)
    value = np.where(code & 0x80, -size, size)
    value[_NAN] = np.nan
    return value


def widen(codes: Array, form: Small) -> Array:
    """8-bit codes as f64."""
    answer: Array = _values(form)[codes]
    return answer


def narrow(values: Array, form: Small) -> Array:
    """f32 as 8-bit codes: nearest, ties to even; 0x80 for NaN and what is beyond the largest."""
    # src: HIP amd_hip_fp8.h: conversions that saturate clip with v_med3_f32 before this one.
    table = _values(form)[:128]
    wide = values.astype(np.float64)
    beyond = np.abs(wide) >= table[-1] + (table[-1] - table[-2]) / 2
    size = np.minimum(np.abs(wide), table[-1])
    upper = np.searchsorted(table, size).clip(0, 127)
    lower = np.maximum(upper - 1, 0)
    below, above = size - table[lower], table[upper] - size
    even = lower & 1 == 0
    code = np.where((below < above) | ((below == above) & even), lower, upper)
    code = np.where((code != 0) & np.signbit(wide), code | 0x80, code)
    return np.where(np.isnan(wide) | beyond, _NAN, code).astype(np.uint32)

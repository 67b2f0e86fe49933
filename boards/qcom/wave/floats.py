"""Floating point as the ALU computes it: functions of arrays of float32 or float16.

Round to nearest even; subnormal numbers, of float16 too, are zero on both sides.
# src: Mesa 25.0.7, src/freedreno/vulkan/tu_device.cc: shaderDenormFlushToZeroFloat16 and ...Float32
# are true, shaderDenormPreserveFloat16 and ...Float32 are false
`mad` rounds its product: nothing public says that it is fused. Not confirmed on silicon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from boards.machine.arrays import Array

Function = Callable[..., Array]


@dataclass(frozen=True)
class _Format:
    """Of one width, as integers of it."""

    exponent: np.generic
    sign: np.generic
    one: np.generic
    largest_small: np.generic
    """Twice the largest subnormal number's bits, less 1."""


_FORMATS: Final = {
    np.dtype(np.float32): _Format(*map(np.uint32, (0x7F800000, 0x80000000, 1, 0xFFFFFD))),
    np.dtype(np.float16): _Format(*map(np.uint16, (0x7C00, 0x8000, 1, 0x7FD))),
}


def flush(value: Array) -> Array:
    """Floats without subnormal numbers: they are zero, with their sign."""
    form = _FORMATS.get(value.dtype)
    if form is None:
        return value
    raw = value.view(form.one.dtype)
    above = raw + raw  # without the sign; less 1, zeros are the largest
    above -= form.one
    if np.minimum.reduce(above, axis=None) > form.largest_small:
        return value
    answer: Array = np.where((raw & form.exponent) == 0, raw & form.sign, raw).view(value.dtype)
    return answer


def saturate(value: Array) -> Array:
    """(sat): 0 ... 1, NaN is 0."""
    one, zero = value.dtype.type(1), value.dtype.type(0)
    answer: Array = np.where(value > 0, np.minimum(value, one), zero)
    return answer


def add(a: Array, b: Array) -> Array:
    """a + b; sources have no subnormal numbers, here and in what follows."""
    return flush(a + b)


def multiply(a: Array, b: Array) -> Array:
    """a * b."""
    return flush(a * b)


def mad(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, of which the product is rounded."""
    return flush(flush(a * b) + c)


def minimum(a: Array, b: Array) -> Array:
    """The lesser; of a NaN and a number the number. -0 is less than +0."""
    picked = np.where(np.isnan(b) | (a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, picked)


def maximum(a: Array, b: Array) -> Array:
    """The greater; of a NaN and a number the number."""
    picked = np.where(np.isnan(b) | (a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, picked)


def sign(a: Array) -> Array:
    """-1, 0 or 1; NaN is 0."""
    one, zero = a.dtype.type(1), a.dtype.type(0)
    answer: Array = np.where(a > 0, one, np.where(a < 0, -one, zero))
    return answer


def round_away(a: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(a)
    size = np.abs(whole)
    answer: Array = np.copysign(np.where(np.abs(a - whole) >= 0.5, size + 1, size), a)
    return answer


def _one(function: Callable[[Array], Array]) -> Function:
    def run(a: Array) -> Array:
        return function(a).astype(a.dtype, copy=False)

    return run


def _wide(function: Callable[[Array], Array]) -> Function:
    """A special function: of float64, rounded once."""

    def run(a: Array) -> Array:
        return flush(function(a.astype(np.float64)).astype(a.dtype))

    return run


TWO: Final[Mapping[str, Function]] = {
    "add.f": add,
    "mul.f": multiply,
    "min.f": minimum,
    "max.f": maximum,
}
ONE: Final[Mapping[str, Function]] = {
    "sign.f": _one(sign),
    "absneg.f": _one(lambda a: a),
    "floor.f": _one(np.floor),
    "ceil.f": _one(np.ceil),
    "rndne.f": _one(np.rint),
    "rndaz.f": _one(round_away),
    "trunc.f": _one(np.trunc),
}
SPECIAL: Final[Mapping[str, Function]] = {
    "rcp": _wide(lambda a: 1.0 / a),
    "rsq": _wide(lambda a: 1.0 / np.sqrt(a)),
    "hrsq": _wide(lambda a: 1.0 / np.sqrt(a)),
    "log2": _wide(np.log2),
    "hlog2": _wide(np.log2),
    "exp2": _wide(np.exp2),
    "hexp2": _wide(np.exp2),
    "sin": _wide(np.sin),
    "cos": _wide(np.cos),
    "sqrt": _wide(np.sqrt),
}
"""Category 4. Silicon's are off by a unit or more in the last place: this board is kinder."""

COMPARE: Final[tuple[Callable[[Array, Array], Array], ...]] = (
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.equal,
    np.not_equal,
)
"""By COND. # src: Mesa 25.0.7, src/freedreno/isa/ir3-common.xml, #cond"""

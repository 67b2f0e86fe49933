"""Conversions: of category 1 with its rounding, and of results to another width.

Eight bits are widened with their sign whether the type says u8 or s8; Mesa notes that widening
without it, and u8 to a float, do not work, so they are refused.
src: Mesa 25.0.7, src/freedreno/ir3/ir3_compiler_nir.c, create_cov; ir3.h, round_t (0 towards
zero, 1 even, 2 up, 3 down);
ir3_cf.c (a conversion without rounding is folded into the instruction before it)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.floats import flush

F16, F32, U16, U32, S16, S32, U8, S8 = range(8)
"""Types of category 1. # src: Mesa 25.0.7, ir3-common.xml, #type; ir3-cat1.xml (7 is s8 here)"""
U8_32: Final = 7
"""The same number in category 6: a byte in a full register."""
ZERO, EVEN, UP, DOWN = range(4)
HALF_TYPES: Final = (F16, U16, S16, U8)
"""In category 6; S8 of category 1 is one too."""
KINDS: Final = {
    F16: "f", F32: "f", U16: "u", U32: "u", S16: "s", S32: "s", U8: "u", S8: "s",
}  # fmt: skip
BYTES: Final = {F16: 2, F32: 4, U16: 2, U32: 4, S16: 2, S32: 4, U8: 1, U8_32: 1}
_LARGEST: Final = {np.dtype(np.float16): 65504.0, np.dtype(np.float32): 3.4028234663852886e38}


def is_half(kind: int) -> bool:
    """Whether a value of this type is in a half register."""
    return kind in HALF_TYPES


def to_float(value: Array, dtype: type[np.generic], rounding: int) -> Array:
    """Integers of up to 32 bits or floats as float16 or float32."""
    exact = flush(value).astype(np.float64)
    near = exact.astype(dtype)
    back = near.astype(np.float64)
    if rounding == EVEN or (back == exact).all():
        return flush(near)
    largest = np.dtype(dtype).type(_LARGEST[np.dtype(dtype)])
    over = np.isinf(near) & np.isfinite(exact)
    back = np.where(over, np.copysign(np.inf, exact), back)
    down = back > exact if rounding == DOWN else (back > exact) & (exact > 0)
    up = back < exact if rounding == UP else (back < exact) & (exact < 0)
    if rounding == UP:
        down = np.zeros_like(down)
    if rounding == DOWN:
        up = np.zeros_like(up)
    inf = np.dtype(dtype).type(np.inf)
    stepped = np.where(down, np.nextafter(near, -inf), np.where(up, np.nextafter(near, inf), near))
    if rounding == ZERO:
        stepped = np.where(over, np.copysign(largest, near), stepped)
    return flush(stepped.astype(dtype))


def to_integer(value: Array, dtype: type[np.integer[Any]], rounding: int) -> Array:
    """Floats as integers, clamped to the range; NaN is 0."""
    whole = (np.trunc, np.rint, np.ceil, np.floor)[rounding](flush(value))
    limits = np.iinfo(dtype)
    if limits.min <= float(whole.min()) and float(whole.max()) <= limits.max:
        return whole.astype(dtype)
    whole = whole.astype(np.float64)
    clamped = np.minimum(np.maximum(whole, float(limits.min)), float(limits.max))
    finite: Array = np.where(np.isnan(clamped), 0.0, clamped)
    return finite.astype(np.int64).astype(dtype)


def narrow(value: Array, wanted: type[np.generic]) -> Array:
    """The result of an operation in a register of the other width."""
    if value.dtype == np.float32 and wanted is np.float16:
        return to_float(value, wanted, ZERO)
    return value.astype(wanted)


def check(source: int, target: int) -> None:
    """Raises: NotModelled for what silicon does not convert in one step."""
    # src: Mesa 25.0.7, ir3_compiler_nir.c, create_cov: u8 is extended with its sign alone
    octet = source in (U8, S8)
    if octet and source != target and target not in (S16, S32, U8, S8):
        raise NotModelled("eight bits as anything but a signed number")
    if KINDS[source] == "f" and target in (U8, S8):
        raise NotModelled("a float as eight bits")


def convert(value: Array, source: int, target: int, rounding: int) -> Array:
    """A value of type `source` as `target`; `value` has the numpy type of `source`."""
    from_float, to = KINDS[source] == "f", _NUMPY[target]
    if source == target:
        return value
    if KINDS[target] == "f":
        if rounding == ZERO and source == F16:
            return flush(value).astype(to)
        return to_float(value, to, rounding)
    if from_float:
        return to_integer(value, to, rounding)
    if source in (U8, S8):
        value = ((value.view(np.int16) & 0xFF) ^ 0x80) - 0x80
    widened = value.astype(to)
    return widened & widened.dtype.type(0xFF) if target == U8 else widened


_NUMPY: Final[dict[int, Any]] = {
    F16: np.float16, F32: np.float32, U16: np.uint16, U32: np.uint32, S16: np.int16,
    S32: np.int32, U8: np.uint16, S8: np.int16,
}  # fmt: skip
"""What a register of the type holds."""

"""Floating point as the hardware rounds it: fused multiply-add, rounding modes, denormals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NEAREST, UP, DOWN, ZERO = 0, 1, 2, 3
_HALFWAY_BITS, _HALFWAY = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
_TINY32 = float(np.finfo(np.float32).tiny)
_SPLIT = 134217729.0  # 2**27 + 1
_SAFE_LOW, _SAFE_HIGH = 2.0**-400, 2.0**400


def default_nan(kind: Any) -> Any:
    """The NaN that an operation without a NaN operand makes: quiet, with its sign set."""
    # src: RDNA3 ISA, functional examples: V_SQRT_F32(0xff800000) => 0xffc00000.
    return kind(-np.nan)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b rounded, and its error: exact unless it overflows."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def to_odd(s: Array, error: Array) -> Array:
    """s, with its last bit set when it is not exact: then a narrower rounding is correct."""
    bits = s.view(np.int64)
    fix = (error != 0) & np.isfinite(s) & (bits & 1 == 0)
    toward = np.where((error > 0) == (s > 0), 1, -1)
    return np.where(fix, bits + toward, bits).view(np.float64)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """f32 a * b + c with one rounding. The product is exact in f64; the sum may need care."""
    wide = np.multiply(a, b, dtype=np.float64)
    total = np.add(wide, c, dtype=np.float64)
    close = (total.view(np.uint64) & _HALFWAY_BITS) == _HALFWAY
    if close.any() or (np.abs(total) < _TINY32).any():
        exact, error = two_sum(wide, c.astype(np.float64))
        total = to_odd(exact, error)
    return total.astype(np.float32)


def fma16(a: Array, b: Array, c: Array) -> Array:
    """f16 a * b + c with one rounding."""
    wide = np.multiply(a, b, dtype=np.float64)
    exact, error = two_sum(wide, c.astype(np.float64))
    return narrow16(to_odd(exact, error))


def narrow16(wide: Array) -> Array:
    """f64 to f16 with one rounding."""
    return wide.astype(np.float16)


def bf16(a: Array) -> Array:
    """f32 to the nearest bfloat16, ties to even, as u16; NaN stays one, quiet."""
    raw = np.ascontiguousarray(a, np.float32).view(np.uint32)
    high = raw >> np.uint32(16)
    near = raw + np.uint32(0x7FFF) + (high & np.uint32(1)) >> np.uint32(16)
    return np.where(np.isnan(a), high | np.uint32(0x40), near).astype(np.uint16)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """f64 a * b + c with one rounding: error-free products, rare cases in exact rationals."""
    a, b, c = np.broadcast_arrays(a, b, c)
    uh, ul = _two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    result = np.asarray(vh + to_odd(*two_sum(tl, vl)))
    size = np.abs(np.stack([a, b, c, uh]))
    odd = np.any((size > _SAFE_HIGH) | ((size < _SAFE_LOW) & (size > 0)), axis=0)
    odd |= ~np.isfinite(result) | (np.abs(result) < _SAFE_LOW)
    for index in zip(*np.nonzero(odd), strict=True):
        result[index] = _exact_fma(float(a[index]), float(b[index]), float(c[index]))
    return result


def fma64_scaled(a: Array, b: Array, c: Array, count: Array) -> Array:
    """(a * b + c) * 2^count in f64 with one rounding."""
    result = np.ldexp(fma64(a, b, c), count)
    low = (count != 0) & (np.abs(result) < 4 * np.finfo(np.float64).tiny) & np.isfinite(a * b + c)
    for index in zip(*np.nonzero(low), strict=True):
        x, y, z = (Fraction(float(v[index])) for v in (a, b, c))
        exact = (x * y + z) * Fraction(2) ** int(count[index])
        if exact:
            result[index] = exact_to_float(exact)
    return np.asarray(result)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    ta, tb = a * _SPLIT, b * _SPLIT
    ah, bh = ta - (ta - a), tb - (tb - b)
    al, bl = a - ah, b - bh
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _exact_fma(a: float, b: float, c: float) -> float:
    finite = np.isfinite([a, b, c]).all()
    if not finite:
        if np.isfinite(a) and np.isfinite(b):
            return c
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return float(np.float64(a) * np.float64(b)) + c
    return exact_to_float(exact)


def rationals(values: Array) -> Array:
    """An array of finite numbers as an array of rationals."""
    found = [Fraction(v) for v in values.ravel().tolist()]
    return np.array(found, object).reshape(values.shape)


def exact_to_float(value: Fraction) -> float:
    """The nearest f64 of a rational; infinities beyond the range."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def round_sum(x: Array, y: Array, zero: Array, dtype: Any, mode: int) -> Array:
    """x + y (f64, or rationals for a result in f64) rounded once; `zero` where it is exactly 0."""
    near, rest = _nearest64(x, y) if dtype is np.float64 else _nearest(x, y, dtype)
    near = np.where(near == 0, np.where(rest == 0, zero, np.copysign(0, rest)), near).astype(dtype)
    edge = np.copysign(np.finfo(dtype).max, near)
    infinite = np.isinf(near)
    above = np.where(infinite & (near < 0), edge, np.nextafter(near, dtype(np.inf)))
    below = np.where(infinite & (near > 0), edge, np.nextafter(near, dtype(-np.inf)))
    up, down = np.where(rest > 0, above, near), np.where(rest < 0, below, near)
    if mode == ZERO:
        return np.asarray(np.where(np.signbit(near), up, down), dtype)
    return np.asarray(up if mode == UP else down, dtype)


def _nearest(x: Array, y: Array, dtype: Any) -> tuple[Array, Array]:
    """The nearest value of a narrower type, and a number with the sign of what is missing."""
    total, error = two_sum(x, y)
    near = to_odd(total, error).astype(dtype)
    rest = total - near.astype(np.float64)
    return near, np.where(rest == 0, error, rest)


def _nearest64(x: Array, y: Array) -> tuple[Array, Array]:
    exact = x + y
    near = np.array([exact_to_float(v) for v in exact.flat]).reshape(exact.shape)
    pairs = zip(exact.flat, near.ravel().tolist(), strict=True)
    signs = [(v > n) - (v < n) for v, n in pairs]
    return near, np.array(signs).reshape(exact.shape)


def flush(value: Array) -> Array:
    """Denormals become zeros of the same sign."""
    tiny = np.finfo(value.dtype).tiny
    small = np.abs(value) < tiny
    return np.where(small, np.copysign(value.dtype.type(0), value), value)

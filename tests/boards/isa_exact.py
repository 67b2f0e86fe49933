"""Floating point in Python integers: exact results, rounded once, in any format and direction.

The reference of the executor's arithmetic. It shares nothing with it: a value is sign, integer
and power of two; rounding looks at the bits that are cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

NEAREST, UP, DOWN, ZERO = 0, 1, 2, 3


class Number(NamedTuple):
    """(-1)^sign * size * 2^power, or an infinity or a NaN (`special` is "inf" or "nan")."""

    sign: int
    size: int
    power: int
    special: str = ""


NAN = Number(0, 0, 0, "nan")


@dataclass(frozen=True)
class Format:
    """An IEEE 754 binary format of `bits` with `fraction` stored fraction bits."""

    bits: int
    fraction: int

    @property
    def top(self) -> int:
        """The exponent field of infinities and NaNs."""
        return (1 << self.bits - 1 - self.fraction) - 1

    @property
    def low(self) -> int:
        """The power of two of the last bit of a denormal."""
        return 2 - (self.top >> 1) - self.fraction - 1

    @property
    def nan(self) -> int:
        return (self.top << self.fraction) | 1 << (self.fraction - 1)

    def infinity(self, sign: int) -> int:
        return self.top << self.fraction | sign << (self.bits - 1)


F16, BF16, F32, F64 = Format(16, 10), Format(16, 7), Format(32, 23), Format(64, 52)


def number(word: int, form: Format, *, flush: bool = False) -> Number:
    """The value of an encoding; `flush` reads denormals as zeros."""
    sign, exponent = word >> (form.bits - 1), word >> form.fraction & form.top
    rest = word & (1 << form.fraction) - 1
    if exponent == form.top:
        return Number(sign, 0, 0, "nan" if rest else "inf")
    if not exponent:
        return Number(sign, 0 if flush else rest, form.low)
    return Number(sign, rest | 1 << form.fraction, form.low + exponent - 1)


def encode(value: Number, form: Format, mode: int = NEAREST, *, flush: bool = False) -> int:
    """The encoding nearest to a value in a rounding mode; `flush` makes denormals zeros."""
    sign, size, power, special = value
    if special:
        return form.nan if special == "nan" else form.infinity(sign)
    if not size:
        return sign << (form.bits - 1)
    last = max(power + size.bit_length() - form.fraction - 1, form.low)
    cut = last - power
    if cut <= 0:
        kept = size << -cut
    else:
        kept, rest = size >> cut, size & (1 << cut) - 1
        kept += _away(rest, 1 << (cut - 1), kept, sign, mode)
    word = (last - form.low << form.fraction) + kept
    if flush and word < 1 << form.fraction:
        word = 0
    if word >= form.top << form.fraction:
        word = form.top << form.fraction
        if mode == ZERO or mode == (DOWN, UP)[sign]:
            word -= 1
    return word | sign << (form.bits - 1)


def _away(rest: int, half: int, kept: int, sign: int, mode: int) -> bool:
    if mode == NEAREST:
        return rest > half or (rest == half and bool(kept & 1))
    return bool(rest) and mode == (UP, DOWN)[sign]


def add(a: Number, b: Number, mode: int = NEAREST) -> Number:
    """The exact sum; `mode` only decides the sign of an exact zero."""
    if a.special or b.special:
        if "nan" in (a.special, b.special) or (a.special == b.special and a.sign != b.sign):
            return NAN
        return a if a.special else b
    power = min(a.power, b.power)
    x = (-a.size if a.sign else a.size) << a.power - power
    y = (-b.size if b.sign else b.size) << b.power - power
    total = x + y
    if not total:
        same = a.sign == b.sign and not a.size and not b.size
        return Number(a.sign if same else int(mode == DOWN), 0, power)
    return Number(int(total < 0), abs(total), power)


def multiply(a: Number, b: Number) -> Number:
    """The exact product."""
    sign = a.sign ^ b.sign
    if a.special or b.special:
        if (
            "nan" in (a.special, b.special)
            or not (a.special or a.size)
            or not (b.special or b.size)
        ):
            return NAN
        return Number(sign, 0, 0, "inf")
    return Number(sign, a.size * b.size, a.power + b.power)


def fused(a: Number, b: Number, c: Number, mode: int = NEAREST) -> Number:
    """The exact a * b + c."""
    return add(multiply(a, b), c, mode)


def divide(a: Number, b: Number) -> Number:
    """a / b with a bit that says whether more followed: any rounding of it is correct."""
    sign = a.sign ^ b.sign
    if "nan" in (a.special, b.special) or (a.special and b.special):
        return NAN
    if a.special or b.special:
        return Number(sign, 0, 0, a.special and "inf")
    if not b.size:
        return Number(sign, 0, 0, "inf") if a.size else NAN
    quotient, rest = divmod(a.size << 160, b.size)
    return Number(sign, quotient << 1 | bool(rest), a.power - b.power - 161)


def negate(a: Number) -> Number:
    return a._replace(sign=a.sign ^ 1)


def scale(a: Number, count: int) -> Number:
    """a * 2^count."""
    return a._replace(power=a.power + count)


def of_integer(value: int) -> Number:
    return Number(int(value < 0), abs(value), 0)


def words(values: Any) -> list[int]:
    """The encodings of an array of floats or integers."""
    array = np.ascontiguousarray(values)
    return array.view(f"u{array.itemsize}").tolist()


def numbers(values: Any, form: Format, *, flush: bool = False) -> list[Number]:
    """The values of an array of floats."""
    return [number(word, form, flush=flush) for word in words(values)]


def rounded(
    function: Callable[..., Number], sources: Iterable[list[Number]], form: Format,
    mode: int = NEAREST, *, flush: bool = False,
) -> Any:  # fmt: skip
    """function of each row of sources, as an array of encodings."""
    rows = zip(*sources, strict=True)
    return np.array(
        [encode(function(*row), form, mode, flush=flush) for row in rows], f"u{form.bits // 8}"
    )

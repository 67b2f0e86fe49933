"""Integers of 32 bits: products, quotients, and narrower ones, which a word holds by value."""

from __future__ import annotations

from struct import pack, unpack
from typing import Final

from compilers.dtype import DType
from compilers.qcom.emitter import WORD, Emitter, is_literal, literal, number

BITS: Final = 32
EXACT_FLOAT: Final = 1 << 22
"""Below it n + 1/2 times a rounded reciprocal is on the right side of every integer."""
_SHORT: Final = 0xFFFF
_MUL24: Final = (1 << 24) - 1


def float_word(value: float) -> str:
    """A float32 as a word."""
    return literal(unpack("<I", pack("<f", value))[0])


def fitted(e: Emitter, value: str, dtype: DType) -> str:
    """The low bits of a word as the number that they are in a dtype."""
    if dtype.bits >= BITS:
        return value
    mask = (1 << dtype.bits) - 1
    if is_literal(value):
        low = number(value) & mask
        return literal(low - (low >> (dtype.bits - 1) << dtype.bits) * (dtype.kind == "i"))
    if dtype.kind != "i":
        return value if e.bound(value) <= mask else e.bounded(e.op("and.b", value, literal(mask)),
                                                              mask)  # fmt: skip
    if e.bound(value) <= mask >> 1:
        return value
    rest = literal(BITS - dtype.bits)
    return e.op("ashr.b", e.op("shl.b", value, rest), rest)


def product(e: Emitter, a: str, b: str) -> str:
    """The low 32 bits."""
    if is_literal(a):
        a, b = b, a
    if is_literal(a):
        return literal(number(a) * number(b))
    most = e.bound(a) * e.bound(b)
    if is_literal(b):
        factor = number(b)
        if factor in (0, 1):
            return a if factor else b
        if factor & (factor - 1) == 0:
            return e.bounded(e.op("shl.b", a, literal(factor.bit_length() - 1)), most)
        if factor == WORD:
            return e.op("sub.u", "k0", a)
    if e.bound(a) <= _MUL24 and e.bound(b) <= _MUL24:
        return e.bounded(e.op("mul.u24", a, b), most)
    low = e.op("mull.u", a, b)
    if e.bound(a) > _SHORT or e.bound(b) > _SHORT:  # both: which half is whose is the same then
        low = e.op("madsh.m16", b, a, e.op("madsh.m16", a, b, low))
    return e.bounded(low, most)


def wide_product(e: Emitter, a: str, b: str) -> tuple[str, str]:
    """The low and high words of the product of two unsigned words."""
    upper_a, upper_b = e.op("shr.b", a, "k16"), e.op("shr.b", b, "k16")
    low = e.op("mull.u", a, b)
    middle = e.op("add.u", e.op("mull.u", upper_a, b), e.op("shr.b", low, "k16"))
    other = e.op("add.u", e.op("mull.u", a, upper_b), e.op("and.b", middle, literal(_SHORT)))
    high = e.op("add.u", e.op("mull.u", upper_a, upper_b), e.op("shr.b", middle, "k16"))
    high = e.op("add.u", high, e.op("shr.b", other, "k16"))
    low = e.op("or.b", e.op("shl.b", other, "k16"), e.op("and.b", low, literal(_SHORT)))
    return low, high


def divided(e: Emitter, a: str, b: str) -> tuple[str, str]:
    """Quotient and remainder of unsigned words; the divisor is not 0."""
    if is_literal(b):
        divisor = number(b)
        if divisor & (divisor - 1) == 0:
            quotient = e.op("shr.b", a, literal(divisor.bit_length() - 1))
            quotient = e.bounded(quotient, e.bound(a) // divisor)
            rest = e.op("and.b", a, literal(divisor - 1))
            return quotient, e.bounded(rest, divisor - 1)
        if e.bound(a) < EXACT_FLOAT:
            return _divided_small(e, a, divisor)
    return _divided_any(e, a, b)


def _divided_small(e: Emitter, a: str, divisor: int) -> tuple[str, str]:
    near = e.op("add.f", e.op("cov.u32f32", a), float_word(0.5))
    quotient = e.op("cov.f32u32", e.op("mul.f", near, float_word(1 / divisor)))
    e.bounded(quotient, e.bound(a) // divisor)
    rest = e.op("sub.u", a, product(e, quotient, literal(divisor)))
    return quotient, e.bounded(rest, divisor - 1)


def _divided_any(e: Emitter, a: str, b: str) -> tuple[str, str]:
    """Two estimates that are never too large, the second within one of the truth."""
    single = e.op("cov.u32f32", b)
    inverse = float_word(1 / number(b)) if is_literal(b) else e.op("rcp", single)
    inverse = e.op("mul.f", inverse, float_word(1 - 2.0**-20))
    quotient = e.op("cov.f32u32", e.op("mul.f", e.op("cov.u32f32", a), inverse))
    rest = e.op("sub.u", a, product(e, quotient, b))
    more = e.op("cov.f32u32", e.op("mul.f", e.op("cov.u32f32", rest), inverse))
    quotient = e.op("add.u", quotient, more)
    rest = e.op("sub.u", rest, product(e, more, b))
    last = e.op("cmps.u.ge", rest, b)
    quotient = e.op("add.u", quotient, last)
    rest = e.op("sel.b32", e.op("sub.u", rest, b), last, rest)
    return quotient, rest


def divided_signed(e: Emitter, a: str, b: str) -> tuple[str, str]:
    """C's quotient and remainder of signed words."""
    sign_a, sign_b = e.op("ashr.b", a, "k31"), e.op("ashr.b", b, "k31")
    size_a = e.op("sub.u", e.op("xor.b", a, sign_a), sign_a)
    size_b = e.op("sub.u", e.op("xor.b", b, sign_b), sign_b)
    quotient, rest = divided(e, size_a, size_b)
    sign = e.op("xor.b", sign_a, sign_b)
    quotient = e.op("sub.u", e.op("xor.b", quotient, sign), sign)
    return quotient, e.op("sub.u", e.op("xor.b", rest, sign_a), sign_a)

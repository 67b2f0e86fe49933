"""float32 quotients and square roots, rounded to the nearest: the hardware's are estimates.

The mantissas are integers: an estimate of the quotient is mended by its exact remainder, whose low
32 bits are all of it. Subnormal numbers count as 0, as in the hardware's own arithmetic.
# src: Mesa 25.0.7, src/freedreno/vulkan/tu_device.cc: shaderDenormFlushToZeroFloat32
"""

from __future__ import annotations

from typing import Final

from compilers.qcom.emitter import Emitter, literal
from compilers.qcom.integer import float_word, product

_SIGN: Final = 0x80000000
_SIZE: Final = 0x7FFFFFFF
_FRACTION: Final = 0x7FFFFF
_ONE: Final = 0x800000
_INF: Final = 0x7F800000
_NAN: Final = 0x7FC00000
_BIAS: Final = 127


def _chosen(e: Emitter, condition: str, yes: str, no: str) -> str:
    return e.op("sel.b32", yes, condition, no)


def _rounded(e: Emitter, twice: str, rest: str) -> str:
    """Half of a number, rounded to even; `rest` says whether it was cut."""
    whole = e.op("shr.b", twice, "k1")
    sticky = e.op("or.b", e.op("cmps.u.ne", rest, "k0"), e.op("and.b", whole, "k1"))
    return e.op("add.u", whole, e.op("and.b", sticky, e.op("and.b", twice, "k1")))


def _mantissa(e: Emitter, value: str) -> str:
    return e.op("or.b", e.op("and.b", value, literal(_FRACTION)), literal(_ONE))


def _exponent(e: Emitter, size: str) -> str:
    return e.op("shr.b", size, "k23")


def quotient(e: Emitter, a: str, b: str) -> str:
    """a / b."""
    sign = e.op("and.b", e.op("xor.b", a, b), literal(_SIGN))
    size_a, size_b = e.op("and.b", a, literal(_SIZE)), e.op("and.b", b, literal(_SIZE))
    top, bottom = _mantissa(e, a), _mantissa(e, b)
    small = e.op("cmps.u.lt", top, bottom)
    top = e.op("shl.b", top, small)  # now 1 <= top / bottom < 2
    shifted = e.op("shl.b", top, "k24")
    inverse = e.op("rcp", e.op("cov.u32f32", bottom))
    near = e.op("mul.f", e.op("mul.f", e.op("cov.u32f32", top), inverse), float_word(2.0**24))
    guess = e.op("cov.f32u32", near)
    rest = e.op("sub.u", shifted, product(e, guess, bottom))
    step = e.op("floor.f", e.op("mul.f", e.op("cov.s32f32", rest), inverse))
    step = e.op("cov.f32s32", step)
    guess = e.op("add.u", guess, step)
    rest = e.op("sub.u", rest, product(e, step, bottom))
    guess, rest = _mended(e, guess, rest, bottom)
    mantissa = _rounded(e, guess, rest)
    exponent = e.op("sub.u", _exponent(e, size_a), _exponent(e, size_b))
    exponent = e.op("sub.u", e.op("add.u", exponent, literal(_BIAS - 1)), small)
    found = e.op("add.u", e.op("shl.b", exponent, "k23"), mantissa)
    found = _chosen(e, e.op("cmps.s.gt", exponent, literal(253)), literal(_INF), found)
    found = _chosen(e, e.op("cmps.s.lt", exponent, "k0"), "k0", found)
    return _special_quotient(e, size_a, size_b, sign, found)


def _mended(e: Emitter, guess: str, rest: str, bottom: str) -> tuple[str, str]:
    """A quotient that is one off at most."""
    low = e.op("cmps.s.lt", rest, "k0")
    guess = e.op("sub.u", guess, low)
    rest = _chosen(e, low, e.op("add.u", rest, bottom), rest)
    high = e.op("cmps.s.ge", rest, bottom)
    guess = e.op("add.u", guess, high)
    return guess, _chosen(e, high, e.op("sub.u", rest, bottom), rest)


def _special_quotient(e: Emitter, a: str, b: str, sign: str, found: str) -> str:
    """Zeros, infinities and NaN; the operands are without their signs."""
    zero_a, zero_b = (e.op("cmps.u.lt", one, literal(_ONE)) for one in (a, b))
    inf_a, inf_b = (e.op("cmps.u.ge", one, literal(_INF)) for one in (a, b))
    found = _chosen(e, e.op("or.b", zero_a, inf_b), "k0", found)
    found = _chosen(e, e.op("or.b", zero_b, inf_a), literal(_INF), found)
    found = e.op("or.b", found, sign)
    bad = e.op("or.b", e.op("and.b", zero_a, zero_b), e.op("and.b", inf_a, inf_b))
    for one in (a, b):
        bad = e.op("or.b", bad, e.op("cmps.u.gt", one, literal(_INF)))
    return _chosen(e, bad, literal(_NAN), found)


def root(e: Emitter, x: str) -> str:
    """The square root."""
    odd = e.op("xor.b", e.op("and.b", _exponent(e, x), "k1"), "k1")
    mantissa = e.op("shl.b", _mantissa(e, x), odd)  # times 2**(2n), so that 1 <= it / 2**23 < 4
    near = e.op("sqrt", e.op("mul.f", e.op("cov.u32f32", mantissa), float_word(2.0**-23)))
    guess = e.op("cov.f32u32", e.op("mul.f", near, float_word(2.0**24)))
    shifted = e.op("shl.b", mantissa, "k25")
    rest = e.op("sub.u", shifted, product(e, guess, guess))
    inverse = e.op("rcp", e.op("cov.u32f32", e.op("shl.b", guess, "k1")))
    step = e.op("cov.f32s32", e.op("floor.f", e.op("mul.f", e.op("cov.s32f32", rest), inverse)))
    guess = e.op("add.u", guess, step)
    rest = e.op("sub.u", shifted, product(e, guess, guess))
    for _ in range(2):
        guess, rest = _mended_root(e, guess, rest)
    exponent = e.op("shr.b", e.op("add.u", _exponent(e, x), literal(_BIAS - 2)), "k1")
    found = e.op("add.u", e.op("shl.b", exponent, "k23"), _rounded(e, guess, rest))
    zero = e.op("cmps.u.lt", e.op("and.b", x, literal(_SIZE)), literal(_ONE))
    above = e.op("cmps.u.ge", x, literal(_INF))  # NaN and all that is negative
    found = _chosen(e, above, literal(_NAN), found)
    found = _chosen(e, e.op("cmps.u.eq", x, literal(_INF)), x, found)
    return _chosen(e, zero, e.op("and.b", x, literal(_SIGN)), found)


def _mended_root(e: Emitter, guess: str, rest: str) -> tuple[str, str]:
    """A root that is one off at most: (g + 1)**2 = g**2 + 2 g + 1."""
    twice = e.op("shl.b", guess, "k1")
    low = e.op("cmps.s.lt", rest, "k0")
    high = e.op("cmps.s.gt", rest, twice)
    down = e.op("add.u", rest, e.op("sub.u", twice, "k1"))
    up = e.op("sub.u", rest, e.op("add.u", twice, "k1"))
    guess = e.op("add.u", e.op("sub.u", guess, low), high)
    return guess, _chosen(e, low, down, _chosen(e, high, up, rest))

"""float16 in half registers: conversions that keep subnormal numbers, and arithmetic that does not.

Turnip says of the hardware that it makes subnormal halves 0, and that no shader can ask for them.
# src: Mesa 25.0.7, src/freedreno/vulkan/tu_device.cc: shaderDenormFlushToZeroFloat16,
# shaderDenormPreserveFloat16 (false)
So a conversion takes the hardware's result for all other numbers, and integers for these, whatever
the hardware does with them. Sums, products and comparisons in half registers are for kernels that
are rendered with the feature FLUSH16 alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compilers.qcom.emitter import Emitter, is_literal, literal, number
from compilers.qcom.integer import float_word

_SHORT: Final = 0xFFFF
_SIZE: Final = 0x7FFF
_SIGN: Final = 0x8000
_WORD_SIZE: Final = 0x7FFFFFFF
_SMALLEST: Final = 0x400
"""Bits of the smallest normal float16."""
_SMALLEST_WORD: Final = 113 << 23
"""2**-14 as a float32."""
_MAGIC: Final = float_word(0.5)
"""Its unit in the last place is the smallest float16."""
_ARITHMETIC: Final = {"add": "add.f", "sub": "sub.f", "mul": "mul.f", "fma": "mad.f16"}
COMPARE: Final = frozenset({"lt", "le", "eq", "ne"})


def half_of(e: Emitter, word: str) -> str:
    """The half register with the low bits of a word."""
    if word in e.halves:
        return e.halves[word]
    if is_literal(word):
        return e.op("mov", literal(number(word) & _SHORT), half=True)
    return e.op("cov.u32u16", word, half=True)


def word_of(e: Emitter, half: str) -> str:
    """The bits of a half register as a word, which remembers where they are from."""
    made = e.bounded(e.op("cov.u16u32", half), _SHORT)
    e.halves[made] = half
    return made


def widened(e: Emitter, word: str) -> str:
    """float32 of the bits of a float16; exact."""
    near = e.op("cov.f16f32", half_of(e, word))
    if e.flush16:
        return near
    size = e.op("and.b", word, literal(_SIZE))
    tiny = e.op("mul.f", e.op("cov.u32f32", size), float_word(2.0**-24))
    tiny = e.op("or.b", tiny, e.op("shl.b", e.op("and.b", word, literal(_SIGN)), "k16"))
    return e.op("sel.b32", tiny, e.op("cmps.u.lt", size, literal(_SMALLEST)), near)


def narrowed(e: Emitter, single: str) -> str:
    """The bits of float32 rounded to float16, halves to even."""
    near = word_of(e, e.op("cov.f32f16", single, half=True))
    if e.flush16:
        return near
    size = e.op("and.b", single, literal(_WORD_SIZE))
    tiny = e.op("sub.u", e.op("add.f", size, _MAGIC), _MAGIC)
    tiny = e.op("or.b", tiny, e.op("and.b", e.op("shr.b", single, "k16"), literal(_SIGN)))
    small = e.op("cmps.u.lt", size, literal(_SMALLEST_WORD))
    return e.bounded(e.op("sel.b32", tiny, small, near), _SHORT)


def computed(e: Emitter, op: str, args: Sequence[str]) -> str:
    """The bits that an op on halves gives; a comparison's 0 or 1. Raises: TypeError."""
    halves = [half_of(e, one) for one in args]
    if op in _ARITHMETIC:
        return word_of(e, e.op(_ARITHMETIC[op], *halves, half=True))
    if op not in COMPARE:
        raise TypeError(f"ir3: no {op} of float16")
    return e.bounded(e.op("cov.u16u32", e.op(f"cmps.f.{op}", *halves, half=True)), 1)

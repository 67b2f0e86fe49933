"""SGXT, BMSK and VABSDIFF: signs, masks and distances.

src: Mesa sm70_encode.rs (BMSK); PTX ISA, bfe, bmsk, szext, vabsdiff; bits of SGXT and VABSDIFF
measured: flips of words as nvdisasm 13.5 prints them
"""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.integer import low_word, out, signed, wide
from boards.nv.warp.state import Threads

_WORD_BITS = 32
_ONES = 0xFFFFFFFF


def _count(words: Array, *, wraps: bool) -> Array:
    count = wide(words)
    return count & (_WORD_BITS - 1) if wraps else np.minimum(count, _WORD_BITS)


def sgxt(build: Builder, *, uniform: bool = False) -> Action:
    """SGXT: the low bits of a word, with or without the sign of the highest of them."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    is_signed, wraps = bool(build.take(73)), bool(build.take(75))
    if uniform:
        build.take(91)
    write = out(build, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        count = _count(b(t), wraps=wraps)
        bits = wide(a(t)) & (1 << count) - 1
        if is_signed:
            negative = (count > 0) & (bits >> np.maximum(count - 1, 0) & 1 == 1)
            bits = np.where(negative, bits - (1 << count), bits)
        write(t, low_word(bits), mask)

    return run


def bmsk(build: Builder, *, uniform: bool = False) -> Action:
    """BMSK: so many ones from a place on."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    wraps = bool(build.take(75))
    if uniform:
        build.take(91)
    write = out(build, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        start, count = (_count(x(t), wraps=wraps) for x in (a, b))
        write(t, low_word(((1 << count) - 1 << start) & _ONES), mask)

    return run


def vabsdiff4(build: Builder) -> Action:
    """VABSDIFF4: distances of four bytes each, or with .ACC their sum and a third source."""
    a, b, c = build.a(), build.b(), build.c()
    is_signed, total = bool(build.take(73)), bool(build.take(75))
    if not total and build.register(64) != ZERO:
        raise NotModelled("VABSDIFF4 of bytes with a third source")
    build.only(72, 1, 0)
    build.only(74, 1, 0)
    build.only(76, 5, 0)
    build.only(81, 3, 7)
    write = out(build, uniform=False)
    kind = np.int8 if is_signed else np.uint8

    def run(t: Threads, mask: Array) -> None:
        one, two = (np.ascontiguousarray(x(t)).view(kind).reshape(-1, 4) for x in (a, b))
        distances = np.abs(one.astype(np.int64) - two)
        if total:
            write(t, low_word(distances.sum(axis=1) + wide(c(t))), mask)
        else:
            write(t, distances.astype(np.uint8).view(np.uint32).ravel(), mask)

    return run


def vabsdiff(build: Builder) -> Action:
    """VABSDIFF: a distance, and a sum."""
    a, b, c = build.a(), build.b(), build.c()
    kind = signed if build.take(73) else wide
    build.only(72, 1, 0)
    build.only(74, 7, 0)
    build.only(81, 3, 7)
    write = out(build, uniform=False)
    return lambda t, mask: write(t, low_word(np.abs(kind(a(t)) - kind(b(t))) + wide(c(t))), mask)

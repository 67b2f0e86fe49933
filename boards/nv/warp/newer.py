"""Instructions of Hopper and Blackwell: VIADD, VIMNMX, IADD, LDCU; HFMA2 of the matrix unit.

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs (LDCU); measured: what nvdisasm 13.5 prints with
one bit changed (the others)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp import access, across, half, pairs
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.integer import low_word, out, predicate, wide
from boards.nv.warp.state import Threads

_WORD = 1 << 32
_ONES = 0xFFFFFFFF
_PARTS = {0: 4, 1: 2, 2: 1}
_BYTES = 2
"""Bytes of a part of VIMNMX, by bits 73 and 74; single bytes on sm_120 alone."""
_ADDED = {0: 4, 1: 2, 4: 1}
"""Bytes of a part of VIADD, by bits 73 to 75."""


def viadd(build: Builder, *, uniform: bool = False) -> Action:
    """VIADD: a sum of two, of class fma_alu: nvrtc reads an IMAD's result after 4 cycles."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    if uniform:
        build.take(91)
    negated = build.b_sign()[0]
    build.only(72, 1, 0)
    size = build.take(73, 3)
    if size not in _ADDED:
        raise NotModelled("VIADD of parts of this size")
    dtype = np.dtype(f"u{_ADDED[size]}")
    write = out(build, uniform=uniform)
    build.latency = "udp" if uniform else "fma"

    def run(t: Threads, mask: Array) -> None:
        one, two = parts(a(t), dtype), parts(b(t), dtype)
        total = one - two if negated else one + two
        write(t, np.ascontiguousarray(total).view(np.uint32)[:, 0], mask)

    return run


def _smallest(
    build: Builder, terms: Callable[[Threads], list[Array]], *, uniform: bool = False
) -> Action:
    if uniform:
        build.take(91)
    with_sign, size = bool(build.take(72)), build.take(73, 2)
    if size not in _PARTS or (size == _BYTES and build.arch.name != "sm_120"):
        raise NotModelled("a minimum of parts of this size")
    dtype = np.dtype(f"{'i' if with_sign else 'u'}{_PARTS[size]}")
    positive = bool(build.take(76))
    smaller = build.predicate_in(87, 90, uniform=uniform)
    build.only(81, 6, 0, 0x3F)
    write = out(build, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        least = smaller(t)[:, None]
        chosen, *others = (parts(x, dtype) for x in terms(t))
        for other in others:
            chosen = np.where((other < chosen) == least, other, chosen)
        chosen = np.maximum(chosen, 0) if positive else chosen
        write(t, np.ascontiguousarray(chosen).view(np.uint32)[:, 0], mask)

    return run


def parts(words: Array, dtype: np.dtype[Any]) -> Array:
    """Words as rows of their parts."""
    return np.ascontiguousarray(words).view(dtype).reshape(len(words), -1)


def viaddmnmx(build: Builder) -> Action:
    """VIADDMNMX: a sum of two, then the smaller or larger of it and a third."""
    a, b, c = build.a(), build.b(), build.c()
    negated = build.b_sign()[0]
    return _smallest(build, lambda t: [a(t) - b(t) if negated else a(t) + b(t), c(t)])


def vimnmx(build: Builder, *, uniform: bool = False) -> Action:
    """VIMNMX, UVIMNMX: the smaller or larger of two."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    return _smallest(build, lambda t: [a(t), b(t)], uniform=uniform)


def vimnmx3(build: Builder) -> Action:
    """VIMNMX3: the smallest or largest of three."""
    a, b, c = build.a(), build.b(), build.c()
    return _smallest(build, lambda t: [a(t), b(t), c(t)])


def iadd(build: Builder) -> Action:
    """IADD, IADD.64: a sum of two, with a carry in and out."""
    if build.take(73):
        return pairs.iadd(build)
    a, b = build.a(), build.b()
    negated, b_negated = bool(build.take(72)), build.b_sign()[0]
    extended = bool(build.take(74))
    given, carry = build.predicate_in(87, 90), predicate(build, 81)
    write = out(build, uniform=False)
    one = 0 if extended else 1

    def term(words: Array, *, minus: bool) -> Array:
        return (_ONES - wide(words)) + one if minus else wide(words)

    def run(t: Threads, mask: Array) -> None:
        total = term(a(t), minus=negated) + term(b(t), minus=b_negated)
        if extended:
            total = total + given(t)
        write(t, low_word(total), mask)
        carry(t, total >= _WORD, mask)

    return run


def ldcu(build: Builder) -> Action:
    """LDCU: constants of a bank to uniform registers; a scoreboard says when."""
    kind = access.shape(build)
    build.take(91)
    if build.uniform(24) != build.arch.uniform_zero:
        raise NotModelled("LDCU with an offset in a register")
    build.only(80, 2, 0)
    sources = [build.constant_at(37, 17, part) for part in range(kind.registers)]
    number = build.uniform_out(kind.registers)
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        for part, source in enumerate(sources):
            t.put_uniform(number + part, source(t), mask)

    return run


def hfma2_mma(build: Builder) -> Action:
    """HFMA2.MMA: HFMA2 in the matrix unit, whose results come later."""
    run = half.hfma2(build)
    build.latency = "hfma2"
    return run


def r2ur(build: Builder) -> Action:
    """R2UR of Hopper and Blackwell: its result has a latency, and no scoreboard."""
    build.only(81, 3, 7)
    run = across.r2ur(build)
    build.latency = "r2ur"
    return run

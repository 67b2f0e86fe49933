"""Instructions of Hopper and Blackwell: VIADD, VIMNMX, IADD, LDCU; HFMA2 of the matrix unit.

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs (LDCU); measured: what nvdisasm 13.5 prints with
one bit changed (the others)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp import access, across, half, pairs
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.integer import low_word, out, predicate, signed, wide
from boards.nv.warp.state import Threads

_WORD = 1 << 32
_ONES = 0xFFFFFFFF


def viadd(build: Builder) -> Action:
    """VIADD: a sum of two, of class fma_alu: nvrtc reads an IMAD's result after 4 cycles."""
    a, b = build.a(), build.b()
    negated = build.b_sign()[0]
    build.only(72, 4, 0)
    write = out(build, uniform=False)
    build.latency = "fma"

    def run(t: Threads, mask: Array) -> None:
        two = wide(b(t))
        write(t, low_word(wide(a(t)) + (-two if negated else two)), mask)

    return run


def _smallest(build: Builder, terms: Callable[[Threads], list[Array]]) -> Action:
    kind = signed if build.take(72) else wide
    build.only(73, 2, 0)
    build.only(76, 1, 0)
    smaller = build.predicate_in(87, 90)
    build.only(81, 6, 0, 0x3F)
    write = out(build, uniform=False)

    def run(t: Threads, mask: Array) -> None:
        least = smaller(t)
        chosen, *others = terms(t)
        for other in others:
            chosen = np.where((kind(other) < kind(chosen)) == least, other, chosen)
        write(t, chosen, mask)

    return run


def viaddmnmx(build: Builder) -> Action:
    """VIADDMNMX: a sum of two, then the smaller or larger of it and a third."""
    a, b, c = build.a(), build.b(), build.c()
    negated = build.b_sign()[0]
    return _smallest(build, lambda t: [a(t) - b(t) if negated else a(t) + b(t), c(t)])


def vimnmx(build: Builder) -> Action:
    """VIMNMX: the smaller or larger of two."""
    a, b = build.a(), build.b()
    return _smallest(build, lambda t: [a(t), b(t)])


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

"""Integer and logic instructions, for threads and for warps (the uniform ones).

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs (bits); what an operation computes: PTX ISA, and
measured: code of nvrtc 13.5 against integers of Python (tests/boards/test_nv_warp_vectors.py)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder, Source
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.state import Threads

_WORD = 1 << 32
_ONES = 0xFFFFFFFF
Write = Callable[[Threads, Array, Array], None]


def wide(words: Array) -> Array:
    """32-bit words as int64."""
    return words.astype(np.int64)


def signed(words: Array) -> Array:
    """32-bit words with their sign, as int64."""
    return words.view(np.int32).astype(np.int64) if words.flags.c_contiguous else (
        words.astype(np.uint32).view(np.int32).astype(np.int64)
    )  # fmt: skip


def low_word(value: Array) -> Array:
    """The low 32 bits."""
    return (value & _ONES).astype(np.uint32)


def out(build: Builder, *, uniform: bool) -> Write:
    """The destination of a word."""
    if uniform:
        number = build.uniform_out()
        return lambda t, value, mask: t.put_uniform(number, value, mask)
    number = build.gpr_out()
    return lambda t, value, mask: t.put(number, value, mask)


def predicate(build: Builder, low: int, *, uniform: bool = False) -> Write:
    """A predicate that is written."""
    number = build.predicate_out(low, uniform=uniform)
    if uniform:
        return lambda t, value, mask: t.put_uniform_predicate(number, value, mask)
    return lambda t, value, mask: t.put_predicate(number, value, mask)


def _term(source: Source, *, negated: bool, extended: bool) -> Callable[[Threads], Array]:
    """A summand in more than 32 bits, so that the carry shows: minus x is ~x + 1."""
    if not negated:
        return lambda t: wide(source(t))
    one = 0 if extended else 1
    return lambda t: (_ONES - wide(source(t))) + one


def iadd3(build: Builder, *, uniform: bool = False) -> Action:
    """IADD3, IADD3.X: a sum of three with two carries in and out."""
    extended = bool(build.take(74))
    terms = [
        _term(build.a(uniform=uniform), negated=bool(build.take(72)), extended=extended),
        _term(build.b(uniform=uniform), negated=build.b_sign()[0], extended=extended),
        _term(build.c(uniform=uniform), negated=build.c_sign()[0], extended=extended),
    ]
    if uniform:
        build.take(91)
    carries = [build.predicate_in(87, 90, uniform=uniform)]
    carries.append(build.predicate_in(77, 80, uniform=uniform))
    write = out(build, uniform=uniform)
    first, second = (predicate(build, low, uniform=uniform) for low in (81, 84))

    def run(t: Threads, mask: Array) -> None:
        total = terms[0](t) + terms[1](t) + terms[2](t)
        if extended:
            total = total + carries[0](t) + carries[1](t)
        write(t, low_word(total), mask)
        first(t, total >= _WORD, mask)
        second(t, total >= 2 * _WORD, mask)

    return run


def imad(build: Builder, *, uniform: bool = False) -> Action:
    """IMAD, UIMAD, IMAD.X: the low word of a product and a sum."""
    extended = bool(build.take(74))
    build.take(73)
    a, b, c = (x(uniform=uniform) for x in (build.a, build.b, build.c))
    if uniform:
        build.take(91)
    negated = build.take(72) ^ build.b_sign()[0]
    term = _term(c, negated=build.c_sign()[0], extended=extended)
    carry = build.predicate_in(87, 90, uniform=uniform)
    build.only(81, 3, 7)
    write = out(build, uniform=uniform)
    build.latency = "udp" if uniform else "fma"

    def run(t: Threads, mask: Array) -> None:
        product = (a(t) * b(t)).astype(np.int64)
        total = term(t) + (-product if negated else product)
        write(t, low_word(total + carry(t) if extended else total), mask)

    return run


def _pair(low: Source, high: Source) -> Callable[[Threads], Array]:
    return lambda t: low(t).astype(np.uint64) | high(t).astype(np.uint64) << np.uint64(32)


def imad_wide(build: Builder, *, uniform: bool = False) -> Action:
    """IMAD.WIDE, UIMAD.WIDE: a product of 64 bits and a sum."""
    is_signed = bool(build.take(73))
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    third = _pair(build.c(uniform=uniform), build.c(1, uniform=uniform))
    if uniform:
        build.take(91)
    build.only(72, 1, 0)
    extended = bool(build.take(74))
    if build.b_sign()[0]:
        raise NotModelled("IMAD.WIDE of a negated factor")
    negated = build.c_sign()[0]
    given = build.predicate_in(87, 90, uniform=uniform)
    carry = predicate(build, 81, uniform=uniform)
    number = build.uniform_out(2) if uniform else build.gpr_out(count=2)
    build.latency = "udp" if uniform else "wide"

    def run(t: Threads, mask: Array) -> None:
        kind, put = signed if is_signed else wide, t.put_uniform if uniform else t.put
        product = kind(a(t)).astype(np.uint64) * kind(b(t)).astype(np.uint64)
        added = ~third(t) if negated else third(t)
        total = product + added
        over = total < added
        if extended or negated:
            one = given(t) if extended else np.ones(t.count, bool)
            total = total + one
            over |= one & (total == 0)
        put(number, total & np.uint64(_ONES), mask)
        put(number + 1, total >> np.uint64(32), mask)
        carry(t, over, mask)

    return run


def imad_hi(build: Builder, *, uniform: bool = False) -> Action:
    """IMAD.HI, UIMAD.HI: the high word of a product and a pair of registers."""
    is_signed = bool(build.take(73))
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    third = _pair(build.c(uniform=uniform), build.c(1, uniform=uniform))
    if uniform:
        build.take(91)
    build.only(72, 1, 0)
    build.only(74, 1, 0)
    if build.b_sign()[0] or build.c_sign()[0]:
        raise NotModelled("IMAD.HI of a negated source")
    build.only(87, 4, 0xF)
    carry = predicate(build, 81, uniform=uniform)
    write = out(build, uniform=uniform)
    build.latency = "udp" if uniform else "high"

    def run(t: Threads, mask: Array) -> None:
        kind = signed if is_signed else wide
        added = third(t)
        total = kind(a(t)).astype(np.uint64) * kind(b(t)).astype(np.uint64) + added
        write(t, total >> np.uint64(32), mask)
        carry(t, total < added, mask)

    return run


def _lut(table: int, a: Array, b: Array, c: Array) -> Array:
    """Each bit of the result is the table's entry at 4 a + 2 b + c."""
    total = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            one = a if row & 4 else ~a
            two = b if row & 2 else ~b
            total = total | one & two & (c if row & 1 else ~c)
    return total


def lop3(build: Builder, *, uniform: bool = False) -> Action:
    """LOP3, ULOP3: any function of three bits, bit by bit."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    c = build.c(uniform=uniform)
    if uniform:
        build.take(91)
    table, both = build.take(72, 8), bool(build.take(80))
    given = build.predicate_in(87, 90, uniform=uniform)
    write, some = out(build, uniform=uniform), predicate(build, 81, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        value = _lut(table, a(t), b(t), c(t))
        write(t, value, mask)
        some(t, (value != 0) & given(t) if both else (value != 0) | given(t), mask)

    return run


def shf(build: Builder, *, uniform: bool = False) -> Action:
    """SHF, USHF: a pair shifted, and its high or low word."""
    low, by = build.a(uniform=uniform), build.b(uniform=uniform)
    high = build.c(uniform=uniform)
    if uniform:
        build.take(91)
    kind, wraps, right = build.take(73, 2), bool(build.take(75)), bool(build.take(76))
    upper, bits = bool(build.take(80)), 64 if kind < 2 else 32
    is_signed = kind in (0, 2)
    build.only(77, 3, 0)
    write = out(build, uniform=uniform)

    def shifted(pair: Array, by: Array) -> Array:
        count = by.astype(np.uint64)
        count = count & np.uint64(bits - 1) if wraps else np.minimum(count, np.uint64(bits))
        most = np.minimum(count, np.uint64(63))
        if not right:
            value = np.where(count > 63, np.uint64(0), pair << most)
        elif is_signed:
            value = (pair.view(np.int64) >> most.astype(np.int64)).view(np.uint64)
        else:
            value = np.where(count > 63, np.uint64(0), pair >> most)
        return np.asarray(value >> np.uint64(32) if upper else value & np.uint64(_ONES))

    return lambda t, mask: write(t, shifted(_pair(low, high)(t), by(t)), mask)


def lea(build: Builder, *, uniform: bool = False) -> Action:
    """LEA, ULEA, LEA.HI, .X, .SX32: a shifted source and a sum."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    if uniform:
        build.take(91)
    b_negated = build.b_sign()[0]
    extends, extended = bool(build.take(73)), bool(build.take(74))
    shift, upper, negated = build.take(75, 5), bool(build.take(80)), bool(build.take(72))
    high = build.c(uniform=uniform) if upper else a
    build.register(64)
    term = _term(b, negated=b_negated, extended=extended)
    given = build.predicate_in(87, 90, uniform=uniform)
    carry = predicate(build, 81, uniform=uniform)
    write = out(build, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        top = (signed(a(t)) >> 32) if extends else wide(high(t))
        value = (wide(a(t)) | top << 32) << shift if upper else wide(a(t)) << shift
        value = (value >> 32) & _ONES if upper else value & _ONES
        if negated:
            value = (_ONES - value) + (0 if extended else 1)
        total = value + term(t)
        if extended:
            total = total + given(t)
        write(t, low_word(total), mask)
        carry(t, total >= _WORD, mask)

    return run


def idp(build: Builder) -> Action:
    """IDP.4A, IDP.2A: products of bytes, or of halves and bytes, and a sum."""
    a, b, c = build.a(), build.b(), build.c()
    build.only(72, 1, 0)
    a_signed, b_signed = bool(build.take(73)), bool(build.take(74))
    two, upper = bool(build.take(76)), bool(build.take(77))
    term = _term(c, negated=bool(build.take(75)), extended=False)
    build.only(78, 3, 0)
    write = out(build, uniform=False)
    build.latency = "fma"
    count, bits = (2, 16) if two else (4, 8)

    def run(t: Threads, mask: Array) -> None:
        one, other, total = wide(a(t)), wide(b(t)), term(t)
        other = other >> 16 if upper else other
        for place in range(count):
            first = _part(one >> bits * place, bits, with_sign=a_signed)
            total = total + first * _part(other >> 8 * place, 8, with_sign=b_signed)
        write(t, low_word(total), mask)

    return run


def _part(words: Array, bits: int, *, with_sign: bool) -> Array:
    """The low bits of words, as numbers."""
    value = words & (1 << bits) - 1
    return np.where(value >> (bits - 1) == 1, value - (1 << bits), value) if with_sign else value

"""Half precision, two numbers a register: HADD2, HMUL2, HFMA2, HSETP2, HMNMX2, and F2FP.

A sum or product of halves is exact in a double, or rounded to odd, and then rounded once. src: Mesa
sm70_encode.rs (bits); PTX ISA, half precision: the canonical NaN is 0x7FFF
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder, Source
from boards.nv.warp.convert import half_bits, half_rounded
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.floating import (
    FORMS_WITH_C,
    as_words,
    float_compared,
    narrowed,
    single,
    to_odd,
)
from boards.nv.warp.integer import out, predicate
from boards.nv.warp.logic import joined
from boards.nv.warp.state import Threads

_ROWS = {0: (0, 1), 2: (0, 0), 3: (1, 1)}
"""Which half each result takes: as they are, the low one, the high one."""
_HALF = np.uint32(0xFFFF)
_UPPER = np.uint32(16)
Pair = Callable[[Threads], Array]


def halves(words: Array) -> Array:
    """Two rows of doubles: the low halves and the high ones."""
    rows = np.stack([words & _HALF, words >> _UPPER]).astype(np.uint16)
    return rows.view(np.float16).astype(np.float64)


def _pair(source: Source, signs: tuple[bool, bool], swizzle: int) -> Pair:
    if swizzle not in _ROWS:
        raise NotModelled(f"halves in the order {swizzle}")
    (negated, absolute), order = signs, list(_ROWS[swizzle])

    def value(t: Threads) -> Array:
        numbers = halves(source(t))[order]
        numbers = np.abs(numbers) if absolute else numbers
        return -numbers if negated else numbers

    return value


def _a(build: Builder) -> Pair:
    return _pair(
        build.a(), (bool(build.take(72)), bool(build.take(73))), build.take(74, 2)
    )  # fmt: skip


def _other(build: Builder, *, absolute: bool = True) -> Pair:
    """The second of two sources: in a register it is b, else it stands where c does."""
    form = build.form
    if form in FORMS_WITH_C:
        source, immediate = build.c(), form == FORMS_WITH_C[0]
    else:
        source, immediate = build.b(), build.form == 4
    if immediate:
        return _pair(source, (False, False), 0)
    signs = bool(build.take(63)), absolute and bool(build.take(62))
    return _pair(source, signs, build.take(60, 2))


def _bits(values: Array) -> Array:
    rows = half_bits(half_rounded(values, 0))
    packed: Array = rows[0] | rows[1] << _UPPER
    return packed


def _store(build: Builder) -> Callable[[Threads, Array, Array], None]:
    """Two rows of results, as halves, or with .F32 the first alone as a single."""
    build.only(80, 1, 0)
    build.only(85, 1, 0)
    wide, saturate = bool(build.take(78)), bool(build.take(77))
    write = out(build, uniform=False)
    build.latency = "half"

    def store(t: Threads, values: Array, mask: Array) -> None:
        if saturate:
            values = np.where(np.isnan(values), 0, np.clip(values, 0, 1))
        write(t, as_words(narrowed(values[0], 0)) if wide else _bits(values), mask)

    return store


def hadd2(build: Builder) -> Action:
    """HADD2: two sums."""
    one, two, store = _a(build), _other(build), _store(build)
    return lambda t, mask: store(t, one(t) + two(t), mask)


def hmul2(build: Builder) -> Action:
    """HMUL2: two products."""
    build.only(76, 1, 0)
    build.only(79, 1, 0)
    one, two, store = _a(build), _other(build), _store(build)
    return lambda t, mask: store(t, one(t) * two(t), mask)


def _two_and_three(build: Builder) -> tuple[Pair, Pair]:
    """The factor and the addend of HFMA2: the one at 64 has its modifiers at 81 to 84."""
    at_64 = (bool(build.take(84)), bool(build.take(83))), build.take(81, 2)
    if build.form in (2, 4):
        at_32: tuple[tuple[bool, bool], int] = (False, False), 0
    else:
        at_32 = (bool(build.take(63)), bool(build.take(62))), build.take(60, 2)
    if build.form in FORMS_WITH_C:
        return _pair(build.b(), *at_64), _pair(build.c(), *at_32)
    return _pair(build.b(), *at_32), _pair(build.c(), *at_64)


def hfma2(build: Builder) -> Action:
    """HFMA2: two products and sums, each rounded once."""
    build.only(76, 1, 0)
    build.only(79, 1, 0)
    one, (two, three) = _a(build), _two_and_three(build)
    store = _store(build)
    return lambda t, mask: store(t, to_odd(one(t) * two(t), three(t)), mask)


def hsetp2(build: Builder) -> Action:
    """HSETP2: two comparisons, a predicate each."""
    build.only(71, 1, 0)
    build.only(80, 1, 0)
    condition, operation = build.take(76, 4), build.take(69, 2)
    one, two = _a(build), _other(build)
    given = build.predicate_in(87, 90)
    first, second = (predicate(build, at) for at in (81, 84))
    build.latency = "half"

    def run(t: Threads, mask: Array) -> None:
        found, other = float_compared(condition, one(t), two(t)), given(t)
        first(t, joined(operation, found[0], other), mask)
        second(t, joined(operation, found[1], other), mask)

    return run


def hmnmx2(build: Builder) -> Action:
    """HMNMX2: the smaller or larger of each; what is no number loses, or .NAN wins."""
    keeps = bool(build.take(81))
    build.only(82, 1, 0)
    one, two, smaller = _a(build), _other(build), build.predicate_in(87, 90)
    store = _store(build)

    def run(t: Threads, mask: Array) -> None:
        first, second = one(t), two(t)
        less = (first < second) | (first == second) & np.signbit(first)
        chosen = np.where(less == smaller(t), first, second)
        none, other = np.isnan(first), np.isnan(second)
        chosen = np.where(none, first if keeps else second, chosen)
        store(t, np.where(other & ~none, second if keeps else first, chosen), mask)

    return run


def _brain_bits(values: Array) -> Array:
    """Singles as bfloat16, to the nearest even."""
    words = as_words(values)
    rounded = words + np.uint32(0x7FFF) + (words >> _UPPER & np.uint32(1))
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded >> _UPPER)


def f2fp(build: Builder) -> Action:
    """F2FP.PACK_AB: two singles as halves or bfloat16, the first one high."""
    high = single(build.a(), (bool(build.take(72)), bool(build.take(73))), flush=False)
    low = single(build.b(), build.b_sign(absolute=True), flush=False)
    build.only(64, 8, 255)
    brain, mode = bool(build.take(76)), build.take(79, 2)
    if brain and mode:
        raise NotModelled("bfloat16 in a rounding mode")
    write = out(build, uniform=False)

    def bits(values: Array) -> Array:
        if brain:
            return _brain_bits(values)
        return half_bits(half_rounded(values.astype(np.float64), mode))

    return lambda t, mask: write(t, bits(low(t)) | bits(high(t)) << _UPPER, mask)

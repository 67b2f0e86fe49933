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
    NEAREST,
    TO_ZERO,
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
_SINGLE = 1
"""The order of a source that is a single: nvrtc makes halves of constants so, on sm_75."""
_HALF = np.uint32(0xFFFF)
_UPPER = np.uint32(16)
_BRAIN = 85
_BRAIN_COMPARED = 65
"""The bits of .BF16_V2. measured: nvdisasm 13.5: in comparisons 85 is part of a predicate."""
_LEAST = 2.0**-14, 2.0**-126
"""The least normal half and bfloat16."""
Pair = Callable[[Threads], Array]


def halves(words: Array) -> Array:
    """Two rows of doubles: the low halves and the high ones."""
    rows = np.stack([words & _HALF, words >> _UPPER]).astype(np.uint16)
    return rows.view(np.float16).astype(np.float64)


def brains(words: Array) -> Array:
    """Two rows of doubles: the low bfloat16s and the high ones."""
    rows = np.stack([words << _UPPER, words & np.uint32(0xFFFF0000)])
    return rows.view(np.float32).astype(np.float64)


class Numbers:
    """Pairs of one of the two formats of an instruction."""

    def __init__(self, build: Builder, *, flushes: bool = True, brain: int = _BRAIN) -> None:
        self.brain = bool(build.take(brain))
        self.flush = bool(build.take(80)) if flushes else False

    def flushed(self, values: Array) -> Array:
        """With .FTZ, subnormal numbers as zeros."""
        if not self.flush:
            return values
        return np.where(np.abs(values) < _LEAST[self.brain], np.copysign(0.0, values), values)

    def read(self, words: Array) -> Array:
        """Two rows of doubles."""
        return self.flushed(brains(words) if self.brain else halves(words))

    def bits(self, values: Array) -> Array:
        """Two rows, exact or rounded to odd, as words."""
        if self.brain:
            rows = brain_bits(single_to_odd(values))
        else:
            rows = half_bits(self.flushed(half_rounded(values, 0).astype(np.float64)))
        packed: Array = rows[0] | rows[1] << _UPPER
        return packed


def single_to_odd(values: Array) -> Array:
    """Doubles as singles whose last bit says that they are not exact."""
    near = narrowed(values, TO_ZERO)
    odd = (near.astype(np.float64) != values) & np.isfinite(values)
    return np.asarray((near.view(np.uint32) | odd).view(np.float32))


def _pair(
    build: Builder, numbers: Numbers, place: int, source: Source, signs: tuple[bool, bool],
    swizzle: int,
) -> Pair:  # fmt: skip
    (negated, absolute), order = signs, list(_ROWS.get(swizzle, (0, 0)))
    if swizzle not in _ROWS and numbers.brain:
        raise NotModelled(f"bfloat16 in the order {swizzle}")

    def value(t: Threads) -> Array:
        if swizzle == _SINGLE:
            words = np.ascontiguousarray(source(t)).view(np.float32)
            found = np.stack([words, words]).astype(np.float64)
        else:
            found = numbers.read(source(t))[order]
        found = np.abs(found) if absolute else found
        return -found if negated else found

    return value


def _a(build: Builder, numbers: Numbers) -> Pair:
    signs = bool(build.take(72)), bool(build.take(73))
    return _pair(build, numbers, 0, build.a(), signs, build.take(74, 2))


def _other(build: Builder, numbers: Numbers, *, absolute: bool = True) -> Pair:
    """The second of two sources: in a register it is b, else it stands where c does."""
    form = build.form
    if form in FORMS_WITH_C:
        place, source, immediate = 2, build.c(), form == FORMS_WITH_C[0]
    else:
        place, source, immediate = 1, build.b(), build.form == 4
    if immediate:
        return _pair(build, numbers, place, source, (False, False), 0)
    signs = bool(build.take(63)), absolute and bool(build.take(62))
    return _pair(build, numbers, place, source, signs, build.take(60, 2))


def _store(build: Builder, numbers: Numbers) -> Callable[[Threads, Array, Array], None]:
    """Two rows of results, as halves, or with .F32 the first alone as a single."""
    wide, saturate = bool(build.take(78)), bool(build.take(77))
    relu = bool(build.take(79))
    if relu:
        build.only(87, 4, 0, 7)
    write = out(build, uniform=False)
    build.latency = "half"

    def store(t: Threads, values: Array, mask: Array) -> None:
        if saturate:
            values = np.where(np.isnan(values), 0, np.clip(values, 0, 1))
        if relu:
            values = np.where(np.isnan(values), values, np.maximum(values, 0) + 0.0)
        write(t, as_words(narrowed(values[0], 0)) if wide else numbers.bits(values), mask)

    return store


def hadd2(build: Builder) -> Action:
    """HADD2: two sums."""
    numbers = Numbers(build)
    one, two, store = _a(build, numbers), _other(build, numbers), _store(build, numbers)
    return lambda t, mask: store(t, to_odd(one(t), two(t)), mask)


def hmul2(build: Builder) -> Action:
    """HMUL2: two products."""
    build.only(76, 1, 0)
    numbers = Numbers(build)
    one, two, store = _a(build, numbers), _other(build, numbers), _store(build, numbers)
    return lambda t, mask: store(t, one(t) * two(t), mask)


def _two_and_three(build: Builder, numbers: Numbers) -> tuple[Pair, Pair]:
    """The factor and the addend of HFMA2: the one at 64 has its modifiers at 81 to 84."""
    at_64 = (bool(build.take(84)), bool(build.take(83))), build.take(81, 2)
    if build.form in (2, 4):
        at_32: tuple[tuple[bool, bool], int] = (False, False), 0
    else:
        at_32 = (bool(build.take(63)), bool(build.take(62))), build.take(60, 2)
    if build.form in FORMS_WITH_C:
        at_32, at_64 = at_64, at_32
    two = _pair(build, numbers, 1, build.b(), *at_32)
    return two, _pair(build, numbers, 2, build.c(), *at_64)


def hfma2(build: Builder) -> Action:
    """HFMA2: two products and sums, each rounded once."""
    build.only(76, 1, 0)
    numbers = Numbers(build)
    one, (two, three) = _a(build, numbers), _two_and_three(build, numbers)
    store = _store(build, numbers)
    return lambda t, mask: store(t, to_odd(one(t) * two(t), three(t)), mask)


def _comparison(build: Builder) -> tuple[Callable[[Threads], Array], Source]:
    """(two rows of truths, a predicate to join them with)."""
    numbers = Numbers(build, brain=_BRAIN_COMPARED)
    condition = build.take(76, 4)
    one, two = _a(build, numbers), _other(build, numbers)
    given = build.predicate_in(87, 90)
    return lambda t: float_compared(condition, one(t), two(t)), given


def hset2(build: Builder) -> Action:
    """HSET2: two comparisons: 1.0 or 0.0 with .BF, else all ones or none."""
    operation, numeric = build.take(69, 2), bool(build.take(71))
    found, given = _comparison(build)
    write = out(build, uniform=False)
    true = np.uint32(0x3C00 if numeric else 0xFFFF)
    build.latency = "half"

    def run(t: Threads, mask: Array) -> None:
        rows = np.where(joined(operation, found(t), given(t)), true, np.uint32(0))
        write(t, rows[0] | rows[1] << _UPPER, mask)

    return run


def hsetp2(build: Builder) -> Action:
    """HSETP2: two comparisons, a predicate each; with .H_AND, whether both hold, and not."""
    operation, both = build.take(69, 2), bool(build.take(71))
    found, given = _comparison(build)
    first, second = (predicate(build, at) for at in (81, 84))
    build.latency = "half"

    def run(t: Threads, mask: Array) -> None:
        rows, other = found(t), given(t)
        one, two = rows[0], rows[1]
        if both:
            one, two = one & two, ~(one & two)
        first(t, joined(operation, one, other), mask)
        second(t, joined(operation, two, other), mask)

    return run


def hmnmx2(build: Builder) -> Action:
    """HMNMX2: the smaller or larger of each; what is no number loses, or .NAN wins."""
    keeps, signs = bool(build.take(81)), bool(build.take(82))
    numbers = Numbers(build)
    a, b, form = build.gpr(24), build.gpr(32), build.form
    one, two, smaller = _a(build, numbers), _other(build, numbers), build.predicate_in(87, 90)
    if signs and form != 1:
        raise NotModelled(f".XORSIGN of form {form}")
    store = _store(build, numbers)

    def run(t: Threads, mask: Array) -> None:
        first, second = one(t), two(t)
        less = (first < second) | (first == second) & np.signbit(first)
        chosen = np.where(less == smaller(t), first, second)
        none, other = np.isnan(first), np.isnan(second)
        chosen = np.where(none, first if keeps else second, chosen)
        chosen = np.where(other & ~none, second if keeps else first, chosen)
        if signs:
            words = t.registers[a] ^ t.registers[b]
            minus = np.stack([words << _UPPER, words]) >> np.uint32(31) == 1
            chosen = np.copysign(chosen, np.where(minus, -1.0, 1.0))
        store(t, chosen, mask)

    return run


def brain_bits(values: Array) -> Array:
    """Singles as bfloat16, to the nearest even."""
    words = as_words(values)
    rounded = words + np.uint32(0x7FFF) + (words >> _UPPER & np.uint32(1))
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded >> _UPPER)


def f2fp(build: Builder) -> Action:
    """F2FP.PACK_AB: two singles as halves or bfloat16, the first one high."""
    high = single(build.a(), (bool(build.take(72)), bool(build.take(73))), flush=False)
    low = single(build.b(), build.b_sign(absolute=True), flush=False)
    build.only(64, 8, 255)
    brain, mode, relu = bool(build.take(76)), build.take(79, 2), bool(build.take(75))
    if brain and mode not in (NEAREST, TO_ZERO):
        raise NotModelled("bfloat16 rounded up or down")
    write = out(build, uniform=False)

    def bits(values: Array) -> Array:
        if relu:
            values = np.where(values < 0, np.float32(0), values + np.float32(0))
        if not brain:
            return half_bits(half_rounded(values.astype(np.float64), mode))
        if mode == NEAREST:
            return brain_bits(values)
        return np.where(np.isnan(values), np.uint32(0x7FFF), as_words(values) >> _UPPER)

    return lambda t, mask: write(t, bits(low(t)) | bits(high(t)) << _UPPER, mask)

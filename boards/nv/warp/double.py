"""Double precision: sums, products and comparisons as IEEE 754 has them.

GA10x has few units for doubles, which answer in order; their results need a scoreboard. MUFU.RCP64H
and RSQ64H give the high word of a first guess, here that of the nearest double.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp import floating
from boards.nv.warp.build import Action, Builder, Source
from boards.nv.warp.fields import ZERO
from boards.nv.warp.floating import DOWN, FORMS_WITH_C, NEAREST, TO_ZERO, UP, float_compared
from boards.nv.warp.integer import out, predicate
from boards.nv.warp.logic import joined
from boards.nv.warp.state import Threads

_SIGN = np.uint64(1 << 63)
_HIGH = np.uint64(32)
_MIN, _MAX = 0, 15
"""Conditions of DSETP alone. # src: text of nvdisasm 13.5"""
_SPLIT = float((1 << 27) + 1)
"""src: Dekker, "A floating-point technique for extending the available precision" (1971)"""
_LEAST, _MOST = 2.0**-450, 2.0**450
"""Between these, no step of a fused product and sum leaves normal numbers."""
Double = Callable[[Threads], Array]


def of_words(low: Array, high: Array) -> Array:
    """Doubles of two words each."""
    words = low.astype(np.uint64) | high.astype(np.uint64) << _HIGH
    return words.view(np.float64)


def double(low: Source, high: Source, signs: tuple[bool, bool] = (False, False)) -> Double:
    """A source as a double, after |x| and -x."""
    negated, absolute = signs

    def value(t: Threads) -> Array:
        words = of_words(low(t), high(t)).view(np.uint64)
        if absolute:
            words = words & ~_SIGN
        return (words ^ _SIGN if negated else words).view(np.float64)

    return value


def put_pair(t: Threads, number: int, words: Array, mask: Array) -> None:
    """64-bit words into a pair of registers."""
    if number == ZERO:
        return
    t.put(number, words & np.uint64(0xFFFFFFFF), mask)
    t.put(number + 1, words >> _HIGH, mask)


def two_sum(one: Array, two: Array) -> tuple[Array, Array]:
    """(sum, what rounding took from it). src: Knuth, TAOCP 2, 4.2.2"""
    total = one + two
    back = total - one
    return total, (one - (total - back)) + (two - back)


def toward(near: Array, rest: Array, mode: int) -> Array:
    """The nearest double and what is missing from it, in another rounding mode."""
    if mode == NEAREST:
        return near
    lower = np.where(rest < 0, np.nextafter(near, -inf), near)
    upper = np.where(rest > 0, np.nextafter(near, inf), near)
    if mode == DOWN:
        return lower
    positive = (near > 0) | (near == 0) & (rest > 0)
    return upper if mode == UP else np.where(positive, lower, upper)


def _two_product(one: Array, two: Array) -> tuple[Array, Array]:
    product = one * two
    parts = []
    for value in (one, two):
        high = _SPLIT * value
        high = high - (high - value)
        parts.append((high, value - high))
    (a, b), (c, d) = parts
    return product, ((a * c - product) + a * d + b * c) + b * d


def _odd(total: Array, rest: Array) -> Array:
    """A sum whose last bit says that it is not exact."""
    even = total.view(np.int64) & 1 == 0
    away = np.where(rest > 0, inf, -inf)
    return np.where((rest != 0) & even, np.nextafter(total, away), total)


def _exact(one: float, two: float, three: float, mode: int) -> float:
    """One product and sum of finite numbers, by fractions."""
    true = Fraction(one) * Fraction(two) + Fraction(three)
    try:
        near = true.numerator / true.denominator
    except OverflowError:
        near = inf if true > 0 else -inf
        largest = float(np.finfo(np.float64).max)
        past = mode == TO_ZERO or mode == (DOWN if true > 0 else UP)
        return np.copysign(largest, near) if past else near
    if true == 0:
        return one * two + three if mode != DOWN else -0.0
    if near == 0:
        near = np.copysign(0.0, 1 if true > 0 else -1)
    rest = true - Fraction(near)
    sign = (rest > 0) - (rest < 0)
    return float(toward(np.array(near), np.array(float(sign)), mode))


def fused(one: Array, two: Array, three: Array, mode: int, mask: Array | bool = True) -> Array:
    """one x two + three of doubles, rounded once; only those of `mask` have to be right.

    src: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (2008)
    """
    upper, lower = _two_product(one, two)
    middle, least = two_sum(three, lower)
    high, rest = two_sum(upper, middle)
    tail = _odd(*two_sum(least, rest))
    result = toward(*two_sum(high, tail), mode)
    sizes = [np.abs(x) for x in (one, two, three)]
    finite = np.isfinite(one) & np.isfinite(two) & np.isfinite(three)
    zero = (one == 0) | (two == 0)
    plain = one * two + three
    infinite = np.isfinite(one) & np.isfinite(two) & np.isinf(three)
    result = np.where(infinite, three, np.where(finite & ~zero, result, plain))
    fits = (three == 0) | (sizes[2] > _LEAST) & (sizes[2] < _MOST)
    for size in sizes[:2]:
        fits &= (size > _LEAST) & (size < _MOST)
    fits &= np.abs(result) > _LEAST
    for lane in np.flatnonzero(mask & finite & ~fits & (~zero | (mode != NEAREST))):
        result[lane] = _exact(float(one[lane]), float(two[lane]), float(three[lane]), mode)
    return result


def _a(build: Builder) -> Double:
    signs = bool(build.take(72)), bool(build.take(73))
    return double(build.a(), build.a(1), signs)


def _b(build: Builder) -> Double:
    return double(build.b(), build.b(1), build.b_sign(absolute=True))


def _c(build: Builder) -> Double:
    return double(build.c(), build.c(1), build.c_sign(absolute=True))


def _store(build: Builder) -> Callable[[Threads, Array, Array], None]:
    number = build.gpr_out(count=2)
    build.latency = "variable"
    return lambda t, value, mask: put_pair(
        t, number, np.ascontiguousarray(value).view(np.uint64), mask
    )


def dadd(build: Builder) -> Action:
    """DADD: a sum."""
    build.doubles = True
    mode, one, two, store = build.take(78, 2), _a(build), _c(build), _store(build)
    if mode == NEAREST:
        return lambda t, mask: store(t, one(t) + two(t), mask)
    return lambda t, mask: store(t, fused(one(t), np.ones(t.count), two(t), mode, mask), mask)


def dmul(build: Builder) -> Action:
    """DMUL: a product."""
    build.doubles = True
    mode, one, two = build.take(78, 2), _a(build), _b(build)
    store = _store(build)

    def run(t: Threads, mask: Array) -> None:
        first, second = one(t), two(t)
        if mode == NEAREST:
            store(t, first * second, mask)
            return
        zero = np.copysign(0.0, first * second)
        store(t, fused(first, second, zero, mode, mask), mask)

    return run


def dfma(build: Builder) -> Action:
    """DFMA: a product and a sum, rounded once."""
    build.doubles = True
    mode, one = build.take(78, 2), _a(build)
    two, three = _b(build), _c(build)
    store = _store(build)
    return lambda t, mask: store(t, fused(one(t), two(t), three(t), mode, mask), mask)


def _chosen(condition: int, one: Array, two: Array) -> tuple[Array, Array]:
    """Of .MIN and .MAX: whether the first number is taken, and whether both are no numbers.

    measured: nvrtc 13.5 makes fmin and fmax of it: the second predicate makes a NaN of the second
    """
    before = one < two if condition == _MIN else one > two
    minus = np.signbit(one) if condition == _MIN else ~np.signbit(one)
    none = np.isnan(one), np.isnan(two)
    return before | (one == two) & minus | none[1], none[0] & none[1]


def dsetp(build: Builder) -> Action:
    """DSETP: two numbers compared."""
    build.doubles = True
    condition, operation = build.take(76, 4), build.take(74, 2)
    one = _a(build)
    if build.form in FORMS_WITH_C:
        two = double(build.c(), build.c(1), build.c_sign(absolute=True))
    else:
        two = _b(build)
    given = build.predicate_in(87, 90)
    first, second = (predicate(build, at) for at in (81, 84))
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        a, b, other = one(t), two(t), given(t)
        if condition in (_MIN, _MAX):
            found, opposite = _chosen(condition, a, b)
        else:
            found = float_compared(condition, a, b)
            opposite = ~found
        first(t, joined(operation, found, other), mask)
        second(t, joined(operation, opposite, other), mask)

    return run


_HIGH_WORDS: Final[dict[int, Callable[[Array], Array]]] = {
    6: np.reciprocal, 7: lambda x: np.reciprocal(np.sqrt(x)),
}  # fmt: skip


def mufu(build: Builder) -> Action:
    """MUFU; RCP64H and RSQ64H: the high word of a function of a double whose low word is 0."""
    operation = build.take(74, 6)
    if operation not in _HIGH_WORDS:
        return floating.mufu(build)
    source, signs = build.b(), build.b_sign(absolute=True)
    number = double(lambda t: np.zeros(t.count, np.uint32), source, signs)
    build.latency = "variable"
    write = out(build, uniform=False)

    def run(t: Threads, mask: Array) -> None:
        words = _HIGH_WORDS[operation](number(t)).view(np.uint64)
        write(t, words >> _HIGH, mask)

    return run

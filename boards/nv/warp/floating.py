"""Single precision: sums and products as IEEE 754 has them, and what surrounds them.

A result that is no number is 0x7FFFFFFF. src: PTX ISA, single precision: the canonical NaN. Bits of
MUFU that silicon gives are not published: here they are the nearest single to the function of the
operand, within the error that the CUDA C++ Programming Guide states; FCHK asks for the slow path
where an operand or quotient may leave normal numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder, Source
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.integer import out, predicate
from boards.nv.warp.logic import joined
from boards.nv.warp.state import Threads

_NAN = np.uint32(0x7FFFFFFF)
_SIGN, _MAGNITUDE, _LEAST_NORMAL = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), 0x00800000
NEAREST, DOWN, UP, TO_ZERO = range(4)
"""Rounding modes."""
_FCHK_LOW, _FCHK_HIGH = 8, 246
"""Exponents between which a quotient's steps stay normal: chosen here, not known of silicon."""
_BELOW_SINGLE, _MIDDLE = (1 << 29) - 1, 1 << 28
"""Bits of a double's fraction that a single has not, and what they are between two singles."""
_LEAST_EXACT = 2.0**-125
"""Below it, singles are further apart."""
Float = Callable[[Threads], Array]


def as_words(values: Array) -> Array:
    """Singles as words, with the one NaN."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    none = np.isnan(values)
    return np.where(none, _NAN, words) if none.any() else words


def flushed(words: Array) -> Array:
    """Subnormal numbers as zeros of their sign."""
    return np.where((words & _MAGNITUDE) < _LEAST_NORMAL, words & _SIGN, words)


def single(source: Source, signs: tuple[bool, bool], *, flush: bool) -> Float:
    """A source as a single, after |x|, -x and flushing."""
    negated, absolute = signs

    def value(t: Threads) -> Array:
        words = np.ascontiguousarray(source(t))
        if absolute:
            words = words & _MAGNITUDE
        if negated:
            words = words ^ _SIGN
        return (flushed(words) if flush else words).view(np.float32)

    return value


def to_odd(product: Array, addend: Array) -> Array:
    """A sum of doubles whose last bit says that it is not exact: rounding it again is right.

    src: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (2008)
    """
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    inexact = np.isfinite(total) & (error != 0) & (total.view(np.int64) & 1 == 0)
    away = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact, np.nextafter(total, away), total)


def narrowed(value: Array, mode: int) -> Array:
    """A double, exact or rounded to odd, as a single in a rounding mode."""
    near = value.astype(np.float32)
    if mode == NEAREST:
        return near
    exact = near.astype(np.float64)
    finite = np.isfinite(value)
    down = np.nextafter(near, np.float32(-np.inf))
    up = np.nextafter(near, np.float32(np.inf))
    lower = np.where((exact > value) & finite, down, near)
    upper = np.where((exact < value) & finite, up, near)
    if mode == DOWN:
        return lower
    return upper if mode == UP else np.where(value > 0, lower, upper)


def fused(one: Array, two: Array, three: Array, mode: int) -> Array:
    """one x two + three, rounded once.

    A product of singles is exact in a double. Their sum is rounded to a double and then to a
    single: wrong only where the first rounding gives what lies in the middle of two singles.
    """
    product, addend = one.astype(np.float64), three.astype(np.float64)
    product *= two
    if mode == NEAREST:
        total = product + addend
        middle = (total.view(np.int64) & _BELOW_SINGLE) == _MIDDLE
        small = np.abs(total) < _LEAST_EXACT
        middle |= small
        if middle.any():
            total[middle] = to_odd(product[middle], addend[middle])
        return total.astype(np.float32)
    total = to_odd(product, addend)
    result = narrowed(total, mode)
    if mode == DOWN:
        minus = (total == 0) & (np.signbit(product) | np.signbit(addend))
        result = np.where(minus, np.float32(-0.0), result)
    return result


def finish(build: Builder, *, uniform: bool) -> Callable[[Threads, Array, Array], None]:
    """.SAT and .FTZ of a result."""
    saturate, flush = bool(build.take(77)), bool(build.take(80))
    write = out(build, uniform=uniform)
    build.latency = "udp" if uniform else "fma"

    def store(t: Threads, value: Array, mask: Array) -> None:
        if saturate:
            value = np.where(np.isnan(value), np.float32(0), np.clip(value, 0, 1) + np.float32(0))
        words = as_words(value)
        write(t, flushed(words) if flush else words, mask)

    return store


def _a(build: Builder, *, flush: bool, uniform: bool = False) -> Float:
    return single(
        build.a(uniform=uniform), (bool(build.take(72)), bool(build.take(73))), flush=flush
    )


def _b(
    build: Builder, *, flush: bool, absolute: bool = True, uniform: bool = False
) -> Float:  # fmt: skip
    if uniform:
        build.take(91)
    return single(build.b(uniform=uniform), build.b_sign(absolute=absolute), flush=flush)


_UNSCALED = 4
"""Of the scale of FMUL; one more doubles the product."""
FORMS_WITH_C = (2, 3, 7)
"""Forms whose third source is no register of bits 64 to 71."""


def _mixed(build: Builder, source: Source, low: int, signs: tuple[bool, bool]) -> Float:
    """A half, or a bfloat16, as the single that it is."""
    upper, brain = bool(build.take(low)), bool(build.take(82))

    def word(t: Threads) -> Array:
        half = source(t) >> np.uint32(16) if upper else source(t) & np.uint32(0xFFFF)
        if brain:
            return np.asarray(half << np.uint32(16))
        return half.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)

    return single(word, signs, flush=False)


def mixed_sum(build: Builder, *, uniform: bool = False) -> Action:
    """FADD of Blackwell, and FHADD: a half and a single. src: PTX ISA, add.f32.f16"""
    if not build.take(81):
        return fadd(build, uniform=uniform)
    signs = bool(build.take(72)), bool(build.take(73))
    one = _mixed(build, build.a(uniform=uniform), 83, signs)
    two, mode = _addend(build, flush=False, uniform=uniform), build.take(78, 2)
    store, unit = finish(build, uniform=uniform), np.ones(1, np.float32)
    return lambda t, mask: store(t, fused(one(t), unit, two(t), mode), mask)


def mixed_product(build: Builder, *, uniform: bool = False) -> Action:
    """FFMA of Blackwell, and FHFMA: two halves and a single. src: PTX ISA, fma.f32.f16"""
    if not build.take(81):
        return ffma(build, uniform=uniform)
    if uniform:
        build.take(91)
    signs = bool(build.take(72)), bool(build.take(73))
    one = _mixed(build, build.a(uniform=uniform), 83, signs)
    two = _mixed(build, build.b(uniform=uniform), 84, build.b_sign(absolute=True))
    three = single(build.c(uniform=uniform), build.c_sign(absolute=True), flush=False)
    mode, store = build.take(78, 2), finish(build, uniform=uniform)
    return lambda t, mask: store(t, fused(one(t), two(t), three(t), mode), mask)


def _addend(build: Builder, *, flush: bool, uniform: bool) -> Float:
    """The second source of a sum, which stands where other instructions have their third."""
    if build.form in FORMS_WITH_C or uniform:
        two = single(build.c(uniform=uniform), build.c_sign(absolute=True), flush=flush)
        build.register(64)
        if uniform:
            build.take(91)
        return two
    return _b(build, flush=flush, uniform=uniform)


def fadd(build: Builder, *, uniform: bool = False) -> Action:
    """FADD: a sum; the second source stands where other instructions have their third."""
    flush, mode = bool(build.take(80)), build.take(78, 2)
    one = _a(build, flush=flush, uniform=uniform)
    two = _addend(build, flush=flush, uniform=uniform)
    store = finish(build, uniform=uniform)
    if mode == NEAREST:
        return lambda t, mask: store(t, one(t) + two(t), mask)
    unit = np.ones(1, np.float32)
    return lambda t, mask: store(t, fused(one(t), unit, two(t), mode), mask)


def fmul(build: Builder, *, uniform: bool = False) -> Action:
    """FMUL: a product; .D8 to .M8: of a factor that is a power of two, too.

    measured: names that nvdisasm 13.5 prints. That the product is rounded once is chosen here.
    """
    flush, mode = bool(build.take(80)), build.take(78, 2)
    build.only(76, 1, 0)
    scale = build.take(84, 3)
    if not scale:
        raise NotModelled("FMUL with scale 0")
    factor = 2.0 ** (scale - _UNSCALED)
    one, two, store = (
        _a(build, flush=flush, uniform=uniform),
        _b(build, flush=flush, uniform=uniform),
        finish(build, uniform=uniform),
    )
    if mode == NEAREST and scale == _UNSCALED:
        return lambda t, mask: store(t, one(t) * two(t), mask)
    return lambda t, mask: store(
        t, narrowed(one(t).astype(np.float64) * two(t) * factor, mode), mask
    )  # fmt: skip


def ffma(build: Builder, *, uniform: bool = False) -> Action:
    """FFMA: a product and a sum, rounded once."""
    flush, mode = bool(build.take(80)), build.take(78, 2)
    build.only(76, 1, 0)
    one = _a(build, flush=flush, uniform=uniform)
    two = _b(build, flush=flush, uniform=uniform)
    three = single(build.c(uniform=uniform), build.c_sign(absolute=True), flush=flush)
    store = finish(build, uniform=uniform)
    return lambda t, mask: store(t, fused(one(t), two(t), three(t), mode), mask)


def fmnmx(build: Builder, *, uniform: bool = False) -> Action:
    """FMNMX: the smaller or larger number, -0 below +0; what is no number loses, or .NAN wins."""
    flush, keeps = bool(build.take(80)), bool(build.take(81))
    one, two = _a(build, flush=flush, uniform=uniform), _b(build, flush=flush, uniform=uniform)
    smaller, write = build.predicate_in(87, 90, uniform=uniform), out(build, uniform=uniform)
    build.register(64)

    def run(t: Threads, mask: Array) -> None:
        first, second = one(t), two(t)
        less = (first < second) | (first == second) & np.signbit(first)
        chosen = np.where(less == smaller(t), first, second)
        loser, winner = (first, second) if not keeps else (second, first)
        chosen = np.where(np.isnan(first), winner, np.where(np.isnan(second), loser, chosen))
        write(t, as_words(chosen), mask)

    return run


def fsel(build: Builder, *, uniform: bool = False) -> Action:
    """FSEL: one of two numbers."""
    one, two = _a(build, flush=False, uniform=uniform), _b(build, flush=False, uniform=uniform)
    which, write = build.predicate_in(87, 90, uniform=uniform), out(build, uniform=uniform)
    return lambda t, mask: write(
        t, np.where(which(t), one(t).view(np.uint32), two(t).view(np.uint32)), mask
    )  # fmt: skip


def float_compared(condition: int, one: Array, two: Array) -> Array:
    """Four bits: less, equal, greater, not ordered."""
    found = np.zeros(one.shape, bool)
    unordered = np.isnan(one) | np.isnan(two)
    for bit, holds in enumerate((one < two, one == two, one > two, unordered)):
        if condition >> bit & 1:
            found = found | holds
    return found


def fsetp(build: Builder, *, uniform: bool = False) -> Action:
    """FSETP: two numbers compared."""
    flush, condition = bool(build.take(80)), build.take(76, 4)
    operation = build.take(74, 2)
    one = _a(build, flush=flush, uniform=uniform)
    if uniform:
        build.take(91)
    two = single(build.b(uniform=uniform), _fsetp_sign(build), flush=flush)
    given = build.predicate_in(87, 90, uniform=uniform)
    first, second = (predicate(build, low, uniform=uniform) for low in (81, 84))

    def run(t: Threads, mask: Array) -> None:
        found, other = float_compared(condition, one(t), two(t)), given(t)
        first(t, joined(operation, found, other), mask)
        second(t, joined(operation, ~found, other), mask)

    return run


def fset(build: Builder, *, uniform: bool = False) -> Action:
    """FSET.BF: two numbers compared: 1.0 or 0.0."""
    flush, condition = bool(build.take(80)), build.take(76, 4)
    operation = build.take(74, 2)
    one = _a(build, flush=flush, uniform=uniform)
    if uniform:
        build.take(91)
    two = single(build.b(uniform=uniform), _fsetp_sign(build), flush=flush)
    given, write = build.predicate_in(87, 90, uniform=uniform), out(build, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        found = joined(operation, float_compared(condition, one(t), two(t)), given(t))
        write(t, as_words(found.astype(np.float32)), mask)

    return run


def _fsetp_sign(build: Builder) -> tuple[bool, bool]:
    if build.form in FORMS_WITH_C:
        raise NotModelled("a comparison with a third source")
    return build.b_sign(absolute=True)


_FUNCTIONS: Final[dict[int, Callable[[Array], Array]]] = {
    0: np.cos, 1: np.sin, 2: np.exp2, 3: np.log2, 4: np.reciprocal,
    5: lambda x: np.reciprocal(np.sqrt(x)), 8: np.sqrt, 9: np.tanh,
}  # fmt: skip
"""COS to TANH, in doubles. src: Mesa sm70_encode.rs; PTX ISA, cos.approx ... tanh.approx"""
_PERIOD = 6.283185307179586
_HALF_NAN = np.uint32(0x7FFF)


def mufu(build: Builder) -> Action:
    """MUFU: one of the functions of the special unit; COS and SIN take turns, as RRO gave them."""
    operation = build.take(74, 6)
    if operation not in _FUNCTIONS:
        raise NotModelled(f"MUFU function {operation}")
    signs, word = build.b_sign(absolute=True), build.b()
    of_half, upper = bool(build.take(73)), build.take(60, 2) if build.form == 1 else 0
    if upper > 1 or (upper and not of_half):
        raise NotModelled(f"MUFU of part {upper}")
    source = single(word, signs, flush=True)
    build.latency = "variable"
    write = out(build, uniform=False)

    def run_half(t: Threads, mask: Array) -> None:
        bits = (word(t) >> np.uint32(16 * upper)).astype(np.uint16)
        values = bits.view(np.float16).astype(np.float64)
        values = np.abs(values) if signs[1] else values
        found = _FUNCTIONS[operation](-values if signs[0] else values).astype(np.float16)
        words = found.view(np.uint16).astype(np.uint32)
        write(t, np.where(np.isnan(found), _HALF_NAN, words), mask)

    def run(t: Threads, mask: Array) -> None:
        values = source(t).astype(np.float64)
        if operation < 2:
            values = values * _PERIOD
        write(t, flushed(as_words(_FUNCTIONS[operation](values).astype(np.float32))), mask)

    return run_half if of_half else run


def fchk(build: Builder) -> Action:
    """FCHK: whether a division leaves the numbers that its short form is right for."""
    one, two = _a(build, flush=False), _b(build, flush=False)
    write = predicate(build, 81)
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        exponents = [
            (x(t).view(np.uint32) >> np.uint32(23) & np.uint32(255)).astype(np.int64)
            for x in (one, two)
        ]
        away = np.zeros(t.count, bool)
        for each in (*exponents, exponents[0] - exponents[1] + 127):
            away |= (each < _FCHK_LOW) | (each > _FCHK_HIGH)
        write(t, away, mask)

    return run

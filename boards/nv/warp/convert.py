"""Conversions among integers of 8 to 64 bits and numbers of 16, 32 and 64.

src: Mesa sm70_encode.rs (bits); PTX ISA, cvt: out of range saturates; NaN becomes 0, or the highest
bit alone where 64 bits are on either side
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.double import double, put_pair, toward, two_sum
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.floating import as_words, narrowed, single, to_odd
from boards.nv.warp.integer import out
from boards.nv.warp.state import Threads

_HALF, _SINGLE, _DOUBLE = 1, 2, 3
"""Logarithms of sizes in bytes, as the fields have them."""
_ROUND = (np.rint, np.floor, np.ceil, np.trunc)
_WORD = float(1 << 32)
Value = Callable[[Threads], Array]
Write = Callable[[Threads, Array, Array], None]
Store = Callable[[Threads, Array, Array, Array], None]


def half_bits(values: Array) -> Array:
    """Halves as words, with the one NaN. src: PTX ISA: 0x7FFF"""
    bits = np.ascontiguousarray(values, np.float16).view(np.uint16).astype(np.uint32)
    return np.where(np.isnan(values), np.uint32(0x7FFF), bits)


def half_rounded(value: Array, mode: int) -> Array:
    """A double, exact or rounded to odd, as a half in a rounding mode."""
    near = value.astype(np.float16)
    if not mode:
        return near
    exact, finite = near.astype(np.float64), np.isfinite(value)
    down = np.nextafter(near, np.float16(-np.inf))
    up = np.nextafter(near, np.float16(np.inf))
    lower = np.where((exact > value) & finite, down, near)
    upper = np.where((exact < value) & finite, up, near)
    return (near, lower, upper, np.where(value > 0, lower, upper))[mode]


def _number(build: Builder, size: int) -> Value:
    """A source of a size, as a double."""
    signs, source = build.b_sign(absolute=True), build.b()
    if size == _DOUBLE:
        build.doubles = True
        return double(build.b(), build.b(1), signs)
    if size == _SINGLE:
        value = single(source, signs, flush=bool(build.take(80)))
        return lambda t: value(t).astype(np.float64)
    if size != _HALF:
        raise NotModelled(f"a number of size {size}")
    upper, (negated, absolute) = build.take(60, 2), signs

    def of(t: Threads) -> Array:
        words = source(t) >> np.uint32(16 * upper) & np.uint32(0xFFFF)
        number = words.astype(np.uint16).view(np.float16).astype(np.float64)
        number = np.abs(number) if absolute else number
        return -number if negated else number

    return of


def _brain_stored(build: Builder, mode: int) -> Store:
    """F2F.BF16: to the nearest, or towards zero."""
    if mode not in (0, 3):
        raise NotModelled("bfloat16 rounded up or down")
    write = out(build, uniform=False)

    def store(t: Threads, value: Array, rest: Array, mask: Array) -> None:
        words = as_words(value.astype(np.float32))
        nearest = words + np.uint32(0x7FFF) + (words >> np.uint32(16) & np.uint32(1))
        bits = (words if mode else nearest) >> np.uint32(16)
        write(t, np.where(np.isnan(value), np.uint32(0x7FFF), bits), mask)

    return store


def _stored(build: Builder, size: int, mode: int) -> Store:
    """A destination of a size, for a sum of two doubles, the second far below the first."""
    build.latency = "variable"
    if size == _DOUBLE:
        number = build.gpr_out(count=2)

        def store(t: Threads, value: Array, rest: Array, mask: Array) -> None:
            near = toward(*two_sum(value, rest), mode)
            put_pair(t, number, np.where(np.isfinite(value), near, value).view(np.uint64), mask)

        return store
    write = out(build, uniform=False)
    if size == _SINGLE:
        return lambda t, value, rest, mask: write(
            t, as_words(narrowed(to_odd(value, rest), mode)), mask
        )
    if size != _HALF:
        raise NotModelled(f"a number of size {size}")
    return lambda t, value, rest, mask: write(
        t, half_bits(half_rounded(to_odd(value, rest), mode)), mask
    )


def _integer(build: Builder) -> Callable[[Threads], tuple[Array, Array]]:
    """A source of 8 to 64 bits, as a sum of two doubles."""
    is_signed, size, part = build.take(74), build.take(84, 2), build.take(60, 2)
    low = build.b()
    if size == _DOUBLE:
        high = build.b(1)
        kind = np.int32 if is_signed else np.uint32
        return lambda t: (
            np.ascontiguousarray(high(t)).view(kind).astype(np.float64) * _WORD,
            low(t).astype(np.float64),
        )
    width = 8 << size
    dtype = np.dtype(f"{'i' if is_signed else 'u'}{1 << size}")

    def of(t: Threads) -> tuple[Array, Array]:
        words = low(t) >> np.uint32(part * width % 32)
        number = words.astype(f"u{1 << size}").view(dtype).astype(np.float64)
        return number, np.zeros(t.count)

    return of


def i2f(build: Builder) -> Action:
    """I2F, I2FP: an integer to a number."""
    source, size, mode = _integer(build), build.take(75, 2), build.take(78, 2)
    store = _stored(build, size, mode)
    build.latency = "alu"
    return lambda t, mask: store(t, *source(t), mask)


def ui2fp(build: Builder) -> Action:
    """UI2FP.F32 of Blackwell: a word of a uniform register to a single, to the nearest."""
    build.only(75, 2, _SINGLE)
    build.only(78, 2, 0)
    build.only(84, 2, _SINGLE)
    kind = np.int32 if build.take(74) else np.uint32
    build.only(91, 1, 1)
    source, write = build.b(uniform=True), out(build, uniform=True)
    build.latency = "udp"

    def run(t: Threads, mask: Array) -> None:
        words = np.ascontiguousarray(source(t)).view(kind)
        write(t, words.astype(np.float32).view(np.uint32), mask)

    return run


def i2f_variable(build: Builder) -> Action:
    """I2F, which needs a scoreboard."""
    run = i2f(build)
    build.latency = "variable"
    return run


def f2i(build: Builder) -> Action:
    """F2I: a number to an integer."""
    is_signed, size, given = bool(build.take(72)), build.take(75, 2), build.take(84, 2)
    source = _number(build, given)
    build.take(77)
    build.latency, mode, bits = "variable", build.take(78, 2), 8 << size
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    number = build.gpr_out(count=2 if size == _DOUBLE else 1)
    wide = _DOUBLE in (size, given)
    nothing = (1 << bits - 1) - (1 << bits if is_signed else 0) if wide else 0

    def run(t: Threads, mask: Array) -> None:
        value = _ROUND[mode](source(t))
        inside = (value >= float(low)) & (value < float(high + 1))
        kind = np.int64 if is_signed else np.uint64
        words = np.where(inside, value, 0).astype(kind)
        words = np.where(inside, words, np.where(value > 0, kind(high), kind(low)))
        words = np.where(np.isnan(value), kind(nothing), words).view(np.uint64)
        if size == _DOUBLE:
            put_pair(t, number, words, mask)
        else:
            t.put(number, words & np.uint64(0xFFFFFFFF), mask)

    return run


def f2f(build: Builder) -> Action:
    """F2F: a number to another size; of bit 77, a single to bfloat16."""
    given, size, mode = build.take(84, 2), build.take(75, 2), build.take(78, 2)
    source = _number(build, given)
    if build.take(77):
        build.latency = "variable"
        if size or given != _SINGLE:
            raise NotModelled(f"bfloat16 of size {given}")
        store = _brain_stored(build, mode)
    else:
        store = _stored(build, size, mode)
    return lambda t, mask: store(t, source(t), np.full(t.count, -0.0), mask)


def frnd(build: Builder) -> Action:
    """FRND: the nearest whole number."""
    source, size, mode = _number(build, build.take(84, 2)), build.take(75, 2), build.take(78, 2)
    store = _stored(build, size, 0)
    return lambda t, mask: store(t, _ROUND[mode](source(t)), np.full(t.count, -0.0), mask)

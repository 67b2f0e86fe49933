"""Integers of 64 bits in pairs of registers: Hopper's UIADD3.64, and what Blackwell adds.

measured: fields, and how an immediate is extended, are what nvdisasm 13.5 prints with one bit
changed
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp import logic
from boards.nv.warp.build import UNIFORM, Action, Builder, Source
from boards.nv.warp.double import put_pair
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.integer import predicate
from boards.nv.warp.logic import compared, joined
from boards.nv.warp.state import Threads

_HIGH = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
_COMPARED_BIT = 80
Pairs = Callable[[Threads], Array]
Write = Callable[[Threads, Array, Array], None]
_SEL_IMMEDIATE, _SEL_REGISTER, _SEL_UNIFORM = 2, 3, 7
"""Forms of SEL.64; that of MOV.64 with an immediate is the first, too."""
_MOV_REGISTER, _MOV_UNIFORM = 1, 6


def pair(low: Source, high: Source) -> Pairs:
    """Two words as one."""
    return lambda t: low(t).astype(np.uint64) | high(t).astype(np.uint64) << _HIGH


def _sources(build: Builder, *, uniform: bool = False) -> tuple[Pairs, Pairs]:
    """The first two; an immediate is extended with its sign."""
    build.extends = True
    a = pair(build.a(uniform=uniform), build.a(1, uniform=uniform))
    return a, pair(build.b(uniform=uniform), build.b(1, uniform=uniform))


def _out(build: Builder, *, uniform: bool = False) -> Write:
    if not uniform:
        number = build.gpr_out(count=2)
        return lambda t, value, mask: put_pair(t, number, value, mask)
    first = build.uniform_out(2)

    def write(t: Threads, value: Array, mask: Array) -> None:
        t.put_uniform(first, value & _MASK, mask)
        t.put_uniform(first + 1, value >> _HIGH, mask)

    return write


def _term(value: Pairs, *, negated: bool) -> Pairs:
    return (lambda t: np.negative(value(t))) if negated else value


def iadd(build: Builder) -> Action:
    """IADD.64, IADD.64.X: a sum of two, with a carry in and out: minus x is ~x + 1."""
    extended = bool(build.take(74))
    a, b = _sources(build)
    negated = bool(build.take(72)), build.b_sign()[0]
    given, carry, write = build.predicate_in(87, 90), predicate(build, 81), _out(build)
    one = np.uint64(0 if extended else sum(negated))

    def run(t: Threads, mask: Array) -> None:
        x, y = (~v(t) if minus else v(t) for v, minus in zip((a, b), negated, strict=True))
        more = given(t).astype(np.uint64) if extended else one
        total = x + y
        whole = total + more
        write(t, whole, mask)
        carry(t, (total < x) | (whole < total), mask)

    return run


def uiadd3(build: Builder) -> Action:
    """UIADD3.64: a sum of three."""
    build.take(91)
    build.only(74, 1, 0)
    build.only(87, 4, 0xF)
    build.only(77, 4, 0xF)
    build.only(81, 6, 0x3F)
    a, b = _sources(build, uniform=True)
    c = pair(build.c(uniform=True), build.c(1, uniform=True))
    a, b = _term(a, negated=bool(build.take(72))), _term(b, negated=build.b_sign()[0])
    c, write = _term(c, negated=build.c_sign()[0]), _out(build, uniform=True)
    build.latency = "udp"
    return lambda t, mask: write(t, a(t) + b(t) + c(t), mask)


def imnmx(build: Builder) -> Action:
    """IMNMX of Blackwell, with .S64 and .U64: which is smaller is decided by both words."""
    if not build.take(74):
        build.only(77, 4, 0, 0xF)
        return logic.imnmx(build)
    a, b = _sources(build)
    kind = np.int64 if build.take(73) else np.uint64
    smaller = build.predicate_in(87, 90)
    build.only(77, 4, 0xF)
    build.only(81, 6, 0x3F)
    write = _out(build)

    def run(t: Threads, mask: Array) -> None:
        one, two = a(t), b(t)
        less = one.view(kind) < two.view(kind)
        write(t, np.where(less == smaller(t), one, two), mask)

    return run


def isetp(build: Builder, *, uniform: bool = False) -> Action:
    """ISETP and UISETP of Blackwell, with .S64 and .U64: two pairs compared."""
    if not build.take(_COMPARED_BIT):
        return logic.isetp(build, uniform=uniform)
    a, b = _sources(build, uniform=uniform)
    if uniform:
        build.take(91)
    kind = np.int64 if build.take(73) else np.uint64
    operation, condition = build.take(74, 2), build.take(76, 3)
    build.only(72, 1, 0)
    build.only(68, 4, 0, 7)
    if build.b_sign()[0] or operation > 2:
        raise NotModelled("ISETP.64 of this kind")
    given = build.predicate_in(87, 90, uniform=uniform)
    first, second = (predicate(build, low, uniform=uniform) for low in (81, 84))

    def run(t: Threads, mask: Array) -> None:
        found = compared(condition, a(t).view(kind), b(t).view(kind))
        other = given(t)
        first(t, joined(operation, found, other), mask)
        second(t, joined(operation, ~found, other), mask)

    return run


def _number(value: int) -> Pairs:
    return lambda t: np.full(t.count, value & (1 << 64) - 1, np.uint64)


def _registers(build: Builder, low: int) -> Pairs:
    number = build.gpr(low, 1, 2)
    high = number + 1 if number != ZERO else ZERO
    return pair(lambda t: t.registers[number], lambda t: t.registers[high])


def _uniforms(build: Builder, low: int) -> Pairs:
    number, zero = build.uniform(low), build.arch.uniform_zero
    high = number + 1 if number != zero else zero
    if number != zero:
        build.reads += [(UNIFORM, number, 1), (UNIFORM, high, 1)]
    return pair(lambda t: t.uniforms[number], lambda t: t.uniforms[high])


def sel(build: Builder) -> Action:
    """SEL of Blackwell, with .64: one of two pairs."""
    form = build.form
    if form not in (_SEL_IMMEDIATE, _SEL_REGISTER, _SEL_UNIFORM):
        return logic.sel(build)
    a = _registers(build, 24)
    if form == _SEL_UNIFORM:
        build.only(91, 1, 1)
        b = _uniforms(build, 32)
    else:
        b = _registers(build, 32) if form == _SEL_REGISTER else _number(build.signed(32, 33))
    which, write = build.predicate_in(87, 90), _out(build)
    return lambda t, mask: write(t, np.where(which(t), a(t), b(t)), mask)


def usel(build: Builder) -> Action:
    """USEL of Blackwell, with .64: one of two pairs."""
    form = build.form
    if form not in (_SEL_IMMEDIATE, _MOV_UNIFORM):
        return logic.sel(build, uniform=True)
    build.take(91)
    a = _uniforms(build, 24)
    b = _number(build.signed(32, 33)) if form == _SEL_IMMEDIATE else _uniforms(build, 32)
    which, write = build.predicate_in(87, 90, uniform=True), _out(build, uniform=True)
    return lambda t, mask: write(t, np.where(which(t), a(t), b(t)), mask)


def mov(build: Builder, *, uniform: bool = False) -> Action:
    """MOV and UMOV of Blackwell, with .64: a pair, or an immediate of 64 bits."""
    form = build.form
    if form == _SEL_IMMEDIATE:
        value = _number(build.take(24, 64))
        build.only(91, 1, 1 if uniform else 0)
    elif form not in (_MOV_REGISTER, _MOV_UNIFORM) or not build.take(80):
        return logic.mov(build, uniform=uniform)
    else:
        if not uniform:
            build.only(72, 4, 0xF)
        build.only(91, 1, form == _MOV_UNIFORM)
        value = (_uniforms if form == _MOV_UNIFORM else _registers)(build, 32)
    write = _out(build, uniform=uniform)
    build.latency = "umov" if uniform else "alu"
    return lambda t, mask: write(t, value(t), mask)

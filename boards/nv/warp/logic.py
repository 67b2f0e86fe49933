"""Comparisons, predicates, selection, and the small integer instructions.

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs (bits); PTX ISA (setp, prmt, bfind, brev, popc)
"""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import PREDICATE, Action, Builder, Source
from boards.nv.warp.fields import TRUE, NotModelled
from boards.nv.warp.integer import Write, out, predicate, signed, wide
from boards.nv.warp.state import Threads

_AND, _OR, _XOR = range(3)
_ALL = 0xFFFFFFFF
_UNEQUAL = 5
"""Less and greater."""


def joined(operation: int, one: Array, two: Array) -> Array:
    """.AND, .OR, .XOR of a comparison with a predicate. Raises: NotModelled."""
    if operation == _AND:
        return one & two
    if operation == _OR:
        return one | two
    if operation == _XOR:
        return one ^ two
    raise NotModelled(f"predicate operation {operation}")


def compared(condition: int, one: Array, two: Array) -> Array:
    """Three bits: less, equal, greater."""
    found = np.zeros(one.shape, bool)
    for bit, holds in enumerate((one < two, one == two, one > two)):
        if condition >> bit & 1:
            found = found | holds
    return found


def isetp(build: Builder, *, uniform: bool = False) -> Action:
    """ISETP, UISETP: two words compared, with .EX after the comparison of low words."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    if uniform:
        build.take(91)
    extended, is_signed = bool(build.take(72)), bool(build.take(73))
    operation, condition = build.take(74, 2), build.take(76, 3)
    if build.b_sign()[0]:
        raise NotModelled("ISETP of a negated source")
    lower = build.predicate_in(68, 71, uniform=uniform)
    given = build.predicate_in(87, 90, uniform=uniform)
    first, second = (predicate(build, low, uniform=uniform) for low in (81, 84))
    if operation > _XOR:
        raise NotModelled(f"predicate operation {operation}")
    kind = signed if is_signed else wide

    def run(t: Threads, mask: Array) -> None:
        one, two = kind(a(t)), kind(b(t))
        found = compared(condition, one, two)
        if extended:
            found = np.where(one == two, lower(t), compared(condition & _UNEQUAL, one, two))
        other = given(t)
        first(t, joined(operation, found, other), mask)
        second(t, joined(operation, ~found, other), mask)

    return run


def plop3(build: Builder, *, uniform_unit: bool = False) -> Action:
    """PLOP3, UPLOP3: two functions of three predicates."""
    third = bool(build.take(67)) or uniform_unit
    sources = [build.predicate_in(87, 90, uniform=uniform_unit)]
    sources.append(build.predicate_in(77, 80, uniform=uniform_unit))
    sources.append(build.predicate_in(68, 71, uniform=third))
    tables = (build.take(64, 3) | build.take(72, 5) << 3, build.take(16, 8))
    writes = [predicate(build, low, uniform=uniform_unit) for low in (81, 84)]

    def run(t: Threads, mask: Array) -> None:
        at = np.zeros(t.count, np.int64)
        for each in sources:
            at = at << 1 | each(t)
        for table, write in zip(tables, writes, strict=True):
            write(t, (table >> at & 1).astype(bool), mask)

    return run


def sel(build: Builder, *, uniform: bool = False) -> Action:
    """SEL, USEL: one of two words."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    if uniform:
        build.take(91)
    which, write = build.predicate_in(87, 90, uniform=uniform), out(build, uniform=uniform)
    return lambda t, mask: write(t, np.where(which(t), a(t), b(t)), mask)


def mov(build: Builder, *, uniform: bool = False) -> Action:
    """MOV, UMOV: a word."""
    b = build.b(uniform=uniform)
    if not uniform:
        build.only(72, 4, 0xF)
    build.latency = "umov" if uniform else "alu"
    write = out(build, uniform=uniform)
    return lambda t, mask: write(t, b(t), mask)


def imnmx(build: Builder, *, uniform: bool = False) -> Action:
    """IMNMX, UIMNMX: the smaller or larger of two words."""
    a, b = build.a(uniform=uniform), build.b(uniform=uniform)
    if uniform:
        build.take(91)
        build.only(77, 4, 0, 0xF)
    kind = signed if build.take(73) else wide
    smaller = build.predicate_in(87, 90, uniform=uniform)
    build.only(81, 6, 0, 0x3F)
    write = out(build, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        one, two = a(t), b(t)
        less = kind(one) < kind(two)
        write(t, np.where(less == smaller(t), one, two), mask)

    return run


def iabs(build: Builder, *, uniform: bool = False) -> Action:
    """IABS, UIABS: a magnitude; that of -2^31 is 2^31."""
    b, write = build.b(uniform=uniform), out(build, uniform=uniform)
    if uniform:
        build.take(91)
    return lambda t, mask: write(t, np.abs(signed(b(t))), mask)


def _one_source(build: Builder, *, uniform: bool) -> tuple[Source, bool, Write]:
    """(the source, whether it is inverted, the destination) of what needs a unit of its own."""
    b, invert = build.b(uniform=uniform), build.b_sign()[0]
    if uniform:
        build.take(91)
    else:
        build.latency = "variable"
    return b, invert, out(build, uniform=uniform)


def popc(build: Builder, *, uniform: bool = False) -> Action:
    """POPC, UPOPC: how many bits are set."""
    b, invert, write = _one_source(build, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        value = ~b(t) if invert else b(t)
        bits = np.ascontiguousarray(value).view(np.uint8).reshape(-1, 4)
        write(t, np.unpackbits(bits, axis=1).sum(axis=1), mask)

    return run


def brev(build: Builder, *, uniform: bool = False) -> Action:
    """BREV, UBREV: bits in reverse."""
    b, invert, write = _one_source(build, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        value = np.ascontiguousarray(~b(t) if invert else b(t)).view(np.uint8).reshape(-1, 4)
        bits = np.unpackbits(value, axis=1, bitorder="little")
        write(t, np.packbits(bits, axis=1).view(">u4").ravel(), mask)

    return run


_MODES = {
    1: ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    2: ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    3: ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    4: ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    5: ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    6: ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}
"""Bytes, low first, that the low two bits of the selector choose: F4E, B4E, RC8, ECL, ECR, RC16.
src: PTX ISA, prmt
"""
_TABLES = {
    mode: np.array([sum(byte << 4 * n for n, byte in enumerate(row)) for row in rows], np.uint32)
    for mode, rows in _MODES.items()
}


def prmt(build: Builder, *, uniform: bool = False) -> Action:
    """PRMT, UPRMT: four bytes chosen from eight, or their signs."""
    a, chosen = build.a(uniform=uniform), build.b(uniform=uniform)
    c, mode = build.c(uniform=uniform), build.take(72, 3)
    if uniform:
        build.take(91)
    if mode and mode not in _TABLES:
        raise NotModelled(f"PRMT of mode {mode}")
    write = out(build, uniform=uniform)

    def selectors(t: Threads) -> Array:
        words = chosen(t)
        return np.asarray(_TABLES[mode][words & np.uint32(3)]) if mode else words

    return lambda t, mask: write(t, _permuted(a(t), c(t), selectors(t)), mask)


def _permuted(low: Array, high: Array, selectors: Array) -> Array:
    """Four bytes of eight; a nibble above 7 asks for the sign of one."""
    pair = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    total = np.zeros(len(pair), np.uint64)
    for place in range(4):
        nibble = (selectors >> np.uint32(4 * place) & np.uint32(0xF)).astype(np.uint64)
        byte = pair >> (nibble & np.uint64(7)) * np.uint64(8) & np.uint64(0xFF)
        sign = np.where(byte >> np.uint64(7) != 0, np.uint64(0xFF), np.uint64(0))
        byte = np.where(nibble > np.uint64(TRUE), sign, byte)
        total |= byte << np.uint64(8 * place)
    return total.astype(np.uint32)


def flo(build: Builder, *, uniform: bool = False) -> Action:
    """FLO, UFLO: the number of the highest bit that is set, or differs from the sign."""
    is_signed, as_shift = bool(build.take(73)), bool(build.take(74))
    b, invert, write = _one_source(build, uniform=uniform)
    found = predicate(build, 81, uniform=uniform)

    def run(t: Threads, mask: Array) -> None:
        value = wide(~b(t) if invert else b(t))
        if is_signed:
            value = np.where(value >> 31 != 0, value ^ _ALL, value)
        place = np.frexp(value.astype(np.float64))[1].astype(np.int64) - 1
        some = value != 0
        number = np.where(some, (31 - place) if as_shift else place, _ALL)
        write(t, number, mask)
        found(t, some, mask)

    return run


def p2r(build: Builder) -> Action:
    """P2R PR: the predicates of a mask as bits, over the other bits of a word."""
    a, mask_of_them = build.a(), build.take(32, 32)
    build.only(9, 3, 4)
    build.only(72, 4, 0)
    shown = [number for number in range(TRUE) if mask_of_them >> number & 1]
    build.reads += [(PREDICATE, number, 0) for number in shown]
    write = out(build, uniform=False)

    def run(t: Threads, mask: Array) -> None:
        bits = np.zeros(t.count, np.uint32)
        for number in shown:
            bits |= t.predicates[number].astype(np.uint32) << np.uint32(number)
        write(t, a(t) & np.uint32(~mask_of_them & _ALL) | bits, mask)

    return run


def r2p(build: Builder) -> Action:
    """R2P PR: the bits of a mask in a byte of a word, into predicates."""
    a, mask_of_them = build.a(), build.take(32, 32)
    build.only(9, 3, 4)
    build.only(72, 4, 0)
    low = 8 * build.take(76, 2)
    which = [number for number in range(TRUE) if mask_of_them >> number & 1]
    build.writes += [(PREDICATE, number) for number in which]

    def run(t: Threads, mask: Array) -> None:
        for number in which:
            bit = a(t) >> np.uint32(low + number) & np.uint32(1)
            t.put_predicate(number, bit.astype(bool), mask)

    return run

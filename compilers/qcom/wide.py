"""Integers of 64 bits as two words: `low:high`."""

from __future__ import annotations

from typing import Final

from compilers.qcom.emitter import Emitter, is_literal, literal, number
from compilers.qcom.integer import divided, product, wide_product

Pair = tuple[str, str]
HALF: Final = 32
_SIGNED_COMPARE: Final = {True: "cmps.s", False: "cmps.u"}


def pair(value: int) -> Pair:
    """A number."""
    return literal(value), literal(value >> HALF)


def is_number(value: Pair) -> bool:
    """Whether both words are known."""
    return is_literal(value[0]) and is_literal(value[1])


def add(e: Emitter, a: Pair, b: Pair) -> Pair:
    """a + b."""
    low = e.op("add.u", a[0], b[0])
    high = e.op("add.u", a[1], b[1])
    if low == a[0]:
        return low, high
    return low, e.op("add.u", high, e.op("cmps.u.lt", low, b[0]))


def sub(e: Emitter, a: Pair, b: Pair) -> Pair:
    """a - b."""
    borrow = e.op("cmps.u.lt", a[0], b[0])
    high = e.op("sub.u", a[1], b[1])
    return e.op("sub.u", a[0], b[0]), e.op("sub.u", high, borrow)


def mul(e: Emitter, a: Pair, b: Pair) -> Pair:
    """The low 64 bits of the product."""
    low, high = wide_product(e, a[0], b[0])
    for one, other in ((a[1], b[0]), (a[0], b[1])):
        high = e.op("add.u", high, product(e, one, other))
    return low, high


def less(e: Emitter, a: Pair, b: Pair, *, signed: bool, equal: bool = False) -> str:
    """a < b, or a <= b."""
    kind = _SIGNED_COMPARE[signed]
    upper = e.op(f"{kind}.lt", a[1], b[1])
    same = e.op("cmps.u.eq", a[1], b[1])
    lower = e.op(f"cmps.u.{'le' if equal else 'lt'}", a[0], b[0])
    return e.op("or.b", upper, e.op("and.b", same, lower))


def equal(e: Emitter, a: Pair, b: Pair) -> str:
    """a == b."""
    return e.op("and.b", e.op("cmps.u.eq", a[0], b[0]), e.op("cmps.u.eq", a[1], b[1]))


def choose(e: Emitter, condition: str, yes: Pair, no: Pair) -> Pair:
    """`yes` where the condition holds."""
    return (
        yes[0] if yes[0] == no[0] else e.op("sel.b32", yes[0], condition, no[0]),
        yes[1] if yes[1] == no[1] else e.op("sel.b32", yes[1], condition, no[1]),
    )


def _shift_known(e: Emitter, a: Pair, count: int, *, left: bool, signed: bool) -> Pair:
    down = "ashr.b" if signed else "shr.b"
    fill = e.op("ashr.b", a[1], "k31") if signed else "k0"
    if count >= HALF:
        rest = literal(count - HALF)
        return ("k0", e.op("shl.b", a[0], rest)) if left else (e.op(down, a[1], rest), fill)
    if not count:
        return a
    near, far = literal(count), literal(HALF - count)
    if left:
        return e.op("shl.b", a[0], near), e.op(
            "or.b", e.op("shl.b", a[1], near), e.op("shr.b", a[0], far)
        )
    low = e.op("or.b", e.op("shr.b", a[0], near), e.op("shl.b", a[1], far))
    return low, e.op(down, a[1], near)


def shift(e: Emitter, a: Pair, amount: str, *, left: bool, signed: bool) -> Pair:
    """By fewer than 64 bits; `signed` shifts right keep the sign."""
    if is_literal(amount):
        return _shift_known(e, a, number(amount), left=left, signed=signed)
    near = e.op("and.b", amount, "k31")
    rest = e.op("xor.b", near, "k31")  # the other word's bits move 31 - near, and one more
    many = e.op("and.b", amount, "k32")
    if left:
        carried = e.op("shr.b", e.op("shr.b", a[0], "k1"), rest)
        low, high = e.op("shl.b", a[0], near), e.op("or.b", e.op("shl.b", a[1], near), carried)
        return choose(e, many, ("k0", low), (low, high))
    carried = e.op("shl.b", e.op("shl.b", a[1], "k1"), rest)
    down = "ashr.b" if signed else "shr.b"
    low, high = e.op("or.b", e.op("shr.b", a[0], near), carried), e.op(down, a[1], near)
    fill = e.op("ashr.b", a[1], "k31") if signed else "k0"
    return choose(e, many, (high, fill), (low, high))


def negate_where(e: Emitter, a: Pair, mask: str) -> Pair:
    """-a where the mask is all ones, a where it is 0."""
    turned = e.op("xor.b", a[0], mask), e.op("xor.b", a[1], mask)
    return sub(e, turned, (mask, mask))


def divide(e: Emitter, a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """Quotient and remainder of unsigned numbers: by words where both are words, else bit by bit
    in the lanes that need it."""
    quotient, rest = divided(e, a[0], b[0])
    results = [e.name("m") for _ in range(4)]
    for name, value in zip(results, (quotient, "k0", rest, "k0"), strict=True):
        e.line("mov", name, value)
    with e.branch(e.op("or.b", a[1], b[1])):
        for name, value in zip(results, ("k0", "k0", "k0", "k0"), strict=True):
            e.line("mov", name, value)
        with e.loop(2 * HALF) as step:
            _bit(e, a, b, results, step)
    found = [e.op("mov", name) for name in results]
    return (found[0], found[1]), (found[2], found[3])


def _bit(e: Emitter, a: Pair, b: Pair, results: list[str], step: str) -> None:
    """One bit of a quotient, from the top: the remainder takes in the next bit."""
    q_low, q_high, r_low, r_high = (e.op("mov", name) for name in results)
    place = e.op("sub.u", "k63", step)
    next_bit = e.op("and.b", shift(e, a, place, left=False, signed=False)[0], "k1")
    over = e.op("shr.b", r_high, "k31")
    grown = _shift_known(e, (r_low, r_high), 1, left=True, signed=False)
    grown = e.op("or.b", grown[0], next_bit), grown[1]
    fits = e.op("or.b", over, less(e, b, grown, signed=False, equal=True))
    rest = choose(e, fits, sub(e, grown, b), grown)
    quotient = _shift_known(e, (q_low, q_high), 1, left=True, signed=False)
    quotient = e.op("or.b", quotient[0], fits), quotient[1]
    for name, value in zip(results, (*quotient, *rest), strict=True):
        e.line("mov", name, value)


def divide_signed(e: Emitter, a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """C's quotient and remainder."""
    sign_a, sign_b = e.op("ashr.b", a[1], "k31"), e.op("ashr.b", b[1], "k31")
    quotient, rest = divide(e, negate_where(e, a, sign_a), negate_where(e, b, sign_b))
    return negate_where(e, quotient, e.op("xor.b", sign_a, sign_b)), negate_where(e, rest, sign_a)


def to_float(e: Emitter, a: Pair, *, signed: bool) -> str:
    """The nearest float32: the highest 32 bits from the first set one on, the last of them also
    where one below is set, and the exponent."""
    sign = e.op("ashr.b", a[1], "k31") if signed else "k0"
    low, high = negate_where(e, a, sign) if signed else a
    zeros = e.op("clz.b", high)
    count = e.op("sel.b32", zeros, high, "k32")  # of leading zeros; 32 where `high` is 0
    moved = shift(e, (low, high), count, left=True, signed=False)
    sticky = e.op("cmps.u.ne", moved[0], "k0")
    single = e.op("cov.u32f32", e.op("or.b", moved[1], sticky))
    exponent = e.op("shl.b", e.op("sub.u", "k32", count), "k23")
    grown = e.op("add.u", single, exponent)
    grown = e.op("sel.b32", grown, e.op("or.b", low, high), "k0")
    return e.op("or.b", grown, e.op("and.b", sign, literal(1 << 31)))


def from_float(e: Emitter, x: str, *, signed: bool) -> Pair:
    """A float32 that is in range, towards zero: the mantissa, shifted."""
    size = e.op("and.b", x, literal(0x7FFFFFFF))
    mantissa = e.op("or.b", e.op("and.b", x, literal(0x7FFFFF)), literal(0x800000))
    exponent = e.op("shr.b", size, "k23")
    up = e.op("and.b", e.op("sub.u", exponent, literal(150)), "k63")
    down = e.op("min.u", e.op("sub.u", literal(150), exponent), "k31")
    grown = shift(e, (mantissa, "k0"), up, left=True, signed=False)
    shrunk = e.op("shr.b", mantissa, down), "k0"
    small = e.op("cmps.u.lt", exponent, literal(150))
    found = choose(e, small, shrunk, grown)
    if not signed:
        return found
    return negate_where(e, found, e.op("ashr.b", x, "k31"))

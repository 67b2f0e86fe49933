"""Integer instructions of ir3 on the board, 20,000 vectors each, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from boards.machine.arrays import Array, Words
from tests.boards.ir3_runner import results
from tests.support import check

_ROWS: Final = 20_000
_ALL: Final = 0xFFFFFFFF


def _signed(value: int, width: int = 32) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> width - 1 else value


def _reverse(value: int) -> int:
    return int(f"{value:032b}"[::-1], 2)


def _first_other(value: int) -> int:
    """From the top, the first bit that is not as the sign."""
    text = f"{value:032b}"
    return text.find("1" if text[0] == "0" else "0")


def _dot(a: int, b: int, c: int, first: int, count: int, *, mixed: bool) -> int:
    total = c
    for part in range(first, first + count):
        left, right = a >> 8 * part & 0xFF, b >> 8 * part & 0xFF
        total += (_signed(left, 8) if mixed else left) * right
    return total


def _clamped(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


ONE: Final[dict[str, Callable[[int], int]]] = {
    "not.b {out}, {0}": lambda a: ~a,
    "bfrev.b {out}, {0}": _reverse,
    "clz.b {out}, {0}": lambda a: 32 - a.bit_length() if a else -1,
    "clz.s {out}, {0}": _first_other,
    "cbits.b {out}, {0}": lambda a: a.bit_count(),
    "absneg.s {out}, (abs){0}": lambda a: abs(_signed(a)),
    "absneg.s {out}, (neg){0}": lambda a: -a,
    "mov.u32u32 {out}, {0}": lambda a: a,
    "add.u {out}, {0}, 77": lambda a: a + 77,
    "add.u {out}, {0}, -3": lambda a: a - 3,
}
TWO: Final[dict[str, Callable[[int, int], int]]] = {
    "add.u {out}, {0}, {1}": lambda a, b: a + b,
    "sub.u {out}, {0}, {1}": lambda a, b: a - b,
    "add.s {out}, {0}, (neg){1}": lambda a, b: a - b,
    "(sat)add.u {out}, {0}, {1}": lambda a, b: _clamped(a + b, 0, _ALL),
    "(sat)sub.u {out}, {0}, {1}": lambda a, b: _clamped(a - b, 0, _ALL),
    "(sat)add.s {out}, {0}, {1}": lambda a, b: _clamped(
        _signed(a) + _signed(b), -(1 << 31), (1 << 31) - 1
    ),
    "min.u {out}, {0}, {1}": min,
    "max.u {out}, {0}, {1}": max,
    "min.s {out}, {0}, {1}": lambda a, b: min(_signed(a), _signed(b)),
    "max.s {out}, {0}, {1}": lambda a, b: max(_signed(a), _signed(b)),
    "and.b {out}, {0}, {1}": lambda a, b: a & b,
    "or.b {out}, {0}, (neg){1}": lambda a, b: a | ~b,
    "xor.b {out}, {0}, {1}": lambda a, b: a ^ b,
    "mul.u24 {out}, {0}, {1}": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mul.s24 {out}, {0}, {1}": lambda a, b: _signed(a, 24) * _signed(b, 24),
    "mull.u {out}, {0}, {1}": lambda a, b: (a & 0xFFFF) * (b & 0xFFFF),
    "shl.b {out}, {0}, {1}": lambda a, b: a << (b & 31),
    "shr.b {out}, {0}, {1}": lambda a, b: a >> (b & 31),
    "ashr.b {out}, {0}, {1}": lambda a, b: _signed(a) >> (b & 31),
    "getbit.b {out}, {0}, {1}": lambda a, b: a >> (b & 31) & 1,
    "cmps.u.lt {out}, {0}, {1}": lambda a, b: int(a < b),
    "cmps.u.ge {out}, {0}, {1}": lambda a, b: int(a >= b),
    "cmps.s.le {out}, {0}, {1}": lambda a, b: int(_signed(a) <= _signed(b)),
    "cmps.s.gt {out}, {0}, {1}": lambda a, b: int(_signed(a) > _signed(b)),
    "cmps.s.eq {out}, {0}, {1}": lambda a, b: int(a == b),
    "cmps.u.ne {out}, {0}, {1}": lambda a, b: int(a != b),
}
THREE: Final[dict[str, Callable[[int, int, int], int]]] = {
    "mad.u24 {out}, {0}, {1}, {2}": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "mad.s24 {out}, {0}, {1}, {2}": lambda a, b, c: _signed(a, 24) * _signed(b, 24) + c,
    "madsh.m16 {out}, {0}, {1}, {2}": lambda a, b, c: ((a & 0xFFFF) * (b >> 16) << 16) + c,
    "sel.b32 {out}, {0}, {1}, {2}": lambda a, b, c: a if b else c,
    "sad.s32 {out}, {0}, {1}, {2}": lambda a, b, c: a + b + c,
    "shrm {out}, {0}, {1}, {2}": lambda a, b, c: b >> (a & 31) & c,
    "shlm {out}, {0}, {1}, {2}": lambda a, b, c: b << (a & 31) & c,
    "shrg {out}, {0}, {1}, {2}": lambda a, b, c: b >> (a & 31) | c,
    "shlg {out}, {0}, {1}, {2}": lambda a, b, c: b << (a & 31) | c,
    "andg {out}, {0}, {1}, {2}": lambda a, b, c: b & a | c,
    "(nop1) dp4acc.unsigned.low {out}, {0}, {1}, {2}": lambda a, b, c: _dot(
        a, b, c, 0, 4, mixed=False
    ),
    "(nop1) dp4acc.mixed.low {out}, {0}, {1}, {2}": lambda a, b, c: _dot(a, b, c, 0, 4, mixed=True),
    "(nop1) dp2acc.mixed.high {out}, {0}, {1}, {2}": lambda a, b, c: _dot(
        a, b, c, 2, 2, mixed=True
    ),
}


def operands(count: int, seed: int) -> list[Words]:
    """Random words: many of few bits, many of a few values, with all pairs of the special ones."""
    made = np.random.default_rng(seed)
    special = np.array([0, 1, 31, 32, 0x7FFFFFFF, 0x80000000, _ALL, 0xFFFF, 0x10000], np.uint32)
    answer = []
    for _ in range(count):
        words = made.integers(0, 1 << 32, _ROWS, np.uint32)
        words >>= made.integers(0, 32, _ROWS).astype(np.uint32) * (made.random(_ROWS) < 0.4)
        pick = made.random(_ROWS) < 0.1
        words[pick] = made.choice(special, int(pick.sum()))
        answer.append(words.astype(np.uint32))
    return answer


def _same(got: Array, expected: list[int], op: str) -> None:
    want = np.array([value & _ALL for value in expected], np.uint32)
    wrong = np.flatnonzero(got != want)
    check(not len(wrong), f"{op}: row {wrong[:1]}: {got[wrong[:1]]} is not {want[wrong[:1]]}")


@pytest.mark.parametrize("op", ONE)
def test_one_source(op: str) -> None:
    """Of one operand."""
    (a,) = operands(1, 1)
    _same(results(op, [a]), [ONE[op](x) for x in a.tolist()], op)


@pytest.mark.parametrize("op", TWO)
def test_two_sources(op: str) -> None:
    """Of two operands; every tenth pair is of equal ones."""
    a, b = operands(2, 2)
    b[::10] = a[::10]
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    _same(results(op, [a, b]), [TWO[op](x, y) for x, y in pairs], op)


@pytest.mark.parametrize("op", THREE)
def test_three_sources(op: str) -> None:
    """Of three operands."""
    a, b, c = operands(3, 3)
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    _same(results(op, [a, b, c]), [THREE[op](x, y, z) for x, y, z in triples], op)


_HALF: Final[dict[str, Callable[[int, int], int]]] = {
    "add.u {out}, {0}, {1}": lambda a, b: a + b,
    "mul.u24 {out}, {0}, {1}": lambda a, b: a * b,
    "min.s {out}, {0}, {1}": lambda a, b: min(_signed(a, 16), _signed(b, 16)),
    "shl.b {out}, {0}, {1}": lambda a, b: a << (b & 15),
    "ashr.b {out}, {0}, {1}": lambda a, b: _signed(a, 16) >> (b & 15),
    "cmps.s.lt {out}, {0}, {1}": lambda a, b: int(_signed(a, 16) < _signed(b, 16)),
    "(sat)add.u {out}, {0}, {1}": lambda a, b: min(a + b, 0xFFFF),
}


@pytest.mark.parametrize("op", _HALF)
def test_half_registers(op: str) -> None:
    """Of 16 bits."""
    a, b = (words.astype(np.uint16) for words in operands(2, 4))
    got = results(op, [a, b], half="hhh") & 0xFFFF
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    _same(got, [_HALF[op](x, y) & 0xFFFF for x, y in pairs], op)

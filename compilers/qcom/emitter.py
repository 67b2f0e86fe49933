"""Instructions of one kernel on virtual registers, as lines of text, while they are made.

A line is an operation and its operands: `add.u v5 v3 k4`. Operands:

    v5      a register of 32 bits that is written once       m5      one that is written often
    v5.2    its third word, where it has several             v5.h3   its fourth 16 bits
    k7      the number 7, a word                             c3      word 3 of the constant file
    r0      the lane's number in its workgroup               g0      the workgroup's number
    p       the predicate that branches read
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

WORD: Final = 0xFFFFFFFF
WORD_BITS: Final = 32
SMALL: Final = 1 << 24
"""Below it nothing that addresses are made of overflows."""
_FOLD: Final = {
    "add.u": lambda a, b: a + b,
    "sub.u": lambda a, b: a - b,
    "and.b": lambda a, b: a & b,
    "or.b": lambda a, b: a | b,
    "xor.b": lambda a, b: a ^ b,
    "shl.b": lambda a, b: a << (b & 31),
    "shr.b": lambda a, b: a >> (b & 31),
}
_NEUTRAL: Final = {"add.u": 0, "sub.u": 0, "or.b": 0, "xor.b": 0, "shl.b": 0, "shr.b": 0,
                   "ashr.b": 0, "and.b": WORD}  # fmt: skip
"""A second operand that changes nothing."""


def literal(value: int) -> str:
    """A word."""
    return f"k{value & WORD}"


def is_literal(text: str) -> bool:
    """Whether an operand is a number."""
    return text[0] == "k"


def number(text: str) -> int:
    """The number that a literal is."""
    return int(text[1:])


class Emitter:
    """Lines, and which value is already there. Upper bounds of values are kept where known."""

    def __init__(self, *, flush16: bool = False) -> None:
        self.flush16 = flush16
        """Whether subnormal float16 numbers may count as 0."""
        self.halves: dict[str, str] = {}
        """Words that half registers were widened to."""
        self.head: list[str] = []
        """Before everything else: what holds in the whole kernel."""
        self.lines: list[str] = []
        self.count = 0
        self.bounds: dict[str, int] = {}
        self._shifts: dict[str, tuple[str, int]] = {}
        """What was shifted left by how many bits."""
        self._sums: dict[str, tuple[str, int]] = {}
        """What is a small value plus a number."""
        self._known: list[dict[tuple[str, ...], str]] = [{}]

    def name(self, kind: str = "v") -> str:
        """A new register."""
        self.count += 1
        return f"{kind}{self.count}"

    def line(self, *words: str) -> None:
        """One instruction."""
        self.lines.append(" ".join(words))

    def op(self, name: str, *srcs: str, half: bool = False) -> str:
        """The result of an operation, shared where it was made before; `half`: in a half one."""
        found = self._folded(name, srcs)
        if found is not None:
            return found
        if name == "shl.b" and is_literal(srcs[1]) and srcs[0] in self._shifts:
            base, count = self._shifts[srcs[0]]
            if count + number(srcs[1]) < WORD_BITS:
                srcs = base, literal(count + number(srcs[1]))
        key = (name, *srcs, "h" if half else "")
        pure = not any(src[0] == "m" for src in srcs)
        for scope in self._known if pure else ():
            if key in scope:
                return scope[key]
        made = self.name() + (".h0" if half else "")
        self.line(name, made, *srcs)
        if pure:
            self._known[-1][key] = made
            if name == "shl.b" and is_literal(srcs[1]):
                self._shifts[made] = srcs[0], number(srcs[1])
            if name == "add.u" and is_literal(srcs[1]):
                self._part(made, srcs[0], number(srcs[1]))
        return made

    def _folded(self, name: str, srcs: tuple[str, ...]) -> str | None:
        if name in _FOLD and all(map(is_literal, srcs)):
            return literal(_FOLD[name](*map(number, srcs)))
        if name in _NEUTRAL and is_literal(srcs[1]) and number(srcs[1]) == _NEUTRAL[name]:
            return srcs[0]
        if name == "add.u" and is_literal(srcs[0]) and not number(srcs[0]):
            return srcs[1]
        return None

    def _part(self, made: str, base: str, added: int) -> None:
        if max(self.bound(base), added) < SMALL:
            self._sums[made] = base, added

    def parted(self, text: str) -> tuple[str, int]:
        """A value as another, whose size is known, and a number that is added to it."""
        return self._sums.get(text, (text, 0))

    def once(self, name: str, *srcs: str) -> str:
        """A value that the head makes, for the whole kernel."""
        key = (name, *srcs)
        if key not in self._known[0]:
            made = self.name()
            self.head.append(" ".join((name, made, *srcs)))
            self._known[0][key] = made
        return self._known[0][key]

    def bound(self, text: str) -> int:
        """The value is no larger, read as an unsigned word."""
        return number(text) if is_literal(text) else self.bounds.get(text, WORD)

    def bounded(self, text: str, bound: int) -> str:
        """The same value, and what it is no larger than."""
        if not is_literal(text) and bound < WORD:
            self.bounds[text] = bound
        return text

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is made within is not known after it."""
        self._known.append({})
        yield
        self._known.pop()

    def label(self) -> str:
        """A new label."""
        return self.name("L")

    @contextmanager
    def branch(self, condition: str) -> Iterator[None]:
        """Lines for the lanes where a bool holds."""
        after = self.label()
        self.line("cmps.s.ne", "p", condition, "k0")
        self.line("brn", after)
        with self.scope():
            yield
        self.line("label", after)

    @contextmanager
    def loop(self, extent: int) -> Iterator[str]:
        """Lines so many times; gives the register that counts."""
        counter, top = self.name("m"), self.label()
        self.line("mov", counter, "k0")
        self.line("label", top, str(extent))
        with self.scope():
            copied = self.bounded(self.op("mov", counter), extent - 1)
            yield copied
        self.line("add.u", counter, counter, "k1")
        self.line("cmps.s.lt", "p", counter, literal(extent))
        self.line("br", top)

    def take(self, *words: str) -> str:
        """Words in neighbouring registers, as loads and stores want them."""
        made = self.name("m")
        for place, word in enumerate(words):
            self.line("mov", f"{made}.{place}", word)
        return made

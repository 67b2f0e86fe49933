"""Operands of ir3 instructions.

Registers are numbered 4 * register + component: r1.y is 5, the shared r48.x is 192, a0.x 244, a1.x
245, p0.x 248. In the merged register file hr0.x and hr0.y are the halves of r0.x.
# src: Mesa 25.0.7, src/freedreno/isa/ir3-common.xml
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final

A0_X: Final = 244
A1_X: Final = 245
P0_X: Final = 248
SHARED: Final = 192
"""r48.x, the first register that all lanes of a wave share."""
FLUT: Final = (
    "0.0", "0.5", "1.0", "2.0", "e", "pi", "1/pi", "1/log2(e)", "log2(e)", "1/log2(10)",
    "log2(10)", "4.0",
)  # fmt: skip
"""Immediates of float instructions, by index. # src: the same file, enum #flut"""


class Kind(Enum):
    """What an operand names."""

    GPR = "r"
    CONST = "c"
    IMMEDIATE = "#"
    FLUT = "flut"
    RELATIVE = "r<a0.x>"
    RELATIVE_CONST = "c<a0.x>"


@dataclass(frozen=True, slots=True)
class Operand:
    """A source or a destination; `number` is a register, a value, an index or an offset."""

    kind: Kind
    number: int
    half: bool = False
    neg: bool = False
    """(neg), and (not) of bitwise operations."""
    abs: bool = False
    repeat: bool = False
    """(r): the number grows with each repetition."""
    last: bool = False
    """(last), of generation 7."""

    @property
    def is_register(self) -> bool:
        """A register that is named directly."""
        return self.kind is Kind.GPR

    @property
    def is_shared(self) -> bool:
        """One of r48.x ... r55.w."""
        return self.kind is Kind.GPR and SHARED <= self.number < SHARED + 32


@cache
def gpr(number: int) -> Operand:
    """A full register."""
    return Operand(Kind.GPR, number)


@cache
def half(number: int) -> Operand:
    """A half register: hr0.x is 0, hr0.y is 1."""
    return Operand(Kind.GPR, number, half=True)


def predicate(component: int = 0) -> Operand:
    """p0.x ... p0.w, which comparisons write and branches read."""
    return Operand(Kind.GPR, P0_X + component)


@cache
def const(number: int) -> Operand:
    """A word of the constant file."""
    return Operand(Kind.CONST, number)


def half_const(number: int) -> Operand:
    """A word of the constant file, narrowed to 16 bits."""
    return Operand(Kind.CONST, number, half=True)


def immediate(value: int, *, half: bool = False) -> Operand:
    """An integer: 11 signed bits in category 2, any 32 bits in mov."""
    return Operand(Kind.IMMEDIATE, value, half=half)


def flut(value: str, *, half: bool = False) -> Operand:
    """A float of the table: "1.0", "pi"; of category 2 alone."""
    return Operand(Kind.FLUT, FLUT.index(value), half=half)

"""One decoded ir3 instruction: what the board's executor and its disassembler read.

Registers are numbered as the hardware does: 4 * register + component, so r1.y is 5. Shared (per
wave) registers are r48.x ... r55.w, a0.x is 244, a1.x is 245, p0.x ... p0.w are 248 ... 251.
# src: Mesa 25.0.7, src/freedreno/isa/ir3-common.xml, src/freedreno/ir3/ir3.h
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Space(Enum):
    """What an operand names."""

    REGISTER = "r"
    CONSTANT = "c"
    IMMEDIATE = "#"
    RELATIVE_REGISTER = "r<a0.x>"
    RELATIVE_CONSTANT = "c<a0.x>"
    RELATIVE_CONSTANT_A1 = "c<a1.x>"


@dataclass(frozen=True, slots=True)
class Operand:
    """A source or a destination."""

    space: Space
    number: int
    """4 * register + component; the value of an immediate, sign-extended where the form is signed,
    bits of a float where it is one; the offset of a relative operand, in components."""
    half: bool = False
    """16 bits. In the merged register file hr0.x and hr0.y are the halves of r0.x."""
    neg: bool = False
    """(neg), and (not) of bitwise operations."""
    abs: bool = False
    repeat: bool = False
    """(r): the number grows with each repetition."""
    last: bool = False
    """(last), the last use of a register."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """64 bits, read."""

    word: int
    op: str
    """The mnemonic alone: "add.f", "ldg", "sam"."""
    category: int
    dst: Operand | None = None
    more_dsts: tuple[Operand, ...] = ()
    """Of swz and sct: the second destination and what follows."""
    srcs: tuple[Operand, ...] = ()
    sync: frozenset[str] = frozenset()
    """Of "sy", "ss", "jp", "ul", "eq", "sat" and what else the category has as a flag."""
    repeat: int = 0
    """(rptN): executed N + 1 times."""
    nop: int = 0
    """(nopN): N free slots after it, of categories 2 and 3."""
    target: int | None = None
    """Of category 0, and 0 where unused: signed, in instructions from this one."""
    fields: Mapping[str, int] = field(default_factory=dict)
    """Every other field of the encoding by the name in Mesa's XML: TYPE, COND, OFF, SIZE, ...,
    and what follows from them: D, TYPE_SIZE, OFFSET, BASE, BINDLESS, CLUSTER_SIZE, ..."""

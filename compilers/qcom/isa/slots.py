"""Where an instruction's parts lie in its 64 bits: each slot writes and reads one of them.

# src: Mesa 25.0.7, src/freedreno/isa/ir3-common.xml, ir3-cat*.xml
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from compilers.qcom.isa.bits import get, put, put_signed, refused
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.operand import Kind, Operand


@dataclass(slots=True)
class Draft:
    """An instruction being read; half-ness is known before operands are."""

    word: int
    src_half: bool = False
    dst_half: bool = False
    operands: dict[str, Operand] = field(default_factory=dict)
    fields: dict[str, int] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    repeat: int = 0
    nop: int = 0


class Slot(Protocol):
    """One part of an encoding."""

    def put(self, insn: Insn) -> int:
        """Its bits. Raises: CompileError."""

    def get(self, draft: Draft) -> None:
        """Read it from the draft's word."""


@runtime_checkable
class HasFields(Protocol):
    """A slot of entries of `Insn.fields`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""


def operand(insn: Insn, name: str) -> Operand:
    """`dst`, `dst1` ..., `src0` ... of an instruction. Raises: CompileError."""
    found: Operand | None
    if name == "dst":
        found = insn.dst
    elif name == "src0" and insn.srcs:
        return insn.srcs[0]
    elif name.startswith("dst"):
        index = int(name[3:]) - 1
        found = insn.more_dsts[index] if index < len(insn.more_dsts) else None
    else:
        index = int(name[3:])
        found = insn.srcs[index] if index < len(insn.srcs) else None
    if found is None:
        raise refused(f"{insn.op} has no {name}")
    return found


def unsupported(insn: Insn, name: str) -> Exception:
    """An operand that this form has no bits for."""
    found = operand(insn, name)
    return refused(f"{insn.op}: {name} may not be {found.kind.value} {found.number}")


@dataclass(frozen=True, slots=True)
class Number:
    """A field; `bias` is subtracted; pieces of a split one from its lowest bits up."""

    name: str
    pieces: tuple[tuple[int, int], ...]
    signed: bool = False
    bias: int = 0
    allowed: frozenset[int] | None = None
    """Values that mean something; None: all."""

    @property
    def names(self) -> tuple[str, ...]:
        """This one."""
        return (self.name,)

    @property
    def _width(self) -> int:
        return sum(high - low + 1 for low, high in self.pieces)

    def put(self, insn: Insn) -> int:
        value = insn.fields.get(self.name, self.bias) - self.bias
        if self.allowed is not None and value not in self.allowed:
            raise refused(f"{insn.op}: {self.name} may not be {value}")
        place = put_signed if self.signed else put
        rest, word = place(f"{insn.op}: {self.name}", value, 0, self._width - 1), 0
        for low, high in self.pieces:
            word |= (rest & ((1 << (high - low + 1)) - 1)) << low
            rest >>= high - low + 1
        return word

    def get(self, draft: Draft) -> None:
        value = shift = 0
        for low, high in self.pieces:
            value |= get(draft.word, low, high) << shift
            shift += high - low + 1
        if self.signed and value >> (shift - 1):
            value -= 1 << shift
        if self.allowed is not None and value not in self.allowed:
            raise refused(f"{self.name} {value} means nothing")
        draft.fields[self.name] = value + self.bias


def number(
    name: str, low: int, high: int | None = None, *, bias: int = 0,
    allowed: Iterable[int] | None = None,
) -> Number:  # fmt: skip
    """An unsigned field."""
    values = None if allowed is None else frozenset(allowed)
    return Number(name, ((low, low if high is None else high),), bias=bias, allowed=values)


def signed(name: str, low: int, high: int) -> Number:
    """A two's complement field."""
    return Number(name, ((low, high),), signed=True)


@dataclass(frozen=True, slots=True)
class Flag:
    """One bit that is set when the instruction has the flag."""

    name: str
    bit: int

    def put(self, insn: Insn) -> int:
        return (self.name in insn.flags) << self.bit

    def get(self, draft: Draft) -> None:
        if draft.word >> self.bit & 1:
            draft.flags.add(self.name)


@dataclass(frozen=True, slots=True)
class Register:
    """Eight bits: a register, as it is."""

    name: str
    low: int
    full: bool = False
    """Always a full one, whatever the instruction's type."""
    last: int | None = None
    neg: int | None = None

    def put(self, insn: Insn) -> int:
        found = operand(insn, self.name)
        if found.kind is not Kind.GPR or found.abs or (found.neg and self.neg is None):
            raise unsupported(insn, self.name)
        word = put(f"{insn.op}: {self.name}", found.number, self.low, self.low + 7)
        if self.neg is not None:
            word |= found.neg << self.neg
        return word

    def get(self, draft: Draft) -> None:
        half = draft.dst_half if self.name.startswith("dst") else draft.src_half
        value = get(draft.word, self.low, self.low + 7)
        neg = self.neg is not None and bool(draft.word >> self.neg & 1)
        draft.operands[self.name] = Operand(Kind.GPR, value, half=half and not self.full, neg=neg)


@dataclass(frozen=True, slots=True)
class Either:
    """Eight bits: a register, or what a bit elsewhere makes of them."""

    name: str
    low: int
    bit: int
    other: Kind = Kind.IMMEDIATE
    full: bool = True

    def put(self, insn: Insn) -> int:
        found = operand(insn, self.name)
        if found.kind not in (Kind.GPR, self.other) or found.neg or found.abs:
            raise unsupported(insn, self.name)
        word = put(f"{insn.op}: {self.name}", found.number, self.low, self.low + 7)
        return word | (found.kind is self.other) << self.bit

    def get(self, draft: Draft) -> None:
        kind = self.other if draft.word >> self.bit & 1 else Kind.GPR
        value = get(draft.word, self.low, self.low + 7)
        half = draft.src_half and not self.full and kind is Kind.GPR
        draft.operands[self.name] = Operand(kind, value, half=half)


@dataclass(frozen=True, slots=True)
class Repeat:
    """(rptN)."""

    high: int = 41

    def put(self, insn: Insn) -> int:
        return put(f"{insn.op}: repeat", insn.repeat, 40, self.high)

    def get(self, draft: Draft) -> None:
        draft.repeat = get(draft.word, 40, self.high)


@dataclass(frozen=True, slots=True)
class RepeatOrNop:
    """(rptN) with an (r) of two sources, or the same two bits as a number: (nopN)."""

    bits: tuple[int, int]
    repeats: bool = True

    def put(self, insn: Insn) -> int:
        if not insn.repeat and not any(one.repeat for one in insn.srcs):
            put(f"{insn.op}: nop", insn.nop, 0, 1)
            return (insn.nop & 1) << self.bits[0] | (insn.nop >> 1) << self.bits[1]
        word = put(f"{insn.op}: repeat", insn.repeat, 40, 41)
        if insn.repeat and not self.repeats:
            raise refused(f"{insn.op} is not repeated")
        grows = [source.repeat for source in (*insn.srcs, *insn.srcs)][:2] if insn.srcs else []
        if len(insn.srcs) == 1:
            grows[1] = False
        if insn.nop and (insn.repeat or any(grows)):
            raise refused(f"{insn.op}: (nop{insn.nop}) with repetition")
        if any(source.repeat for source in insn.srcs) and not insn.repeat:
            raise refused(f"{insn.op}: (r) without (rpt)")
        put(f"{insn.op}: nop", insn.nop, 0, 1)
        both = insn.nop or sum(one << place for place, one in enumerate(grows))
        return word | (both & 1) << self.bits[0] | (both >> 1) << self.bits[1]

    def get(self, draft: Draft) -> None:
        draft.repeat = get(draft.word, 40, 41)
        first, second = (draft.word >> bit & 1 for bit in self.bits)
        if draft.repeat:
            grow(draft, "src0", bool(first))
            grow(draft, "src1", bool(second))
        else:
            draft.nop = first | second << 1


def grow(draft: Draft, name: str, repeat: bool) -> None:
    """Give a source its (r)."""
    if repeat and name in draft.operands:
        old = draft.operands[name]
        draft.operands[name] = Operand(
            old.kind, old.number, half=old.half, neg=old.neg, abs=old.abs, repeat=True,
            last=old.last,
        )  # fmt: skip

"""Sources that have bits of their own for what they are: categories 1 to 4."""

from __future__ import annotations

from dataclasses import dataclass

from compilers.qcom.isa.bits import get, get_signed, put, put_signed, refused
from compilers.qcom.isa.instruction import Insn, Type
from compilers.qcom.isa.operand import A0_X, A1_X, FLUT, Kind, Operand
from compilers.qcom.isa.slots import Draft, grow, operand, unsupported

_RELATIVE = (Kind.RELATIVE, Kind.RELATIVE_CONST)


def _relative(what: str, found: Operand) -> int:
    """Offset from a0.x in ten bits, and what it is relative to in the next two."""
    word = put_signed(what, found.number, 0, 9)
    return word | 1 << 11 | (found.kind is Kind.RELATIVE_CONST) << 10


def _register(what: str, found: Operand) -> int:
    return put(what, found.number, 0, 7) | found.last << 10


def _read_register(word: int) -> Operand:
    """A register, or a relative operand, from 12 bits."""
    if word >> 11 & 1:
        kind = Kind.RELATIVE_CONST if word >> 10 & 1 else Kind.RELATIVE
        return Operand(kind, get_signed(word, 0, 9))
    return Operand(Kind.GPR, get(word, 0, 7), last=bool(word >> 10 & 1))


@dataclass(frozen=True, slots=True)
class Multi:
    """16 bits of categories 2 and 4. # src: ir3-common.xml, #multisrc"""

    name: str
    low: int
    repeat: int | None = None
    """Where a form of one source has its (r)."""

    def put(self, insn: Insn) -> int:
        found, what = operand(insn, self.name), f"{insn.op}: {self.name}"
        if found.kind is Kind.GPR:
            word = _register(what, found)
        elif found.kind is Kind.CONST:
            word = put(what, found.number, 0, 10) | 0b010 << 11
        elif found.kind is Kind.IMMEDIATE:
            word = put_signed(what, found.number, 0, 10) | 0b100 << 11
        elif found.kind is Kind.FLUT:
            if found.number >= len(FLUT):
                raise unsupported(insn, self.name)
            word = put(what, found.number, 0, 9) | found.half << 10 | 0b101 << 11
        else:
            word = _relative(what, found)
        word = (word | found.neg << 14 | found.abs << 15) << self.low
        return word | (found.repeat << self.repeat if self.repeat is not None else 0)

    def get(self, draft: Draft) -> None:
        bits = get(draft.word, self.low, self.low + 15)
        if bits >> 11 & 7 == 0b100:
            read = Operand(Kind.IMMEDIATE, get_signed(bits, 0, 10))
        elif bits >> 11 & 7 == 0b101:
            read = Operand(Kind.FLUT, get(bits, 0, 9))
            if read.number >= len(FLUT):
                raise refused(f"no float of index {read.number}")
        elif bits >> 11 & 3 == 0b10:
            read = Operand(Kind.CONST, get(bits, 0, 10))
        else:
            read = _read_register(bits)
        draft.operands[self.name] = Operand(
            read.kind, read.number, half=draft.src_half, neg=bool(bits >> 14 & 1),
            abs=bool(bits >> 15), last=read.last,
        )  # fmt: skip
        if self.repeat is not None:
            grow(draft, self.name, bool(draft.word >> self.repeat & 1))


@dataclass(frozen=True, slots=True)
class Third:
    """13 bits of category 3, with (neg) and (r) elsewhere. # src: ir3-cat3.xml, #cat3-src"""

    name: str
    low: int
    neg: int | None
    repeat: int | None = None
    immediate: bool = False
    """Constants give way to 12-bit immediates."""

    def put(self, insn: Insn) -> int:
        found, what = operand(insn, self.name), f"{insn.op}: {self.name}"
        if found.abs or (found.neg and self.neg is None):
            raise unsupported(insn, self.name)
        if found.kind is Kind.GPR:
            word = _register(what, found)
        elif found.kind is Kind.CONST and not self.immediate:
            word = put(what, found.number, 0, 10) | 1 << 12
        elif found.kind is Kind.IMMEDIATE and self.immediate:
            word = put(what, found.number, 0, 11) | 1 << 12
        elif found.kind in _RELATIVE:
            word = _relative(what, found)
        else:
            raise unsupported(insn, self.name)
        word <<= self.low
        if self.neg is not None:
            word |= found.neg << self.neg
        return word | (found.repeat << self.repeat if self.repeat is not None else 0)

    def get(self, draft: Draft) -> None:
        bits, half = get(draft.word, self.low, self.low + 12), draft.src_half
        if not bits >> 12:
            read = _read_register(bits)
        elif self.immediate:
            read, half = Operand(Kind.IMMEDIATE, get(bits, 0, 11)), False
        else:
            read = Operand(Kind.CONST, get(bits, 0, 10))
        neg = self.neg is not None and bool(draft.word >> self.neg & 1)
        draft.operands[self.name] = Operand(
            read.kind, read.number, half=half, neg=neg, last=read.last
        )
        if self.repeat is not None:
            grow(draft, self.name, bool(draft.word >> self.repeat & 1))


@dataclass(frozen=True, slots=True)
class Moved:
    """Source of mov. # src: ir3-cat1.xml, mov-immed, mov-const, mov-gpr, mov-rel*"""

    name: str = "src0"

    def put(self, insn: Insn) -> int:
        found, what = operand(insn, self.name), f"{insn.op}: {self.name}"
        if found.neg or found.abs:
            raise unsupported(insn, self.name)
        if found.kind is Kind.IMMEDIATE:
            if found.repeat and operand(insn, "dst").number not in (A0_X, A1_X):
                raise unsupported(insn, self.name)
            place = put_signed if found.number < 0 else put
            bits = 16 if found.half else 32
            word = place(what, found.number, 0, bits - 1) | 0b10 << 53
        elif found.kind is Kind.CONST:
            word = put(what, found.number, 0, 10) | 0b01 << 53
        elif found.kind is Kind.GPR:
            word = _register(what, found)
        elif found.kind in _RELATIVE:
            word = _relative(what, found)
        else:
            raise unsupported(insn, self.name)
        return word | found.repeat << 43

    def get(self, draft: Draft) -> None:
        what = draft.word >> 53 & 3
        if what == 0b10:
            value, source = get(draft.word, 0, 31), draft.fields["src_type"]
            if source in (Type.S16, Type.S32):
                value = get_signed(draft.word, 0, 15 if source == Type.S16 else 31)
            read = Operand(Kind.IMMEDIATE, value)
        elif what == 0b01:
            read = Operand(Kind.CONST, get(draft.word, 0, 10))
        else:
            read = _read_register(draft.word)
        draft.operands[self.name] = Operand(
            read.kind, read.number, half=draft.src_half, repeat=bool(draft.word >> 43 & 1),
            last=read.last,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """Destination of mov, which alone may be relative. # src: ir3-cat1.xml, #cat1-dst"""

    def put(self, insn: Insn) -> int:
        found = operand(insn, "dst")
        if found.kind not in (Kind.GPR, Kind.RELATIVE):
            raise unsupported(insn, "dst")
        word = put(f"{insn.op}: dst", found.number, 32, 39)
        return word | (found.kind is Kind.RELATIVE) << 49

    def get(self, draft: Draft) -> None:
        kind = Kind.RELATIVE if draft.word >> 49 & 1 else Kind.GPR
        draft.operands["dst"] = Operand(kind, get(draft.word, 32, 39), half=draft.dst_half)

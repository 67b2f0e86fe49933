"""Which operands of an instruction are 16 bits wide, and the bits that say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from compilers.qcom.isa.bits import get, refused
from compilers.qcom.isa.instruction import HALF_TYPES, Insn, Type
from compilers.qcom.isa.operand import P0_X, Kind, Operand


class Precision(Protocol):
    """A rule for sources and destination."""

    def put(self, insn: Insn) -> int:
        """The bits that say it. Raises: CompileError when the operands contradict each other."""

    def halves(self, word: int) -> tuple[bool, bool]:
        """Of sources and of the destination."""


def source_half(insn: Insn) -> bool:
    """The one width of all sources; an integer as such has none. Raises: CompileError."""
    narrow = None
    for one in insn.srcs:
        if one.kind is not Kind.IMMEDIATE:
            if narrow is not None and one.half != narrow:
                raise refused(f"{insn.op}: full and half sources")
            narrow = one.half
    return bool(insn.srcs and insn.srcs[0].half) if narrow is None else narrow


def _is_special(dst: Operand) -> bool:
    return dst.kind is Kind.GPR and dst.number >= P0_X


@dataclass(frozen=True, slots=True)
class Converted:
    """A bit says that sources are full (or the opcode does), one that the result differs."""

    full: int | None
    opcode_full: bool = True
    conv: int = 46

    def put(self, insn: Insn) -> int:
        narrow = source_half(insn)
        if self.full is None and narrow == self.opcode_full:
            raise refused(f"{insn.op}: sources are {'full' if self.opcode_full else 'half'} ones")
        word = 0 if self.full is None else (not narrow) << self.full
        if insn.dst is None or _is_special(insn.dst):
            return word
        return word | (insn.dst.half != narrow) << self.conv

    def halves(self, word: int) -> tuple[bool, bool]:
        full = self.opcode_full if self.full is None else bool(word >> self.full & 1)
        converted = bool(word >> self.conv & 1)
        return not full, full == converted and get(word, 32, 39) < P0_X


@dataclass(frozen=True, slots=True)
class Fixed:
    """Nothing to say: every operand is full."""

    def put(self, insn: Insn) -> int:
        wrong = [one for one in (insn.dst, *insn.srcs) if one is not None and one.half]
        if wrong:
            raise refused(f"{insn.op}: no half operands")
        return 0

    def halves(self, word: int) -> tuple[bool, bool]:
        return False, False


@dataclass(frozen=True, slots=True)
class Widths:
    """A bit for sources and one for the destination, each set for full. # src: #wmm"""

    source: int
    target: int

    def put(self, insn: Insn) -> int:
        full = insn.dst is None or _is_special(insn.dst) or not insn.dst.half
        return (not source_half(insn)) << self.source | full << self.target

    def halves(self, word: int) -> tuple[bool, bool]:
        narrow = not word >> self.target & 1
        return not word >> self.source & 1, narrow and get(word, 32, 39) < P0_X


@dataclass(frozen=True, slots=True)
class Moves:
    """Two types."""

    def put(self, insn: Insn) -> int:
        for what, operands in (("src_type", insn.srcs), ("dst_type", (insn.dst, *insn.more_dsts))):
            narrow = insn.fields.get(what, 0) in (*HALF_TYPES, Type.U8_32)
            for one in operands:
                if one is not None and one.half != narrow and one.kind is not Kind.IMMEDIATE:
                    if what == "dst_type" and one.number in (244, 245):
                        continue
                    raise refused(f"{insn.op}: {what} {Type(insn.fields.get(what, 0)).name}")
        return 0

    def halves(self, word: int) -> tuple[bool, bool]:
        narrow = (*HALF_TYPES, Type.U8_32)
        return get(word, 50, 52) in narrow, get(word, 46, 48) in narrow


@dataclass(frozen=True, slots=True)
class Typed:
    """The type of memory says how wide what is loaded or stored is."""

    low: int = 49
    data: str = "dst"

    def put(self, insn: Insn) -> int:
        narrow = insn.fields.get("type", 0) in HALF_TYPES
        found = insn.dst if self.data == "dst" else insn.srcs[int(self.data[3:])]
        if found is not None and found.half != narrow:
            raise refused(f"{insn.op}: {self.data} does not fit its type")
        return 0

    def halves(self, word: int) -> tuple[bool, bool]:
        narrow = get(word, self.low, self.low + 2) in HALF_TYPES
        return narrow, narrow


@dataclass(frozen=True, slots=True)
class Sampled:
    """Texture instructions: bit 0 for full sources, the type for the result."""

    typed: bool = True

    def put(self, insn: Insn) -> int:
        coordinates = [one for one in insn.srcs if one.kind is Kind.GPR]
        if not coordinates:
            return 0
        return int(not coordinates[0].half)

    def halves(self, word: int) -> tuple[bool, bool]:
        return not word & 1, get(word, 44, 46) in HALF_TYPES

"""alias of generation 7: a register of the next texture or memory instruction stands for a value.

Render targets as destination are left out: no compute shader has them.
# src: Mesa 25.0.7, src/freedreno/isa/ir3-cat7.xml, alias
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compilers.qcom.isa.bits import get, put
from compilers.qcom.isa.forms import Form, fixed
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.operand import Kind, Operand
from compilers.qcom.isa.slots import Draft, Flag, Number, Register, number, operand, unsupported

WIDE_BIT: Final = 50
_KINDS: Final = (Kind.GPR, Kind.CONST, Kind.IMMEDIATE)


@dataclass(frozen=True, slots=True)
class _Width:
    """One bit for both operands, set for 32 bits."""

    def put(self, insn: Insn) -> int:
        return (insn.dst is None or not insn.dst.half) << WIDE_BIT

    def halves(self, word: int) -> tuple[bool, bool]:
        narrow = not word >> WIDE_BIT & 1
        return narrow, narrow


@dataclass(frozen=True, slots=True)
class _Value:
    """A register, a constant or 32 bits."""

    def put(self, insn: Insn) -> int:
        found = operand(insn, "src0")
        narrow = insn.dst is not None and insn.dst.half
        if found.kind not in _KINDS or found.neg or found.abs or found.half != narrow:
            raise unsupported(insn, "src0")
        bits = {Kind.GPR: 8, Kind.CONST: 11}.get(found.kind, 16 if found.half else 32)
        word = put(f"{insn.op}: src0", found.number, 0, bits - 1)
        return word | _KINDS.index(found.kind) << 51

    def get(self, draft: Draft) -> None:
        kind = _KINDS[min(get(draft.word, 51, 52), 2)]
        bits = {Kind.GPR: 8, Kind.CONST: 11}.get(kind, 16 if draft.src_half else 32)
        draft.operands["src0"] = Operand(kind, get(draft.word, 0, bits - 1), half=draft.src_half)


def _form() -> Form:
    match, mask = fixed((61, 63, 7), (55, 58, 8), (54, 54, 1))
    slots = (
        Flag("sy", 60), Flag("jp", 59), Flag("ss", 44), number("table", 40, 43),
        Number("scope", ((47, 47), (49, 49)), allowed=frozenset({0, 2})), number("integer", 48),
        Register("dst", 32), _Value(),
    )  # fmt: skip
    return Form(
        op="alias", category=7, match=match, mask=mask, slots=slots, precision=_Width(),
        text=".{scope}.{alias_type}.{table} {dst}, {alias_value}", generations=(7,),
    )  # fmt: skip


FORMS: Final = (_form(),)

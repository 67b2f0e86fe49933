"""One ir3 instruction, before it has bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from compilers.qcom.isa.operand import Operand


class Type(IntEnum):
    """Type of a conversion or of memory. # src: Mesa 25.0.7, ir3-common.xml, #type"""

    F16 = 0
    F32 = 1
    U16 = 2
    U32 = 3
    S16 = 4
    S32 = 5
    U8 = 6
    U8_32 = 7


class Cond(IntEnum):
    """Of comparisons. # src: Mesa 25.0.7, ir3-common.xml, #cond"""

    LT = 0
    LE = 1
    GT = 2
    GE = 3
    EQ = 4
    NE = 5


HALF_TYPES: Final = frozenset({Type.F16, Type.U16, Type.S16, Type.U8})
"""Those whose value is in a half register."""


@dataclass(slots=True, kw_only=True)
class Insn:
    """An instruction; passes of the compiler change it in place."""

    op: str
    """Mesa's name without types: "add.f", "cmps.s", "mov", "ldg", "br"."""
    dst: Operand | None = None
    srcs: tuple[Operand, ...] = ()
    more_dsts: tuple[Operand, ...] = ()
    """Of swz and sct: the others."""
    fields: dict[str, int] = field(default_factory=dict)
    """What the form has besides: type, dst_type, src_type, cond, off, size, shift, ... ."""
    flags: set[str] = field(default_factory=set)
    """Of sy, ss, jp, ul, eq, sat, ei."""
    repeat: int = 0
    """(rptN): executed N + 1 times."""
    nop: int = 0
    """(nopN): N free slots after it, of categories 2 and 3."""
    label: str | None = None
    """Of branches, until `link` writes the distance into fields["target"]."""
    name: str | None = None
    """Of a pseudo instruction "label": what branches name."""

"""Forms of ir3 instructions: fixed bits, slots, text. One table for both directions."""

from __future__ import annotations

from dataclasses import dataclass

from compilers.qcom.isa.precision import Fixed, Precision
from compilers.qcom.isa.slots import Slot

GENERATIONS = (6, 7)
_FULL = Fixed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one instruction is encoded."""

    op: str
    category: int
    match: int
    mask: int
    slots: tuple[Slot, ...]
    text: str
    """After the name: `{dst}`, `{src0}` and fields in Mesa's syntax."""
    precision: Precision = _FULL
    generations: tuple[int, ...] = GENERATIONS


def fixed(*parts: tuple[int, int, int]) -> tuple[int, int]:
    """Match and mask of (low, high, value)."""
    match = mask = 0
    for low, high, value in parts:
        match |= value << low
        mask |= ((1 << (high - low + 1)) - 1) << low
    return match, mask

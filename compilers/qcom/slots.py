"""How much one lane of a kernel does, in issue slots: what bounds the time of a launch.

All sides of branches count, and loops with their turns. Words of memory count as
`queues.qcom.pieces` has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from compilers.qcom.isa.instruction import Insn
from queues.qcom.kernel_code import MOST_SLOTS
from queues.qcom.pieces import MEMORY_WORD_SLOTS

_WORDS: Final = frozenset({"ldg", "ldg.a", "stg", "stg.a", "ldp", "stp"})
_TEXEL: Final = "isam"
_TEXEL_WORDS: Final = 4
_FEWER: Final = 4
"""Lanes that compute a function of category 4 at once are so many times fewer."""
_SPECIAL: Final = frozenset({"rcp", "rsq", "sqrt", "log2", "exp2", "sin", "cos", "hrsq", "hlog2",
                             "hexp2"})  # fmt: skip


def lane_slots(code: Sequence[Insn], turns: Mapping[str, int]) -> int:
    """Slots of a legalized program; `turns` has how often each loop's label is passed."""
    times, found, open_loops = 1, 0, list[str]()
    for insn in code:
        if insn.op == "label":
            if insn.name is not None and insn.name in turns:
                open_loops.append(insn.name)
                times *= turns[insn.name]
            continue
        found += times * _slots(insn)
        if open_loops and insn.label == open_loops[-1]:
            times //= turns[open_loops.pop()]
    return min(found, MOST_SLOTS)


def _slots(insn: Insn) -> int:
    slots = 1 + insn.repeat + insn.nop
    if insn.op in _WORDS:
        slots += MEMORY_WORD_SLOTS * max(insn.fields.get("size", 1), 1)
    elif insn.op == _TEXEL:
        slots += MEMORY_WORD_SLOTS * _TEXEL_WORDS
    elif insn.op in _SPECIAL:
        slots *= _FEWER
    return slots

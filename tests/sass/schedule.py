"""What a SASS form refuses by its scheduling bits, and how an opcode's guard is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.nvdisasm import REFUSED
from tests.sass.measure import Ask
from tests.sass.plan import Line, with_value

# src: Mesa sm70_encode.rs: guard 12..14 and its sign 15, stall 105..108, yield 109, reuse 122..124
GUARD = (12, 13, 14, 15)
OPEX = (*range(105, 110), 122, 123, 124)
OPEX_VALUES = 1 << len(OPEX)
P0 = 0
MASK_DIGITS = OPEX_VALUES // 4


def asked(lines: Iterable[Line]) -> list[int]:
    """All words that the two functions below ask for."""
    return [
        word
        for line in lines
        for word in (with_value(line.word, GUARD, P0), *_schedules(line))
    ]  # fmt: skip


def _schedules(line: Line) -> list[int]:
    return [with_value(line.word, OPEX, value) for value in range(OPEX_VALUES)]


def masks(ask: Ask, lines: Iterable[Line]) -> dict[Line, str]:
    """A form's legal reuse, stall and yield bits: bit n of the number is for n."""
    return {
        line: format(
            sum(1 << n for n, text in enumerate(ask(_schedules(line))) if text != REFUSED),
            f"0{MASK_DIGITS}x",
        )
        for line in lines
    }


def guards(ask: Ask, firsts: Mapping[int, Line]) -> dict[str, str]:
    """Opcodes whose guard is not named P: UP, or nothing shown."""
    out = {}
    for opcode, line in sorted(firsts.items()):
        text = ask([with_value(line.word, GUARD, P0)])[0]
        if not text.startswith("@P0 "):
            out[f"{opcode:03x}"] = "UP" if text.startswith("@UP0 ") else ""
    return out

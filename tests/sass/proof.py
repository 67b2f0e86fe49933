"""Random words of each form and the recorded words: what the new table prints, and the tool."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from boards.nv.isa.decode import UnknownInstruction, read
from boards.nv.isa.table import Table
from boards.nv.isa.text import text
from tests.nvdisasm import REFUSED
from tests.sass.measure import SEED, Ask
from tests.sass.plan import Line, bits_of, with_value

OPCODE_MASK = 0xFFF
OPCODE_BITS = 12
FLIPS = 8
WORDS = 60
SHARES = (0.1, 0.3, 0.6, 1.0)
EDGES = 0.3
STRAY = (0, 0, 1, 2)
MODIFIER_BITS = range(72, 105)
STRAY_BITS = (*range(16, 105), *range(110, 116))


def words_of(line: Line) -> list[int]:
    """Words around a form's own: other values in its fields, now and then another bit."""
    generator = random.Random(line.word)
    out = []
    for _ in range(WORDS):
        word, share = line.word, generator.choice(SHARES)
        for bits in map(bits_of, line.fields):
            if generator.random() < share:
                full = (1 << len(bits)) - 1
                edge = generator.random() < EDGES
                value = generator.choice((0, full)) if edge else generator.getrandbits(len(bits))
                word = with_value(word, bits, value)
        for bit in generator.sample(STRAY_BITS, generator.choice(STRAY)):
            word ^= 1 << bit
        out.append(word)
    return out


def drawn(lines: Sequence[Line], recorded: Iterable[int]) -> list[int]:
    """All words of the proof."""
    generator = random.Random(SEED)
    kept = list(recorded)
    flips = [word ^ 1 << bit for word in kept for bit in range(OPCODE_BITS)]
    flips += [word ^ 1 << generator.choice(STRAY_BITS) for word in kept for _ in range(FLIPS)]
    flips += [line.word ^ 1 << bit for line in lines for bit in MODIFIER_BITS]
    return list(dict.fromkeys([*kept, *flips, *(w for line in lines for w in words_of(line))]))


def ours(known: Table, word: int) -> str:
    """The new table's text, or the sign of refusal."""
    try:
        return text(read(word, known))
    except UnknownInstruction:
        return REFUSED


def judge(
    ask: Ask, known: Table, lines: Sequence[Line], words: Sequence[int]
) -> tuple[dict[Line, str], set[int]]:
    """Forms that print another text, each with an example; opcodes that refuse a legal word."""
    wrong: dict[Line, str] = {}
    refused = set()
    for word, told in zip(words, ask(words), strict=True):
        made = ours(known, word)
        if made == told:
            continue
        opcode = word & OPCODE_MASK
        if made == REFUSED:
            refused.add(opcode)
            continue
        line = next(one for one in lines if one.opcode == opcode and one.takes(word))
        wrong.setdefault(line, f"{word:032x} {told} | {made}")
    return wrong, refused

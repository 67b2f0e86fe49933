"""A form of a SASS table: what each field of a word prints, measured by changing the field alone.

The line of the form's word is cut into tokens. A field owns the tokens that change with it; their
texts become a number's kind where one fits, else one text a value.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TypeAlias

from boards.nv.isa.number_text import kind_text, signed
from tests.nvdisasm import REFUSED, RELATIVE
from tests.sass.plan import Bits, Line, bits_of, with_value

Ask: TypeAlias = Callable[[Sequence[int]], list[str]]
"""The tool's text of each word at address 0."""

ADDRESS_BITS = 64
WORD_BYTES = 16
HEX = 16
EXHAUSTIVE_BITS = 9
SHORT_BITS = 7
LEAST_NUMBER_BITS = 3
DRAWN = 24
SEED = 14
FLOAT_EDGES = (0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x80000000, 0x3F800000)
FLOAT_KINDS: dict[int, tuple[str, ...]] = {16: ("f16", "bf16"), 32: ("f32", "f64")}
KINDS: tuple[str, ...] = (
    "R", "UR", "UR8", "P", "UP", "B", "SB", "hex", "shex", "dec",
    *(f"{name}*{factor}" for factor in (4, 2, 8, 16, 32, 64) for name in ("hex", "shex")),
    "+shex", "+hex", "+shex*4", "+hex*4", "+shex*16", "+hex*16", "+shex*32",
    "dec*2", "dec*4", "sdec",
)  # fmt: skip
_TOKEN = re.compile(
    r"-?0x[0-9a-f]+|-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]\d+|\.[A-Za-z0-9_?]+"
    r"|[A-Za-z_?][A-Za-z0-9_?]*|\d+|.",
    re.DOTALL,
)
Region: TypeAlias = tuple[int, int]


class NotUnderstood(Exception):
    """The plan's line does not explain what the tool prints."""


def tokens(text: str) -> list[str]:
    """The words and signs of a line."""
    return _TOKEN.findall(text)


def distance(text: str) -> str:
    """A branch's line with the distance from the next word in place of the target."""
    found = RELATIVE.search(text)
    if found is None:
        return text
    far = signed((int(found[1], HEX) - WORD_BYTES) % (1 << ADDRESS_BITS), ADDRESS_BITS)
    return f"{text[: found.start(1)]}{'-' if far < 0 else ''}{abs(far):#x}"


def changes(base: list[str], other: list[str]) -> list[tuple[int, int, int, int]]:
    """Parts of ``base`` that ``other`` has otherwise, with their places in both."""
    start = end = 0
    shorter = min(len(base), len(other))
    while start < shorter and base[start] == other[start]:
        start += 1
    while end < shorter - start and base[-1 - end] == other[-1 - end]:
        end += 1
    old, new = base[start : len(base) - end], other[start : len(other) - end]
    if not old or not new:
        return [(start, start + len(old), start, start + len(new))] if old or new else []
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        (start + a, start + b, start + c, start + d) for tag, a, b, c, d in codes if tag != "equal"
    ]


def _union(found: list[list[tuple[int, int, int, int]]]) -> list[Region]:
    """Places of the base line that any of the other lines changes."""
    out: list[Region] = []
    for low, high in sorted({(one[0], one[1]) for each in found for one in each}):
        if out and (low < out[-1][1] or low == out[-1][0] or low == high == out[-1][1]):
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return out


def _piece(other: list[str], found: list[tuple[int, int, int, int]], region: Region) -> str:
    """What the other line has in a region of the base line."""
    low, high = region
    before = [one for one in found if one[1] <= low and not one[0] == low == one[1]]
    until = [one for one in found if one[1] <= high]
    first = low + sum((one[3] - one[2]) - (one[1] - one[0]) for one in before)
    last = high + sum((one[3] - one[2]) - (one[1] - one[0]) for one in until)
    return "".join(other[first:last])


def values(bits: Bits) -> list[int]:
    """The numbers of a field that are asked: all of a narrow one, else edges and some drawn."""
    count = len(bits)
    if count <= SHORT_BITS:
        return list(range(1 << count))
    full = (1 << count) - 1
    asked = {0, full, *(1 << place for place in range(count))}
    asked |= {(1 << place) - 1 for place in range(count)}
    asked |= {full ^ 1 << place for place in range(count)}
    generator = random.Random(SEED)
    asked |= {generator.getrandbits(count) for _ in range(DRAWN)}
    return sorted(asked | {one for one in FLOAT_EDGES if count == len(FLOAT_KINDS) * HEX})


def kind_of(samples: Sequence[tuple[int, str]], width: int) -> str | None:
    """The first kind of number that prints all samples."""
    for kind in (*KINDS, *FLOAT_KINDS.get(width, ())):
        if all(kind_text(kind, value, width).rstrip() == text.rstrip() for value, text in samples):
            return kind
    return None


@dataclass
class Measured:
    """A form in the making: marks on the base line, and fields that only refuse."""

    base: list[str]
    marks: list[tuple[Region, list[list[object]]]] = field(default_factory=list)
    legal: list[list[object]] = field(default_factory=list)

    def items(self) -> list[object]:
        """Literals and slots in the order of the line."""
        out: list[object] = []
        place = 0
        for (low, high), slots in sorted(self.marks, key=_place):
            if low < place:
                raise NotUnderstood(f"two fields print one part of the line: {slots[0]}")
            out += ["".join(self.base[place:low])] if low > place else []
            out += slots
            place = high
        return [*out, "".join(self.base[place:])] if place < len(self.base) else out


def _place(mark: tuple[Region, list[list[object]]]) -> tuple[Region, int]:
    """Where a mark stands, and what comes first of those that are added in one place."""
    (low, high), slots = mark
    return (low, high), first_of(_texts(slots[0][1])) if low == high else 0


def _texts(how: object) -> list[object]:
    return how if isinstance(how, list) else []


def first_of(texts: Iterable[object]) -> int:
    """The tool's order of what it adds to an operand: a sign, a bar, ``.reuse``, the rest."""
    shown = "".join(one for one in texts if isinstance(one, str))
    if shown and set(shown) <= set("-~!"):
        return 0
    return next((rank for rank, sign in ((1, "|"), (2, ".reuse")) if sign in shown), 3)


class Former:
    """Measures the lines of a plan with one tool."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def questions(self, line: Line) -> list[int]:
        """The words whose texts make the form."""
        all_bits = [bits_of(name) for name in line.fields]
        return [line.word] + [
            word
            for bits in all_bits
            for word in (with_value(line.word, bits, value) for value in values(bits))
            if line.takes(word)
        ]

    def form(self, line: Line) -> dict[str, object]:
        """Items and legal fields of a form. Raises: NotUnderstood."""
        first = self.ask([line.word])[0]
        if first == REFUSED:
            raise NotUnderstood("the tool refuses the word")
        made = Measured(tokens(distance(first)))
        for name in line.fields:
            self._field(made, line, name)
        out: dict[str, object] = {"items": made.items()}
        if made.legal:
            out["legal"] = made.legal
        if RELATIVE.search(first):
            out["relative"] = True
        return out

    def _texts(self, line: Line, bits: Bits, asked: Sequence[int]) -> list[list[str] | None]:
        answers = self.ask([with_value(line.word, bits, value) for value in asked])
        return [None if text == REFUSED else tokens(distance(text)) for text in answers]

    def _field(self, made: Measured, line: Line, name: str) -> None:
        bits = bits_of(name)
        asked = [one for one in values(bits) if line.takes(with_value(line.word, bits, one))]
        others = self._texts(line, bits, asked)
        if len(bits) > SHORT_BITS and not self._numbers(made, name, asked, others):
            if len(bits) > EXHAUSTIVE_BITS:
                raise NotUnderstood(f"bits {name}: neither a number nor few values")
            asked = [
                one for one in range(1 << len(bits)) if line.takes(with_value(line.word, bits, one))
            ]
            others = self._texts(line, bits, asked)
        self._marks(made, name, asked, others)

    def _numbers(
        self, made: Measured, name: str, asked: list[int], others: list[list[str] | None]
    ) -> bool:
        return all(isinstance(slot[1], str) for _, slot in self._slots(made, name, asked, others))

    def _marks(
        self, made: Measured, name: str, asked: list[int], others: list[list[str] | None]
    ) -> None:
        slots = self._slots(made, name, asked, others)
        made.marks += [(region, [slot]) for region, slot in slots]
        if not slots and None in others:
            legal: list[str | None] = [None] * (1 << len(bits_of(name)))
            for value, other in zip(asked, others, strict=True):
                legal[value] = None if other is None else ""
            made.legal.append([name, legal])

    def _slots(
        self, made: Measured, name: str, asked: list[int], others: list[list[str] | None]
    ) -> list[tuple[Region, list[object]]]:
        return shown_by(made.base, name, asked, others)


def shown_by(
    base: list[str], name: str, asked: Sequence[int], others: Sequence[list[str] | None]
) -> list[tuple[Region, list[object]]]:
    """The parts of the base line that a field changes, each with its kind or its texts."""
    width = len(bits_of(name))
    found = [changes(base, other) if other else [] for other in others]
    regions = _union(found)
    if width > EXHAUSTIVE_BITS and regions:
        regions = [(regions[0][0], regions[-1][1])]
    out: list[tuple[Region, list[object]]] = []
    for region in regions:
        texts = [
            None if other is None else _piece(other, one, region)
            for other, one in zip(others, found, strict=True)
        ]
        shown = [(v, text) for v, text in zip(asked, texts, strict=True) if text is not None]
        number = width >= LEAST_NUMBER_BITS and len(shown) == len(texts)
        kind = kind_of(shown, width) if number and region[0] < region[1] else None
        every: list[str | None] = []
        if not kind and width <= EXHAUSTIVE_BITS:
            told = dict(shown)
            every = [told.get(value) for value in range(1 << width)]
        out.append((region, [name, kind or every]))
    return out

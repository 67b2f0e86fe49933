"""A form while it is searched: its word, its units of bits, and the text that they predict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from boards.nv.isa.table import Slot
from tests.nvdisasm import REFUSED
from tests.sass.measure import (
    EXHAUSTIVE_BITS,
    SHORT_BITS,
    Region,
    changes,
    distance,
    first_of,
    shown_by,
    tokens,
    values,
)
from tests.sass.oracle import Answer
from tests.sass.plan import Bits, Line, Step, value_of, with_value


def name_of(bits: Bits) -> str:
    """62, 74, 75 as ``62,74-75``."""
    runs: list[list[int]] = []
    for bit in bits:
        if runs and runs[-1][-1] + 1 == bit:
            runs[-1].append(bit)
        else:
            runs.append([bit])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@dataclass
class Unit:
    """Bits that are changed together, and what the tool said about each of their values."""

    bits: Bits
    heard: dict[int, Answer] = field(default_factory=dict)
    slots: list[tuple[Region, Slot]] = field(default_factory=list)
    legal: frozenset[int] | None = None
    """The values that the tool takes, where the unit prints nothing and some are refused."""

    @property
    def name(self) -> str:
        """As a plan writes it."""
        return name_of(self.bits)

    @property
    def speaks(self) -> bool:
        """Whether the text or the legality depends on it."""
        return bool(self.slots) or self.legal is not None

    def asked(self, line: Line) -> list[int]:
        """The values to ask for a measurement."""
        count = len(self.bits)
        every = range(1 << count) if SHORT_BITS < count <= EXHAUSTIVE_BITS else values(self.bits)
        return [one for one in every if line.takes(with_value(line.word, self.bits, one))]

    def learn(self, base: list[str]) -> bool:
        """Slots from what was heard; False where they are neither numbers nor few values."""
        asked = sorted(self.heard)
        others = [
            tokens(distance(self.heard[one].text)) if self.heard[one].legal else None
            for one in asked
        ]
        slots = shown_by(base, self.name, asked, others)
        self.slots = [(region, _slot(self.bits, how)) for region, (_, how) in slots]
        self.legal = None
        if not slots and None in others:
            if len(self.bits) > EXHAUSTIVE_BITS:
                return False
            self.legal = frozenset(one for one in asked if self.heard[one].legal)
        return all(slot.texts or slot.kind != "text" for _, slot in self.slots)


def _slot(bits: Bits, how: Any) -> Slot:
    return Slot(bits, how) if isinstance(how, str) else Slot(bits, "text", tuple(how))


@dataclass
class Leaf:
    """A form in search: the steps that lead to it, a word, the word's class and its units."""

    opcode: int
    steps: tuple[Step, ...]
    word: int
    name: str
    base: list[str]
    units: list[Unit] = field(default_factory=list)

    @property
    def line(self) -> Line:
        """As a plan has it."""
        names = tuple(unit.name for unit in self.units if unit.speaks)
        return Line(self.opcode, self.steps, self.word, names)

    def marks(self) -> list[tuple[Region, Slot, Unit]]:
        """All slots in the order of the text."""
        every = [(region, slot, unit) for unit in self.units for region, slot in unit.slots]
        return sorted(every, key=lambda mark: (mark[0], _rank(mark[0], mark[1])))

    def overlap(self) -> tuple[Unit, Unit] | None:
        """Two units that print one part of the text."""
        marks = self.marks()
        for (first, _, one), (second, _, other) in pairwise(marks):
            if second[0] < first[1]:
                return one, other
        return None

    def predict(self, word: int) -> str | None:
        """The text of a word by the units alone; None: refused."""
        for unit in self.units:
            if unit.legal is not None and value_of(word, unit.bits) not in unit.legal:
                return None
        out: list[str] = []
        place = 0
        for (low, high), slot, _ in self.marks():
            text = slot.text(slot.value(word))
            if text is None:
                return None
            out += [*self.base[place:low], text]
            place = high
        return "".join([*out, *self.base[place:]]).rstrip()

    def agrees(self, word: int, answer: Answer) -> bool:
        """Whether the tool says what the units predict."""
        predicted = self.predict(word)
        if predicted is None or not answer.legal:
            return (predicted is None) == (not answer.legal)
        return answer.name == self.name and predicted == distance(answer.text).rstrip()


def _rank(region: Region, slot: Slot) -> int:
    return first_of(slot.texts) if region[0] == region[1] else 0


def grouped(base: list[str], flips: Sequence[tuple[int, Answer]]) -> list[Bits]:
    """Neighbouring bits that change the same part of the text, or that are refused alike."""
    groups: list[list[int]] = []
    before: tuple[int, object] | None = None
    for bit, answer in flips:
        what = _effect(base, answer)
        near = before is not None and before[0] + 1 == bit and what is not None
        if before and near and _same(before[1], what) and _room(what, groups[-1]):
            groups[-1].append(bit)
        else:
            groups.append([bit])
        before = (bit, what) if what is not None else None
    return [tuple(group) for group in _whole(base, groups, dict(flips))]


def _whole(base: list[str], groups: list[list[int]], flips: dict[int, Answer]) -> list[list[int]]:
    """The groups, those together that change one number: a branch's distance has two parts."""
    out: list[list[int]] = []
    found: dict[int, list[int]] = {}
    for group in groups:
        effects = [_effect(base, flips[bit]) for bit in group]
        places = {
            what[0] if isinstance(what, list) and len(what) == 1 else None for what in effects
        }
        place = places.pop()
        if places or place is None or len(group) == 1 or "0x" not in "".join(base[slice(*place)]):
            out.append(group)
        elif place[0] in found:
            found[place[0]] += group
        else:
            found[place[0]] = group
            out.append(group)
    return out


def _effect(base: list[str], answer: Answer) -> object:
    """Where the text changes, ``refused``, or None for no change."""
    if not answer.legal:
        return REFUSED
    return [one[:2] for one in changes(base, tokens(distance(answer.text)))] or None


def _room(what: object, group: list[int]) -> bool:
    """Refused bits stay in small groups, since all their values are asked."""
    return what != REFUSED or len(group) < SHORT_BITS - 1


def _same(one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return any(a == c or (a < d and c < b) for a, b in one for c, d in other)
    return one == other == REFUSED


def merged(units: Iterable[Unit]) -> Unit:
    """One unit of the bits of several."""
    return Unit(tuple(sorted(bit for unit in units for bit in unit.bits)))

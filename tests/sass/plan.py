"""The plan of the SASS tables: which bits are fields, and which bits choose a form.

A line of a plan is a form: opcode, steps, a word to start from, fields.

    981 74=1 91=else | 000fe2... | 16-23 24-31 40-63

A step is a field and its value, ``1,2,4`` for one of several, or ``else``. Lines of an opcode share
steps from the left, and are in the order of the tree. Bits count low first, ``62,74-75`` is a field
of three. The plan says nothing about texts: those are the tool's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

HEX = 16
Bits: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A choice: the field and the values that take this way, or None for all others."""

    name: str
    values: tuple[int, ...] | None
    elsewhere: tuple[int, ...] = ()
    """Values that the lines beside an ``else`` have."""

    @property
    def bits(self) -> Bits:
        """The field's bits."""
        return bits_of(self.name)

    def takes(self, word: int) -> bool:
        """Whether the word goes this way."""
        value = value_of(word, bits_of(self.name))
        return value not in self.elsewhere if self.values is None else value in self.values


@dataclass(frozen=True)
class Line:
    """A form of an opcode."""

    opcode: int
    steps: tuple[Step, ...]
    word: int
    fields: tuple[str, ...]

    def takes(self, word: int) -> bool:
        """Whether a word of the opcode is one of this form."""
        return all(step.takes(word) for step in self.steps)


def bits_of(text: str) -> Bits:
    """``62,74-75`` to 62, 74, 75."""
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return tuple(out)


def value_of(word: int, bits: Bits) -> int:
    """The number of a field."""
    return sum((word >> bit & 1) << place for place, bit in enumerate(bits))


def with_value(word: int, bits: Bits, value: int) -> int:
    """The word with another number in a field."""
    for place, bit in enumerate(bits):
        word = word & ~(1 << bit) | (value >> place & 1) << bit
    return word


def _step(text: str) -> Step:
    name, _, values = text.partition("=")
    if values == "else":
        return Step(name, None)
    return Step(name, tuple(int(value) for value in values.split(",")))


def read(text: str) -> list[Line]:
    """The forms of a plan's text."""
    lines = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        path, word, fields = line.split("|")
        opcode, *steps = path.split()
        lines.append(
            Line(int(opcode, HEX), tuple(map(_step, steps)), int(word, HEX), tuple(fields.split()))
        )
    return with_elsewhere(lines)


def with_elsewhere(lines: list[Line]) -> list[Line]:
    """The lines, their ``else`` steps told what the lines beside them take."""
    beside: dict[tuple[object, ...], tuple[int, ...]] = {}
    for line in lines:
        for depth, step in enumerate(line.steps):
            place = (line.opcode, line.steps[:depth])
            beside[place] = beside.get(place, ()) + (step.values or ())
    return [
        replace(
            line,
            steps=tuple(
                step
                if step.values is not None
                else replace(step, elsewhere=beside[line.opcode, line.steps[:depth]])
                for depth, step in enumerate(line.steps)
            ),
        )
        for line in lines
    ]


def _branch(lines: list[Line], forms: dict[Line, object], depth: int) -> object:
    if len(lines) == 1 and len(lines[0].steps) == depth:
        return forms.get(lines[0])
    name = lines[0].steps[depth].name
    when: dict[str, object] = {}
    otherwise: object = None
    for step, group in groupby(lines, lambda line: line.steps[depth]):
        if step.name != name:
            raise ValueError(f"a plan: {lines[0].opcode:03x}: {step.name} beside {name}")
        made = _branch(list(group), forms, depth + 1)
        if step.values is None:
            otherwise = made
            named = {value for line in lines for value in line.steps[depth].values or ()}
            missing = sorted(set(step.elsewhere) - named)
            if missing:
                when[",".join(map(str, missing))] = None
        else:
            when[",".join(map(str, step.values))] = made
    return {"bits": name, "when": when, "else": otherwise}


def tree(lines: list[Line], forms: dict[Line, object]) -> object:
    """The choices of one opcode's lines, with what ``forms`` has at the ends."""
    return _branch(lines, forms, 0)

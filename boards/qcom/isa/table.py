"""ir3 encodings as data: sets of encodings, each a pattern of bits and cases of fields.

``tables/ir3.json`` is made by ``python -m generators.adreno_isa`` from Mesa's isaspec files. An
operand is a field whose type is another set. A case holds where its condition does, and the first
case that knows a name decides; the last, unconditional ones are what the encoding extends.
# src: Mesa 25.0.7, docs/isaspec.rst: bitsets, overrides, expressions
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

_FILE: Final = Path(__file__).parent / "tables" / "ir3.json"
_HEX: Final = 16
INSTRUCTION: Final = "#instruction"
CATEGORY_LOW: Final = 61
"""The category of an instruction is its three upper bits."""

Expression: TypeAlias = "int | str | tuple[Any, ...]"
"""A number, a field's name, or an operator and what it takes."""


@dataclass(frozen=True, slots=True)
class Field:
    """Some bits, or the value of an expression, and how it prints."""

    kind: str
    """uint, int, bool, ...: one of isaspec's types, or the name of an enumeration or a set."""
    low: int
    high: int
    expression: str = ""
    show: str | None = None
    passed: Mapping[str, str] = field(default_factory=dict)
    """Names that an operand's encoding may ask for, and what they are called outside."""

    @property
    def width(self) -> int:
        """In bits."""
        return self.high + 1 - self.low


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Fields and text of an encoding, where `condition` holds."""

    condition: str
    text: str | None
    space: str
    """Of operands: what `Space` calls the place; empty: no operand."""
    number: str
    """The field that numbers the operand."""
    fields: Mapping[str, Field]
    asserts: tuple[tuple[int, int, int], ...]
    """Low and high bit, and what they must be."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """One instruction, or one form of operand, of some generations."""

    name: str
    generations: tuple[int, int]
    mask: int
    match: int
    unused: int
    """Bits without a meaning: 0."""
    cases: tuple[Case, ...]
    destinations: frozenset[str]
    """Fields that are written; none: those whose name begins with DST."""

    def of(self, generation: int) -> bool:
        """Whether a generation, times 100, has it."""
        first, last = self.generations
        return first <= generation <= last


@dataclass(frozen=True, slots=True)
class Table:
    """All of it."""

    sets: Mapping[str, tuple[Encoding, ...]]
    enums: Mapping[str, Mapping[int, str]]
    expressions: Mapping[str, Expression]


def _expression(form: Any) -> Expression:
    return tuple(_expression(one) for one in form) if isinstance(form, list) else form


def _field(record: Mapping[str, Any]) -> Field:
    low, high = record["bits"]
    return Field(
        kind=record["type"], low=low, high=high, expression=record.get("is", ""),
        show=record.get("show"), passed=record.get("pass", {}),
    )  # fmt: skip


def _case(record: Mapping[str, Any]) -> Case:
    return Case(
        condition=record.get("if", ""), text=record.get("text"),
        space=record.get("space", ""), number=record.get("number", ""),
        fields={name: _field(one) for name, one in record.get("fields", {}).items()},
        asserts=tuple((low, high, value) for low, high, value in record.get("asserts", ())),
    )  # fmt: skip


def _encoding(record: Mapping[str, Any], cases: tuple[Case, ...]) -> Encoding:
    first, last = record["generations"]
    return Encoding(
        name=record["name"], generations=(first, last), mask=int(record["mask"], _HEX),
        match=int(record["match"], _HEX), unused=int(record["unused"], _HEX),
        cases=tuple(cases[number] for number in record["cases"]),
        destinations=frozenset(record.get("destinations", ())),
    )  # fmt: skip


@cache
def table() -> Table:
    """The table of this package."""
    document = json.loads(_FILE.read_text("ascii"))
    cases = tuple(_case(record) for record in document["cases"])
    return Table(
        sets={
            name: tuple(_encoding(record, cases) for record in records)
            for name, records in document["sets"].items()
        },
        enums={
            name: {int(value): text for value, text in values.items()}
            for name, values in document["enums"].items()
        },
        expressions={name: _expression(form) for name, form in document["expressions"].items()},
    )  # fmt: skip


@cache
def _candidates(name: str, category: int, generation: int) -> tuple[tuple[int, int, Encoding], ...]:
    return tuple(
        (one.mask & ~one.unused, one.match, one)
        for one in table().sets[name]
        if one.of(generation) and (name != INSTRUCTION or _is_of(one, category))
    )


def _is_of(one: Encoding, category: int) -> bool:
    return one.match >> CATEGORY_LOW == category & one.mask >> CATEGORY_LOW


def fitting(name: str, word: int, generation: int) -> list[Encoding]:
    """The encodings of a set that have these bits."""
    category = word >> CATEGORY_LOW if name == INSTRUCTION else 0
    found = _candidates(name, category, generation)
    return [one for mask, match, one in found if word & mask == match]

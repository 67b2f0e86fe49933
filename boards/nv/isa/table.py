"""Encodings as data: an opcode's tree of forms, each form a line of literals and fields.

``tables/sm_86.json`` and its neighbours hold, for each opcode, what bits select a form and how
the form's fields print. ``python -m tests.sass`` measures them: see docs/nv-sass.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from boards.nv.isa.number_text import kind_text

_FOLDER = Path(__file__).parent / "tables"
_HEX = 16


class NoTable(ValueError):
    """No table of encodings for this architecture, or one that this reader cannot read."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of the word: its bits, low first, and a kind of number or one text a value."""

    bits: tuple[int, ...]
    kind: str
    texts: tuple[str | None, ...] = ()

    def value(self, word: int) -> int:
        """The field's number."""
        return sum((word >> bit & 1) << place for place, bit in enumerate(self.bits))

    def text(self, value: int) -> str | None:
        """What the tool prints for the number; None where it refuses the word."""
        if self.texts:
            return self.texts[value]
        return kind_text(self.kind, value, len(self.bits))


@dataclass(frozen=True, slots=True)
class Form:
    """One way to read an opcode's words: literals and fields in the order of the text."""

    items: tuple[str | Slot, ...]
    legal: tuple[Slot, ...]
    schedules: int | None
    """Bit n set: reuse and stall bits that read n are legal; None: every value is."""
    relative: bool = False
    """The line ends in a distance from the next word."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A field whose value selects the form."""

    slot: Slot
    forms: Mapping[int, Tree]
    otherwise: Tree


Tree: TypeAlias = Form | Choice | None


@dataclass(frozen=True, slots=True)
class Table:
    """All opcodes of an architecture."""

    arch: str
    opcodes: Mapping[int, Tree]
    guards: Mapping[int, str]
    """How the guard of an opcode is named where it is not P: UP, or nothing shown."""

    unfinished: frozenset[int]
    """Opcodes that the tool knows and this table does not print in all their forms yet."""

    def form(self, opcode: int, word: int) -> Form | None:
        """The form of a word, or None where the architecture has none."""
        tree = self.opcodes.get(opcode)
        while isinstance(tree, Choice):
            tree = tree.forms.get(tree.slot.value(word), tree.otherwise)
        return tree


def _bits(text: str) -> tuple[int, ...]:
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return tuple(out)


def _slot(data: Sequence[Any]) -> Slot:
    bits, how = data
    if isinstance(how, str):
        return Slot(_bits(bits), how)
    return Slot(_bits(bits), "text", tuple(how))


def _tree(data: Mapping[str, Any] | None, masks: Mapping[str, int]) -> Tree:
    if data is None:
        return None
    if "when" in data:
        ways = [(names, _tree(tree, masks)) for names, tree in data["when"].items()]
        forms = {int(value): tree for names, tree in ways for value in names.split(",")}
        return Choice(Slot(_bits(data["bits"]), "dec"), forms, _tree(data["else"], masks))
    items = tuple(item if isinstance(item, str) else _slot(item) for item in data["items"])
    return Form(
        items,
        tuple(map(_slot, data.get("legal", ()))),
        masks.get(data["opex"]),
        data.get("relative", False),
    )


def table_file(arch: str) -> Path:
    """Where an architecture's table is, if it has one."""
    return _FOLDER / f"{arch}.json"


@cache
def table(arch: str) -> Table:
    """The table of ``sm_86`` or another architecture, read once.

    Raises: NoTable.
    """
    path = table_file(arch)
    if not path.is_file():
        known = ", ".join(architectures())
        raise NoTable(f"no SASS table for {arch!r}; choose one of {known}")
    return parse(arch, json.loads(path.read_text("ascii")))


def parse(arch: str, data: Mapping[str, Any]) -> Table:
    """The table of a file's JSON."""
    masks = {name: int(mask, _HEX) for name, mask in data["opex"].items()}
    return Table(
        arch=arch,
        opcodes={int(opcode, _HEX): _tree(tree, masks) for opcode, tree in data["opcodes"].items()},
        unfinished=frozenset(int(opcode, _HEX) for opcode in data["unfinished"]),
        guards={int(opcode, _HEX): name for opcode, name in data["guards"].items()},
    )


def architectures() -> tuple[str, ...]:
    """The architectures that have a table."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("sm_*.json")))

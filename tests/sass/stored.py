"""A stored SASS table read back as lines of a plan, so that it can be measured again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from boards.nv.isa.table import table_file
from tests.sass.plan import HEX, Line, Step, with_elsewhere


def lines(arch: str) -> list[Line]:
    """The forms of an architecture's table: steps, word and fields."""
    data = json.loads(table_file(arch).read_text("ascii"))
    found = [
        line
        for opcode, tree in data["opcodes"].items()
        for line in _lines(int(opcode, HEX), tree, ())
    ]
    return with_elsewhere(found)


def _lines(opcode: int, tree: Any, steps: tuple[Step, ...]) -> Iterator[Line]:
    if tree is None:
        return
    if "when" not in tree:
        yield Line(opcode, steps, int(tree["word"], HEX), _fields(tree))
        return
    for names, way in tree["when"].items():
        values = tuple(int(value) for value in names.split(","))
        yield from _lines(opcode, way, (*steps, Step(tree["bits"], values)))
    yield from _lines(opcode, tree["else"], (*steps, Step(tree["bits"], None)))


def _fields(form: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a form's fields, in the order of the text; then those that print nothing."""
    slots = [item for item in form["items"] if not isinstance(item, str)]
    return tuple(dict.fromkeys(slot[0] for slot in [*slots, *form.get("legal", ())]))

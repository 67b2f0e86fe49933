"""The lines of a kernel on virtual registers, read into items that passes change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from compilers.qcom.images import textures_of
from drivers.base.errors import MalformedInput
from queues.qcom.textures import Texture

MEMORY: Final = frozenset({"isam", "ldg", "ldga", "ldl", "ldp", "stg", "stga", "stl", "stp"})
_NUMBERS: Final = {
    "isam": 2,
    "ldg": 2,
    "ldl": 2,
    "ldp": 2,
    "ldga": 3,
    "stg": 1,
    "stl": 1,
    "stp": 1,
    "stga": 2,
}
"""Numbers of a memory instruction, the count of a store's components left out."""
_HEAD: Final = 5
"""Numbers of the first line, before the textures."""
FLOW: Final = frozenset({"label", "br", "brn", "fence", "bar", "end"})


NARROW: Final = frozenset({"u8", "u16"})
"""Types in memory whose values are in half registers."""


class Place(NamedTuple):
    """An operand: `kind` is its first letter."""

    kind: str
    number: int
    part: int = 0
    half: bool = False


@dataclass(slots=True)
class Item:
    """One instruction. `op` is its name with types; `stem` what precedes the first dot."""

    op: str
    stem: str
    dst: Place | None
    srcs: list[Place]
    numbers: list[int] = field(default_factory=list)
    """Of memory: offset, shift, count; of isam: texture, count; of a loop's label: its turns."""
    label: str = ""

    @property
    def count(self) -> int:
        """Components of a load or store."""
        return self.numbers[-1]

    @property
    def kind(self) -> str:
        """The type in memory: "u32"."""
        return self.op.partition(".")[2]


@dataclass(slots=True)
class Code:
    """A kernel's items, and what its first line says."""

    generation: int
    registers: int
    """vec4 that may be used."""
    block: int
    shared_bytes: int
    params: int
    items: list[Item]
    names: int
    """Larger than the number of every register."""
    textures: tuple[Texture, ...] = ()


def parse(text: str) -> Code:
    """Read a kernel's text. Raises: MalformedInput."""
    lines = text.splitlines()
    try:
        magic, *words = lines[0].split()
        generation, registers, block, shared, params = map(int, words[:_HEAD])
        if magic != "ir3":
            raise ValueError(magic)
        textures = textures_of(words[_HEAD:])
        cache: dict[str, Place] = {}
        items = [_item(line, cache) for line in lines[1:]]
    except (ValueError, IndexError) as error:
        raise MalformedInput(
            f"text of an ir3 kernel: {error}", hint="render it from a kernel"
        ) from error
    names = max((one.number for one in cache.values() if one.kind in "vm"), default=0) + 1
    return Code(generation, registers, block, shared, params, items, names, textures)


def _place(text: str, cache: dict[str, Place]) -> Place:
    found = cache.get(text)
    if found is None:
        kind, rest = text[0], text[1:]
        name, _, part = rest.partition(".")
        half = part.startswith("h")
        place = int(part.removeprefix("h") or 0)
        if kind not in "vmkcrgp":
            raise ValueError(text)
        found = cache[text] = Place(kind, int(name or 0), place, half)
    return found


def _item(line: str, cache: dict[str, Place]) -> Item:
    op, *words = line.split()
    stem = op.partition(".")[0]
    if stem in ("label", "br", "brn"):
        turns = [int(word) for word in words[1:]]
        return Item(op, stem, None, [], turns, label=words[0])
    if stem in _NUMBERS:
        return _memory(op, stem, words, cache)
    places = [_place(word, cache) for word in words]
    return Item(op, stem, places[0] if places else None, places[1:])


def _memory(op: str, stem: str, words: list[str], cache: dict[str, Place]) -> Item:
    count = _NUMBERS[stem]
    if stem[0] != "s":
        numbers = list(map(int, words[-count:]))
        places = [_place(word, cache) for word in words[:-count]]
        return Item(op, stem, places[0], places[1:], numbers)
    *address, data, size = words
    numbers = [*map(int, address[-count:]), int(size)]
    places = [_place(word, cache) for word in (*address[:-count], data)]
    return Item(op, stem, None, places, numbers)

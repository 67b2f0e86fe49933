"""Packets and registers as data: a `WordLayout` names the bits of 32-bit words, once, both ways.

A word's fields are declared in one string, as vendors' tables have them::

    WordLayout("WAIT_MEM", 0xC0053C00, 0xFFFFFF00, (
        "",                                  # word 0: only fixed bits
        "function 2:0  space 5:4",           # fields of word 1: name, high bit, low bit
        "addr/4?space=1 63:0  reg?space=0 17:0",
        "",                                  # the upper half of `addr`
        "count-1 21:0  loop 31",
    ))

`63:0` runs on into the next word. `/4`: a multiple of 4, stored as it is (an address with its low
bits zero). `-1`: stored minus one. `?space=0|2&mode=1`: there only for these values of other
fields. What does not fit raises BadArgument: a value never spills into its neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from drivers.base.errors import BadArgument

WORD_BITS: Final = 32
WORD_MAX: Final = (1 << WORD_BITS) - 1
_SPEC: Final = re.compile(
    r"(?P<name>\w+)(?:/(?P<align>\d+))?(?P<bias>-1)?(?:\?(?P<when>[\w=|&]+))?"
    r" (?P<hi>\d+)(?::(?P<lo>\d+))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """`width` bits from bit `lo` of word `word` on, running into the following words."""

    name: str
    word: int
    lo: int
    width: int
    align: int = 1
    bias: int = 0
    when: tuple[tuple[str, frozenset[int]], ...] = ()
    last: int = field(init=False)
    """The last word that holds a bit of this field."""
    masks: tuple[tuple[int, int], ...] = field(init=False)
    """(word, bits) that this field owns: not the zero bits below an alignment."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", self.word + (self.lo + self.width - 1) // WORD_BITS)
        object.__setattr__(self, "masks", tuple(self.pieces((1 << self.width) - 1 & -self.align)))

    def active(self, values: Mapping[str, int]) -> bool:
        """Whether the packet with these values of its other fields has this one."""
        return all(values.get(name, 0) in wanted for name, wanted in self.when)

    def put(self, words: list[int], value: int, where: str) -> None:
        """Or the value into its words. Raises: BadArgument when it does not fit."""
        stored = value - self.bias
        if not 0 <= stored < 1 << self.width:
            raise BadArgument(
                f"{where}.{self.name} = {value:#x} does not fit {self.width} bits",
                hint="split the work, or see the chip's limits",
            )
        if stored % self.align:
            raise BadArgument(f"{where}.{self.name} = {value:#x} is not a multiple of {self.align}")
        for number, bits in self.pieces(stored):
            words[number] |= bits

    def get(self, words: Sequence[int], at: int) -> int:
        """The value in a packet that starts at word `at`."""
        raw, shift = words[at + self.word] >> self.lo, WORD_BITS - self.lo
        for number in range(self.word + 1, self.last + 1):
            raw |= words[at + number] << shift
            shift += WORD_BITS
        return (raw & (1 << self.width) - 1 & -self.align) + self.bias

    def pieces(self, stored: int) -> list[tuple[int, int]]:
        """(word, bits) of a stored value."""
        spread = stored << self.lo
        return [
            (number, spread >> WORD_BITS * (number - self.word) & WORD_MAX)
            for number in range(self.word, self.last + 1)
        ]


def _fields(words: Sequence[str], where: str) -> tuple[Field, ...]:
    found: list[Field] = []
    for number, text in enumerate(words):
        matches = list(_SPEC.finditer(text))
        if "".join(text.split()) != "".join("".join(m[0].split()) for m in matches):
            raise ValueError(f"{where}, word {number}: {text!r} is not a list of fields")
        for match in matches:
            hi, lo = int(match["hi"]), int(match["lo"] or match["hi"])
            when = tuple(
                (name, frozenset(int(value) for value in values.split("|")))
                for name, _, values in (
                    part.partition("=") for part in (match["when"] or "").split("&") if part
                )
            )
            align, bias = int(match["align"] or 1), 1 if match["bias"] else 0
            new = Field(match["name"], number, lo, hi - lo + 1, align, bias, when)
            if hi < lo or new.last >= len(words):
                raise ValueError(f"{where}.{new.name} {hi}:{lo} leaves the packet")
            found.append(new)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Packet:
    """One decoded packet: its word offset, named fields, and the words after the fixed ones.

    `reserved` holds (word, bits) that are set where the layout has no field.
    """

    at: int
    name: str
    fields: dict[str, int]
    tail: tuple[int, ...] = ()
    reserved: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WordLayout:
    """`fixed` under `fixed_mask` identifies word 0; `tail` names the data words after the last."""

    name: str
    fixed: int
    fixed_mask: int
    words: tuple[str, ...]
    tail: str = ""
    tail_words: range = range(1)
    """How many data words may follow."""
    enums: Mapping[str, type[IntEnum]] = field(default_factory=dict)
    fields: tuple[Field, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", _fields(self.words, self.name))

    def encode(self, values: Mapping[str, int], tail: Sequence[int] = ()) -> list[int]:
        """The words of a packet; a field without a value is 0. Raises: BadArgument."""
        words = [0] * len(self.words)
        words[0], used = self.fixed, 0
        for part in self.fields:
            if part.active(values):
                used += part.name in values
                part.put(words, int(values.get(part.name, part.bias)), self.name)
        if used != len(values):
            having = {part.name for part in self.fields if part.active(values)}
            wrong = ", ".join(sorted(set(values) - having))
            raise BadArgument(f"{self.name} with these values has no {wrong}")
        if len(tail) not in self.tail_words:
            raise BadArgument(
                f"{self.name} cannot carry {len(tail)} words of {self.tail or 'data'}"
            )
        for word in tail:
            if not 0 <= word <= WORD_MAX:
                raise BadArgument(f"{self.name}: {word:#x} does not fit a 32-bit word")
        return [*words, *tail]

    def decode(self, words: Sequence[int], at: int, length: int) -> Packet:
        """Read back a packet of `length` words; the caller has checked the length."""
        values: dict[str, int] = {}
        unknown = list(words[at : at + len(self.words)])
        unknown[0] &= ~self.fixed_mask
        for part in self.fields:
            if not part.when or part.active(values):
                values[part.name] = part.get(words, at)
                for number, mask in part.masks:
                    unknown[number] &= ~mask
        reserved = tuple((number, bits) for number, bits in enumerate(unknown) if bits)
        tail = tuple(words[at + len(self.words) : at + length])
        return Packet(at, self.name, values, tail, reserved)

    def word(self, name: str) -> int:
        """The word at which a field starts: where a patch writes. Raises: KeyError."""
        return {part.name: part.word for part in self.fields}[name]

    def describe(self, name: str, value: int) -> str:
        """A field's value as text, with its name where the vendor has one."""
        known = self.enums.get(name)
        if known is not None and value in known._value2member_map_:
            return f"{known(value).name}"
        return f"{value:#x}"


def replace(layout: WordLayout, words: Mapping[int, str]) -> WordLayout:
    """The same packet with some words redeclared: how a chip differs from its family."""
    changed = tuple(words.get(number, text) for number, text in enumerate(layout.words))
    return WordLayout(
        layout.name,
        layout.fixed,
        layout.fixed_mask,
        changed,
        layout.tail,
        layout.tail_words,
        layout.enums,
    )

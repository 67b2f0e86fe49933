"""Where the fields of an encoding are: the first dword's signature, sizes and bit positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from boards.amd.isa.table import Entry

Bits = tuple[int, int]
"""Lowest bit and width, over the little-endian dwords of the instruction."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """One encoding: `word & mask == value` selects it."""

    name: str
    mask: int
    value: int
    dwords: int
    opcode: Bits
    fields: Mapping[str, Bits]
    entries: Mapping[int, Entry] = field(default_factory=dict)

    def opcode_of(self, word: int) -> int:
        low, width = self.opcode
        return word >> low & ((1 << width) - 1)

    def read(self, word: int) -> dict[str, int]:
        return {
            name: word >> low & ((1 << width) - 1) for name, (low, width) in self.fields.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The encodings of a family of chips, most specific first."""

    name: str
    layouts: tuple[Layout, ...]
    dual: tuple[str, ...] = ()
    """Names of the halves of a dual-issue instruction, by opcode."""

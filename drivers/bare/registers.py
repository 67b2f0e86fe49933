"""Registers by name, as data: one text for each version of a block of a GPU.

A line is `NAME SEGMENT OFFSET field:bit field:low-high ...`: the offset in dwords, hexadecimal,
counts from that segment's base, which the GPU itself or its driver's tables give; `=NAME` stands
for the fields of an earlier register. `role OLD NEW` at the top lets names that begin with OLD be
asked for as NEW, so that generations are asked alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drivers.base.errors import NotFound

WORD_BITS: Final = 32
WORD_MASK: Final = (1 << WORD_BITS) - 1


@dataclass(frozen=True, slots=True)
class Register:
    """One register: where it is, and its fields as (lowest bit, highest bit)."""

    name: str
    segment: int
    offset_dw: int
    fields: Mapping[str, tuple[int, int]]

    def mask(self, field: str) -> int:
        """The bits of a field, in place. Raises: NotFound, with the names that there are."""
        bits = self.fields.get(field)
        if bits is None:
            known = ", ".join(self.fields) or "none"
            raise NotFound(f"{self.name} has no field {field!r}", hint=f"It has {known}")
        low, high = bits
        return (1 << high + 1) - (1 << low)

    def encode(self, base: int = 0, /, **values: int) -> int:
        """`base` with some fields changed. Raises: ValueError for what does not fit a field."""
        for field, value in values.items():
            mask = self.mask(field)
            shifted = value << self.fields[field][0]
            if value < 0 or shifted & ~mask:
                raise ValueError(f"{self.name}.{field} = {value:#x} does not fit its bits")
            base = base & ~mask | shifted
        return base

    def decode(self, value: int) -> dict[str, int]:
        """Every field of a value."""
        return {
            field: value >> low & (1 << high - low + 1) - 1
            for field, (low, high) in self.fields.items()
        }


class RegisterFile:
    """The registers of one version of one block."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.registers: dict[str, Register] = {}
        self.roles: list[tuple[str, str]] = []
        for line in text.splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "role":
                self.roles.append((words[1], words[2] if len(words) > 2 else ""))
            else:
                self._add(words)
        self._by_role = {
            new + name.removeprefix(old): register
            for old, new in self.roles
            for name, register in self.registers.items()
            if name.startswith(old)
        }

    def _add(self, words: list[str]) -> None:
        fields: dict[str, tuple[int, int]] = {}
        for word in words[3:]:
            if word.startswith("="):
                fields = dict(self.registers[word[1:]].fields)
                continue
            field, _, bits = word.partition(":")
            low, _, high = bits.partition("-")
            fields[field] = (int(low), int(high or low))
        self.registers[words[0]] = Register(words[0], int(words[1]), int(words[2], 16), fields)

    def __contains__(self, name: str) -> bool:
        return name in self.registers or name in self._by_role

    def get(self, name: str) -> Register:
        """A register by its vendor's name or its role. Raises: NotFound."""
        register = self.registers.get(name) or self._by_role.get(name)
        if register is None:
            raise NotFound(
                f"{self.name} has no register {name!r}",
                hint="Names are the vendor's, without reg or mm in front",
            )
        return register

"""Names, segments, offsets and fields of the registers a block has here, as data.

`registers/*.txt` were made from the kernel's headers; each says from which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "registers"


@dataclass(frozen=True, slots=True)
class Register:
    """One register: where it is in its block, and what its bits are called."""

    name: str
    segment: int
    offset_dw: int
    fields: Mapping[str, tuple[int, int]]
    """Name to (lowest bit, highest bit)."""

    def get(self, value: int, field: str) -> int:
        """A field of a value."""
        low, high = self.fields[field]
        return value >> low & (1 << high - low + 1) - 1

    def put(self, value: int, field: str, number: int) -> int:
        """The value with one field replaced. Raises: ValueError."""
        low, high = self.fields[field]
        mask = (1 << high - low + 1) - 1
        if number & ~mask:
            raise ValueError(f"{number:#x} does not fit {self.name}.{field}")
        return value & ~(mask << low) | number << low


Table = Mapping[str, Register]


def _field(text: str) -> tuple[str, tuple[int, int]]:
    name, bits = text.split("=")
    low, _, high = bits.partition(":")
    return name, (int(low), int(high or low))


def _line(line: str) -> Register:
    name, segment, offset, *fields = line.split()
    return Register(name, int(segment), int(offset, 16), dict(_field(text) for text in fields))


@cache
def table(name: str) -> Table:
    """The registers of a block by name ("gc_11_0_0"). Raises: OSError."""
    text = (_FOLDER / f"{name}.txt").read_text(encoding="ascii")
    lines = (line.strip() for line in text.splitlines())
    found = [_line(line) for line in lines if line and not line.startswith("#")]
    return {register.name: register for register in found}

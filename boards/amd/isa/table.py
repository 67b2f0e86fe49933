"""The notation of the instruction tables: opcode, mnemonic and operands of every instruction.

    d1 a1 b1:                operands, in the order assembly prints them
        0x03 v_add_f32 ...   opcodes count up from each number

An operand is the field that holds it and its width in dwords:

    d  vector or scalar destination        D  a scalar destination in the vector field
    s  scalar destination of VOP3          V  VCC, implied
    a b c  sources 0, 1, 2                 k  the literal itself
    i  16-bit immediate    h  hardware register of s_getreg
    DS, FLAT, MUBUF: a address, x y data, r resource, q scalar offset
    SMEM: d data, b base, o offset, p length of a prefetch

Width `m` is a lane mask (a bit a lane), `w8` a matrix tile that is 8 dwords in a wave of 32 lanes
and half as many in one of 64: as a number, -8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

MASK = -1
"""Width of an operand with a bit a lane."""


class Slot(NamedTuple):
    """Where an operand is (`field`) and how wide (`dwords`, or MASK, or minus those of a tile)."""

    field: str
    dwords: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One instruction of one encoding."""

    name: str
    opcode: int
    slots: tuple[Slot, ...]


Entries = Mapping[int, Entry]
"""The instructions of one encoding by opcode."""


def listed(text: str) -> list[str]:
    """The words of a declaration."""
    return text.split()


def _slot(word: str) -> Slot:
    field, width = word[0], word[1:]
    if not width:
        return Slot(field, MASK if field == "V" else 1)
    if width == "m":
        return Slot(field, MASK)
    return Slot(field, -int(width[1:]) if width[0] == "w" else int(width))


def table(text: str) -> dict[int, Entry]:
    """Parse the notation above into opcode -> Entry."""
    entries: dict[int, Entry] = {}
    slots: tuple[Slot, ...] = ()
    opcode = 0
    for line in text.strip().splitlines():
        if line.endswith(":"):
            slots = tuple(_slot(word) for word in line[:-1].split())
            continue
        for word in line.split():
            if word.startswith("0x"):
                opcode = int(word, 16)
                continue
            if opcode in entries:
                raise ValueError(f"opcode {opcode:#x} is both {word} and {entries[opcode].name}")
            entries[opcode] = Entry(word, opcode, slots)
            opcode += 1
    return entries


def lane_dwords(width: int, lanes: int) -> int:
    """The real width in dwords of a slot in a wave of `lanes` lanes."""
    if width == MASK:
        return lanes // 32
    return -width * 32 // lanes if width < MASK else width

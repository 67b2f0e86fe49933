"""Methods of NVIDIA's classes, as tables have them: names, offsets, bits; words both ways.

A push buffer is a list of methods: a header word names a subchannel, an offset and how many data
words follow. Which class a subchannel speaks is set by its SET_OBJECT.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Final

from drivers.base.errors import BadArgument, Unsupported

WORD_BITS: Final = 32
WORD_BYTES: Final = 4
WORD_MASK: Final = (1 << WORD_BITS) - 1
_ROW: Final = re.compile(r"([0-9a-f]{4}) (\w+)(?: x(\d+))?((?: \w+ \d+:\d+)*)")
_FIELD: Final = re.compile(r"(\w+) (\d+):(\d+)")
HOST_METHODS_END: Final = 0x100
"""Methods below this are the host's, on any subchannel. # src: clc56f.h"""


class Subchannel(IntEnum):
    """Which class answers there, by the convention of NVIDIA's own clients.
    # src: Mesa nvk_push.h: compute on 1, copies on 4"""

    COMPUTE = 1
    COPY = 4


class Op(IntEnum):
    """SEC_OP of a header. # src: clc56f.h NVC56F_DMA_SEC_OP_*"""

    INC = 1
    NON_INC = 3
    IMMD = 4
    ONE_INC = 5


_OP_SHIFT: Final = 29
_COUNT_SHIFT: Final = 16
_COUNT_MAX: Final = (1 << 13) - 1
_SUBCHANNEL_SHIFT: Final = 13
_SUBCHANNEL_MASK: Final = 7
_ADDRESS_MASK: Final = (1 << 12) - 1


def header(op: Op, subchannel: int, offset: int, count: int) -> int:
    """The word before methods; `count` is the data itself for IMMD. Raises: BadArgument."""
    if not 0 <= count <= _COUNT_MAX:
        raise BadArgument(f"{count} words after one header", hint="split the methods")
    where = subchannel << _SUBCHANNEL_SHIFT | offset // WORD_BYTES
    return op << _OP_SHIFT | count << _COUNT_SHIFT | where


@dataclass(frozen=True, slots=True)
class Head:
    """A header, taken apart."""

    op: int
    subchannel: int
    offset: int
    count: int


def parse_header(word: int) -> Head:
    """The parts of a header word."""
    return Head(
        word >> _OP_SHIFT,
        word >> _SUBCHANNEL_SHIFT & _SUBCHANNEL_MASK,
        (word & _ADDRESS_MASK) * WORD_BYTES,
        word >> _COUNT_SHIFT & _COUNT_MAX,
    )


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its fields as (high bit, low bit)."""

    name: str
    offset: int
    fields: dict[str, tuple[int, int]]
    stride: int = 0

    @property
    def mask(self) -> int:
        """Bits that some field has."""
        return _or_all((1 << high + 1) - (1 << low) for high, low in self.fields.values())


def _or_all(parts: Iterable[int]) -> int:
    mask = 0
    for part in parts:
        mask |= part
    return mask


class Methods:
    """The methods of one class."""

    def __init__(self, name: str, table: str) -> None:
        self.name = name
        self.by_name: dict[str, Method] = {}
        self.by_offset: dict[int, Method] = {}
        for found in _ROW.finditer(table.replace("\n ", " ")):
            fields = {
                field[1]: (int(field[2]), int(field[3])) for field in _FIELD.finditer(found[4])
            }
            made = Method(found[2], int(found[1], 16), fields, int(found[3] or 0))
            self.by_name[made.name] = self.by_offset[made.offset] = made

    def value(self, name: str, **fields: int) -> int:
        """The data word of a method. Raises: BadArgument for what does not fit its field."""
        method, word = self.by_name[name], 0
        for field, value in fields.items():
            high, low = method.fields[field]
            if not 0 <= value < 1 << high - low + 1:
                raise BadArgument(
                    f"{name}.{field} = {value:#x} does not fit {high - low + 1} bits",
                    hint="see the chip's limits",
                )
            word |= value << low
        return word

    def checked(self, method: Method, word: int) -> int:
        """A data word. Raises: BadArgument for bits where the method has no field."""
        if word & ~method.mask or not 0 <= word <= WORD_MASK:
            raise BadArgument(
                f"{method.name} = {word:#x} has bits that {self.name} does not know",
                hint="see the chip's limits",
            )
        return word

    def send(self, subchannel: int, name: str, *data: int) -> list[int]:
        """Methods from `name` on, one for each data word. Raises: BadArgument."""
        first = self.by_name[name].offset
        words = [header(Op.INC, subchannel, first, len(data))]
        for number, word in enumerate(data):
            method = self.by_offset.get(first + number * WORD_BYTES)
            if method is None:
                raise BadArgument(f"{self.name} has no method {number} words behind {name}")
            words.append(self.checked(method, word))
        return words

    def stream(self, subchannel: int, name: str, data: list[int]) -> list[int]:
        """All data words to one method."""
        method = self.by_name[name]
        head = header(Op.NON_INC, subchannel, method.offset, len(data))
        return [head, *(self.checked(method, word) for word in data)]

    def at(self, offset: int) -> Method | None:
        """The method at an offset, also one of a row."""
        found = self.by_offset.get(offset)
        if found is not None:
            return found
        rows = [one for one in self.by_offset.values() if one.stride and one.offset <= offset]
        nearest = max(rows, key=lambda one: one.offset, default=None)
        return nearest if nearest and offset - nearest.offset < _ROW_BYTES else None


_ROW_BYTES: Final = 0x200
"""Longest row of methods: LOAD_INLINE_QMD_DATA has 96, others 128 words."""

TABLE_OF: Final = {
    0xC46F: "host_c56f", 0xC56F: "host_c56f", 0xC86F: "host_c56f", 0xC96F: "host_c56f",
    0xCA6F: "host_c56f", 0xC5C0: "compute_c5c0", 0xC6C0: "compute_c7c0", 0xC7C0: "compute_c7c0",
    0xC9C0: "compute_c7c0", 0xCBC0: "compute_cbc0", 0xCDC0: "compute_cec0", 0xCEC0: "compute_cec0",
    0xC5B5: "copy_c5b5", 0xC6B5: "copy_c7b5", 0xC7B5: "copy_c7b5", 0xC8B5: "copy_c8b5",
    0xC9B5: "copy_cab5", 0xCAB5: "copy_cab5",
}  # fmt: skip
"""A class -> the table with the methods that are used of it."""
_WIDE_HOSTS: Final = frozenset({0xC86F, 0xC96F, 0xCA6F})
"""Their semaphores have 57-bit addresses. # src: kernel-open/nvidia-uvm/clc86f.h SEM_ADDR_HI"""
_WIDE: Final = (24, 0)


@cache
def methods_of(number: int) -> Methods:
    """Those of a class, by its number. Raises: Unsupported."""
    name = TABLE_OF.get(number)
    if name is None:
        raise Unsupported(f"class {number:#06x} is not known", hint="see queues/nv/tables")
    made = Methods(f"class {number:#06x}", import_module(f"queues.nv.tables.{name}").TABLE)
    if number in _WIDE_HOSTS:
        made.by_name["SEM_ADDR_HI"].fields["OFFSET"] = _WIDE
    return made


def high_low(va: int) -> tuple[int, int]:
    """The upper and the lower word of an address."""
    return va >> WORD_BITS, va & WORD_MASK

"""QMDs: the descriptor of one launch, which the compute front end reads from memory.

Each version has the same facts at other bits, and some under another name or shifted. `Qmd` sets
them by one name each; the tables are `queues/nv/tables/qmd_*.py`.
# src: open-gpu-doc classes/compute/cl*qmd.h; which fields a launch needs: Mesa nak/qmd.rs
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Final

from drivers.base.errors import BadArgument, Unsupported
from queues.nv.classes import WORD_BITS, WORD_BYTES, WORD_MASK

VERSIONS: Final = {"02_03": 64, "03_00": 64, "04_00": 96, "05_00": 96}
"""Version -> its words. # src: clcbc0.h SET_INLINE_QMD_ADDRESS_A_INLINE_SIZE; nak/qmd.rs"""
QMD_SHIFT: Final = 8
ALIGN_BYTES: Final = 1 << QMD_SHIFT
"""SEND_PCAS_A and dependent QMDs have addresses in units of this."""
_ROW: Final = re.compile(r"^(\w+)(?: x(\d+))? (\d+):(\d+)$", re.MULTILINE)
_SHIFTED: Final = re.compile(r"_SHIFTED(\d+)$")
_OTHER_NAMES: Final = {
    "GRID_WIDTH": "CTA_RASTER_WIDTH", "GRID_HEIGHT": "CTA_RASTER_HEIGHT",
    "GRID_DEPTH": "CTA_RASTER_DEPTH", "QMD_MINOR_VERSION": "QMD_VERSION",
    "REGISTER_COUNT": "REGISTER_COUNT_V",
}  # fmt: skip
"""Names since Hopper -> before."""


class QmdLayout:
    """The fields of one version: name -> (high bit, low bit, distance of a row's entries)."""

    def __init__(self, version: str) -> None:
        table = import_module(f"queues.nv.tables.qmd_{version}").TABLE
        self.version, self.nwords = version, VERSIONS[version]
        self.fields = {
            name: (int(high), int(low), int(stride or 0))
            for name, stride, high, low in _ROW.findall(table.replace("\n ", " "))
        }
        self._names: dict[str, tuple[str, int]] = {}
        for name in self.fields:
            found = _SHIFTED.search(name)
            plain = name[: found.start()] if found else name
            self._names[plain] = name, int(found[1]) if found else 0
        for new, old in _OTHER_NAMES.items():
            if old in self._names:  # REGISTER_COUNT of 02_03 is another field
                self._names[new] = self._names[old]

    @property
    def nbytes(self) -> int:
        """Of the descriptor."""
        return self.nwords * WORD_BYTES

    def has(self, name: str) -> bool:
        """Whether this version has the fact."""
        return name in self._names

    def place(self, name: str, index: int = 0) -> tuple[int, int, int]:
        """(high bit, low bit, shift) of a fact."""
        field, shift = self._names[name]
        high, low, stride = self.fields[field]
        return high + index * stride, low + index * stride, shift

    def word(self, name: str, index: int = 0) -> int:
        """The word that a field begins and ends in, at bit 0. Raises: BadArgument."""
        high, low, _ = self.place(name, index)
        if low % WORD_BITS or high // WORD_BITS != low // WORD_BITS:
            raise BadArgument(f"QMD {self.version}: {name} is not a word of its own")
        return low // WORD_BITS


@cache
def layout_of(version: str) -> QmdLayout:
    """Raises: Unsupported with the known versions."""
    if version not in VERSIONS:
        raise Unsupported(f"QMD {version!r} is not known", hint=f"known: {', '.join(VERSIONS)}")
    return QmdLayout(version)


class Qmd:
    """One descriptor under construction."""

    def __init__(self, layout: QmdLayout) -> None:
        self.layout = layout
        self._bits = 0

    def put(self, name: str, value: int, index: int = 0) -> None:
        """Set a fact. Raises: BadArgument for what does not fit, or is no multiple."""
        high, low, shift = self.layout.place(name, index)
        stored, width = value >> shift, high - low + 1
        if stored << shift != value or not 0 <= stored < 1 << width:
            raise BadArgument(
                f"QMD {self.layout.version}: {name} = {value:#x} does not fit {width} bits"
                f"{f' in units of {1 << shift}' if shift else ''}",
                hint="see the chip's limits",
            )
        self._bits = self._bits & ~((1 << width) - 1 << low) | stored << low

    def put_address(self, name: str, va: int, index: int = 0) -> None:
        """Set an address whose halves are `name`_LOWER and `name`_UPPER. Raises: BadArgument."""
        _, _, shift = self.layout.place(f"{name}_LOWER", index)
        stored = va >> shift
        if stored << shift != va:
            raise BadArgument(f"QMD {self.layout.version}: {name} = {va:#x} is not aligned")
        self.put(f"{name}_LOWER", (stored & WORD_MASK) << shift, index)
        self.put(f"{name}_UPPER", stored >> WORD_BITS << shift, index)

    def set_where(self, value: int, *names: str) -> None:
        """Set those of the facts that this version has."""
        for name in names:
            if self.layout.has(name):
                self.put(name, value)

    @property
    def words(self) -> list[int]:
        """The descriptor."""
        return [
            self._bits >> WORD_BITS * number & WORD_MASK for number in range(self.layout.nwords)
        ]


def fields_of(layout: QmdLayout, words: list[int]) -> dict[str, int]:
    """Every field that is not 0, rows as `name(i)`; for listings."""
    bits = sum(word << WORD_BITS * number for number, word in enumerate(words))
    found: dict[str, int] = {}
    for name, (high, low, stride) in layout.fields.items():
        for index in range(_rows(layout, high, stride)):
            value = bits >> low + index * stride & (1 << high - low + 1) - 1
            if value:
                found[f"{name}({index})" if stride else name] = value
    return found


_MOST_ROWS: Final = 8


def _rows(layout: QmdLayout, high: int, stride: int) -> int:
    """How many entries a row can have in the descriptor, at most those of constant buffers."""
    left = layout.nwords * WORD_BITS - 1 - high
    return min(_MOST_ROWS, left // stride + 1) if stride else 1

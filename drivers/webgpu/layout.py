"""C structs as text: members in order, laid out as the C ABI of 64-bit machines lays them out.

"next:p label:s usage:q mapped:i" is a pointer, a WGPUStringView, a uint64_t and a uint32_t; any
other kind is the name of a struct of the same table.
# src: System V psABI AMD64 3.1.2, AAPCS64 5.3: members at multiples of their own size
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drivers.world.native import address_of

_SCALARS: Final = {"p": 8, "q": 8, "i": 4}
_VIEW: Final = "data:p length:q"
_CODES: Final = {8: "<Q", 4: "<I"}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where members are. Nested ones have names with dots: "compute.module"."""

    nbytes: int
    align: int
    members: Mapping[str, tuple[int, int]]
    """Name -> (offset, bytes)."""


class Layouts:
    """Structs of one header."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._made: dict[str, Layout] = {}

    def of(self, name: str) -> Layout:
        """The layout of a struct."""
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._laid_out(self._texts[name])
        return found

    def _laid_out(self, text: str) -> Layout:
        at, most = 0, 1
        members: dict[str, tuple[int, int]] = {}
        for member in text.split():
            name, _, kind = member.partition(":")
            size = _SCALARS.get(kind, 0)
            inner = None if size else self._laid_out(_VIEW) if kind == "s" else self.of(kind)
            align = inner.align if inner else size
            at += -at % align
            if inner is None:
                members[name] = (at, size)
                at += size
            else:
                for part, (offset, nbytes) in inner.members.items():
                    members[f"{name}.{part}"] = (at + offset, nbytes)
                at += inner.nbytes
            most = max(most, align)
        return Layout(at + -at % most, most, members)


class Record:
    """One struct in memory. `at` is its address, which is valid while the object lives."""

    __slots__ = ("_layout", "at", "held", "raw")

    def __init__(self, layout: Layout, values: Mapping[str, int] | None = None) -> None:
        self._layout, self.raw = layout, bytearray(layout.nbytes)
        self.at = address_of(self.raw)
        self.held: tuple[object, ...] = ()
        """What its pointers lead to."""
        for name, value in (values or {}).items():
            self[name] = value

    def __setitem__(self, name: str, value: int) -> None:
        offset, nbytes = self._layout.members[name]
        struct.pack_into(_CODES[nbytes], self.raw, offset, value)

    def __getitem__(self, name: str) -> int:
        offset, nbytes = self._layout.members[name]
        found: int = struct.unpack_from(_CODES[nbytes], self.raw, offset)[0]
        return found

    @property
    def words(self) -> list[int]:
        """Its 64-bit words, as it is passed by value."""
        padded = bytes(self.raw) + bytes(-len(self.raw) % 8)
        return list(struct.unpack(f"<{len(padded) // 8}Q", padded))


class Text:
    """UTF-8 at `at`, `nbytes` long."""

    __slots__ = ("_raw", "at", "nbytes")

    def __init__(self, text: str) -> None:
        self._raw = bytearray(text.encode() + b"\0")
        self.at, self.nbytes = address_of(self._raw), len(self._raw) - 1


def joined(layout: Layout, rows: list[Mapping[str, int]]) -> Record:
    """Several structs in a row, as one record without names."""
    raw = b"".join(bytes(Record(layout, row).raw) for row in rows)
    made = Record(Layout(max(len(raw), 1), layout.align, {}))
    made.raw[: len(raw)] = raw
    return made

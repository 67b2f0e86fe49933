"""ELF64 files read within their bytes: sections, symbols, relocations, and one error for all else.

Libraries that read headers on demand meet a damaged file with whatever Python raises there. Here
every number is checked before it is used, and sections that overlap are refused where their bytes
are counted, so that a file of n bytes costs in proportion to n.

# src: System V gABI, chapter 4
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

NOBITS, REL, RELA, SYMTAB = 8, 9, 4, 2
MOST_SECTIONS = 8192
MOST_NAME_BYTES = 4096
MOST_ZEROS = 1 << 28
"""Of all sections without bytes in the file."""
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REL, _RELA = struct.Struct("<QQ"), struct.Struct("<QQq")
_IDENT = b"\x7fELF\x02\x01"
"""The magic number, 64 bits, little endian."""


class BadElf(ValueError):
    """A file that breaks a rule of ELF; the message says which."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section; `view` is empty where the file has no bytes of it."""

    number: int
    name: str
    kind: int
    flags: int
    nbytes: int
    link: int
    info: int
    view: memoryview

    def data(self) -> bytes:
        """Its bytes; zeros where the file has none, which `Elf.within` bounds."""
        return bytes(self.nbytes) if self.kind == NOBITS else self.view.tobytes()


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name and its place."""

    name: str
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in a section that depends on a symbol; `addend` is None where the place has it."""

    offset: int
    kind: int
    symbol: int
    addend: int | None


class Elf:
    """A file, with all its section headers checked. Raises: BadElf, from every method."""

    def __init__(self, blob: bytes) -> None:
        self._file = memoryview(blob)
        if blob[: len(_IDENT)] != _IDENT or len(blob) < _HEADER.size:
            raise BadElf("no little-endian ELF64 file")
        head = _HEADER.unpack_from(blob)
        start, self.flags, each, count, names = head[6], head[7], *head[11:14]
        if not 0 < count <= MOST_SECTIONS or each != _SECTION.size:
            raise BadElf(f"{count} section headers of {each} bytes")
        table = self._part(start, count * each, "the section headers")
        rows = list(_SECTION.iter_unpack(table))
        if names >= count:
            raise BadElf(f"names are in section {names} of {count}")
        strings = self._bytes_of(names, rows[names])
        self.sections = [
            Section(
                number, _name(strings, row[0]), row[1], row[2], row[5], row[6], row[7],
                self._bytes_of(number, row),
            )
            for number, row in enumerate(rows)
        ]  # fmt: skip

    def _part(self, at: int, nbytes: int, what: str) -> memoryview:
        if at > len(self._file) or nbytes > len(self._file) - at:
            raise BadElf(f"{what} at {at:#x}+{nbytes:#x} are outside of {len(self._file)} bytes")
        return self._file[at : at + nbytes]

    def _bytes_of(self, number: int, row: tuple[int, ...]) -> memoryview:
        if row[1] == NOBITS:
            return memoryview(b"")
        return self._part(row[4], row[5], f"the bytes of section {number}")

    def section(self, number: int) -> Section:
        """The section with a number."""
        if not 0 <= number < len(self.sections):
            raise BadElf(f"section {number} of {len(self.sections)}")
        return self.sections[number]

    def within(self, sections: list[Section]) -> list[Section]:
        """The same sections, if their bytes are no more than the file's, and zeros are bounded."""
        if sum(len(one.view) for one in sections) > len(self._file):
            raise BadElf("sections overlap in the file")
        zeros = sum(one.nbytes for one in sections if one.kind == NOBITS)
        if zeros > MOST_ZEROS:
            raise BadElf(f"{zeros} bytes of zeros")
        return sections

    def symbols(self) -> list[Symbol]:
        """All of the symbol table, in order; none without a table."""
        tables = [one for one in self.sections if one.kind == SYMTAB]
        if not tables:
            return []
        strings = self.section(tables[0].link).view
        rows = _whole(tables[0], _SYMBOL)
        return [Symbol(_name(strings, row[0]), row[3], row[4]) for row in rows]

    def relocations(self, table: Section) -> Iterator[Relocation]:
        """Relocations of a section of kind REL or RELA."""
        for row in _whole(table, _REL if table.kind == REL else _RELA):
            addend = row[2] if table.kind == RELA else None
            yield Relocation(row[0], row[1] & 0xFFFF_FFFF, row[1] >> 32, addend)


def _whole(table: Section, row: struct.Struct) -> Iterator[tuple[int, ...]]:
    if len(table.view) % row.size:
        raise BadElf(f"section {table.name!a} is no table: {len(table.view)} bytes")
    return row.iter_unpack(table.view)


def _name(strings: memoryview, at: int) -> str:
    text = strings[at : at + MOST_NAME_BYTES].tobytes()
    name, end, _ = text.partition(b"\0")
    if not end:
        raise BadElf(f"the name at {at:#x} has no end")
    shown = name.decode("ascii", "replace")
    if not shown.isascii() or not shown.isprintable():
        raise BadElf(f"the name at {at:#x} is no text that can be printed: {shown[:40]!a}")
    return shown

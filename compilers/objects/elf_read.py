"""Reading a relocatable ELF64 object within bounds: sections, symbols, relocations.

pyelftools reads the headers; tables are walked as fixed records, so that an object of n bytes costs
time and memory in proportion to n, whatever its headers claim.

Source: System V gABI, chapter 4.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.constants import SH_FLAGS
from elftools.elf.structs import ELFStructs

from drivers.base.errors import MalformedInput
from drivers.base.view import View

SECTIONS_LIMIT = 1024
ALIGN_LIMIT_BYTES = 4096
NAME_LIMIT_BYTES = 512
_HEADER_BYTES = 64
_RESERVED = 0xFF00
_RELA, _RELA_BYTES = "QIIq", 24
_SYM, _SYM_BYTES = "IBBHQQ", 24
_FUNCTION, _TYPE_MASK = 2, 0xF  # STT_FUNC, low half of st_info
_LOCAL, _BIND_SHIFT = 0, 4  # STB_LOCAL, high half of st_info
_REFUSED = SH_FLAGS.SHF_TLS | SH_FLAGS.SHF_COMPRESSED
_UNWINDING = frozenset({".eh_frame", ".ARM.exidx"})


@dataclass(frozen=True, slots=True)
class Section:
    """A section that is loaded; `data` is None for zeros."""

    number: int
    code: bool
    align: int
    nbytes: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name and its place; section 0 is outside of this object."""

    name: str
    section: int
    value: int
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in a loaded section that depends on a symbol."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


@functools.cache
def _structs(machine: str) -> ELFStructs:
    structs = ELFStructs(little_endian=True, elfclass=64)
    structs.create_basic_structs()
    structs.create_advanced_structs("ET_REL", machine, "ELFOSABI_SYSV")
    return structs


class Object:
    """The bytes of one object file, with its header checked."""

    def __init__(self, blob: bytes, machine: str) -> None:
        if blob[:6] != b"\x7fELF\x02\x01":
            raise MalformedInput("ELF: not a little-endian ELF64 file")
        self._file, self._structs = View(blob, "ELF"), _structs(machine)
        head = self._parse(self._structs.Elf_Ehdr, 0, "file header")
        if head["e_type"] != "ET_REL" or head["e_machine"] != machine:
            raise MalformedInput(
                f"ELF: {head['e_type']} for {head['e_machine']}, not a relocatable for {machine}"
            )
        self.flags = int(head["e_flags"])
        count, start = head["e_shnum"], head["e_shoff"]
        if head["e_shentsize"] != _HEADER_BYTES or not 0 < count <= SECTIONS_LIMIT:
            raise MalformedInput(f"ELF: {count} section headers of {head['e_shentsize']} bytes")
        self._file.sub(start, count * _HEADER_BYTES, "section headers")
        self._heads = [
            self._parse(self._structs.Elf_Shdr, start + i * _HEADER_BYTES, f"section header {i}")
            for i in range(count)
        ]
        self._names = self._body(head["e_shstrndx"], "SHT_STRTAB")
        tables = [i for i, h in enumerate(self._heads) if h["sh_type"] == "SHT_SYMTAB"]
        if len(tables) != 1:
            raise MalformedInput(f"ELF: {len(tables)} symbol tables, expected one")
        self._table_number = tables[0]
        self._table = self._body(tables[0], "SHT_SYMTAB")
        if len(self._table) % _SYM_BYTES:
            raise MalformedInput(f"ELF: a symbol table of {len(self._table)} bytes")
        self._strings = self._body(self._heads[tables[0]]["sh_link"], "SHT_STRTAB")
        self._symbols: dict[int, Symbol] = {}

    def _parse(self, record: Any, at: int, what: str) -> Any:
        stream = io.BytesIO(self._file.bytes(at, _HEADER_BYTES, what))
        try:
            return struct_parse(record, stream, stream_pos=0)
        except ELFError as error:
            raise MalformedInput(f"ELF: {what} at {at:#x}: {error}") from error

    def _body(self, number: int, kind: str) -> View:
        if number >= len(self._heads) or self._heads[number]["sh_type"] != kind:
            raise MalformedInput(f"ELF: section {number} is not a {kind}")
        head = self._heads[number]
        return self._file.sub(head["sh_offset"], head["sh_size"], f"section {number}")

    def sections(self) -> list[Section]:
        """Loaded sections: allocated ones with contents or zeros, without unwinding tables."""
        found, total_bytes = [], 0
        for number, head in enumerate(self._heads):
            if not head["sh_flags"] & SH_FLAGS.SHF_ALLOC or head["sh_type"] == "SHT_NOTE":
                continue
            name = self._names.cstr(head["sh_name"], NAME_LIMIT_BYTES, "name of a section")
            if name in _UNWINDING:
                continue
            total_bytes += 0 if head["sh_type"] == "SHT_NOBITS" else head["sh_size"]
            if total_bytes > len(self._file):
                raise MalformedInput("ELF: sections overlap in the file")
            found.append(self._section(number, head))
        return found

    def _section(self, number: int, head: Any) -> Section:
        kind, align, flags = head["sh_type"], head["sh_addralign"] or 1, head["sh_flags"]
        if kind not in ("SHT_PROGBITS", "SHT_NOBITS") or flags & _REFUSED or head["sh_addr"]:
            raise MalformedInput(f"ELF: cannot load section {number}: {kind}, flags {flags:#x}")
        if align & (align - 1) or align > ALIGN_LIMIT_BYTES:
            raise MalformedInput(f"ELF: section {number} has alignment {align:#x}")
        data = None if kind == "SHT_NOBITS" else self._body(number, kind).data.tobytes()
        code = bool(flags & SH_FLAGS.SHF_EXECINSTR)
        return Section(number, code, align, head["sh_size"], data)

    def notes(self) -> list[View]:
        """The note sections."""
        return [
            self._body(number, "SHT_NOTE")
            for number, head in enumerate(self._heads)
            if head["sh_type"] == "SHT_NOTE"
        ]

    def relocations(self, loaded: set[int]) -> list[Relocation]:
        """Every relocation of the loaded sections."""
        found: list[Relocation] = []
        for number, head in enumerate(self._heads):
            if head["sh_type"] == "SHT_REL" and head["sh_info"] in loaded:
                raise MalformedInput(f"ELF: section {number} has relocations without addends")
            if head["sh_type"] == "SHT_RELA" and head["sh_info"] in loaded:
                found.extend(self._rela(number, head))
                if len(found) > len(self._file) // _RELA_BYTES:
                    raise MalformedInput("ELF: relocation tables overlap in the file")
        return found

    def _rela(self, number: int, head: Any) -> Iterator[Relocation]:
        body, section = self._body(number, "SHT_RELA"), head["sh_info"]
        if len(body) % _RELA_BYTES or head["sh_link"] != self._table_number:
            raise MalformedInput(f"ELF: relocation table {number} is {len(body)} bytes")
        if self._heads[section]["sh_type"] == "SHT_NOBITS":
            raise MalformedInput(f"ELF: relocations of section {section}, which has no bytes")
        room = self._heads[section]["sh_size"]
        table = body.table(_RELA, 0, len(body) // _RELA_BYTES, "relocations")
        for offset, kind, symbol, addend in table:
            if offset + 4 > room:
                raise MalformedInput(f"ELF: relocation at {offset:#x} leaves section {section}")
            yield Relocation(section, offset, kind, self._symbol(symbol), addend)

    def _symbol(self, index: int) -> Symbol:
        found = self._symbols.get(index)
        if found is None:
            record = self._table.unpack(_SYM, index * _SYM_BYTES, f"symbol {index}")
            found = self._decode(*record)
            self._symbols[index] = found
        return found

    def _decode(
        self, at: int, _info: int, _other: int, section: int, value: int, nbytes: int
    ) -> Symbol:
        name = self._strings.cstr(at, NAME_LIMIT_BYTES, "name of a symbol")
        if not section and not name:
            raise MalformedInput("ELF: a relocation without a symbol")
        if section >= _RESERVED or section >= len(self._heads):
            raise MalformedInput(f"ELF: symbol {name!r} is in section {section:#x}")
        if section and value > self._heads[section]["sh_size"]:
            raise MalformedInput(f"ELF: symbol {name!r} at {value:#x} leaves its section")
        return Symbol(name, section, value, nbytes)

    def function(self, name: str) -> Symbol:
        """The symbol called `name` that this object defines."""
        for record in self._defined():
            if self._starts(record[0], name.encode() + b"\0"):
                return self._decode(*record)
        raise MalformedInput(f"ELF: the object defines no {name!r}")

    def functions(self) -> list[str]:
        """Names of the functions it defines, global ones first."""
        found = [
            (record[1] >> _BIND_SHIFT == _LOCAL, self._decode(*record).name)
            for record in self._defined()
            if record[1] & _TYPE_MASK == _FUNCTION
        ]
        return [name for _, name in sorted(found, key=lambda item: item[0])]

    def _defined(self) -> list[tuple[Any, ...]]:
        table = self._table.table(_SYM, 0, len(self._table) // _SYM_BYTES, "symbols")
        return [record for record in table if record[3]]

    def _starts(self, at: int, wanted: bytes) -> bool:
        return bytes(self._strings.data[at : at + len(wanted)]) == wanted

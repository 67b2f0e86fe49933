"""A cubin's ELF structure within bounds: header, sections by name, symbols, relocations.

Source: System V gABI, chapter 4; the header's NVIDIA fields as `cuobjdump -elf` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from drivers.base.errors import MalformedInput
from drivers.base.view import View

SECTIONS_LIMIT: Final = 4096
SYMBOLS_LIMIT: Final = 1 << 16
RELOCATIONS_LIMIT: Final = 1 << 14
NAME_LIMIT_BYTES: Final = 512
LOADED_LIMIT_BYTES: Final = 16 << 20
EM_CUDA: Final = 190
NOBITS: Final = 8
_HEADER, _HEADER_BYTES = "16sHHIQQQIHHHHHH", 64
_SECTION, _SECTION_BYTES = "IIQQQQIIQQ", 64
_SYMBOL, _SYMBOL_BYTES = "IBBHQQ", 24
_RELA, _RELA_BYTES = "QIIq", 24
_REL, _REL_BYTES = "QII", 16
_OSABI_AT, _ABI_VERSION_AT = 7, 8
# src: cuobjdump of cubins by nvrtc 12.9 (51, version 7) and 13.5 (65, version 8)
_OLD_ABI, _NEW_ABI = (51, 7), (65, 8)
_NEW_SM_SHIFT, _SM_MASK = 8, 0xFF
_SYMTAB, _RELA_KIND, _REL_KIND = 2, 4, 9
_FUNCTION, _TYPE_MASK = 2, 0xF
_ENTRY: Final = 0x10
"""Of st_other: a kernel. # src: nvdisasm and cuobjdump, "STO_ENTRY" """


@dataclass(frozen=True, slots=True)
class Section:
    """One section; the bytes are read when they are asked for."""

    number: int
    name: str
    kind: int
    flags: int
    offset: int
    nbytes: int
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol; section 0 is outside of this file."""

    number: int
    name: str
    section: int
    value: int
    nbytes: int
    function: bool
    kernel: bool


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place of a section that depends on a symbol."""

    offset: int
    kind: int
    symbol: Symbol
    addend: int | None
    """None: it is what the place holds."""


def is_cubin(blob: bytes) -> bool:
    """Whether the bytes start like a cubin."""
    machine = int.from_bytes(blob[18:20], "little")
    return blob[:6] == b"\x7fELF\x02\x01" and machine == EM_CUDA


class CubinFile:
    """The bytes of one cubin, with its header checked. Raises: MalformedInput."""

    def __init__(self, blob: bytes) -> None:
        self.view = View(blob, "cubin")
        head = self.view.unpack(_HEADER, 0, "file header")
        if not is_cubin(blob):
            raise self.view.fail("not a little-endian ELF64 file for NVIDIA GPUs")
        self.abi = (head[0][_OSABI_AT], head[0][_ABI_VERSION_AT])
        if self.abi not in (_OLD_ABI, _NEW_ABI):
            raise self.view.fail(f"OS ABI {self.abi[0]}, version {self.abi[1]}", _OSABI_AT)
        self.flags, start, (each, count, names) = head[7], head[6], head[11:14]
        if each != _SECTION_BYTES or not 0 < count <= SECTIONS_LIMIT or names >= count:
            raise self.view.fail(f"{count} section headers of {each} bytes")
        heads = self.view.table(_SECTION, start, count, "section headers")
        text = self.view.sub(heads[names][4], heads[names][5], "names of sections")
        self.sections = [
            Section(
                i, text.cstr(h[0], NAME_LIMIT_BYTES, "name"), h[1], h[2], h[4], h[5], h[6], h[7]
            )
            for i, h in enumerate(heads)
        ]
        self.by_name = {section.name: section for section in self.sections}
        self.symbols = list(self._symbols())

    @property
    def sm(self) -> int:
        """The compute capability of the code."""
        shift = _NEW_SM_SHIFT if self.abi == _NEW_ABI else 0
        return int(self.flags >> shift & _SM_MASK)

    def body(self, section: Section) -> View:
        """A section's bytes."""
        if section.kind == NOBITS:
            raise self.view.fail(f"{section.name} has no bytes")
        return self.view.sub(section.offset, section.nbytes, section.name)

    def _symbols(self) -> Iterator[Symbol]:
        tables = [section for section in self.sections if section.kind == _SYMTAB]
        if len(tables) != 1 or tables[0].link >= len(self.sections):
            raise self.view.fail(f"{len(tables)} symbol tables, expected one")
        body, names = self.body(tables[0]), self.body(self.sections[tables[0].link])
        count, rest = divmod(len(body), _SYMBOL_BYTES)
        if count > SYMBOLS_LIMIT or rest:
            raise body.fail(
                f"{len(body)} bytes of symbols, of {_SYMBOL_BYTES} each, at most {SYMBOLS_LIMIT}"
            )
        for number, (at, info, other, section, value, nbytes) in enumerate(
            body.table(_SYMBOL, 0, count, "symbols")
        ):
            name = names.cstr(at, NAME_LIMIT_BYTES, "name of a symbol")
            function = info & _TYPE_MASK == _FUNCTION
            kernel = function and bool(other & _ENTRY)
            yield Symbol(number, name, section, value, nbytes, function, kernel)

    def kernels(self) -> list[Symbol]:
        """Its kernels."""
        return [symbol for symbol in self.symbols if symbol.kernel and symbol.section]

    def relocations(self, section: Section) -> Iterator[Relocation]:
        """Those of one section."""
        for table in self.sections:
            if table.info != section.number or table.kind not in (_RELA_KIND, _REL_KIND):
                continue
            body, with_addend = self.body(table), table.kind == _RELA_KIND
            layout, each = (_RELA, _RELA_BYTES) if with_addend else (_REL, _REL_BYTES)
            count, rest = divmod(len(body), each)
            if count > RELOCATIONS_LIMIT or rest:
                raise body.fail(
                    f"{len(body)} bytes of relocations, of {each} each, at most {RELOCATIONS_LIMIT}"
                )
            for offset, kind, symbol, *addend in body.table(layout, 0, count, "relocations"):
                if symbol >= len(self.symbols):
                    raise body.fail(f"a relocation by symbol {symbol}")
                yield Relocation(offset, kind, self.symbols[symbol], addend[0] if addend else None)

    def fail(self, rule: str) -> MalformedInput:
        """The error for a rule that the file breaks."""
        return self.view.fail(rule)

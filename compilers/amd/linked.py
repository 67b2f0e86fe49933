"""Reading a linked code object (an HSACO, ET_DYN): segments, dynamic symbols, relocations.

Source: System V gABI, chapter 5; LLVM AMDGPUUsage, "Code Object".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compilers.amd.relocs import R_AMDGPU_ABS64, R_AMDGPU_RELATIVE64
from compilers.amd.targets import PAGE_BYTES
from compilers.objects.elf import IMAGE_LIMIT_BYTES
from compilers.objects.elf_read import NAME_LIMIT_BYTES, Symbol
from drivers.base.contracts import Fixup
from drivers.base.view import View

SEGMENTS_LIMIT: Final = 64
DYNAMIC_LIMIT: Final = 128
SYMBOLS_LIMIT: Final = 8192
FIXUPS_LIMIT: Final = 8192
_HEADER: Final = "16sHHIQQQIHHHHHH"
_SEGMENT, _SEGMENT_BYTES = "IIQQQQQQ", 56
_DYNAMIC, _DYNAMIC_BYTES = "qQ", 16
_SYM, _SYM_BYTES = "IBBHQQ", 24
_RELA, _RELA_BYTES = "QIIq", 24
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_EXECUTE, _WRITE = 1, 2
_DT_NULL, _DT_PLTRELSZ, _DT_HASH, _DT_STRTAB, _DT_SYMTAB = 0, 2, 4, 5, 6
_DT_RELA, _DT_RELASZ, _DT_STRSZ, _DT_REL = 7, 8, 10, 17
_DT_GNU_HASH: Final = 0x6FFFFEF5
_RESERVED: Final = 0xFF00
_ADDRESS_BYTES: Final = 8
_WORD_BYTES: Final = 4
_GNU_HEAD_BYTES: Final = 16
"""Buckets, first symbol, bloom words, bloom shift. # src: glibc elf/dl-lookup.c"""


@dataclass(frozen=True, slots=True)
class _Segment:
    """One program header."""

    kind: int
    flags: int
    off: int
    at: int
    file_bytes: int
    nbytes: int


class Linked:
    """The loaded image of one linked code object, and the tables in it."""

    def __init__(self, blob: bytes) -> None:
        self._file = View(blob, "code object")
        head = self._file.unpack(_HEADER, 0, "file header")
        self.flags = int(head[7])
        start, size, count = head[5], head[9], head[10]
        if size != _SEGMENT_BYTES or not 0 < count <= SEGMENTS_LIMIT:
            raise self._file.fail(f"{count} program headers of {size} bytes")
        table = self._file.table(_SEGMENT, start, count, "program headers")
        self._segments = [_Segment(k, f, o, v, fb, n) for k, f, o, v, _, fb, n, _ in table]
        self.image, self.code_end = self._load()
        self._view = View(self.image, "image")
        self._tags = self._dynamic()
        self._strings = self._part(_DT_STRTAB, self._tags.get(_DT_STRSZ, 0), "names")
        self._symbols = self._symbol_table()

    def _load(self) -> tuple[bytes, int]:
        """The image, and where its last executable segment ends."""
        image, code_end, writable = bytearray(), 0, False
        for part in self._segments:
            if part.kind != _PT_LOAD:
                continue
            if part.at < len(image) or part.at + part.nbytes > IMAGE_LIMIT_BYTES:
                raise self._file.fail(f"a segment at {part.at:#x}+{part.nbytes:#x}", part.off)
            if part.file_bytes > part.nbytes:
                raise self._file.fail("a segment with more bytes than room", part.off)
            data = self._file.bytes(part.off, part.file_bytes, "segment")
            image += bytes(part.at - len(image)) + data + bytes(part.nbytes - part.file_bytes)
            writable |= bool(part.flags & _WRITE)
            if part.flags & _EXECUTE:
                code_end = len(image)
                if writable:
                    raise self._file.fail("code in or behind writable data", part.off)
        return bytes(image), code_end

    @property
    def data_offset(self) -> int:
        """Where the first writable segment's page starts, or the end of the image."""
        starts = [s.at for s in self._segments if s.kind == _PT_LOAD and s.flags & _WRITE]
        start = min(starts, default=len(self.image))
        page = start - start % PAGE_BYTES
        return page if page >= self.code_end else start

    def notes(self) -> list[View]:
        """The note segments."""
        return [
            self._file.sub(part.off, part.file_bytes, "note")
            for part in self._segments
            if part.kind == _PT_NOTE
        ]

    def _dynamic(self) -> dict[int, int]:
        parts = [part for part in self._segments if part.kind == _PT_DYNAMIC]
        if len(parts) != 1:
            raise self._file.fail(f"{len(parts)} dynamic segments, expected one")
        if parts[0].nbytes % _DYNAMIC_BYTES:
            raise self._file.fail(f"a dynamic section of {parts[0].nbytes} bytes", parts[0].at)
        count = min(parts[0].nbytes // _DYNAMIC_BYTES, DYNAMIC_LIMIT)
        tags: dict[int, int] = {}
        for tag, value in self._view.table(_DYNAMIC, parts[0].at, count, "dynamic section"):
            if tag == _DT_NULL:
                break
            tags.setdefault(tag, value)
        if tags.get(_DT_REL) or tags.get(_DT_PLTRELSZ):
            raise self._view.fail("relocations without addends, or of calls", parts[0].at)
        return tags

    def _part(self, tag: int, nbytes: int, what: str) -> View:
        if tag not in self._tags:
            raise self._view.fail(f"no {what} in the dynamic section")
        return self._view.sub(self._tags[tag], nbytes, what)

    def _symbol_table(self) -> list[tuple[int, int, int, int, int, int]]:
        count = self._symbol_count()
        if count > SYMBOLS_LIMIT:
            raise self._view.fail(f"{count} symbols, more than {SYMBOLS_LIMIT}")
        table = self._part(_DT_SYMTAB, count * _SYM_BYTES, "symbols")
        return [(a, b, c, d, e, f) for a, b, c, d, e, f in table.table(_SYM, 0, count, "symbols")]

    def _symbol_count(self) -> int:
        """Number of symbols: a field of System V's hash table, or the end of GNU's last chain."""
        if _DT_HASH in self._tags:
            return self._part(_DT_HASH, 2 * _WORD_BYTES, "hash table").u32(_WORD_BYTES, "chains")
        start = self._part(_DT_GNU_HASH, _GNU_HEAD_BYTES, "hash table")
        buckets, first, bloom, _ = start.unpack("IIII", 0, "hash table")
        if buckets > SYMBOLS_LIMIT:
            raise self._view.fail(f"a hash table of {buckets} buckets")
        at = self._tags[_DT_GNU_HASH] + _GNU_HEAD_BYTES + bloom * _ADDRESS_BYTES
        heads = self._view.table("I", at, buckets, "buckets of the hash table")
        last = max((head for (head,) in heads), default=0)
        if last < first:
            return int(first)
        at += buckets * _WORD_BYTES
        for number in range(last, last + SYMBOLS_LIMIT):
            if self._view.u32(at + (number - first) * _WORD_BYTES, "hash chain") & 1:
                return number + 1
        raise self._view.fail("a hash chain without an end", at)

    def find(self, name: str) -> Symbol | None:
        """The defined symbol of that name; `value` is its place in the image."""
        wanted = name.encode() + b"\0"
        for at, _, _, section, value, nbytes in self._symbols:
            found = bytes(self._strings.data[at : at + len(wanted)])
            if section and section < _RESERVED and found == wanted:
                return Symbol(name, section, value, nbytes)
        return None

    def names(self) -> list[str]:
        """The names of the defined symbols."""
        return [
            self._strings.cstr(at, NAME_LIMIT_BYTES, "name of a symbol")
            for at, _, _, section, _, _ in self._symbols
            if section
        ]

    def fixups(self) -> tuple[Fixup, ...]:
        """The places that hold an address of the image."""
        nbytes = self._tags.get(_DT_RELASZ, 0)
        if not nbytes:
            return ()
        if nbytes > FIXUPS_LIMIT * _RELA_BYTES or nbytes % _RELA_BYTES:
            raise self._view.fail(f"{nbytes} bytes of relocations")
        body = self._part(_DT_RELA, nbytes, "relocations")
        table = body.table(_RELA, 0, nbytes // _RELA_BYTES, "relocations")
        return tuple(self._fixup(place, kind, sym, add) for place, kind, sym, add in table)

    def _fixup(self, place: int, kind: int, symbol: int, addend: int) -> Fixup:
        goal = addend
        if kind == R_AMDGPU_ABS64 and symbol < len(self._symbols) and self._symbols[symbol][3]:
            goal += self._symbols[symbol][4]
        elif kind != R_AMDGPU_RELATIVE64:
            raise self._view.fail(f"relocation {kind} of symbol {symbol}", place)
        if place + _ADDRESS_BYTES > len(self.image) or not 0 <= goal <= len(self.image):
            raise self._view.fail(f"an address of {goal:#x} leaves the image", place)
        return Fixup(place, "", goal)

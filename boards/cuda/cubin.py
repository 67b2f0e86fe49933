"""A cubin, read as a loader reads it: code, constant banks, variables, and what kernels need.

# src: System V gABI, chapter 4; attributes and their numbers as `cuobjdump -elf` prints them;
# e_flags: cuobjdump of cubins by nvrtc 12.9 and 13.5
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np

from boards.machine.arrays import Array
from boards.machine.elf import REL, RELA, BadElf, Elf, Section, Symbol

_EM_CUDA = 190
_NEW_VERSION = 8
_KPARAM, _CBANK, _MAX_THREADS, _REQUIRED_THREADS = 0x17, 0x0A, 0x05, 0x10
_REGCOUNT, _FRAME, _MIN_STACK, _BARRIERS = 0x2F, 0x11, 0x12, 0x4C
_SIZED = 4
_BANK = re.compile(r"\.nv\.constant([1-7])(?:\.(.+))?")
_ABSOLUTE_64 = 2
_INSTRUCTION, _ADDRESS = 16, 8
_FIELDS = {
    2: ((0, 64, 0),), 56: ((32, 32, 0),), 57: ((32, 32, 32),), 58: ((34, 47, 2),),
    75: ((16, 8, 2), (34, 47, 10)),
}  # fmt: skip
"""First bit, bits, and shift of an address, by a relocation's kind: a word of 64 bits, MOV 32@lo(),
MOV 32@hi(), CALL.ABS until sm_89 and from sm_90 on. # src: cubins and nvdisasm of CUDA 13.5"""
RESERVED_SHARED = 1 << 10
"""Of a block on sm_80 and later. # src: NVIDIA Ampere GPU Architecture Tuning Guide, 1.4.2.3"""


class BadImage(Exception):
    """No cubin that can be loaded."""


@dataclass
class KernelCode:
    """One kernel."""

    name: str
    code: bytes
    registers: int = 0
    local_bytes: int = 0
    shared_bytes: int = 0
    barriers: int = 0
    max_threads: int = 0
    param_offset: int = 0
    param_bytes: int = 0
    bank0_bytes: int = 0
    params: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Ordinal -> (offset, bytes)."""


@dataclass(frozen=True)
class Fixup:
    """Bits of a section that hold an address of another one, or of itself."""

    section: str
    offset: int
    kind: int
    target: str
    addend: int

    def fill(self, data: Array, address: int) -> None:
        """Put the address in; `data` is the section, and an instruction's bytes behind it."""
        at = slice(self.offset, self.offset + _INSTRUCTION)
        word = int.from_bytes(data[at].tobytes(), "little")
        for low, bits, shift in _FIELDS[self.kind]:
            ones = (1 << bits) - 1
            word = word & ~(ones << low) | (address >> shift & ones) << low
        data[at] = np.frombuffer(word.to_bytes(_INSTRUCTION, "little"), np.uint8)


@dataclass
class Image:
    """A cubin: kernels, data of sections, and where addresses of sections are to be put."""

    sm: int
    kernels: dict[str, KernelCode]
    data: dict[str, bytes]
    """Of constant banks 1 to 7 and of variables, by section."""
    functions: dict[str, bytes]
    """Code that kernels call, by section."""
    fixups: list[Fixup]
    """(section, offset, section whose address is wanted, bytes behind its beginning)."""


def banks_of(image: Image, kernel: str) -> dict[int, str]:
    """Number of a constant bank -> its section, for one kernel."""
    found = {}
    for name in image.data:
        match = _BANK.fullmatch(name)
        if match is not None and match[2] in (None, kernel):
            found[int(match[1])] = name
    return found


def file_bytes(head: bytes) -> int:
    """Size of the file whose first 64 bytes these are. Raises: BadImage."""
    if head[:6] != b"\x7fELF\x02\x01" or int.from_bytes(head[18:20], "little") != _EM_CUDA:
        raise BadImage("no little-endian ELF64 file for NVIDIA GPUs")
    segments, sections = struct.unpack_from("<QQ", head, 32)
    each_segment, segment_count, each, count = struct.unpack_from("<4H", head, 54)
    end: int = max(segments + each_segment * segment_count, sections + each * count)
    if not 64 < end < 1 << 28:
        raise BadImage(f"a file of {end} bytes")
    return end


def load(blob: bytes) -> Image:
    """Take a cubin apart. Raises: BadImage."""
    try:
        return _load(Elf(blob), blob)
    except (BadElf, struct.error, KeyError) as error:
        raise BadImage(f"{type(error).__name__}: {error}") from error


def _load(file: Elf, blob: bytes) -> Image:
    sections = {section.name: section for section in file.within(file.sections)}
    shift = 8 if blob[8] == _NEW_VERSION else 0
    sm = file.flags >> shift & 0xFF
    symbols = file.symbols()
    kernels, functions = {}, {}
    for name, section in sections.items():
        if not name.startswith(".text."):
            continue
        kernel = name.removeprefix(".text.")
        if f".nv.constant0.{kernel}" in sections:  # functions have no parameters there
            kernels[kernel] = _kernel(kernel, section, sections, symbols, sm)
        else:
            functions[name] = section.data()
    data = {
        name: section.data()
        for name, section in sections.items()
        if (_BANK.fullmatch(name) or name in (".nv.global", ".nv.global.init")) and section.nbytes
    }
    code = {f".text.{one.name}": one.code for one in kernels.values()}
    fixups = list(_fixups(file, symbols, {**data, **functions, **code}))
    return Image(sm, kernels, data, functions, fixups)


def _kernel(
    name: str, text: Section, sections: dict[str, Section], symbols: list[Symbol], sm: int
) -> KernelCode:
    made = KernelCode(name, text.data())
    number = next((i for i, symbol in enumerate(symbols) if symbol.name == name), -1)
    if number < 0:
        raise BadImage(f"no symbol {name!a}")
    for attribute, payload, _ in _records(sections[".nv.info"].data()):
        if attribute in (_REGCOUNT, _FRAME, _MIN_STACK) and len(payload) >= 8:
            which, amount = struct.unpack_from("<II", payload)
            if which == number and attribute == _REGCOUNT:
                made.registers = amount
            elif which == number:
                made.local_bytes = max(made.local_bytes, amount)
    made.barriers = text.flags >> 20 & 0x7F
    for attribute, payload, value in _records(sections[f".nv.info.{name}"].data()):
        if attribute == _CBANK:
            _, made.param_offset, made.param_bytes = struct.unpack_from("<IHH", payload)
        elif attribute == _KPARAM:
            _, ordinal, offset, packed = struct.unpack_from("<IHHI", payload)
            made.params[ordinal] = offset, packed >> 18
        elif attribute in (_MAX_THREADS, _REQUIRED_THREADS):
            made.max_threads = prod(struct.unpack_from("<3I", payload))
        elif attribute == _BARRIERS:
            made.barriers = value & 0xFF
    made.bank0_bytes = sections[f".nv.constant0.{name}"].nbytes
    shared = sections.get(f".nv.shared.{name}")
    made.shared_bytes = shared.nbytes if shared is not None else 0
    if sm >= 80 and sm < 90:
        made.shared_bytes += RESERVED_SHARED
    return made


def _records(data: bytes) -> list[tuple[int, bytes, int]]:
    """(attribute, payload, value) of each record of a .nv.info section."""
    found, at = [], 0
    while at + 4 <= len(data):
        kind, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        size = value if kind == _SIZED else 0
        found.append((attribute, data[at : at + size], value))
        at += size
    return found


def _fixups(file: Elf, symbols: list[Symbol], data: dict[str, bytes]) -> Iterator[Fixup]:
    for table in file.sections:
        if table.kind not in (REL, RELA):
            continue
        name = file.section(table.info).name
        if name not in data:
            continue
        for one in file.relocations(table):
            if one.kind not in _FIELDS:
                raise BadImage(f"{name}: a relocation of kind {one.kind}")
            if one.symbol >= len(symbols) or one.offset + _ADDRESS > len(data[name]):
                raise BadImage(f"{name}: a relocation of symbol {one.symbol} at {one.offset:#x}")
            symbol = symbols[one.symbol]
            target = file.section(symbol.section).name
            addend = one.addend
            if addend is None:
                there = data[name][one.offset : one.offset + _ADDRESS]
                addend = int.from_bytes(there, "little") if one.kind == _ABSOLUTE_64 else 0
            yield Fixup(name, one.offset, one.kind, target, symbol.value + addend)

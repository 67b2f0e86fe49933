"""The code of a kernel: its own section, functions that it calls, and addresses that it holds.

nvJitLink leaves slow paths of divisions in sections of their own: a caller moves the address behind
the call into two registers, 32 bits each, and calls an absolute address. Addresses of tables, as
sines of large numbers need them, are moved in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from compilers.nv.cubin_file import NOBITS, CubinFile, Relocation, Section, Symbol
from drivers.base.errors import MalformedInput
from queues.nv.kernel_code import INSTRUCTION_BYTES, MAX_PATCHES, CodePatch, ConstantBank, Field

_FIELDS: Final = {56: Field.LOW, 57: Field.HIGH, 58: Field.TARGET, 75: Field.SPLIT_TARGET}
"""# src: cubins of nvJitLink 13.5 beside nvdisasm's text of the patched instructions"""
_ADDRESSES: Final = (56, 57)
"""Those that a variable's address may have, too."""
_TEXT: Final = ".text."
GLOBALS: Final = (".nv.global.init", ".nv.global")
"""Sections of variables in a GPU's memory."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The image, and where sections lie in it."""

    image: bytes
    code_bytes: int
    """Of the kernel and the functions that it calls, at the image's beginning."""
    places: dict[int, int]
    data_offset: int
    banks: tuple[ConstantBank, ...]
    patches: tuple[CodePatch, ...]


def kernel_section(file: CubinFile, symbol: Symbol) -> Section:
    """The section that is the kernel's code, and nothing else."""
    if symbol.section >= len(file.sections):
        raise file.fail(f"kernel {symbol.name!r} is in section {symbol.section}")
    code = file.sections[symbol.section]
    whole = symbol.value == 0 and symbol.nbytes == code.nbytes
    if code.name != f"{_TEXT}{symbol.name}" or not whole:
        raise file.fail(f"kernel {symbol.name!r} is not all of {code.name!r}")
    _check(file, code)
    return code


def _check(file: CubinFile, code: Section) -> None:
    if code.kind == NOBITS or not code.nbytes or code.nbytes % INSTRUCTION_BYTES:
        raise file.fail(f"{code.name} has {code.nbytes} bytes")


def with_called(file: CubinFile, code: Section) -> list[Section]:
    """A kernel's section, and those of the functions that it calls, directly or not."""
    found = [code]
    for section in found:  # grows by each section of the file once
        for relocation in file.relocations(section):
            called = _section_of(file, section, relocation)
            if called not in found and called.name not in GLOBALS:
                _check(file, called)
                found.append(called)
    return found


def _section_of(file: CubinFile, section: Section, relocation: Relocation) -> Section:
    symbol = relocation.symbol
    inside = 0 < symbol.section < len(file.sections)
    if relocation.kind not in _FIELDS or not inside:
        raise _refused(section, relocation)
    found = file.sections[symbol.section]
    variable = found.name in GLOBALS and relocation.kind in _ADDRESSES
    if not variable and not found.name.startswith(_TEXT):
        raise _refused(section, relocation)
    return found


def _refused(section: Section, relocation: Relocation) -> MalformedInput:
    return MalformedInput(
        f"cubin: {section.name} has a relocation of kind {relocation.kind} by "
        f"{relocation.symbol.name!r}",
        hint="The cubin's own functions and variables alone are linked here: no printf, no malloc",
    )


def patches(
    file: CubinFile, sections: list[Section], places: Mapping[int, int]
) -> tuple[CodePatch, ...]:
    """The addresses that code of the sections holds, laid out at `places` of the image."""
    found = tuple(patch for section in sections for patch in _patches(file, section, places))
    if len(found) > MAX_PATCHES:
        raise file.fail(f"{len(found)} addresses in code, more than {MAX_PATCHES}")
    return found


def _patches(file: CubinFile, section: Section, places: Mapping[int, int]) -> Iterator[CodePatch]:
    for relocation in file.relocations(section):
        owner = _section_of(file, section, relocation)
        at, goal = relocation.offset, relocation.symbol.value + (relocation.addend or 0)
        if at % INSTRUCTION_BYTES or at >= section.nbytes:
            raise file.fail(f"a relocation at {at:#x} leaves {section.name}")
        unit = 1 if owner.name in GLOBALS else INSTRUCTION_BYTES
        if goal % unit or not 0 <= goal < owner.nbytes:
            raise file.fail(f"an address of {goal:#x} leaves {owner.name}")
        places_of = places[section.number] + at, _FIELDS[relocation.kind]
        yield CodePatch(*places_of, places[owner.number] + goal)

"""SDWA of gfx9 and gfx10: a dword that picks bytes or words of operands and places the result."""

from __future__ import annotations

from dataclasses import dataclass

SDWA = 249
"""The code of source 0 that announces the dword."""
DWORD, WORD = 6, 4
"""Selections: 0..3 a byte, 4 and 5 a word, 6 everything."""
PAD, SEXT, PRESERVE = 0, 1, 2
"""What becomes of the bits that the result does not fill."""
_SELECTIONS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
_VGPR, _VCC = 256, 106


@dataclass(frozen=True, slots=True)
class Source:
    """One source: the 9-bit code, which part of it, and its signs."""

    code: int
    select: int
    extend: bool
    neg: bool
    abs: bool


@dataclass(frozen=True, slots=True)
class Sdwa:
    """The whole dword. `target` is the scalar destination of a compare."""

    sources: tuple[Source, Source]
    select: int = DWORD
    unused: int = PAD
    clamp: bool = False
    omod: int = 0
    target: int = _VCC


def parse(word: int, compare: bool, second: int) -> Sdwa | None:
    """The dword of an instruction whose source 1 is register `second`; None if reserved."""
    # src: RDNA2 ISA 13.3.8 and 13.3.9, SDWA and SDWAB (Vega ISA 13.3.9 and 13.3.10 agree).
    sources = (
        _source(word & 0xFF, word >> 16 & 0xFF),
        _source(second, word >> 24 & 0xFF),
    )
    if max(source.select for source in sources) > DWORD:
        return None
    if compare:
        return Sdwa(sources, target=word >> 8 & 0x7F if word >> 15 & 1 else _VCC)
    select, unused = word >> 8 & 7, word >> 11 & 3
    if select > DWORD or unused > PRESERVE:
        return None
    return Sdwa(sources, select, unused, bool(word >> 13 & 1), word >> 14 & 3)


def _source(register: int, bits: int) -> Source:
    code = register if bits >> 7 else register + _VGPR
    return Source(code, bits & 7, bool(bits >> 3 & 1), bool(bits >> 4 & 1), bool(bits >> 5 & 1))


def shown(sdwa: Sdwa, *, compare: bool, two: bool) -> str:
    """The modifiers as assembly prints them, clamp and scale excepted."""
    text = ""
    if not compare:
        text = f" dst_sel:{_SELECTIONS[sdwa.select]} dst_unused:{_UNUSED[sdwa.unused]}"
    first, second = sdwa.sources
    text += f" src0_sel:{_SELECTIONS[first.select]}"
    return text + (f" src1_sel:{_SELECTIONS[second.select]}" if two else "")

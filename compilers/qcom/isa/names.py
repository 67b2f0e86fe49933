"""Operands as Mesa writes them, and back.

# src: Mesa 25.0.7, src/freedreno/isa/ir3-common.xml
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from typing import Final

from compilers.qcom.isa.bits import refused
from compilers.qcom.isa.instruction import Type
from compilers.qcom.isa.operand import A0_X, A1_X, FLUT, P0_X, Kind, Operand

COMPONENTS: Final = "xyzw"
_FIRST_SPECIAL: Final = A0_X // 4
_MARKS: Final = re.compile(r"\((last|neg|abs|absneg|r)\)")
_REGISTER: Final = re.compile(r"(h?)([rc])(\d+)\.([xyzw])")
_SPECIAL: Final = re.compile(r"(h?)([ap])([01])\.([xyzw])")
_RELATIVE: Final = re.compile(r"(h?)([rc])<a0\.x(?: ([+-]) (-?\d+))?>")
_INTEGER: Final = re.compile(r"(h?)\(?(-?(?:0x[0-9a-fA-F]+|\d+))\)?")
_TABLED: Final = re.compile(r"(h?)\(([^)]*\)?)\)")


def register(number: int, half: bool = False) -> str:
    """r1.y, hr0.x, a0.x, p0.z."""
    group, letter = number // 4, COMPONENTS[number % 4]
    head = "h" if half else ""
    if group == _FIRST_SPECIAL:
        return f"{head}a0.{letter}"
    if group == P0_X // 4:
        return f"{head}p0.{letter}"
    return f"{head}r{group}.{letter}"


def bare(one: Operand, *, zero: bool = False) -> str:
    """The operand without its marks; `zero`: an offset of 0 is written."""
    head = "h" if one.half else ""
    if one.kind is Kind.GPR:
        return register(one.number, one.half)
    if one.kind is Kind.CONST:
        return f"{head}c{one.number // 4}.{COMPONENTS[one.number % 4]}"
    if one.kind is Kind.IMMEDIATE:
        return f"h({one.number})" if one.half else str(one.number)
    if one.kind is Kind.FLUT:
        return f"{head}({FLUT[one.number]})"
    letter = "r" if one.kind is Kind.RELATIVE else "c"
    offset = f" + {one.number}" if one.number or zero else ""
    return f"{head}{letter}<a0.x{offset}>"


def marked(one: Operand) -> str:
    """As categories 2 and 4 write it."""
    last = "(last)" if one.last else ""
    return last + sign(one) + ("(r)" if one.repeat else "") + bare(one)


def marked_third(one: Operand) -> str:
    """As category 3 writes it."""
    last = "(last)" if one.last else ""
    if one.kind is Kind.IMMEDIATE:
        one = replace(one, half=False)
    return sign(one) + ("(r)" if one.repeat else "") + last + bare(one, zero=True)


def sign(one: Operand) -> str:
    """(neg), (abs) or both."""
    named = {(False, False): "", (True, False): "(neg)", (False, True): "(abs)"}
    return named.get((one.neg, one.abs), "(absneg)")


def moved(one: Operand, source: int) -> str:
    """As mov writes it: immediates by type."""
    if one.kind is not Kind.IMMEDIATE:
        return ("(last)" if one.last else "") + ("(r)" if one.repeat else "") + bare(one)
    if source == Type.F16:
        return f"h({struct.unpack('<e', struct.pack('<H', one.number & 0xFFFF))[0]:f})"
    if source == Type.F32:
        return f"({struct.unpack('<f', struct.pack('<I', one.number & 0xFFFFFFFF))[0]:f})"
    if source == Type.U32 and one.number > 0x1000:
        return f"0x{one.number:x}"
    return str(one.number)


def parse(text: str) -> Operand:
    """An operand of categories 2 to 7. Raises: CompileError."""
    rest, marks = text.strip(), set[str]()
    for _ in range(len(rest)):
        if (found := _MARKS.match(rest)) is None:
            break
        marks.add(found[1])
        rest = rest[found.end() :]
    return replace(
        _parse_bare(rest), neg=bool(marks & {"neg", "absneg"}), abs=bool(marks & {"abs", "absneg"}),
        repeat="r" in marks, last="last" in marks,
    )  # fmt: skip


def _parse_bare(text: str) -> Operand:
    if found := _REGISTER.fullmatch(text):
        kind = Kind.GPR if found[2] == "r" else Kind.CONST
        return Operand(kind, int(found[3]) * 4 + COMPONENTS.index(found[4]), half=bool(found[1]))
    if found := _SPECIAL.fullmatch(text):
        start = P0_X if found[2] == "p" else A1_X if found[3] == "1" else A0_X
        number = start + COMPONENTS.index(found[4])
        return Operand(Kind.GPR, number, half=bool(found[1]))
    if found := _RELATIVE.fullmatch(text):
        kind = Kind.RELATIVE if found[2] == "r" else Kind.RELATIVE_CONST
        offset = int(found[4] or 0) * (-1 if found[3] == "-" else 1)
        return Operand(kind, offset, half=bool(found[1]))
    if found := _INTEGER.fullmatch(text):
        return Operand(Kind.IMMEDIATE, int(found[2], 0), half=bool(found[1]))
    if (found := _TABLED.fullmatch(text)) and found[2] in FLUT:
        return Operand(Kind.FLUT, FLUT.index(found[2]), half=bool(found[1]))
    raise refused(f"no operand: {text!r}")


def parse_moved(text: str, source: int) -> Operand:
    """The source of mov. Raises: CompileError."""
    narrow = source in (Type.F16, Type.U16, Type.S16, Type.U8)
    found = re.fullmatch(r"h?\((-?[\d.einfa+-]+)\)", text.strip())
    if found is None:
        one = parse(text)
        return replace(one, half=narrow) if one.kind is Kind.IMMEDIATE else one
    code, bits = ("<e", "<H") if source == Type.F16 else ("<f", "<I")
    try:
        value = struct.unpack(bits, struct.pack(code, float(found[1])))[0]
    except (ValueError, OverflowError) as error:
        raise refused(f"no number: {text!r}") from error
    return Operand(Kind.IMMEDIATE, value, half=narrow)

"""An ir3 instruction's text, as Mesa's ir3-disasm prints it."""

from __future__ import annotations

from typing import Final

import numpy as np

from boards.qcom.isa.forms import pieces
from boards.qcom.isa.scope import Misfit, Scope, UnknownInstruction, scope_of, signed
from boards.qcom.isa.table import Field, table

_NAME: Final = "NAME"
_HALF_BITS: Final = 16


def _float_text(value: int, width: int) -> str:
    bits = np.array([value], np.uint16 if width == _HALF_BITS else np.uint32)
    number = float(bits.view(np.float16 if width == _HALF_BITS else np.float32)[0])
    if number != number:
        return "-nan" if value >> width - 1 else "nan"
    return f"{number:f}"


def _branch_text(offset: int, place: tuple[int, int] | None) -> str:
    if place is not None and 0 <= place[0] + offset < place[1]:
        return f"l{place[0] + offset}"
    return str(offset)


def _field_text(scope: Scope, name: str, place: tuple[int, int] | None) -> str:
    if scope.lacks(name):
        return ""
    found, value, owner = scope.resolve(name)
    match found.kind:
        case "branch":
            return _branch_text(signed(value, found.width), place)
        case "int":
            return str(signed(value, found.width))
        case "uint":
            return str(value)
        case "hex":
            return f"{value:x}"
        case "offset":
            return f"{signed(value, found.width):+d}" if value else ""
        case "uoffset":
            return f"+{value}" if value else ""
        case "float":
            return _float_text(value, found.width)
        case "bool" | "bool_inv":
            return _flag_text(found, bool(value) != (found.kind == "bool_inv"))
    if found.kind in table().enums:
        return table().enums[found.kind].get(value, str(value))
    return _scope_text(owner.inner(found, value), place)


def _flag_text(found: Field, is_set: bool) -> str:
    if found.show is None:
        return str(int(is_set))
    return found.show if is_set else ""


def _scope_text(scope: Scope, place: tuple[int, int] | None) -> str:
    parts = []
    for name, words in pieces(scope.shown().text or ""):
        if name == _NAME:
            parts.append(scope.encoding.name)
        else:
            parts.append(_field_text(scope, name, place) if name else words)
    return "".join(parts)


def disassemble(word: int, generation: int, place: tuple[int, int] | None = None) -> str:
    """The text of one instruction. Raises: UnknownInstruction.

    `place`, its number and how many there are, makes a branch's target a label of the listing.
    """
    try:
        return _scope_text(scope_of(word, generation), place)
    except Misfit as error:
        raise UnknownInstruction(word, generation, str(error)) from error

"""A 64-bit ir3 word becomes an Instruction: mnemonic, operands, flags and what else it says.

The walk follows the instruction's text, where flags stand before what they belong to. The forms
come from the table; what the table does not say is here:

* A mov is called mov, cov (of two types), mova (to a0.x) or mova1 (to a1.x).
* ldl, ldlw, ldlv, stl, stlw, stp, stc print full registers, and mean half ones with 16-bit types.
* An atomic.b reads its data from the register after SRC1 and returns the old value in SRC1.

# src: Mesa 25.0.7, src/freedreno/ir3/ir3_a6xx.c (atomics), ir3_compiler_nir.c (types of ldl, stl)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from boards.qcom.isa.forms import pieces
from boards.qcom.isa.instruction import Instruction, Operand, Space
from boards.qcom.isa.scope import Misfit, Scope, UnknownInstruction, scope_of
from boards.qcom.isa.table import CATEGORY_LOW, Case, table

_CACHED: Final = 1 << 16
_NEG, _ABS = 1, 2
_SYNC: Final = {
    "SY": "sy", "SS": "ss", "JP": "jp", "UL": "ul", "EQ": "eq", "SAT": "sat", "EI": "ei",
}  # fmt: skip
_HALF_FLAGS: Final = frozenset({"HALF", "DST_HALF", "TYPE_HALF", "SRC_HALF"})
_FLUT: Final = (
    0.0, 0.5, 1.0, 2.0, math.e, math.pi, 1 / math.pi, 1 / math.log2(math.e), math.log2(math.e),
    1 / math.log2(10), math.log2(10), 4.0,
)  # fmt: skip
"""src: Mesa 25.0.7, src/freedreno/isa/ir3-common.xml, #flut."""
_FLUT_KIND: Final = "#flut"
_HALF_BY_TYPE: Final = frozenset({"ldl", "ldlw", "ldlv", "stl", "stlw", "stp", "stc"})
_HALF_TYPES: Final = frozenset({0, 2, 4, 6})
"""f16, u16, s16, u8. # src: ir3-common.xml, #type-half"""
_ADDRESS_MOVES: Final = {244: "mova", 245: "mova1"}
_NAME: Final = "NAME"
_WIDE: Final = "movmsk"
"""Its repetition is how many lanes it tells of: W in `fields`."""
_INNER: Final = frozenset({"SAMP", "TEX", "BASE", "OFF"})
_HALF_FLUT: Final = "}h{IMMED}"
COMPONENTS: Final = 4
"""Of a register: x, y, z, w."""
_ADDRESS: Final = "DST"
"""Of stl, stlw and stp: an address, which is read."""
_STORES: Final = frozenset({"stl", "stlw", "stp"})


@dataclass
class _Found:
    """What a walk over an instruction's text came by."""

    operands: dict[str, Operand] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """Fields of fields that are no operands: SAMP, TEX, BASE, OFF."""
    flags: set[str] = field(default_factory=set)
    """Set since the last operand, and not yet given to one."""

    def take(self, space: str, number: int, *, half: bool) -> Operand:
        """An operand with the flags that stood before it."""
        flags, self.flags = self.flags, set()
        return Operand(
            Space(space), number, half=half, neg="neg" in flags, abs="abs" in flags,
            repeat="repeat" in flags, last="LAST" in flags,
        )  # fmt: skip


def _note(found: _Found, name: str, value: int) -> None:
    """Remembers a flag for the operand that follows it."""
    if name == "ABSNEG":
        found.flags |= {word for bit, word in ((_NEG, "neg"), (_ABS, "abs")) if value & bit}
    elif value and name.endswith("_NEG"):
        found.flags.add("neg")
    elif value and name.startswith("SRC") and name.endswith("_R"):
        found.flags.add("repeat")
    elif value and (name in _HALF_FLAGS or name == "LAST"):
        found.flags.add(name)


def _number(scope: Scope, case: Case, half: bool) -> int:
    """An operand's number: of a register with its component, or of an immediate."""
    number = scope.number(case.number)
    if case.space in ("r", "c") and scope.find("SWIZ"):
        return number * COMPONENTS + scope.raw("SWIZ")
    if scope.resolve(case.number)[0].kind != _FLUT_KIND:
        return number
    if number >= len(_FLUT):
        raise Misfit(f"no constant {number}")
    return int.from_bytes(struct.pack("<e" if half else "<f", _FLUT[number]), "little")


def _walk(scope: Scope, found: _Found, outside: str) -> None:
    """Collects the operands of a text; `outside` is the instruction's field that this is of."""
    surprise = scope.surprise()
    if surprise:
        raise Misfit(surprise)
    case = scope.shown()
    text = case.text or ""
    for name, _ in pieces(text):
        if not name or name in (_NAME, case.number, "SWIZ") or scope.lacks(name):
            continue
        one, value, owner = scope.resolve(name)
        if one.kind in table().sets:
            _walk(owner.inner(one, value), found, outside or name)
        elif outside and name in _INNER:
            found.numbers[name] = value
        else:
            _note(found, name, value)
    if case.space and outside:
        is_half = bool(found.flags & _HALF_FLAGS) or text.startswith("h(") or _HALF_FLUT in text
        number = _number(scope, case, is_half)
        found.operands[outside] = found.take(case.space, number, half=is_half)


def _fields(scope: Scope, operands: dict[str, Operand]) -> Iterator[tuple[str, int]]:
    seen = set(operands) | set(_SYNC)
    for name in scope.form().fields:
        if name in seen:
            continue
        try:
            yield name, scope.number(name)
        except Misfit:  # computed from what this encoding has not, and not shown
            continue


def _adjusted(fields: dict[str, int], found: _Found) -> dict[str, int]:
    """Samplers and textures of a bindless form are elsewhere than the plain form has them."""
    if fields.get("S2EN_BINDLESS"):
        fields.pop("SAMP", None)
        fields.pop("TEX", None)
    return fields | found.numbers


def _with_types(name: str, fields: dict[str, int], operands: dict[str, Operand]) -> None:
    """Half registers that the text does not show."""
    if name in _HALF_BY_TYPE and fields["TYPE"] in _HALF_TYPES:
        data = _ADDRESS if name.startswith("ld") else "SRC"
        operands[data] = replace(operands[data], half=True)


def _moves(name: str, operands: dict[str, Operand], fields: dict[str, int]) -> str:
    """What a mov of any form is called; a move to an address register has no DST in its text."""
    if fields.get("DST") in _ADDRESS_MOVES and "DST" not in operands:
        number = fields.pop("DST")
        operands["DST"] = Operand(Space.REGISTER, number, half=True)
        return _ADDRESS_MOVES[number]
    if name.startswith("mov-"):
        return "mov" if fields["SRC_TYPE"] == fields["DST_TYPE"] else "cov"
    return name


def _written(scope: Scope, operands: dict[str, Operand]) -> list[str]:
    """The operands that are destinations."""
    if scope.encoding.destinations:
        return [one for one in operands if one in scope.encoding.destinations]
    is_address = scope.encoding.name in _STORES
    return [one for one in operands if one.startswith("DST") and not is_address]


def _made(word: int, scope: Scope) -> Instruction:
    found = _Found()
    _walk(scope, found, "")
    operands = found.operands
    fields = _adjusted(dict(_fields(scope, operands)), found)
    name = _moves(scope.encoding.name, operands, fields)
    _with_types(name, fields, operands)
    written = _written(scope, operands)
    kept = set() if name.startswith("atomic.b") else set(written)
    repeat = fields.pop("REPEAT", 0) if name != _WIDE else 0
    sync = {text for flag, text in _SYNC.items() if scope.find(flag) and scope.raw(flag)}
    branch = scope.find("IMMED")
    return Instruction(
        word=word, op=name, category=word >> CATEGORY_LOW,
        dst=operands[written[0]] if written else None,
        more_dsts=tuple(operands[one] for one in written[1:]),
        srcs=tuple(one for place, one in operands.items() if place not in kept),
        sync=frozenset(sync), repeat=repeat, nop=fields.pop("NOP", 0),
        target=fields.pop("IMMED") if branch is not None and branch.kind == "branch" else None,
        fields=fields,
    )  # fmt: skip


@lru_cache(maxsize=_CACHED)
def decode(word: int, generation: int) -> Instruction:
    """The instruction of this word on generation 6 or 7. Raises: UnknownInstruction.

    Refused, too: bits without a meaning that are set, which Mesa's disassembler remarks upon.
    """
    try:
        return _made(word, scope_of(word, generation))
    except Misfit as error:
        raise UnknownInstruction(word, generation, str(error)) from error

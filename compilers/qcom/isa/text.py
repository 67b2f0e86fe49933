"""Mesa's text of instructions, both ways.

# src: Mesa 25.0.7, src/freedreno/isa/ir3-cat*.xml, display
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from compilers.qcom.isa.bits import refused
from compilers.qcom.isa.encode import assembled
from compilers.qcom.isa.forms import Form
from compilers.qcom.isa.instruction import HALF_TYPES, Insn, Type
from compilers.qcom.isa.operand import A0_X, A1_X, Kind
from compilers.qcom.isa.slots import Draft, operand
from compilers.qcom.isa.tables import all_forms, form
from compilers.qcom.isa.texture_text import INDEX, TEXTURE_TOKENS, index_text
from compilers.qcom.isa.tokens import (
    LOCAL_ATOMICS,
    TOKENS,
    TYPES,
    WIDE_TYPE,
    WITHOUT_H,
    Token,
    half_by_type,
    third,
)

_NAMED: Final = re.compile(r"\{(\w+)\}")
_FLAG: Final = re.compile(r"\s*\((sy|ss|jp|ul|eq|sat|rpt\d|nop\d)\)\s*")
_FLAGS: Final = {
    0: ("sy", "ss", "eq", "jp", "rpt"), 1: ("sy", "ss", "jp", "rpt", "ul"),
    2: ("sy", "ss", "jp", "sat", "rpt", "ul"), 3: ("sy", "ss", "jp", "sat", "rpt", "ul"),
    4: ("sy", "ss", "jp", "sat", "rpt", "ul"), 5: ("sy", "jp"), 6: ("sy", "jp"),
    7: ("sy", "ss", "jp"),
}  # fmt: skip
_MOVES: Final = re.compile(r"(mov|cov)\.(\w+?) |(mova1?) ")


def _token(one: Form, name: str) -> Token:
    if one.category == 3 and name.startswith("src") and name != "src1":
        return third(name)
    if name == "type" and one.op.startswith(("atomic.b.", "atomic.g.")):
        return WIDE_TYPE
    return TEXTURE_TOKENS.get(name) or TOKENS[name]


def text(insn: Insn, generation: int) -> str:
    """One line. Raises: CompileError."""
    found = form(insn.op, generation)
    name = _move_name(insn) if insn.op == "mov" else insn.op.removesuffix(".k")
    if insn.op == "ldg.k":
        name = insn.op
    body = _NAMED.sub(lambda token: _token(found, token[1]).show(insn), found.text)
    if insn.op == "mov" and name.startswith("mova"):
        target = "a0.x" if name == "mova" else "a1.x"
        body = " " + TOKENS["round"].show(insn) + target + ", " + TOKENS["moved"].show(insn)
    if INDEX in body:
        body = body.replace(f", {INDEX}", index_text(insn, generation))
    return _prefix(insn, found.category) + name + body


def _prefix(insn: Insn, category: int) -> str:
    parts = []
    for name in _FLAGS[category]:
        if name == "rpt":
            repeated = f"(rpt{insn.repeat})" if insn.repeat else ""
            parts.append(f"(nop{insn.nop}) " if insn.nop else repeated)
        elif name in insn.flags:
            parts.append(f"({name})")
    return "".join(parts)


def _move_name(insn: Insn) -> str:
    source, target = insn.fields.get("src_type", 0), insn.fields.get("dst_type", 0)
    dst = operand(insn, "dst")
    if dst.kind is Kind.GPR and source == target:
        if dst.number == A0_X and source == Type.S16:
            return "mova"
        if dst.number == A1_X and source == Type.U16:
            return "mova1"
    return f"{'mov' if source == target else 'cov'}.{TYPES[source]}{TYPES[target]}"


@cache
def _pattern(one: Form) -> re.Pattern[str]:
    parts, place = [re.escape(one.op.removesuffix(".k") if one.op == "ldc.k" else one.op)], 0
    for token in _NAMED.finditer(one.text):
        parts.append(re.escape(one.text[place : token.start()]))
        parts.append(f"(?P<{token[1]}>{_token(one, token[1]).pattern})")
        place = token.end()
    parts.append(re.escape(one.text[place:]))
    return re.compile("".join(parts))


@cache
def _candidates(generation: int) -> dict[str, list[Form]]:
    made: dict[str, list[Form]] = {}
    for one in sorted(all_forms(generation), key=lambda found: -len(found.op)):
        made.setdefault(one.op.partition(".")[0], []).append(one)
    return made


def parse(line: str, generation: int) -> Insn:
    """The instruction of one line. Raises: CompileError."""
    rest, draft = line.strip(), Draft(0)
    for _ in range(len(rest)):
        if (mark := _FLAG.match(rest)) is None:
            break
        rest = rest[mark.end() :]
        if mark[1][:3] == "rpt":
            draft.repeat = int(mark[1][3])
        elif mark[1][:3] == "nop":
            draft.nop = int(mark[1][3])
        else:
            draft.flags.add(mark[1])
    if move := _MOVES.match(rest):
        return _parse_move(rest, move, draft, generation)
    for one in _candidates(generation).get(re.split(r"[. ]", rest)[0], ()):
        if found := _pattern(one).fullmatch(rest):
            return _filled(one, found, draft)
    raise refused(f"not understood: {line!r}")


def _filled(one: Form, found: re.Match[str], draft: Draft) -> Insn:
    for name, value in found.groupdict().items():
        _token(one, name).take(value, draft)
    if one.op in WITHOUT_H:
        half_by_type(draft, "dst" if one.op.startswith("ld") else "src1")
    if one.op != "isam":
        draft.flags.discard("inv1d")
    if one.category == 6 and one.op in LOCAL_ATOMICS:
        half_by_type(draft, "dst")
    if one.category == 5 and "type" not in draft.fields and "dst" in draft.operands:
        draft.fields["type"] = Type.F16 if draft.operands["dst"].half else Type.F32
    return assembled(one, draft)


def _parse_move(rest: str, move: re.Match[str], draft: Draft, generation: int) -> Insn:
    one = form("mov", generation)
    if move[3]:
        kind = Type.S16 if move[3] == "mova" else Type.U16
        draft.fields |= {"src_type": kind, "dst_type": kind}
    else:
        TOKENS["types"].take(move[2], draft)
    if "src_type" not in draft.fields:
        raise refused(f"no types: {rest!r}")
    target, comma, source = rest[move.end() :].partition(", ")
    for place, name in enumerate(("(even)", "(pos_infinity)", "(neg_infinity)"), 1):
        if target.startswith(name):
            draft.fields["round"] = place
            target = target.removeprefix(name)
    if not comma:
        raise refused(f"two operands: {rest!r}")
    TOKENS["dst"].take(target, draft)
    TOKENS["moved"].take(source, draft)
    half_target = draft.operands["dst"]
    if half_target.number in (A0_X, A1_X) and draft.fields["dst_type"] in HALF_TYPES:
        draft.operands["dst"] = half_target
    return assembled(one, draft)

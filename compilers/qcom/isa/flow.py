"""Forms of category 0 (branches, predication) and category 7 (barriers, caches).

# src: Mesa 25.0.7, src/freedreno/isa/ir3-cat0.xml, ir3-cat7.xml
"""

from __future__ import annotations

from typing import Final

from compilers.qcom.isa.forms import Form, fixed
from compilers.qcom.isa.slots import Flag, Repeat, Slot, number, signed

_SYNC: Final = (Flag("sy", 60), Flag("jp", 59), Flag("ss", 44))
_EQ: Final = Flag("eq", 48)
_TARGET: Final = signed("target", 0, 31)
_NONE: Final = {
    "nop": (0, 0), "end": (6, 0), "ret": (4, 0), "emit": (7, 0), "cut": (8, 0), "chmask": (9, 0),
    "chsh": (10, 0), "flow_rev": (11, 0), "shpe": (8, 1), "predt": (13, 1), "predf": (14, 1),
    "prede": (15, 1),
}  # fmt: skip
"""Opcode, and its high bit."""
_JUMPS: Final = {"jump": (2, 0), "call": (3, 0), "bkt": (0, 1), "getone": (5, 1), "shps": (7, 1)}
_BRANCH: Final = {"br": 0, "bany": 4, "ball": 5}
_BRANCH_TWO: Final = {"brao": 1, "braa": 2}
_INV1, _COMP1 = number("inv1", 52), number("comp1", 53, 54)
_INV2, _COMP2 = number("inv2", 45), number("comp2", 46, 47)


def _cat0(op: str, code: tuple[int, int], slots: tuple[Slot, ...], text: str, *more: tuple[
    int, int, int]) -> Form:  # fmt: skip
    match, mask = fixed((61, 63, 0), (55, 58, code[0]), (49, 49, code[1]), *more)
    return Form(op=op, category=0, match=match, mask=mask, slots=(*_SYNC, *slots), text=text)


def _cat0_forms() -> list[Form]:
    made = [
        _cat0(op, code, (Repeat(42), _EQ), "", (37, 39, 0), (45, 47, 0), (52, 54, 0))
        for op, code in _NONE.items()
    ]
    made += [_cat0(op, code, (_TARGET,), " #{target}") for op, code in _JUMPS.items()]
    made.append(
        _cat0("getlast", (4, 1), (_TARGET,), ".w8 #{target}", (52, 54, 2))
    )  # the width has no effect, but is always 8
    made.append(
        _cat0("kill", (5, 0), (_EQ, _INV1, _COMP1), " {inv1}p0.{comp1}", (32, 39, 0), (45, 47, 0))
    )
    one, two = (_EQ, _TARGET, _INV1, _COMP1), (_EQ, _TARGET, _INV1, _COMP1, _INV2, _COMP2)
    made += [
        _cat0(op, (1, 0), one, " {inv1}p0.{comp1}, #{target}", (37, 39, kind))
        for op, kind in _BRANCH.items()
    ]
    text = " {inv1}p0.{comp1}, {inv2}p0.{comp2}, #{target}"
    made += [_cat0(op, (1, 0), two, text, (37, 39, kind)) for op, kind in _BRANCH_TWO.items()]
    made.append(
        _cat0("brac", (1, 0), (_EQ, _TARGET, number("index", 32, 36)), ".{index} #{target}",
              (37, 39, 3))
    )  # fmt: skip
    return made


def _cat7(op: str, slots: tuple[Slot, ...], text: str, *parts: tuple[int, int, int],
          generations: tuple[int, ...] = (6, 7)) -> Form:  # fmt: skip
    match, mask = fixed((61, 63, 7), *parts)
    return Form(
        op=op, category=7, match=match, mask=mask, slots=(*_SYNC, *slots), text=text,
        generations=generations,
    )  # fmt: skip


def _cat7_forms() -> list[Form]:
    where = (number("w", 51), number("r", 52), number("l", 53), number("g", 54))
    made = [
        _cat7(op, where, "{g}{l}{r}{w}", (55, 58, code), (49, 49, 1))
        for op, code in (("bar", 0), ("fence", 1))
    ]
    made.append(_cat7("sleep", (number("long", 51),), "{long}", (55, 58, 2)))
    made.append(_cat7("icinv", (), "", (55, 58, 3)))
    made += [
        _cat7(op, (number("all", 51),), "{all}", (55, 58, code), (54, 54, 0))
        for op, code in (("dccln", 4), ("dcinv", 5), ("dcflu", 6))
    ]
    seven = (7,)
    made += [
        _cat7("ccinv", (), "", (55, 58, 5), (51, 54, 0b1010), (49, 49, 1), generations=seven),
        _cat7("lock", (), "", (55, 58, 7), (45, 54, 0b1000010000), generations=seven),
        _cat7("unlock", (), "", (55, 58, 7), (45, 54, 0b1001010000), generations=seven),
    ]
    return made


FORMS: Final = (*_cat0_forms(), *_cat7_forms())

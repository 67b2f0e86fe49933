"""Forms of categories 1 to 4: moves, arithmetic of one to three sources, special functions.

# src: Mesa 25.0.7, src/freedreno/isa/ir3-cat1.xml ... ir3-cat4.xml
"""

from __future__ import annotations

from typing import Final

from compilers.qcom.isa.forms import Form, fixed
from compilers.qcom.isa.precision import Converted, Fixed, Moves, Precision, Widths
from compilers.qcom.isa.slots import Flag, Register, Repeat, RepeatOrNop, Slot, number
from compilers.qcom.isa.sources import Moved, MoveTarget, Multi, Third

_SYNC: Final[tuple[Slot, ...]] = (Flag("sy", 60), Flag("jp", 59), Flag("ss", 44), Flag("ul", 45))
_SAT: Final = Flag("sat", 42)
_DST: Final = Register("dst", 32)

_CAT2_TWO: Final = {
    "add.f": 0, "min.f": 1, "max.f": 2, "mul.f": 3, "add.u": 16, "add.s": 17, "sub.u": 18,
    "sub.s": 19, "min.u": 22, "min.s": 23, "max.u": 24, "max.s": 25, "and.b": 28, "or.b": 29,
    "xor.b": 31, "mul.u24": 48, "mul.s24": 49, "mull.u": 50, "shl.b": 54, "shr.b": 55,
    "ashr.b": 56, "mgen.b": 58, "getbit.b": 59, "shb": 62, "msad": 63,
}  # fmt: skip
_CAT2_ONE: Final = {
    "sign.f": 4, "absneg.f": 6, "floor.f": 9, "ceil.f": 10, "rndne.f": 11, "rndaz.f": 12,
    "trunc.f": 13, "absneg.s": 26, "not.b": 30, "bfrev.b": 51, "clz.s": 52, "clz.b": 53,
    "setrm": 60, "cbits.b": 61,
}  # fmt: skip
_CAT2_COMPARE: Final = {"cmps.f": 5, "cmpv.f": 7, "cmps.u": 20, "cmps.s": 21, "cmpv.u": 33,
                        "cmpv.s": 34}  # fmt: skip
_CAT3: Final = {
    "mad.u16": (0, False), "madsh.u16": (1, True), "mad.s16": (2, False), "madsh.m16": (3, True),
    "mad.u24": (4, True), "mad.s24": (5, True), "mad.f16": (6, False), "mad.f32": (7, True),
    "sel.b16": (8, False), "sel.b32": (9, True), "sel.s16": (10, False), "sel.s32": (11, True),
    "sel.f16": (12, False), "sel.f32": (13, True), "sad.s16": (14, False), "sad.s32": (15, True),
}  # fmt: skip
"""Opcode, and whether sources are full."""
_CAT3_SHIFT: Final = {"shrm": 8, "shlm": 9, "shrg": 10, "shlg": 11, "andg": 12}
_CAT4: Final = {"rcp": 0, "rsq": 1, "log2": 2, "exp2": 3, "sin": 4, "cos": 5, "sqrt": 6, "hrsq": 9,
                "hlog2": 10, "hexp2": 11}  # fmt: skip


def _cat2(op: str, opcode: int, slots: tuple[Slot, ...], text: str) -> Form:
    match, mask = fixed((61, 63, 2), (53, 58, opcode))
    common: tuple[Slot, ...] = (*_SYNC, _SAT, Flag("ei", 47), _DST, *slots, RepeatOrNop((43, 51)))
    return Form(
        op=op, category=2, match=match, mask=mask, slots=common, text=text,
        precision=Converted(full=52),
    )  # fmt: skip


def _cat2_forms() -> list[Form]:
    one, two = Multi("src0", 0), Multi("src1", 16)
    made = [_cat2(op, code, (one,), " {dst}, {src0}") for op, code in _CAT2_ONE.items()]
    made += [
        _cat2(op, code, (one, two), " {dst}, {src0}, {src1}") for op, code in _CAT2_TWO.items()
    ]
    compare, text = number("cond", 48, 50, allowed=range(6)), ".{cond} {dst}, {src0}, {src1}"
    made += [_cat2(op, code, (one, two, compare), text) for op, code in _CAT2_COMPARE.items()]
    return made


def _cat3(
    op: str, parts: tuple[tuple[int, int, int], ...], slots: tuple[Slot, ...], rule: Precision,
    *, text: str = " {dst}, {src0}, {src1}, {src2}",
) -> Form:  # fmt: skip
    match, mask = fixed((61, 63, 3), *parts)
    common: tuple[Slot, ...] = (
        *_SYNC,
        _DST,
        *slots,
        RepeatOrNop((43, 15), not op.startswith("dp")),
    )
    return Form(
        op=op, category=3, match=match, mask=mask, slots=common, text=text, precision=rule
    )  # fmt: skip


def _cat3_forms() -> list[Form]:
    plain: tuple[Slot, ...] = (
        Third("src0", 0, 14), Register("src1", 47, neg=30), Third("src2", 16, 31, 29), _SAT,
    )  # fmt: skip
    made = [
        _cat3(op, ((55, 58, code), (13, 13, 0)), plain, Converted(None, full))
        for op, (code, full) in _CAT3.items()
    ]
    shift: tuple[Slot, ...] = (
        Third("src0", 0, 14, immediate=True), Register("src1", 47, neg=30),
        Third("src2", 16, 31, 29, immediate=True),
    )  # fmt: skip
    made += [
        _cat3(op, ((55, 58, code), (13, 13, 1)), shift, Converted(42))
        for op, code in _CAT3_SHIFT.items()
    ]
    dot: tuple[Slot, ...] = (
        Third("src0", 0, None), Register("src1", 47), Third("src2", 16, 31, 29), _SAT,
        number("sign", 14), number("pack", 30),
    )  # fmt: skip
    made += [
        _cat3(
            op, ((55, 58, 13), (13, 13, 1), (46, 46, wide)), dot, Fixed(),
            text="{sign}{pack} {dst}, {src0}, {src1}, {src2}",
        )
        for op, wide in (("dp2acc", 0), ("dp4acc", 1))
    ]  # fmt: skip
    product: tuple[Slot, ...] = (
        Third("src0", 0, 14), Register("src1", 47, neg=30),
        Third("src2", 16, None, 29, immediate=True),
    )  # fmt: skip
    made += [
        _cat3(op, ((55, 58, 14), (13, 13, 1), (42, 42, more)), product, Widths(31, 46))
        for op, more in (("wmm", 0), ("wmm.accu", 1))
    ]
    return made


def _cat4_forms() -> list[Form]:
    made = []
    for op, code in _CAT4.items():
        match, mask = fixed((61, 63, 4), (53, 58, code))
        slots = (*_SYNC, _SAT, _DST, Multi("src0", 0, repeat=43), Repeat())
        made.append(
            Form(op=op, category=4, match=match, mask=mask, slots=slots, text=" {dst}, {src0}",
                 precision=Converted(full=52))
        )  # fmt: skip
    return made


_TYPES: Final = (number("dst_type", 46, 48), number("src_type", 50, 52), number("round", 55, 56))
_MULTIPLE: Final = {
    "swz": (0, ("dst", "dst1"), ("src0", "src1")),
    "gat": (1, ("dst",), ("src0", "src1", "src2", "src3")),
    "sct": (2, ("dst", "dst1", "dst2", "dst3"), ("src0",)),
}


def _cat1_forms() -> list[Form]:
    match, mask = fixed((61, 63, 1), (57, 58, 0), (42, 42, 0))
    made = [
        Form(op="mov", category=1, match=match, mask=mask, text=" {round}{dst}, {moved}",
             slots=(*_SYNC, *_TYPES, MoveTarget(), Moved(), Repeat()), precision=Moves())
    ]  # fmt: skip
    for op, (code, targets, sources) in _MULTIPLE.items():
        match, mask = fixed((61, 63, 1), (57, 58, 2), (40, 43, code), (53, 54, 0), (49, 49, 0))
        rest = (*sources[1:], *targets[1:])
        places = [Register(targets[0], 32), Register(sources[0], 0)]
        places += [Register(name, 8 * place + 8) for place, name in enumerate(rest)]
        names = ", ".join(f"{{{name}}}" for name in (*targets, *sources))
        made.append(
            Form(op=op, category=1, match=match, mask=mask, text=f".{{types}} {{round}}{names}",
                 slots=(*_SYNC, *_TYPES, *places), precision=Moves())
        )  # fmt: skip
    match, mask = fixed(
        (61, 63, 1), (57, 58, 3), (0, 31, 0), (42, 43, 0), (46, 48, 3), (50, 52, 3), (53, 54, 0)
    )
    made.append(
        Form(op="movmsk", category=1, match=match, mask=mask, text=".w{lanes} {dst}",
             slots=(*_SYNC, MoveTarget(), number("lanes", 40, 41)))
    )  # fmt: skip
    return made


FORMS: Final = (*_cat1_forms(), *_cat2_forms(), *_cat3_forms(), *_cat4_forms())

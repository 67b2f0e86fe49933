"""Forms of category 6 that address memory directly: global, local, private, constants.

Generation 6 scales the index of ldg.a and stg.a. Of 32-bit types all sources agree: 4 bytes, times
1 << shift. Of narrower types Mesa 25.0 prints the same, Mesa 25.2 the size of the type.
# src: Mesa 25.0.7, src/freedreno/isa/ir3-cat6.xml; the wheel tinymesa 25.2.7 for the last sentence
"""

from __future__ import annotations

from typing import Final

from compilers.qcom.isa.forms import Form, fixed
from compilers.qcom.isa.operand import Kind
from compilers.qcom.isa.precision import Fixed, Precision, Typed
from compilers.qcom.isa.slots import Either, Flag, Number, Register, Slot, number, signed

SYNC: Final = (Flag("sy", 60), Flag("jp", 59))
_TYPE: Final = number("type", 49, 51)
_DST: Final = Register("dst", 32)
_OFF: Final = signed("off", 1, 13)
_STORE_OFF: Final = Number("off", ((32, 39), (9, 13)), signed=True)
_CONST_DST: Final = (number("dst_off", 32, 39), number("a1", 40))
_SIX, _SEVEN = (6,), (7,)


def _form(
    op: str, code: int, slots: tuple[Slot, ...], text: str, *parts: tuple[int, int, int],
    rule: Precision | None = None, generations: tuple[int, ...] = (6, 7),
) -> Form:  # fmt: skip
    match, mask = fixed((61, 63, 6), (54, 58, code), *parts)
    return Form(
        op=op, category=6, match=match, mask=mask, slots=(*SYNC, _TYPE, *slots), text=text,
        precision=rule or Typed(), generations=generations,
    )  # fmt: skip


def _global_forms() -> list[Form]:
    load, store = ((0, 0, 1), (23, 23, 1), (27, 28, 0)), ((23, 23, 1), (40, 40, 1), (53, 53, 0))
    size, base = number("size", 24, 26), Register("src0", 14, full=True)
    index, shift = Register("src1", 1, full=True), number("shift", 12, 13)
    data, target = Register("src2", 1), Register("src0", 41, full=True)
    stored = Register("src1", 32, full=True)
    scaled = "g[{src0}{scaled}]"
    return [
        _form("ldg", 0, (_DST, base, _OFF, size), ".{type} {dst}, g[{src0}{off}], {size}",
              *load, (22, 22, 0), (52, 53, 0)),
        _form("ldg.a", 0, (_DST, base, index, number("off", 9, 10), shift, size),
              f".{{type}} {{dst}}, {scaled}, {{size}}", *load, (22, 22, 1), (52, 53, 0),
              (11, 11, 0), generations=_SIX),
        _form("ldg.a", 0, (_DST, Either("src0", 14, 13, Kind.CONST), index, number("off", 41, 48),
                           size),
              ".{type} {dst}, g[{src0}+{src1}+{off_plain}], {size}", *load, (22, 22, 1),
              (52, 53, 0), generations=_SEVEN),
        _form("stg", 3, (Register("src1", 1), target, _STORE_OFF, size),
              ".{type} g[{src0}{off}], {src1}, {size}", *store, (52, 52, 0),
              rule=Typed(data="src1")),
        _form("stg.a", 3, (data, target, stored, number("off", 9, 10), shift, size),
              f".{{type}} {scaled}, {{src2}}, {{size}}", *store, (52, 52, 1), (11, 11, 0),
              rule=Typed(data="src2"), generations=_SIX),
        _form("stg.a", 3, (data, Either("src0", 41, 13, Kind.CONST), stored,
                           number("off", 14, 21), size),
              ".{type} g[{src0}+{src1}+{off_plain}], {src2}, {size}", *store, (52, 52, 1),
              (22, 22, 0), rule=Typed(data="src2"), generations=_SEVEN),
        _form("ldg.k", 0, (*_CONST_DST, base, _OFF, number("size", 23, 26)),
              ".{type} c[{dst_off}], g[{src0}{off}], {size}", (0, 0, 1), (22, 22, 0),
              (27, 28, 0), (52, 53, 1), rule=Fixed()),
    ]  # fmt: skip


def _near_forms() -> list[Form]:
    size = number("size", 24, 31)
    made = []
    for op, code, space in (("ldl", 1, "l"), ("ldp", 2, "p"), ("ldlw", 10, "l")):
        made.append(
            _form(op, code, (_DST, Register("src0", 14, full=True), _OFF, size),
                  f".{{type}} {{dst}}, {space}[{{src0}}{{off}}], {{size}}", (0, 0, 1), (23, 23, 1))
        )  # fmt: skip
    for op, code, space in (("stl", 4, "l"), ("stp", 5, "p"), ("stlw", 11, "l")):
        slots = (Register("src1", 1), Register("src0", 41, full=True), _STORE_OFF, size)
        made.append(
            _form(op, code, slots, f".{{type}} {space}[{{src0}}{{off}}], {{src1}}, {{size}}",
                  (23, 23, 1), (40, 40, 1), rule=Typed(data="src1"))
        )  # fmt: skip
    made += [
        _form("ldlv", 31, (_DST, number("off", 1, 13), size),
              ".{type} {dst}, l[{off_plain}], {size}", (0, 0, 0), (14, 21, 0), (22, 23, 3)),
        _form("stc", 28, (*_CONST_DST, Register("src0", 1), number("size", 24, 26)),
              ".{type} c[{dst_off}], {src0}, {size}", (14, 22, 0), (23, 23, 1), rule=Fixed()),
        _form("stsc", 29, (Number("dst_off", ((32, 39), (9, 13))), number("src", 1, 8), size),
              ".{type} c[{dst_off}], {src}, {size}", (22, 23, 3), (40, 40, 0), (52, 53, 0),
              rule=Fixed(), generations=_SEVEN),
    ]  # fmt: skip
    return made


ATOMICS: Final = {"add": 16, "sub": 17, "xchg": 18, "inc": 19, "dec": 20, "cmpxchg": 21, "min": 22,
                  "max": 23, "and": 24, "or": 25, "xor": 26}  # fmt: skip


def _atomic_forms() -> list[Form]:
    shape: tuple[Slot, ...] = (
        number("d", 9, 10, bias=1), number("typed", 11), number("count", 12, 13, bias=1), _DST,
        Either("src1", 24, 23),
    )  # fmt: skip
    made = []
    for name, code in ATOMICS.items():
        near, far = (*shape, Either("src0", 14, 22)), (*shape, Either("src0", 14, 22))
        head = ".{typed}.{d}d.{type}.{count}"
        both = ((0, 0, 1), (1, 8, 0), (41, 48, 0), (53, 53, 0))
        made += [
            _form(f"atomic.{name}", code, near, head + ".l {dst}, l[{src0}], {src1}", *both,
                  (52, 52, 0)),
            _form(f"atomic.g.{name}", code, far, head + ".g {dst}, {src0}, {src1}", *both,
                  (52, 52, 1), rule=Fixed()),
        ]  # fmt: skip
    return made


FORMS: Final = (*_global_forms(), *_near_forms(), *_atomic_forms())

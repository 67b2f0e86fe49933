"""Forms of category 6 that go through descriptors, and those that ask who the lane is.

# src: Mesa 25.0.7, src/freedreno/isa/ir3-cat6.xml, #instruction-cat6-a6xx-base and shfl
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compilers.qcom.isa.bits import get, put, refused
from compilers.qcom.isa.forms import Form, fixed
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.memory import ATOMICS, SYNC
from compilers.qcom.isa.operand import Kind, Operand
from compilers.qcom.isa.precision import Fixed, Precision, Typed
from compilers.qcom.isa.slots import (
    Draft,
    Either,
    Flag,
    Register,
    Slot,
    number,
    operand,
    unsupported,
)

MODES: Final = ("imm", "uniform", "nonuniform")
SHUFFLES: Final = {1: "xor", 2: "up", 3: "down", 6: "rup", 7: "rdown"}


@dataclass(frozen=True, slots=True)
class Base:
    """Which table of bindless descriptors."""

    names: tuple[str, ...] = ("bindless", "base")

    def put(self, insn: Insn) -> int:
        bindless, base = insn.fields.get("bindless", 0), insn.fields.get("base", 0)
        if base and not bindless:
            raise refused(f"{insn.op}: a base without bindless descriptors")
        return put(f"{insn.op}: base", base, 1, 3) | put(f"{insn.op}: bindless", bindless, 8, 8)

    def get(self, draft: Draft) -> None:
        if get(draft.word, 8, 8):
            draft.fields |= {"bindless": 1, "base": get(draft.word, 1, 3)}


@dataclass(frozen=True, slots=True)
class Index:
    """Number of a descriptor: an immediate in mode 0, else a register."""

    name: str

    def put(self, insn: Insn) -> int:
        found = operand(insn, self.name)
        direct = insn.fields.get("mode", 0) == 0
        if found.kind is not (Kind.IMMEDIATE if direct else Kind.GPR) or found.neg or found.abs:
            raise unsupported(insn, self.name)
        return put(f"{insn.op}: {self.name}", found.number, 41, 48)

    def get(self, draft: Draft) -> None:
        kind = Kind.IMMEDIATE if draft.fields["mode"] == 0 else Kind.GPR
        draft.operands[self.name] = Operand(kind, get(draft.word, 41, 48))


@dataclass(frozen=True, slots=True)
class Offset:
    """An immediate offset of seven bits, and a bit that there is one."""

    names: tuple[str, ...] = ("off",)

    def put(self, insn: Insn) -> int:
        off = put(f"{insn.op}: off", insn.fields.get("off", 0), 0, 6)
        return bool(off) << 23 | (off >> 5) << 4 | (off & 31) << 54

    def get(self, draft: Draft) -> None:
        given = draft.word >> 23 & 1
        value = get(draft.word, 54, 58) | get(draft.word, 4, 5) << 5
        draft.fields["off"] = value if given else 0
        if value and not given:
            raise refused("ir3: an offset without its bit")


_DST: Final = Register("dst", 32)
_COUNT: Final = number("count", 12, 13, bias=1)
_TYPE: Final = number("type", 49, 51)
_BASE: Final[tuple[Slot, ...]] = (
    number("mode", 6, 7, allowed=range(3)), Base(),
)  # fmt: skip
_IMAGE: Final[tuple[Slot, ...]] = (
    *_BASE, _COUNT, number("d", 9, 10, bias=1), number("typed", 11), _TYPE,
)  # fmt: skip
_HEAD: Final = ".{typed}.{d}d.{type}.{count}.{mode}{base} "


def _form(
    op: str, slots: tuple[Slot, ...], text: str, *parts: tuple[int, int, int],
    rule: Precision | None = None, mode: bool = True,
) -> Form:  # fmt: skip
    head = ((40, 40, 0),) if mode else ()
    match, mask = fixed((61, 63, 6), *head, *parts)
    return Form(
        op=op, category=6, match=match, mask=mask, slots=(*SYNC, *slots), text=text,
        precision=rule or Typed(),
    )  # fmt: skip


def _uniform_buffer_forms() -> list[Form]:
    common: tuple[Slot, ...] = (*_BASE, Either("src0", 24, 23), Index("src1"))
    parts = ((4, 5, 0), (54, 58, 0), (14, 19, 0b011110), (22, 22, 1), (49, 50, 3))
    text = "{u}.offset{offset}.{count}.{mode}{base} {dst}, {src0}, {src1}"
    return [
        _form("ldc", (*common, _COUNT, _DST, number("offset", 9, 10), Flag("u", 11)), text, *parts,
              (52, 53, 0b10), rule=Fixed()),
        _form("ldc.k", (*common, number("size", 32, 39, bias=1)),
              ".{size}.k.{mode}{base} c[a1.x], {src0}, {src1}", *parts, (52, 53, 0b11),
              rule=Fixed()),
    ]  # fmt: skip


def _image_forms() -> list[Form]:
    text = _HEAD + "{dst}, {src0}{plus}, {src1}"
    load = (*_IMAGE, _DST, Register("src0", 24, full=True), Index("src1"), Offset())
    store = (*_IMAGE, Register("src0", 32), Register("src1", 24, full=True), Index("src2"),
             Offset())  # fmt: skip
    made = [
        _form("ldib.b", load, text, (20, 22, 6), (14, 19, 0b000110), (52, 53, 0b10)),
        _form("stib.b", store, _HEAD + "{src0}, {src1}{plus}, {src2}", (0, 0, 0), (20, 22, 6),
              (14, 19, 0b011101), (52, 53, 0b10), rule=Typed(data="src0")),
    ]  # fmt: skip
    changed = (*_IMAGE, Register("src0", 32, full=True), Register("src1", 24, full=True),
               Index("src2"))  # fmt: skip
    fixed_parts = ((4, 5, 0), (54, 58, 0), (20, 23, 6), (52, 53, 0b11))
    made += [
        _form(f"atomic.b.{name}", changed, _HEAD + "{src0}, {src1}, {src2}", *fixed_parts,
              (14, 19, code), rule=Fixed())
        for name, code in ATOMICS.items()
        if name not in ("inc", "dec")
    ]  # fmt: skip
    asked = (*_IMAGE, Register("dst", 32, full=True), Index("src0"))
    made += [
        _form(op, asked, _HEAD + "{dst}, {src0}", (0, 0, 0), (4, 5, 0), (54, 58, 0), (20, 23, 6),
              (14, 19, code), (53, 53, 1), rule=Fixed())
        for op, code in (("resinfo.b", 0b001111), ("resbase", 0b001100))
    ]  # fmt: skip
    return made


def _lane_forms() -> list[Form]:
    made = [
        _form(op, (Register("dst", 32, full=True), _TYPE), ".{type} {dst}", (0, 0, 0), (4, 5, 0),
              (54, 58, 0), (14, 19, code), (20, 23, upper), (53, 53, 1), rule=Fixed())
        for op, code, upper in (("getspid", 36, 4), ("getwid", 37, 4), ("getfiberid", 38, 12))
    ]  # fmt: skip
    shuffle = (
        _TYPE,
        _DST,
        Register("src0", 1),
        Either("src1", 24, 23),
        number("way", 45, 47, allowed=SHUFFLES),
    )
    made.append(
        _form("shfl", shuffle, ".{way}.{type} {dst}, {src0}, {src1}", (0, 0, 0), (9, 22, 0),
              (52, 53, 0b10), (54, 58, 27), mode=False)
    )  # fmt: skip
    return made


FORMS: Final = (*_uniform_buffer_forms(), *_image_forms(), *_lane_forms())

"""Forms of category 5: textures, images read through them, derivatives, lanes of a quad.

# src: Mesa 25.0.7, src/freedreno/isa/ir3-cat5.xml
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compilers.qcom.isa.bits import get, put, refused
from compilers.qcom.isa.forms import GENERATIONS, Form, fixed
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.operand import Kind, Operand
from compilers.qcom.isa.precision import Sampled
from compilers.qcom.isa.slots import Draft, Flag, Register, Slot, number

MODES: Final = (
    "uniform", "a1.uniform", "nonuniform", "a1.nonuniform", "gl.nonuniform", "bindless.uniform",
    "imm", "a1.imm",
)  # fmt: skip
"""Where indices of texture and sampler come from: #cat5-s2en-bindless-desc-mode."""
IMMEDIATE_MODE: Final = 6
_A1_IMMEDIATE: Final = 7
_BINDLESS: Final = frozenset({1, 2, 3, 5, 6, 7})
USES_A1: Final = frozenset({1, 3, 7})


def is_indirect(insn: Insn) -> bool:
    """The last source holds the indices."""
    return insn.fields.get("desc", IMMEDIATE_MODE) < IMMEDIATE_MODE


def is_bindless(mode: int) -> bool:
    """Descriptors come from a base address."""
    return mode in _BINDLESS


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Sources in bits 1 to 16; the second may be an offset of isam.v."""

    count: int
    offset: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The offset."""
        return ("off",) if self.offset else ()

    def put(self, insn: Insn) -> int:
        plain = insn.srcs[:-1] if is_indirect(insn) else insn.srcs
        want = max(self.count, 2) if "o" in insn.flags else self.count
        if "o" in insn.flags and not self.count:
            raise refused(f"{insn.op}: nothing to offset")
        off = insn.fields.get("off", 0)
        if len(plain) != want or (off and (not self.offset or want > 1)):
            raise refused(f"{insn.op}: {len(plain)} sources, not {want}")
        word = put(f"{insn.op}: off", off, 9, 16) | bool(off) << 53
        for place, one in enumerate(plain):
            if one.kind is not Kind.GPR or one.neg or one.abs:
                raise refused(f"{insn.op}: sources are registers")
            word |= put(f"{insn.op}: src{place}", one.number, 1 + 8 * place, 8 + 8 * place)
        return word

    def get(self, draft: Draft) -> None:
        want = max(self.count, 2) if "o" in draft.flags else self.count
        for place in range(want):
            value = get(draft.word, 1 + 8 * place, 8 + 8 * place)
            draft.operands[f"src{place}"] = Operand(Kind.GPR, value, half=draft.src_half)
        if self.offset:
            given = want < 2 and bool(draft.word >> 53 & 1)
            draft.fields["off"] = get(draft.word, 9, 16) if given else 0


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Texture and sampler: by number, by register, or bindless."""

    sampler: bool
    texture: bool
    generation: int = 6

    @property
    def indexed(self) -> bool:
        """Whether it takes what the immediate beside a1.x numbers."""
        return self.sampler if self.generation < 7 else self.texture

    @property
    def names(self) -> tuple[str, ...]:
        """Mode, base, and what is numbered."""
        return "desc", "base", "index", "samp", "tex"

    def put(self, insn: Insn) -> int:
        samp, tex = insn.fields.get("samp", 0), insn.fields.get("tex", 0)
        if (samp and not self.sampler) or (tex and not self.texture):
            raise refused(f"{insn.op}: takes no such descriptor")
        mode = insn.fields.get("desc")
        if mode is None:
            return put(f"{insn.op}: samp", samp, 21, 24) | put(f"{insn.op}: tex", tex, 25, 31)
        word = 1 << 51 | put(f"{insn.op}: desc", mode, 29, 31)
        base = put(f"{insn.op}: base", insn.fields.get("base", 0), 0, 2)
        if base and not is_bindless(mode):
            raise refused(f"{insn.op}: a base without bindless descriptors")
        word |= (base & 1) << 47 | (base >> 1) << 19
        if mode < IMMEDIATE_MODE:
            index = insn.srcs[-1]
            if index.kind is not Kind.GPR or index.half == is_bindless(mode):
                raise refused(f"{insn.op}: the index is not a register of this mode")
            return word | put(f"{insn.op}: index", index.number, 21, 28)
        if mode == _A1_IMMEDIATE:
            index_value = insn.fields.get("index", 0)
            if index_value and not self.indexed:
                raise refused(f"{insn.op}: takes no such descriptor")
            return word | put(f"{insn.op}: index", index_value, 21, 28)
        return word | put(f"{insn.op}: samp", samp, 21, 24) | put(f"{insn.op}: tex", tex, 25, 28)

    def get(self, draft: Draft) -> None:
        fields, word = draft.fields, draft.word
        if not word >> 51 & 1:
            fields |= {"samp": get(word, 21, 24)} if self.sampler else {}
            fields |= {"tex": get(word, 25, 31)} if self.texture else {}
            return
        mode = fields["desc"] = get(word, 29, 31)
        if is_bindless(mode):
            fields["base"] = get(word, 47, 47) | get(word, 19, 20) << 1
        if mode < IMMEDIATE_MODE:
            half = not is_bindless(mode)
            draft.operands["src2"] = Operand(Kind.GPR, get(word, 21, 28), half=half)
        elif mode == _A1_IMMEDIATE:
            fields["index"] = get(word, 21, 28)
        else:
            fields |= {"samp": get(word, 21, 24)} if self.sampler else {}
            fields |= {"tex": get(word, 25, 28)} if self.texture else {}


_SYNC: Final[tuple[Slot, ...]] = (Flag("sy", 60), Flag("jp", 59))
_RESULT: Final[tuple[Slot, ...]] = (
    Register("dst", 32), number("mask", 40, 43), number("type", 44, 46),
)  # fmt: skip
_LOOK: Final[tuple[Slot, ...]] = (Flag("3d", 48), Flag("a", 49), Flag("o", 52))
_SAMPLED: Final = {
    "isaml": (1, 2, True, True), "isamm": (2, 1, True, True), "sam": (3, 1, True, True),
    "samb": (4, 2, True, True), "saml": (5, 2, True, True), "samgq": (6, 1, True, True),
    "getlod": (7, 1, True, True), "conv": (8, 2, True, True), "convm": (9, 2, True, True),
    "getsize": (10, 1, False, True), "getbuf": (11, 0, False, True),
    "getpos": (12, 1, False, True), "getinfo": (13, 0, False, True),
    "dsx": (14, 1, False, False), "dsy": (15, 1, False, False),
    "gather4r": (16, 1, True, True), "gather4g": (17, 1, True, True),
    "gather4b": (18, 1, True, True), "gather4a": (19, 1, True, True),
    "samgp0": (20, 1, True, True), "samgp1": (21, 1, True, True),
    "samgp2": (22, 1, True, True), "samgp3": (23, 1, True, True),
    "dsxpp.1": (24, 1, False, False), "dsypp.1": (25, 1, False, False),
    "rgetpos": (26, 1, False, False), "rgetinfo": (27, 0, False, False),
}  # fmt: skip
"""Opcode, number of sources, whether there is a sampler, whether there is a texture."""
TEXT: Final = "{look} {sampled}{dst}{coordinates}"


def _form(
    op: str, slots: tuple[Slot, ...], text: str, *parts: tuple[int, int, int],
    generations: tuple[int, ...] = GENERATIONS,
) -> Form:  # fmt: skip
    match, mask = fixed((61, 63, 5), *parts)
    return Form(
        op=op, category=5, match=match, mask=mask, slots=(*_SYNC, *slots), text=text,
        precision=Sampled(), generations=generations,
    )  # fmt: skip


def _sampled_forms(generation: int) -> list[Form]:
    made = []
    for op, (code, count, sampler, texture) in _SAMPLED.items():
        slots = (*_LOOK, Flag("s", 50), Flag("p", 53), *_RESULT, Coordinates(count),
                 Descriptor(sampler, texture, generation))  # fmt: skip
        made.append(
            _form(op, slots, TEXT, (54, 58, code), (18, 18, 0), generations=(generation,))
        )  # fmt: skip
    slots = (*_LOOK, Flag("v", 50), Flag("inv1d", 18), *_RESULT, Coordinates(1, offset=True),
             Descriptor(True, True, generation))  # fmt: skip
    return [*made, _form("isam", slots, TEXT, (54, 58, 0), generations=(generation,))]


def _forms() -> list[Form]:
    made = [one for of in GENERATIONS for one in _sampled_forms(of)]
    made.append(
        _form("brcst.active", (*_RESULT, Coordinates(1), number("w", 19, 20)),
              ".w{cluster} {sampled}{dst}, {src0}", (53, 58, 0b111110), (18, 18, 0), (50, 51, 0))
    )  # fmt: skip
    for way, name in enumerate(("brcst", "horiz", "vert", "diag")):
        text = " {sampled}{dst}, {src0}" + (", {src1}" if way == 0 else "")
        made.append(
            _form(f"quad_shuffle.{name}", (*_RESULT, Coordinates(2 if way == 0 else 1)), text,
                  (53, 58, 0b111111), (18, 18, 0), (50, 51, 0), (19, 20, way))
        )  # fmt: skip
    match, mask = fixed((61, 63, 5), (54, 58, 28))
    made.append(Form(op="tcinv", category=5, match=match, mask=mask, slots=_SYNC, text=""))
    return made


FORMS: Final = tuple(_forms())

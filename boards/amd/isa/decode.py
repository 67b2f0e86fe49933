"""Bytes to instructions: one generic decoder driven by a family's declared layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from boards.amd.isa.layout import Encoding, FamilyOf
from boards.amd.isa.table import Entry, lane_dwords

VGPR = 256
"""Source codes from here on are vector registers."""
ACC = 512
"""Codes from here on are accumulation registers, which only some families have."""
VCC, EXEC, LITERAL = 106, 126, 255
DPP8, DPP8_FI, DPP16, SDWA = 233, 234, 250, 249
_MAX_DWORDS = 4
_SEGMENT_NONE = 3
_RESOURCE_BITS = 5
"""Resources named by so few bits are counted in fours."""
_VECTOR_FIELDS = frozenset("dxya")
_SDWA_ALL, _SDWA_KEEP = 6, 2
"""The largest selection, and the largest rule for the rest, that SDWA knows."""
_SHORT = frozenset({"VOP1", "VOP2", "VOPC"})
_NO_OFFSET = 128
_NO_SADDR = 0x7F  # src: CDNA2 ISA 12.8, FLAT: SADDR 0x7F is "off"
_MEMORY = ("DS", "FLAT", "MUBUF")
_FORMAT_DWORDS = (8, 8, 6, 6, 4)
"""Registers of a factor of FP8, BF8, FP6, BF6, FP4. # src: CDNA4 ISA 7.1, CBSZ and BLGP."""


class UnknownInstruction(Exception):
    """No table of the family has these bytes; `words` are the dwords, `pc` where they were."""

    def __init__(self, words: Sequence[int], pc: int, family: str) -> None:
        self.words, self.pc = tuple(words), pc
        shown = " ".join(f"{word:08x}" for word in self.words)
        super().__init__(f"{family} has no instruction {shown} (at {pc:#x})")


class Operand(NamedTuple):
    """A decoded operand: `code` is the 9-bit source code, `dwords` its real width."""

    field: str
    code: int
    dwords: int

    @property
    def vgpr(self) -> int:
        """The vector register number, or -1."""
        return self.code - VGPR if self.code >= VGPR else -1


@dataclass(frozen=True, slots=True)
class Dpp:
    """The lane-permutation dword: `lanes` for DPP8, else `control` and its masks."""

    lanes: tuple[int, ...] = ()
    control: int = 0
    fetch_inactive: bool = False
    bound_control: bool = False
    bank_mask: int = 0xF
    row_mask: int = 0xF
    neg: int = 0
    abs: int = 0


@dataclass(frozen=True, slots=True)
class Sdwa:
    """The sub-dword dword: which part of each operand (0-3 bytes, 4-5 words, 6 all)."""

    sources: tuple[int, int]
    sext: int
    neg: int
    abs: int
    target: int = 6
    unused: int = 0
    """What becomes of the rest of the destination: 0 zeros, 1 the sign, 2 it stays."""
    clamp: bool = False
    omod: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """One decoded instruction; `fields` are its raw bit fields.

    `name` is the family's mnemonic, `meaning` the one under which the shared tables define it.
    """

    family: Family
    name: str
    meaning: str
    encoding: str
    pc: int
    words: tuple[int, ...]
    operands: tuple[Operand, ...]
    fields: Mapping[str, int] = field(default_factory=dict)
    literal: int | None = None
    dpp: Dpp | None = None
    halves: tuple[Instruction, ...] = ()
    sdwa: Sdwa | None = None

    @property
    def size_bytes(self) -> int:
        return 4 * len(self.words)

    @property
    def offset(self) -> int:
        """The byte offset of a memory instruction, signed as its segment says."""
        width = next(x.fields["offset"][1] for x in self.family.layouts if x.name == self.encoding)
        value = self.fields["offset"]
        signed = self.encoding == "SMEM" or (
            self.encoding == "FLAT" and (self.fields["segment"] or self.family.flat_offset_signed)
        )
        return value - (1 << width) if signed and value >> (width - 1) else value

    @property
    def scratch_vector(self) -> bool:
        """Whether a SCRATCH instruction adds its vector register."""
        f = self.fields
        none = self.family.null if self.family.null >= 0 else _NO_SADDR
        return bool(f["sve"]) if "sve" in f else f["saddr"] == none

    def operand(self, field_name: str) -> Operand | None:
        return next((o for o in self.operands if o.field == field_name), None)


Family: TypeAlias = FamilyOf[Instruction]


def decode(family: Family, words: Sequence[int], pc: int, lanes: int = 0) -> Instruction:
    """The instruction that starts at words[0]; `lanes` 0: the family's first wave size.

    Raises: UnknownInstruction.
    """
    lanes = lanes or family.lane_counts[0]
    first = words[0] if words else 0
    for layout in family.layouts:
        if first & layout.mask != layout.value or len(words) < layout.dwords:
            continue
        word = sum(part << 32 * i for i, part in enumerate(words[: layout.dwords]))
        if layout.name == "VOPD":
            return _decode_dual(family, words, word, layout, pc)
        entry = layout.entries.get(layout.opcode_of(word))
        if layout.name == "FLAT" and layout.read(word)["segment"] == _SEGMENT_NONE:
            break
        if entry is not None:
            return _finish(family, words, word, layout, entry, pc, lanes)
    raise UnknownInstruction(words[:_MAX_DWORDS], pc, family.name)


def _finish(
    family: Family,
    words: Sequence[int],
    word: int,
    layout: Encoding,
    entry: Entry,
    pc: int,
    lanes: int,
) -> Instruction:
    fields = layout.read(word)
    if layout.name in _MEMORY and fields.get("acc"):
        # src: CDNA3 ISA 13.6 to 13.8, ACC: the data is in accumulation registers.
        fields |= {name: fields[name] + ACC - VGPR for name in "dxy" if name in fields}
    if "soe" in fields:
        fields |= _scalar_offset(fields)
    operands = [_operand(layout, slot.field, lane_dwords(slot.dwords, lanes), fields)
                for slot in entry.slots]  # fmt: skip
    if layout.name == "MUBUF" and fields.get("lds"):
        operands = [o for o in operands if o.field != "x"]
    if entry.name.endswith("_f8f6f4"):
        operands = [_of_format(family, words, pc, o, fields) for o in operands]
    if layout.name in ("VOP3M", "VOP3PX") or "accvgpr" in entry.name:
        operands = [_accumulator(o, entry.name, fields) for o in operands]
    codes = {o.code for o in operands if o.field in "abc"} if layout.name[0] in "SV" else set()
    literal, dpp, sdwa, dwords = None, None, None, layout.dwords
    wants_literal = any(o.field == "k" for o in operands)
    if layout.name != "SMEM" and (LITERAL in codes or wants_literal):
        if layout.name.startswith("VOP3") and not family.long_literals:
            raise UnknownInstruction(words[:_MAX_DWORDS], pc, family.name)
        literal, dwords = _extra(family, words, dwords, pc), dwords + 1
    elif layout.name in family.dpp_encodings and codes & family.dpp_sources:
        dpp, source = _dpp(family, _extra(family, words, dwords, pc), codes)
        operands = [Operand(o.field, source, o.dwords) if o.field == "a" else o for o in operands]
        dwords += 1
    elif family.sdwa and SDWA in codes and layout.name in _SHORT:
        sdwa, operands = _sdwa(_extra(family, words, dwords, pc), layout.name, operands)
        if max(sdwa.target, *sdwa.sources) > _SDWA_ALL or sdwa.unused > _SDWA_KEEP:
            raise UnknownInstruction(words[: dwords + 1], pc, family.name)
        dwords += 1
    return Instruction(
        family, entry.name, _meaning(family, entry.name), layout.name, pc,
        tuple(words[:dwords]), tuple(operands), fields, literal, dpp, (), sdwa,
    )  # fmt: skip


def _of_format(
    family: Family, words: Sequence[int], pc: int, o: Operand, fields: Mapping[str, int]
) -> Operand:
    """A factor of a product whose width follows from its format."""
    if o.field not in "ab":
        return o
    form = fields["cbsz" if o.field == "a" else "blgp"]
    if form >= len(_FORMAT_DWORDS):
        raise UnknownInstruction(words[:_MAX_DWORDS], pc, family.name)
    return o._replace(dwords=_FORMAT_DWORDS[form])


def _meaning(family: Family, name: str) -> str:
    return family.meanings.get(name, name)


def _extra(family: Family, words: Sequence[int], at: int, pc: int) -> int:
    if len(words) <= at:
        raise UnknownInstruction(words, pc, family.name)
    return words[at]


def _operand(layout: Encoding, name: str, dwords: int, fields: Mapping[str, int]) -> Operand:
    """The operand a slot names, as a 9-bit source code."""
    if name == "V":
        return Operand(name, VCC, dwords)
    if name == "D":
        return Operand(name, fields["d"], dwords)
    if name in "kioh":
        return Operand(name, fields.get("i", 0), dwords)
    code, encoding = fields[name], layout.name
    if encoding[0] == "V":
        vector = name == "d" or (name == "b" and encoding in _SHORT)
        return Operand(name, code + VGPR if vector else code, dwords)
    if encoding in ("DS", "FLAT", "MUBUF") and name in _VECTOR_FIELDS:
        return Operand(name, code + VGPR, dwords)
    if (encoding == "SMEM" and name == "b") or name == "r":
        unit = 4 if layout.fields[name][1] == _RESOURCE_BITS else 1
        return Operand(name, code * (2 if name == "b" else unit), dwords)
    return Operand(name, code, dwords)


def _scalar_offset(fields: Mapping[str, int]) -> dict[str, int]:
    """The offsets of a gfx9 SMEM instruction as later families encode them."""
    # src: CDNA3 ISA 13.2.1, SMEM: SOFFSET_EN and IMM say what the offset fields hold.
    if fields["soe"]:
        return {"offset": fields["offset"] if fields["imm"] else 0}
    if fields["imm"]:
        return {"soffset": _NO_OFFSET}
    return {"soffset": fields["offset"] & 0x7F, "offset": 0}


def _accumulator(o: Operand, name: str, fields: Mapping[str, int]) -> Operand:
    """An operand that an accumulation register may hold: they lie above the vector registers."""
    # src: CDNA3 ISA 13.3.6, VOP3P-MAI: ACC of A and B, ACC_CD.
    if "accvgpr" in name:
        moved = (o.field == "d") != ("read" in name) or "mov" in name
    else:
        sparse = name.startswith("v_smfmac") and o.field == "c"
        moved = o.field in "abcd" and bool(
            fields["acc"] >> "ab".index(o.field) & 1
            if o.field in "ab"
            else fields["acc_cd"] and not sparse
        )
    return o._replace(code=o.code + ACC - VGPR) if moved and o.code >= VGPR else o


def _dpp(family: Family, word: int, codes: set[int]) -> tuple[Dpp, int]:
    """The DPP control of the extra dword, and the vector source it permutes."""
    source = VGPR + (word & 0xFF)
    if DPP16 not in codes:
        lanes = tuple(word >> 8 + 3 * lane & 7 for lane in range(8))
        # src: LLVM AMDGPUModifierSyntax, fi of dpp8: without it, inactive lanes give zero.
        return Dpp(lanes=lanes, fetch_inactive=DPP8_FI in codes, bound_control=True), source
    signs = word >> 20 & 0xF
    return (
        Dpp(
            control=word >> 8 & 0x1FF,
            fetch_inactive=DPP8 in family.dpp_sources and bool(word >> 18 & 1),
            bound_control=bool(word >> 19 & 1),
            bank_mask=word >> 24 & 0xF,
            row_mask=word >> 28,
            neg=(signs & 1) | (signs >> 1 & 2),
            abs=(signs >> 1 & 1) | (signs >> 2 & 2),
        ),
        source,
    )


def _sdwa(word: int, encoding: str, operands: list[Operand]) -> tuple[Sdwa, list[Operand]]:
    """The sub-dword control of the extra dword, and the operands it names."""
    # src: CDNA3 ISA 13.3.8 and 13.3.9 (SDWA, SDWAB), RDNA2 ISA 13.3.8 and 13.3.9.
    changed = []
    for o in operands:
        if o.field == "a":
            o = o._replace(code=(word & 0xFF) + (0 if word >> 23 & 1 else VGPR))
        elif o.field == "b" and word >> 31:
            o = o._replace(code=o.code - VGPR)
        elif o.field == "V" and encoding == "VOPC" and word >> 15 & 1:
            o = o._replace(code=word >> 8 & 0x7F)
        changed.append(o)
    sext, neg, absolute = ((word >> low & 1) | (word >> low + 7 & 2) for low in (19, 20, 21))
    sources = (word >> 16 & 7, word >> 24 & 7)
    if encoding == "VOPC":
        return Sdwa(sources, sext, neg, absolute), changed
    return (
        Sdwa(sources, sext, neg, absolute, target=word >> 8 & 7, unused=word >> 11 & 3,
             clamp=bool(word >> 13 & 1), omod=word >> 14 & 3),
        changed,
    )  # fmt: skip


def _decode_dual(
    family: Family, words: Sequence[int], word: int, layout: Encoding, pc: int
) -> Instruction:
    """A VOPD instruction: two independent operations of one wave32 instruction."""
    f = layout.read(word)
    names = [family.dual[f["opx"]], family.dual[f["opy"]] if f["opy"] < len(family.dual) else "-"]
    if "-" in names:
        raise UnknownInstruction(words[:_MAX_DWORDS], pc, family.name)
    dwords, literal = layout.dwords, None
    if LITERAL in (f["src0x"], f["src0y"]) or any("fmaak" in n or "fmamk" in n for n in names):
        literal, dwords = _extra(family, words, dwords, pc), dwords + 1
    raw = tuple(words[:dwords])
    # src: RDNA3 ISA 7.6: the second destination's lowest bit is the inverse of the first's.
    second = f["dsty"] << 1 | (~f["dstx"] & 1)
    first = _half(names[0], f["dstx"], f["src0x"], f["src1x"])
    other = _half(names[1], second, f["src0y"], f["src1y"])
    halves = tuple(
        Instruction(family, f"v_dual_{half}", _meaning(family, f"v_{half}"), "VOPD", pc, raw,
                    operands, {}, literal)
        for half, operands in zip(names, (first, other), strict=True)
    )  # fmt: skip
    name = f"{halves[0].name} :: {halves[1].name}"
    return Instruction(family, name, name, "VOPD", pc, raw, (), f, literal, None, halves)


def _half(name: str, dst: int, src0: int, src1: int) -> tuple[Operand, ...]:
    operands = [Operand("d", VGPR + dst, 1), Operand("a", src0, 1)]
    if name == "mov_b32":
        return tuple(operands)
    second = Operand("b", VGPR + src1, 1)
    if name.startswith("fmamk"):
        return (*operands, Operand("k", 0, 1), second)
    if name.startswith("fmaak"):
        return (*operands, second, Operand("k", 0, 1))
    return (*operands, second)

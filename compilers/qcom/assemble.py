"""Items with registers to ir3 instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compilers.qcom.fit import FLOATS, is_float, small
from compilers.qcom.isa.build import label
from compilers.qcom.isa.instruction import Cond, Insn, Type
from compilers.qcom.isa.operand import (
    P0_X,
    SHARED,
    Kind,
    Operand,
    const,
    gpr,
    half,
    immediate,
)
from compilers.qcom.parse import MEMORY, Item, Place

_NAMES: Final = {"ldga": "ldg.a", "stga": "stg.a"}
_TYPES: Final = {"u8": Type.U8, "u16": Type.U16, "s16": Type.S16, "u32": Type.U32, "s32": Type.S32,
                 "f32": Type.F32, "f16": Type.F16}  # fmt: skip
_EVEN: Final = 1
"""Rounding of a conversion; 0 is towards zero. # src: Mesa 25.0.7, ir3.h, round_t"""
_XOR: Final = 1
"""Of shfl: the lane whose number differs. # src: Mesa 25.0.7, ir3-cat6.xml"""
_TWO: Final = frozenset({
    "add", "sub", "mul", "mull", "and", "or", "xor", "shl", "shr", "ashr", "cmps", "min", "max",
    "floor", "ceil", "trunc", "rndne", "clz",
})  # fmt: skip
"""Category 2, which has immediates."""


class Assembler:
    """Instructions of one kernel; literals that need it are gathered behind the parameters."""

    def __init__(self, places: dict[int, int], literal_start: int, generation: int) -> None:
        self.places, self.start, self.generation = places, literal_start, generation
        self.literals: dict[int, int] = {}
        self.words = 0
        """Registers in use."""
        self.code: list[Insn] = []

    def add(self, item: Item) -> None:
        """Append an item's instructions."""
        stem = item.stem
        if stem in MEMORY:
            self.code.append(self._memory(item))
        elif stem == "label":
            self.code.append(label(item.label))
        elif stem in ("br", "brn"):
            fields = {"inv1": int(stem == "brn"), "comp1": 0}
            self.code.append(Insn(op="br", fields=fields, label=item.label))
        elif stem in ("fence", "bar"):
            self._barrier(stem)
        elif stem == "end":
            self.code.append(Insn(op="end"))
        elif stem == "base":
            self._base(item)
        elif stem == "shfl":
            self._swap(item)
        elif stem in ("mov", "cov"):
            self._move(item)
        else:
            self.code.append(self._arithmetic(item))

    def _barrier(self, stem: str) -> None:
        """Of shared and global memory, between nops that wait for everything.

        # src: Mesa 25.0.7, emit_intrinsic_barrier; ir3_legalize.c: (ss) and (sy) after a barrier
        """
        fields = {"g": 1, "l": int(stem == "bar"), "r": 1, "w": 1}
        if stem == "fence":
            self.code.append(Insn(op="nop", flags={"ss", "sy"}))
        self.code.append(Insn(op=stem, fields=fields))
        self.code.append(Insn(op="nop", flags={"ss", "sy"}))

    def _register(self, one: Place) -> Operand:
        if one.kind == "p":
            return gpr(P0_X)
        if one.kind == "r":
            return gpr(0)
        if one.kind == "g":
            return gpr(SHARED)
        unit = self.places[one.number]
        if one.half:
            self.words = max(self.words, (unit + one.part) // 2 + 1)
            return half(unit + one.part)
        word = unit // 2
        self.words = max(self.words, word + one.part + 1)
        return gpr(word + one.part)

    def _literal(self, word: int) -> Operand:
        """A word of the constant file."""
        place = self.literals.setdefault(word, len(self.literals))
        return const(self.start + place)

    def _source(self, item: Item, one: Place) -> Operand:
        if one.kind == "c":
            return const(one.number)
        if one.kind != "k":
            return self._register(one)
        if item.stem in _TWO and small(item.op, one):
            if is_float(item.op):
                return Operand(Kind.FLUT, FLOATS[one.number])
            return immediate(one.number - (one.number >> 31 << 32))
        return self._literal(one.number)

    def _base(self, item: Item) -> None:
        """A 64-bit parameter in two registers."""
        if item.dst is None:
            return
        for part in range(2):
            target = self._register(item.dst._replace(part=part))
            source = const(item.srcs[0].number + part)
            self.code.append(self._mov(target, source))

    def _mov(self, target: Operand, source: Operand) -> Insn:
        kind = int(Type.U16 if target.half else Type.U32)
        return Insn(op="mov", dst=target, srcs=(source,),
                    fields={"dst_type": kind, "src_type": kind})  # fmt: skip

    def _move(self, item: Item) -> None:
        if item.dst is None:
            return
        one, target = item.srcs[0], self._register(item.dst)
        if one.kind == "k":
            source = immediate(one.number, half=target.half)
        else:
            source = self._source(item, one)
        if item.stem == "mov":
            if source != target:
                self.code.append(self._mov(target, source))
            return
        types = item.op.partition(".")[2]
        split = next(place for place in range(1, len(types)) if types[place].isalpha())
        fields = {"src_type": int(_TYPES[types[:split]]), "dst_type": int(_TYPES[types[split:]])}
        if types.endswith("f32") or types == "f32f16":
            fields["round"] = _EVEN
        self.code.append(Insn(op="mov", dst=target, srcs=(source,), fields=fields))

    def _swap(self, item: Item) -> None:
        """The value of another lane. # src: Mesa 25.0.7, ir3_compiler_nir.c, emit_shfl"""
        if item.dst is None:
            return
        sources = self._register(item.srcs[0]), immediate(item.srcs[1].number)
        fields = {"type": int(Type.U32), "way": _XOR}
        self.code.append(Insn(op="shfl", dst=self._register(item.dst), srcs=sources, fields=fields))

    def _arithmetic(self, item: Item) -> Insn:
        op, fields, sources = item.op, {}, [self._source(item, one) for one in item.srcs]
        if item.stem == "cmps":
            name, kind, cond = op.split(".")
            op, fields = f"{name}.{kind}", {"cond": int(Cond[cond.upper()])}
        if op == "sub.f":
            op = "add.f"
            last = sources[1]
            sources[1] = replace(last, neg=True)
        target = None if item.dst is None else self._register(item.dst)
        return Insn(op=op, dst=target, srcs=tuple(sources), fields=fields)

    def _memory(self, item: Item) -> Insn:
        kind = _TYPES[item.kind]
        narrow = kind in (Type.U8, Type.U16)
        load = item.dst is not None
        data = item.dst if item.dst is not None else item.srcs[-1]
        if narrow:
            unit = self.places[data.number]
            self.words = max(self.words, (unit + item.count + 1) // 2)
            moved = half(unit)
        else:
            moved = self._register(data)
            words = self.places[data.number] // 2 + data.part + item.count
            self.words = max(self.words, words)
        address = [self._register(one) for one in (item.srcs if load else item.srcs[:-1])]
        if item.stem in ("isam", "ldg", "ldga", "stg", "stga"):
            self.words = max(self.words, address[0].number + 2)
        if item.stem == "isam":
            fields = {"type": int(kind), "mask": (1 << item.count) - 1, "tex": item.numbers[0]}
            return Insn(op="isam", dst=moved, srcs=tuple(address), fields=fields)
        fields = {"type": int(kind), "size": item.count}
        if item.stem in _NAMES:
            shift, fields["off"] = item.numbers[0], item.numbers[1]
            if self.generation < 7:
                fields["shift"] = shift
        else:
            fields["off"] = item.numbers[0]
        name = _NAMES.get(item.stem, item.stem)
        if load:
            return Insn(op=name, dst=moved, srcs=tuple(address), fields=fields)
        return Insn(op=name, srcs=(*address, moved), fields=fields)

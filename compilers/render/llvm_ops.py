"""LLVM IR spellings: types, literals, instructions, intrinsics and library calls."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import copysign, inf, isnan

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.render.common import FUNCTIONS, Value

SIGNED = {"shr": ("lshr", "ashr"), "idiv": ("udiv", "sdiv"), "imod": ("urem", "srem")}
FLOATS = {dt.float16: "half", dt.bfloat16: "bfloat", dt.float32: "float", dt.float64: "double"}
LIBRARY = """\
define internal {vector} @{helper}(<{lanes} x i1> %rare, {vector} %fast{params}) alwaysinline {{
%word = bitcast <{lanes} x i1> %rare to i{lanes}
%none = icmp eq i{lanes} %word, 0
br i1 %none, label %done, label %loop
loop:
%i = phi i64 [ 0, %0 ], [ %next, %latch ]
%before = phi {vector} [ %fast, %0 ], [ %after, %latch ]
%chosen = extractelement <{lanes} x i1> %rare, i64 %i
br i1 %chosen, label %slow, label %latch
slow:
{lane}
%one = call {element} @{name}({operands})
%put = insertelement {vector} %before, {element} %one, i64 %i
br label %latch
latch:
%after = phi {vector} [ %before, %loop ], [ %put, %slow ]
%next = add nuw nsw i64 %i, 1
%more = icmp ult i64 %next, {lanes}
br i1 %more, label %loop, label %done
done:
%result = phi {vector} [ %fast, %0 ], [ %after, %latch ]
ret {vector} %result
}}"""
"""`fast`, but the function in the lanes that are `rare`."""


def type_name(dtype: DType, lanes: int = 0) -> str:
    """ "float", "<4 x i32>": a bool is i1."""
    name = FLOATS.get(dtype) or ("i1" if dtype.kind == "b" else f"i{dtype.bits}")
    return f"<{lanes} x {name}>" if lanes else name


def type_of(value: Value) -> str:
    """A value's type."""
    return type_name(value.dtype, value.lanes)


def typed(*values: Value) -> str:
    """Values as operands: "float %v1, float %v2"."""
    return ", ".join(f"{type_of(value)} {value.text}" for value in values)


def literal_text(value: float, dtype: DType) -> str:
    """A constant; floats by the bits of a float64 that is exact in their dtype."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind != "f":
        return str(int(value))
    if isnan(value):
        return "0xFFF8000000000000" if copysign(1, value) < 0 else "0x7FF8000000000000"
    if dtype is dt.float32:
        try:
            (value,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            value = copysign(inf, value)
    return f"0x{struct.pack('>d', value).hex().upper()}"


class Module:
    """What is declared once a module: intrinsics, library functions and their lane loops."""

    def __init__(self) -> None:
        self.declared: dict[str, None] = {}
        self.helpers: dict[str, str] = {}

    def footer(self) -> list[str]:
        """Helpers, declarations and metadata, in order of first use."""
        return [*self.helpers.values(), *self.declared, "!0 = !{i32 1}"]

    def call(self, result: str, name: str, *operands: Value | tuple[str, str]) -> str:
        """A call of an intrinsic; operands are values, or types and texts."""
        pairs = [(type_of(o), o.text) if isinstance(o, Value) else o for o in operands]
        self.declared[f"declare {result} @{name}({', '.join(kind for kind, _ in pairs)})"] = None
        return f"call {result} @{name}({', '.join(' '.join(pair) for pair in pairs)})"

    def operation(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str:
        """The right-hand side of an op."""
        source, kind = args[0].dtype, type_of(args[0])
        texts = ", ".join(arg.text for arg in args)
        if op in COMPARE:
            return f"{_comparison(op, source)} {kind} {texts}"
        if op in {"cast", "bitcast"}:
            code = "bitcast" if op == "bitcast" else _conversion(source, dtype)
            return f"{code} {kind} {texts} to {type_name(dtype, args[0].lanes)}"
        if op == "where":
            return f"select {typed(*args)}"
        if op == "call":
            return self._library(name, args)
        if op in FUNCTIONS:
            return self.call(kind, f"llvm.{FUNCTIONS[op]}.{_suffix(args[0])}", *args)
        if source.kind == "f":
            return f"f{op} {kind} {texts}"
        return f"{SIGNED.get(op, (op, op))[source.kind == 'i']} {kind} {texts}"

    def _library(self, name: str, args: Sequence[Value]) -> str:
        """A C function in the lanes that the first operand names, else the second operand."""
        count, lanes, vector = len(args) - 2, args[1].lanes, type_of(args[1])
        element, helper = type_name(args[1].dtype), f"{name}.{lanes}"
        elements = ", ".join([element] * count)
        self.declared[f"declare {element} @{name}({elements}) nounwind willreturn memory(none)"] = (
            None
        )
        self.helpers[helper] = LIBRARY.format(
            name=name, helper=helper, lanes=lanes, element=element, vector=vector,
            params="".join(f", {vector} %x{i}" for i in range(count)),
            lane="\n".join(f"%e{i} = extractelement {vector} %x{i}, i64 %i" for i in range(count)),
            operands=", ".join(f"{element} %e{i}" for i in range(count)),
        )  # fmt: skip
        return f"call {vector} @{helper}({typed(*args)})"

    def masked(self, op: str, kind: Value, pointer: Value, mask: Value | None) -> str:
        """llvm.masked.load or .gather, of a value like `kind`, or .store or .scatter, of itself."""
        bools = (f"<{kind.lanes} x i1>", mask.text if mask else "splat (i1 true)")
        pointers = f"<{kind.lanes} x ptr>" if pointer.lanes else "ptr"
        name = f"llvm.masked.{op}.{_suffix(kind)}.{f'v{kind.lanes}' if pointer.lanes else ''}p0"
        place = (f"{pointers} align {kind.dtype.itemsize}", pointer.text)
        if kind.text:
            return self.call("void", name, kind, place, bools)
        vector = type_of(kind)
        return self.call(vector, name, place, bools, (vector, "zeroinitializer"))


def _suffix(value: Value) -> str:
    kind = f"{'f' if value.dtype.kind == 'f' else 'i'}{value.dtype.bits}"
    return f"v{value.lanes}{kind}" if value.lanes else kind


def _comparison(op: str, source: DType) -> str:
    if source.kind == "f":
        return "fcmp une" if op == "ne" else f"fcmp o{op}"
    sign = "" if op in {"eq", "ne"} else "s" if source.kind == "i" else "u"
    return f"icmp {sign}{op}"


def _conversion(source: DType, target: DType) -> str:
    if source.kind == "f" and target.kind == "f":
        return "fpext" if target.itemsize > source.itemsize else "fptrunc"
    if source.kind == "f":
        return "fptosi" if target.kind == "i" else "fptoui"
    if target.kind == "f":
        return "sitofp" if source.kind == "i" else "uitofp"
    if target.itemsize < source.itemsize:
        return "trunc"
    return "sext" if source.kind == "i" else "zext"

"""LLVM IR spellings: types, literals, instructions, intrinsics and library calls."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.math_build import as_float
from compilers.render_common import Value

INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor",
           "shl": "shl"}  # fmt: skip
FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
SIGNED = {"shr": ("lshr", "ashr"), "idiv": ("udiv", "sdiv"), "imod": ("urem", "srem")}
INTRINSICS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
              "rint": "rint", "copysign": "copysign", "fma": "fma"}  # fmt: skip

SCALAR_DOT_LANES = 4
"""Lanes of the narrowest vector that has the bfloat16 pair product."""


def scalar_type(dtype: DType) -> str:
    """ "float", "double" or "iN"; a bool is i1."""
    if dtype.kind == "f":
        return {2: "half", 4: "float", 8: "double"}[dtype.itemsize]
    return "i1" if dtype.kind == "b" else f"i{dtype.bits}"


def pair_type(dtype: DType, lanes: int) -> str:
    """The type of `lanes` elements, 0 for a scalar."""
    return f"<{lanes} x {scalar_type(dtype)}>" if lanes else scalar_type(dtype)


def type_of(value: Value) -> str:
    """A value's type."""
    return pair_type(value.dtype, value.lanes)


def literal_text(value: float, dtype: DType) -> str:
    """A constant; floats by their bits."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind != "f":
        return str(int(value))
    if value != value:
        return "0x7FF8000000000000"
    word: int = struct.unpack("<Q", struct.pack("<d", as_float(value, dtype)))[0]
    return f"0x{word:016X}"


def _suffix(dtype: DType, lanes: int) -> str:
    width = "i" if dtype.kind != "f" else "f"
    return f"v{lanes}{width}{dtype.bits}" if lanes else f"{width}{dtype.bits}"


class Module:
    """What is declared once a module: intrinsics, library functions and their lane loops."""

    def __init__(self) -> None:
        self.declared: dict[str, None] = {}
        self.helpers: dict[str, str] = {}
        self.streams = False

    def footer(self) -> list[str]:
        """Helpers, declarations and metadata, in order of first use."""
        metadata = ["!0 = !{i32 1}"] if self.streams else []
        return [*self.helpers.values(), *self.declared, *metadata]

    def _declare(self, result: str, name: str, params: Sequence[str], tail: str = "") -> None:
        self.declared[f"declare {result} @{name}({', '.join(params)}){tail}"] = None

    def operation(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str | None:
        """The right-hand side of an op; None when the operand's text serves unchanged."""
        kind, whole = type_of(args[0]), args[0].dtype.kind
        texts = ", ".join(arg.text for arg in args)
        if op in COMPARE:
            return _compare(op, args)
        if op in {"cast", "bitcast"}:
            return _convert(op, args[0], dtype)
        if op == "where":
            return f"select {', '.join(f'{type_of(a)} {a.text}' for a in args)}"
        if op in {"call", "patch"}:
            return self._library(op, dtype, args, name)
        if op in SIGNED:
            return f"{SIGNED[op][whole == 'i']} {kind} {texts}"
        if op in {"widen_half", "narrow_half"}:
            return self._half(op, args[0])
        if op == "dot2":
            return self._dot2(args)
        if op == "neg":
            return f"fneg {kind} {texts}"
        if op in INTRINSICS:
            return self._intrinsic(INTRINSICS[op], args)
        table = FLOAT if whole == "f" else INTEGER
        return f"{table[op]} {kind} {texts}"

    def _intrinsic(self, name: str, args: Sequence[Value]) -> str:
        kind = type_of(args[0])
        full = f"llvm.{name}.{_suffix(args[0].dtype, args[0].lanes)}"
        self._declare(kind, full, [kind] * len(args))
        return f"call {kind} @{full}({', '.join(f'{kind} {a.text}' for a in args)})"

    def _half(self, op: str, value: Value) -> str:
        """float16 bits to float32 or back, as a helper around the hardware's conversion."""
        lanes = value.lanes
        bits, single = pair_type(dt.uint16, lanes), pair_type(dt.float32, lanes)
        half, name = pair_type(dt.float16, lanes), f"{op}.{lanes}"
        if op == "widen_half":
            head, body = (
                f"{single} @{name}({bits} %x)",
                [
                    f"%h = bitcast {bits} %x to {half}",
                    f"%r = fpext {half} %h to {single}",
                    f"ret {single} %r",
                ],
            )
        else:
            head, body = (
                f"{bits} @{name}({single} %x)",
                [
                    f"%h = fptrunc {single} %x to {half}",
                    f"%r = bitcast {half} %h to {bits}",
                    f"ret {bits} %r",
                ],
            )
        lines = [f"define internal {head} nounwind alwaysinline {{", *body, "}"]
        self.helpers.setdefault(name, "\n".join(lines))
        result = head.split(" @", maxsplit=1)[0]
        return f"call {result} @{name}({type_of(value)} {value.text})"

    def _dot2(self, args: Sequence[Value]) -> str:
        """VDPBF16PS as a helper; a scalar goes through the first of four lanes."""
        lanes = args[0].lanes
        width = lanes or SCALAR_DOT_LANES
        words, single = pair_type(dt.uint32, lanes), pair_type(dt.float32, lanes)
        vector, pairs = f"<{width} x float>", f"<{2 * width} x bfloat>"
        intrinsic = f"llvm.x86.avx512bf16.dpbf16ps.{width * dt.float32.bits}"
        self._declare(vector, intrinsic, [vector, pairs, pairs])
        name, lines, names = f"dot2.{lanes}", [], ["%a", "%b", "%c"]
        if not lanes:
            for position, kind in enumerate((f"<{width} x i32>", f"<{width} x i32>", vector)):
                element = "i32" if position < len(names) - 1 else "float"
                lines.append(
                    f"{names[position]}.v = insertelement {kind} zeroinitializer, "
                    f"{element} {names[position]}, i64 0"
                )
                names[position] += ".v"
        lines += [f"{names[n]}.p = bitcast <{width} x i32> {names[n]} to {pairs}" for n in (0, 1)]
        lines.append(
            f"%r = call {vector} @{intrinsic}({vector} {names[2]}, "
            f"{pairs} {names[0]}.p, {pairs} {names[1]}.p)"
        )
        lines += (
            [f"%s = extractelement {vector} %r, i64 0", "ret float %s"]
            if not lanes
            else [f"ret {vector} %r"]
        )
        head = f"define internal {single} @{name}({words} %a, {words} %b, {single} %c)"
        self.helpers.setdefault(name, "\n".join([f"{head} nounwind alwaysinline {{", *lines, "}"]))
        operands = ", ".join(f"{type_of(arg)} {arg.text}" for arg in args)
        return f"call {single} @{name}({operands})"

    def _library(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str:
        """A C function, in every lane (call) or in the lanes its first operand names (patch)."""
        element, lanes = scalar_type(dtype), args[0].lanes
        inputs = len(args) - (2 if op == "patch" else 0)
        self._declare(element, name, [element] * inputs, " nounwind willreturn memory(none)")
        operands = ", ".join(f"{type_of(a)} {a.text}" for a in args)
        if op == "call" and not lanes:
            return f"call {element} @{name}({operands})"
        helper = f"{op}.{name}.{lanes}"
        if helper not in self.helpers:
            make = _patch_helper if op == "patch" else _lanes_helper
            self.helpers[helper] = make(helper, name, element, lanes, inputs)
        return f"call {pair_type(dtype, lanes)} @{helper}({operands})"

    def masked(self, op: str, dtype: DType, lanes: int, pointer: str, mask: Value | None) -> str:
        """llvm.masked.load or llvm.masked.gather, zero where the mask is false."""
        vector, bools = pair_type(dtype, lanes), f"<{lanes} x i1>"
        pointers = f"<{lanes} x ptr>" if op == "gather" else "ptr"
        name = f"llvm.masked.{op}.{_suffix(dtype, lanes)}." + (
            f"v{lanes}p0" if op == "gather" else "p0"
        )
        self._declare(vector, name, [pointers, bools, vector])
        condition = mask.text if mask is not None else "splat (i1 true)"
        return (
            f"call {vector} @{name}({pointers} align {dtype.itemsize} {pointer}, "
            f"{bools} {condition}, {vector} zeroinitializer)"
        )

    def masked_store(self, op: str, value: Value, pointer: str, mask: Value | None) -> str:
        """llvm.masked.store or llvm.masked.scatter."""
        lanes, vector = value.lanes, type_of(value)
        bools = f"<{lanes} x i1>"
        pointers = f"<{lanes} x ptr>" if op == "scatter" else "ptr"
        name = f"llvm.masked.{op}.{_suffix(value.dtype, lanes)}." + (
            f"v{lanes}p0" if op == "scatter" else "p0"
        )
        self._declare("void", name, [vector, pointers, bools])
        condition = mask.text if mask is not None else "splat (i1 true)"
        return (
            f"call void @{name}({vector} {value.text}, "
            f"{pointers} align {value.dtype.itemsize} {pointer}, {bools} {condition})"
        )


def _compare(op: str, args: Sequence[Value]) -> str:
    source = args[0].dtype
    if source.kind == "f":
        code = "fcmp " + ("une" if op == "ne" else "o" + op)
    else:
        sign = "" if op in {"eq", "ne"} else "s" if source.kind == "i" else "u"
        code = f"icmp {sign}{op}"
    return f"{code} {type_of(args[0])} {args[0].text}, {args[1].text}"


def _convert(op: str, value: Value, target: DType) -> str | None:
    source = value.dtype
    if scalar_type(source) == scalar_type(target):
        return None
    if op == "bitcast":
        code = "bitcast"
    elif source.kind == "f" and target.kind == "f":
        code = "fpext" if target.itemsize > source.itemsize else "fptrunc"
    elif source.kind == "f":
        code = "fptosi" if target.kind == "i" else "fptoui"
    elif target.kind == "f":
        code = "sitofp" if source.kind == "i" else "uitofp"
    elif source.kind != "b" and target.itemsize < source.itemsize:
        code = "trunc"
    else:
        code = "sext" if source.kind == "i" else "zext"
    return f"{code} {type_of(value)} {value.text} to {pair_type(target, value.lanes)}"


def _lanes_helper(helper: str, name: str, element: str, lanes: int, inputs: int) -> str:
    vector = f"<{lanes} x {element}>"
    params = ", ".join(f"{vector} %x{i}" for i in range(inputs))
    lines = [f"define internal {vector} @{helper}({params}) nounwind noinline {{"]
    result = "poison"
    for lane in range(lanes):
        lines += [
            f"%e{lane}.{i} = extractelement {vector} %x{i}, i64 {lane}" for i in range(inputs)
        ]
        operands = ", ".join(f"{element} %e{lane}.{i}" for i in range(inputs))
        lines += [
            f"%c{lane} = call {element} @{name}({operands})",
            f"%r{lane} = insertelement {vector} {result}, {element} %c{lane}, i64 {lane}",
        ]
        result = f"%r{lane}"
    return "\n".join([*lines, f"ret {vector} {result}", "}"])


def _patch_helper(helper: str, name: str, element: str, lanes: int, inputs: int) -> str:
    """The fast result unless a lane needs the function; then a loop over such lanes."""
    if not lanes:
        return _patch_scalar(helper, name, element, inputs)
    vector, bools, word = f"<{lanes} x {element}>", f"<{lanes} x i1>", f"i{lanes}"
    params = "".join(f", {vector} %x{i}" for i in range(inputs))
    lines = [
        f"define internal {vector} @{helper}({bools} %c, {vector} %fast{params}) "
        "nounwind alwaysinline {",
        f"%word = bitcast {bools} %c to {word}",
        f"%none = icmp eq {word} %word, 0",
        "br i1 %none, label %done, label %loop",
        "loop:",
        "%i = phi i64 [ 0, %0 ], [ %next, %latch ]",
        f"%so.far = phi {vector} [ %fast, %0 ], [ %later, %latch ]",
        f"%rare = extractelement {bools} %c, i64 %i",
        "br i1 %rare, label %slow, label %latch",
        "slow:",
    ]
    lines += [f"%e{i} = extractelement {vector} %x{i}, i64 %i" for i in range(inputs)]
    operands = ", ".join(f"{element} %e{i}" for i in range(inputs))
    lines += [
        f"%one = call {element} @{name}({operands})",
        f"%put = insertelement {vector} %so.far, {element} %one, i64 %i",
        "br label %latch",
        "latch:",
        f"%later = phi {vector} [ %so.far, %loop ], [ %put, %slow ]",
        "%next = add nuw nsw i64 %i, 1",
        f"%more = icmp ult i64 %next, {lanes}",
        "br i1 %more, label %loop, label %done",
        "done:",
        f"%result = phi {vector} [ %fast, %0 ], [ %later, %latch ]",
        f"ret {vector} %result",
        "}",
    ]
    return "\n".join(lines)


def _patch_scalar(helper: str, name: str, element: str, inputs: int) -> str:
    params = "".join(f", {element} %x{i}" for i in range(inputs))
    operands = ", ".join(f"{element} %x{i}" for i in range(inputs))
    return "\n".join(
        [
            f"define internal {element} @{helper}(i1 %c, {element} %fast{params}) "
            "nounwind alwaysinline {",
            "br i1 %c, label %slow, label %done",
            "slow:",
            f"%one = call {element} @{name}({operands})",
            "br label %done",
            "done:",
            f"%result = phi {element} [ %fast, %0 ], [ %one, %slow ]",
            f"ret {element} %result",
            "}",
        ]
    )

"""Kernel IR to LLVM IR text (opaque pointers), for any target LLVM knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import Kernel, Ref
from compilers.math.expand import Expander
from compilers.render.common import (
    CACHE_LINE,
    DOT2_LANES,
    HostPrinter,
    MemoryAccess,
    Value,
    memory_dtype,
)
from compilers.render.llvm_ops import Module, literal_text, type_name, type_of, typed
from compilers.render.walk import Walker

LANES = {"call": 1, "dot2": DOT2_LANES}
"""Ops that only vectors have: a scalar is the first lane of so many."""


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The module's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have, ValueError for a variable without a loop.
    """
    expander = Expander(features, native_half=bool(features & {"f16c", "avx512f"}))
    return Walker(kernel, LlvmPrinter(kernel), expander).run()


class LlvmPrinter(HostPrinter):
    """Prints basic blocks in SSA form."""

    def __init__(self, kernel: Kernel) -> None:
        self.module = Module()
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"
        self.polls = False
        self.names = {ref: f"%p{position}" for position, ref in enumerate(kernel.params)}
        for position, ref in enumerate(kernel.locals):
            name = self.names[ref] = f"%m{position}"
            self.lines.append(
                f"{name} = alloca [{ref.size} x {type_name(memory_dtype(ref))}], align {CACHE_LINE}"
                if ref.space == "register"
                else f"{name} = getelementptr i8, ptr %scratch, i64 {ref.slot}"
            )

    def _new(self, text: str, dtype: DType, lanes: int = 0) -> Value:
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return Value(f"%v{self.count}", dtype, lanes)

    # values

    def literal(self, value: float, dtype: DType) -> Value:
        return Value(literal_text(value, dtype), dtype)

    def iota(self, lanes: int, dtype: DType) -> Value:
        numbers = ", ".join(f"{type_name(dtype)} {lane}" for lane in range(lanes))
        return Value(f"<{numbers}>", dtype, lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        if not value.text.startswith("%"):
            return Value(f"splat ({typed(value)})", value.dtype, lanes)
        vector = type_name(value.dtype, lanes)
        first = self._new(
            f"insertelement {vector} poison, {typed(value)}, i64 0", value.dtype, lanes
        )
        return self.shuffle(first, first, [0] * lanes)

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        lanes = args[0].lanes
        if op in LANES and not lanes:
            wide = self.emit(op, dtype, [self.splat(arg, LANES[op]) for arg in args], name)
            return self._new(f"extractelement {typed(wide)}, i64 0", dtype)
        if op == "dot2":
            return self._dot2(*args)
        if op in {"cast", "bitcast"} and type_name(dtype, lanes) == type_of(args[0]):
            return Value(args[0].text, dtype, lanes)
        return self._new(self.module.operation(op, dtype, args, name), dtype, lanes)

    def _dot2(self, a: Value, b: Value, c: Value) -> Value:
        """VDPBF16PS."""
        pairs = f"<{2 * a.lanes} x bfloat>"
        words = [(pairs, self._new(f"bitcast {typed(v)} to {pairs}", v.dtype).text) for v in (a, b)]
        name = f"llvm.x86.avx512bf16.dpbf16ps.{a.lanes * c.dtype.bits}"
        return self._new(self.module.call(type_of(c), name, c, *words), c.dtype, c.lanes)

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        places = f"<{len(order)} x i32> <{', '.join(f'i32 {place}' for place in order)}>"
        return self._new(f"shufflevector {typed(a, b)}, {places}", a.dtype, len(order))

    # memory

    def _pointer(self, ref: Ref, index: Value) -> Value:
        """The address of an element, or one for each lane of the index."""
        element = type_name(memory_dtype(ref))
        text = f"getelementptr {element}, ptr {self.names[ref]}, {typed(index)}"
        return self._new(text, dt.uint64, index.lanes)

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        index, mask, dtype = access.index, access.mask, memory_dtype(access.ref)
        pointer = self._pointer(access.ref, index)
        if index.lanes or mask:
            op = "gather" if index.lanes else "load"
            text = self.module.masked(op, Value("", dtype, lanes), pointer, mask)
        else:
            kind = type_name(dtype, lanes)
            text = f"load {kind}, ptr {pointer.text}, align {dtype.itemsize}"
        return self._new(text, dtype, lanes)

    def store(self, access: MemoryAccess, value: Value) -> None:
        index, mask = access.index, access.mask
        pointer, align = self._pointer(access.ref, index), value.dtype.itemsize
        if index.lanes or mask:
            op = "scatter" if index.lanes else "store"
            self.lines.append(self.module.masked(op, value, pointer, mask))
            return
        hint = ""
        if access.streaming:
            align, hint = min(CACHE_LINE, align * max(value.lanes, 1)), ", !nontemporal !0"
        self.lines.append(f"store {typed(value)}, ptr {pointer.text}, align {align}{hint}")

    # control

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        self.count += 1
        body, i, before = f"loop{self.count}", f"%i{self.count}", self.block
        start, stop = ("%begin", "%end") if extent is None else ("0", str(extent))
        self.lines.append(f"{i}.some = icmp ult i64 {start}, {stop}")
        self.lines.append(f"br i1 {i}.some, label %{body}, label %{body}.end")
        self._label(body)
        self.lines.append(f"{i} = phi i64 [ {start}, %{before} ], [ {i}.next, %{body}.latch ]")
        yield Value(i, dt.int64)
        self.lines.append(f"br label %{body}.latch")
        self._label(f"{body}.latch")
        self.lines.append(f"{i}.next = add nuw nsw i64 {i}, 1")
        self.lines.append(f"{i}.more = icmp ult i64 {i}.next, {stop}")
        self.lines.append(f"br i1 {i}.more, label %{body}, label %{body}.end")
        self._label(f"{body}.end")

    def poll(self) -> None:
        self.polls = True
        word = self._new("load volatile i64, ptr %hold, align 8", dt.int64)
        held = self._new(f"icmp slt i64 {word.text}, 0", dt.bool_)
        self.lines.append(f"br i1 {held.text}, label %halt, label %go{self.count}")
        self._label(f"go{self.count}")

    @contextmanager
    def branch(self, condition: Value) -> Iterator[None]:
        self.count += 1
        then, join = f"then{self.count}", f"join{self.count}"
        self.lines.append(f"br i1 {condition.text}, label %{then}, label %{join}")
        self._label(then)
        yield
        self.lines.append(f"br label %{join}")
        self._label(join)

    def rarely(self, condition: Value, usual: Value, other: Callable[[], Value]) -> Value:
        """A branch and a phi."""
        some = condition.text
        if condition.lanes:
            word = f"i{condition.lanes}"
            bits = self._new(f"bitcast {typed(condition)} to {word}", dt.bool_).text
            some = self._new(f"icmp ne {word} {bits}, 0", dt.bool_).text
        self.count += 1
        before, rare, join = self.block, f"rare{self.count}", f"usual{self.count}"
        self.lines.append(f"br i1 {some}, label %{rare}, label %{join}")
        self._label(rare)
        chosen = self.emit("where", usual.dtype, [condition, other(), usual], "")
        places = f"[ {usual.text}, %{before} ], [ {chosen.text}, %{self.block} ]"
        self.lines.append(f"br label %{join}")
        self._label(join)
        return self._new(f"phi {type_of(usual)} {places}", usual.dtype, usual.lanes)

    def finish(self, kernel: Kernel) -> str:
        """Entry, body, and what the body needs from the module."""
        count = len(kernel.params)
        params = "".join(f"ptr noalias %p{i}, " for i in range(count))
        passed = "".join(f"ptr %p{i}, " for i in range(count))
        tail = "i64 %begin, i64 %end, ptr noalias %scratch"
        hold = ", ptr %hold" if self.polls else ""
        lines = [f"define void @{kernel.name}(ptr noalias %args, {tail}) nounwind {{"]
        for i in range(count):
            lines.append(f"%a{i} = getelementptr i64, ptr %args, i64 {i}")
            lines.append(f"%p{i} = load ptr, ptr %a{i}, align 8")
        if self.polls:
            lines.append("%hold = getelementptr i64, ptr %args, i64 -1")
        lines += [
            f"call void @{kernel.name}.body({passed}i64 %begin, i64 %end, ptr %scratch{hold})",
            "ret void",
            "}",
            f"define internal void @{kernel.name}.body({params}{tail}{hold}) nounwind noinline {{",
            "entry:",
            *self.lines,
            "ret void",
            *(["halt:", "ret void"] if self.polls else []),
            "}",
        ]
        return "\n".join([*lines, *self.module.footer()]) + "\n"

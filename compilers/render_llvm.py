"""Kernel IR to LLVM IR text (opaque pointers), for any target LLVM knows."""

from __future__ import annotations

from collections.abc import Sequence

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.index import Var
from compilers.ir import Kernel, Ref
from compilers.math import Expander
from compilers.render_common import Value, memory_dtype
from compilers.render_llvm_ops import Module, literal_text, pair_type, scalar_type, type_of
from compilers.render_walk import Walker

CACHE_LINE = 64


def render(kernel: Kernel, features: frozenset[str]) -> str:
    """The module's text; equal kernels give equal texts.

    Raises: TypeError for an op its dtype does not have, ValueError for a variable without a loop.
    """
    native_half = "f16c" in features or "avx512f" in features
    expander = Expander(features, native_half=native_half)
    return Walker(kernel, LlvmPrinter(kernel), expander).run()


class LlvmPrinter:
    """Prints basic blocks in SSA form."""

    def __init__(self, kernel: Kernel) -> None:
        self.module = Module()
        self.lines: list[str] = []
        self.count = 0
        self.blocks = 0
        self.current = "entry"
        self.open: list[tuple[str, str, str, str]] = []
        self.names: dict[Ref, str] = {}
        self._name_refs(kernel)

    def _name_refs(self, kernel: Kernel) -> None:
        for position, ref in enumerate(kernel.params):
            self.names[ref] = f"%p{position}"
        for position, ref in enumerate(kernel.locals):
            name = self.names[ref] = f"%m{position}"
            element = scalar_type(memory_dtype(ref))
            if ref.space == "register":
                self.lines.append(f"{name} = alloca [{ref.size} x {element}], align {CACHE_LINE}")
            else:
                self.lines.append(f"{name} = getelementptr i8, ptr %scratch, i64 {ref.slot}")

    def _new(self, text: str, dtype: DType, lanes: int) -> Value:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"{name} = {text}")
        return Value(name, dtype, lanes)

    # values

    def literal(self, value: float, dtype: DType) -> Value:
        return Value(literal_text(value, dtype), dtype, 0, literal=True)

    def iota(self, lanes: int, dtype: DType) -> Value:
        element = scalar_type(dtype)
        numbers = ", ".join(f"{element} {lane}" for lane in range(lanes))
        return Value(f"<{numbers}>", dtype, lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        element, vector = scalar_type(value.dtype), pair_type(value.dtype, lanes)
        if value.literal:
            return Value(f"splat ({element} {value.text})", value.dtype, lanes)
        first = self._new(
            f"insertelement {vector} poison, {element} {value.text}, i64 0", value.dtype, lanes
        )
        return self._new(
            f"shufflevector {vector} {first.text}, {vector} poison, "
            f"<{lanes} x i32> zeroinitializer",
            value.dtype,
            lanes,
        )

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str = "") -> Value:
        text = self.module.operation(op, dtype, args, name)
        lanes = args[0].lanes
        if text is None:
            return Value(args[0].text, dtype, lanes, args[0].literal)
        return self._new(text, dtype, lanes)

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        vector, places = type_of(a), ", ".join(f"i32 {place}" for place in order)
        return self._new(
            f"shufflevector {vector} {a.text}, {vector} {b.text}, <{len(order)} x i32> <{places}>",
            a.dtype,
            len(order),
        )

    # memory

    def _pointer(self, ref: Ref, index: Value) -> str:
        if index.literal and index.text == "0":
            return self.names[ref]
        element = scalar_type(memory_dtype(ref))
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(
            f"{name} = getelementptr {element}, ptr {self.names[ref]}, i64 {index.text}"
        )
        return name

    def load(self, ref: Ref, index: Value) -> Value:
        dtype = memory_dtype(ref)
        pointer = self._pointer(ref, index)
        return self._new(
            f"load {scalar_type(dtype)}, ptr {pointer}, align {dtype.itemsize}", dtype, 0
        )

    def load_lanes(self, ref: Ref, index: Value, lanes: int, mask: Value | None) -> Value:
        dtype = memory_dtype(ref)
        pointer, vector = self._pointer(ref, index), pair_type(dtype, lanes)
        if mask is None:
            return self._new(f"load {vector}, ptr {pointer}, align {dtype.itemsize}", dtype, lanes)
        return self._new(self.module.masked("load", dtype, lanes, pointer, mask), dtype, lanes)

    def _pointers(self, ref: Ref, index: Value) -> str:
        element = scalar_type(memory_dtype(ref))
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(
            f"{name} = getelementptr {element}, ptr {self.names[ref]}, "
            f"{type_of(index)} {index.text}"
        )
        return name

    def gather(self, ref: Ref, index: Value, mask: Value | None) -> Value:
        dtype = memory_dtype(ref)
        pointers = self._pointers(ref, index)
        text = self.module.masked("gather", dtype, index.lanes, pointers, mask)
        return self._new(text, dtype, index.lanes)

    def store(self, ref: Ref, index: Value, value: Value) -> None:
        pointer = self._pointer(ref, index)
        self.lines.append(
            f"store {type_of(value)} {value.text}, ptr {pointer}, align {value.dtype.itemsize}"
        )

    def store_lanes(
        self, ref: Ref, index: Value, value: Value, mask: Value | None, streaming: bool
    ) -> None:
        pointer, itemsize = self._pointer(ref, index), value.dtype.itemsize
        if mask is not None:
            self.lines.append(self.module.masked_store("store", value, pointer, mask))
        elif streaming:
            align = min(CACHE_LINE, itemsize * value.lanes)
            self.module.streams = True
            self.lines.append(
                f"store {type_of(value)} {value.text}, ptr {pointer}, "
                f"align {align}, !nontemporal !0"
            )
        else:
            self.lines.append(
                f"store {type_of(value)} {value.text}, ptr {pointer}, align {itemsize}"
            )

    def scatter(self, ref: Ref, index: Value, value: Value, mask: Value | None) -> None:
        pointers = self._pointers(ref, index)
        self.lines.append(self.module.masked_store("scatter", value, pointers, mask))

    # control

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.current = name

    def begin_loop(self, var: Var, extent: int | None) -> Value:
        self.blocks += 1
        body, name = f"loop{self.blocks}", f"%i{self.blocks}"
        start, stop = ("%begin", "%end") if extent is None else ("0", str(extent))
        before = self.current
        if extent is None:
            self.lines.append("%some = icmp ult i64 %begin, %end")
            self.lines.append(f"br i1 %some, label %{body}, label %{body}.end")
        else:
            self.lines.append(f"br label %{body}")
        self._label(body)
        self.lines.append(
            f"{name} = phi i64 [ {start}, %{before} ], [ {name}.next, %{body}.latch ]"
        )
        self.open.append((body, name, stop, ""))
        return Value(name, dt.int64)

    def end_loop(self) -> None:
        body, name, stop, _ = self.open.pop()
        self.lines.append(f"br label %{body}.latch")
        self._label(f"{body}.latch")
        self.lines.append(f"{name}.next = add nuw nsw i64 {name}, 1")
        self.lines.append(f"{name}.more = icmp ult i64 {name}.next, {stop}")
        self.lines.append(f"br i1 {name}.more, label %{body}, label %{body}.end")
        self._label(f"{body}.end")

    def begin_if(self, condition: Value) -> None:
        self.blocks += 1
        self.lines.append(
            f"br i1 {condition.text}, label %then{self.blocks}, label %join{self.blocks}"
        )
        self._label(f"then{self.blocks}")
        self.open.append((f"join{self.blocks}", "", "", ""))

    def end_if(self) -> None:
        join = self.open.pop()[0]
        self.lines.append(f"br label %{join}")
        self._label(join)

    def finish(self, kernel: Kernel) -> str:
        """Entry, body, and what the body needs from the module."""
        params = "".join(f"ptr noalias %p{i}, " for i in range(len(kernel.params)))
        passed = "".join(f"ptr %p{i}, " for i in range(len(kernel.params)))
        loads = []
        for i in range(len(kernel.params)):
            loads += [
                f"%a{i} = getelementptr i64, ptr %args, i64 {i}",
                f"%p{i} = load ptr, ptr %a{i}, align 8",
            ]
        tail = "i64 %begin, i64 %end, ptr noalias %scratch"
        entry = [
            f"define void @{kernel.name}(ptr noalias %args, {tail}) nounwind {{",
            *loads,
            f"call void @{kernel.name}.body({passed}i64 %begin, i64 %end, ptr %scratch)",
            "ret void",
            "}",
            f"define internal void @{kernel.name}.body({params}{tail}) nounwind noinline {{",
            "entry:",
            *self.lines,
            "ret void",
            "}",
        ]
        return "\n".join([*entry, *self.module.footer()]) + "\n"

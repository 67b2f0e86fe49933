"""What GPUs' LLVM IR has in common: a kernel of one lane, its memory, its loops.

Masked accesses are done element by element: lanes of a GPU are not lanes of a vector, and a vector
here is what one lane loads at once. A target adds its places, barriers, exchanges and its entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.ir import WAVE_OPS, Kernel, Ref
from compilers.math.build import UNSIGNED
from compilers.render.common import MemoryAccess, Value, alignment, memory_dtype
from compilers.render.llvm import LlvmPrinter
from compilers.render.llvm_ops import type_name, typed

INT32_LIMIT = 1 << 31
WORD_BYTES = 4
SHARED_SPACE = 3
"""LLVM's address space of shared memory, for every GPU."""


class GpuLlvmPrinter(LlvmPrinter):
    """Prints basic blocks in SSA form, for one lane."""

    narrow = True
    spaces: ClassVar[Mapping[str, int]]
    """Memory of a Ref -> LLVM's address space."""
    align_bytes: ClassVar[int]
    """Of arrays, and of one lane's largest load."""
    stack: ClassVar[str] = ""
    """After an array in registers: its address space, where that is not 0."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(Kernel(kernel.name, (), (), kernel.body))
        self.kernel = kernel
        self.names = {ref: f"%p{position}" for position, ref in enumerate(kernel.params)}
        self.tops: list[str] = []
        for position, ref in enumerate(kernel.locals):
            kind = f"[{max(ref.size, 1)} x {type_name(memory_dtype(ref))}]"
            if ref.space == "shared":
                self.names[ref] = f"@s{position}"
                self.tops.append(
                    f"@s{position} = internal addrspace({SHARED_SPACE}) global {kind} poison, "
                    f"align {self.align_bytes}"
                )
            else:
                self.names[ref] = f"%m{position}"
                self.lines.append(
                    f"%m{position} = alloca {kind}, align {self.align_bytes}{self.stack}"
                )

    def emit(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> Value:
        if op == "swap":
            return self._swap(args[0], int(name))
        if op in WAVE_OPS:
            return self._of_wave(op, dtype, args[0])
        return super().emit(op, dtype, args, name)

    def _of_wave(self, op: str, dtype: DType, value: Value) -> Value:
        """ballot, below or among."""
        raise TypeError(f"no {op} of a wave here")

    def _swap_dword(self, word: Value, mask: int) -> Value:
        """The word of the lane `lane ^ mask`."""
        raise TypeError(f"lanes exchange no values here (swap {mask})")

    def _swap(self, value: Value, mask: int) -> Value:
        """The value of the lane `lane ^ mask`, moved as one or two dwords."""
        unsigned = dt.uint8 if value.dtype.kind == "b" else UNSIGNED[value.dtype.itemsize]
        word = super().emit("cast" if value.dtype.kind == "b" else "bitcast", unsigned, [value], "")
        if unsigned is not dt.uint64:
            moved = self._swap_dword(super().emit("cast", dt.uint32, [word], ""), mask)
            back = super().emit("cast", unsigned, [moved], "")
        else:
            pair = self._new(f"bitcast i64 {word.text} to <2 x i32>", dt.uint32, 2)
            for half in range(2):
                part = self._new(f"extractelement {typed(pair)}, i64 {half}", dt.uint32)
                part = self._swap_dword(part, mask)
                text = f"insertelement {typed(pair)}, {typed(part)}, i64 {half}"
                pair = self._new(text, dt.uint32, 2)
            back = self._new(f"bitcast {typed(pair)} to i64", dt.uint64)
        if value.dtype.kind == "b":
            return self._new(f"trunc {typed(back)} to i1", dt.bool_)
        return super().emit("bitcast", value.dtype, [back], "")

    def _call(self, dtype: DType, name: str, *operands: Value | tuple[str, str]) -> Value:
        result = type_name(dtype)
        return self._new(self.module.call(result, f"llvm.{name}", *operands), dtype)

    # memory

    def _address(self, ref: Ref, index: Value) -> str:
        """`ptr addrspace(n) %x` of an element; byte offsets are unsigned 32-bit where they fit."""
        size, space = memory_dtype(ref).itemsize, self.spaces[ref.space]
        pointer = f"ptr addrspace({space})"
        if index.text.lstrip("-").isdigit():
            offset = f"i64 {int(index.text) * size}"
        elif ref.size * size < INT32_LIMIT:
            if index.dtype.itemsize > WORD_BYTES:
                index = super().emit("cast", dt.int32, [index], "")
            scaled = self._new(f"mul nuw nsw i32 {index.text}, {size}", dt.uint32)
            offset = f"i64 {self._new(f'zext i32 {scaled.text} to i64', dt.uint64).text}"
        else:
            wide = super().emit("cast", dt.int64, [index], "")
            offset = f"i64 {self._new(f'mul nuw nsw i64 {wide.text}, {size}', dt.int64).text}"
        text = f"getelementptr i8, {pointer} {self.names[ref]}, {offset}"
        return f"{pointer} {self._new(text, dt.uint64).text}"

    def _part(self, value: Value, lane: int) -> Value:
        if not value.lanes:
            return value
        return self._new(f"extractelement {typed(value)}, i64 {lane}", value.dtype)

    def _places(self, index: Value, lanes: int) -> Iterator[tuple[int, Value]]:
        """The scalar index of each element of an access."""
        for lane in range(lanes):
            if index.lanes:
                yield lane, self._part(index, lane)
            else:
                step = self.literal(lane, index.dtype)
                yield lane, super().emit("add", index.dtype, [index, step], "")

    def load(self, access: MemoryAccess, lanes: int) -> Value:
        ref, index, mask = access.ref, access.index, access.mask
        dtype = memory_dtype(ref)
        if not index.lanes and not mask:
            kind, address = type_name(dtype, lanes), self._address(ref, index)
            align = alignment(dtype, lanes, access.unit, self.align_bytes)
            return self._new(f"load {kind}, {address}, align {align}", dtype, lanes)
        result = Value("poison", dtype, lanes)
        for lane, place in self._places(index, lanes):
            wanted = mask and self._part(mask, lane)
            if wanted:
                zero = self.literal(0, place.dtype)
                place = super().emit("where", place.dtype, [wanted, place, zero], "")
            found = self.load(MemoryAccess(ref, place), 0)
            if wanted:
                zero = self.literal(0, dtype)
                found = super().emit("where", dtype, [wanted, found, zero], "")
            text = f"insertelement {typed(result)}, {typed(found)}, i64 {lane}"
            result = self._new(text, dtype, lanes)
        return result

    def store(self, access: MemoryAccess, value: Value) -> None:
        ref, index, mask = access.ref, access.index, access.mask
        if not index.lanes and not mask:
            address = self._address(ref, index)
            align = alignment(value.dtype, value.lanes, access.unit, self.align_bytes)
            self.lines.append(f"store {typed(value)}, {address}, align {align}")
            return
        for lane, place in self._places(index, value.lanes):
            one = self._part(value, lane)
            if mask is None:
                self.store(MemoryAccess(ref, place), one)
                continue
            with self.branch(self._part(mask, lane)):
                self.store(MemoryAccess(ref, place), one)

    # control

    @contextmanager
    def loop(self, extent: int | None) -> Iterator[Value]:
        """A serial loop of at least one iteration."""
        self.count += 1
        body, i, before = f"loop{self.count}", f"%i{self.count}", self.block
        self.lines.append(f"br label %{body}")
        self._label(body)
        self.lines.append(f"{i} = phi i32 [ 0, %{before} ], [ {i}.next, %{body}.latch ]")
        yield Value(i, dt.int32)
        self.lines.append(f"br label %{body}.latch")
        self._label(f"{body}.latch")
        self.lines.append(f"{i}.next = add nuw nsw i32 {i}, 1")
        self.lines.append(f"{i}.more = icmp ult i32 {i}.next, {extent}")
        self.lines.append(f"br i1 {i}.more, label %{body}, label %{body}.end")
        self._label(f"{body}.end")

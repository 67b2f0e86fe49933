"""LLVM IR of what lanes of NVIDIA's GPUs do together: matrix units, and copies under way.

LLVM has no intrinsic for wgmma and for a fence between proxies: those are inline assembly, with
texts that `compilers/nv/ptx.py` knows one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from compilers import dtype as dt
from compilers.ir import COPIED_BYTES, Copy, Gather, Matrix, Pending, Ref, TileMatrix, TileOperand
from compilers.nv import cuda_matrix
from compilers.nv.matrix_forms import (
    INSTRUCTIONS,
    WORD_BYTES,
    MatrixInstruction,
    instructions_of,
)
from compilers.nv.targets import NvTarget
from compilers.render.common import Value
from compilers.render.llvm_gpu import GpuLlvmPrinter
from compilers.render.llvm_ops import type_name, typed

_CALLS: Final = {
    ("copies", "close"): "nvvm.cp.async.commit.group",
    ("copies", "wait"): "nvvm.cp.async.wait.group",
    ("products", "open"): "nvvm.wgmma.fence.sync.aligned",
    ("products", "close"): "nvvm.wgmma.commit_group.sync.aligned",
    ("products", "wait"): "nvvm.wgmma.wait_group.sync.aligned",
}
_NEWEST: Final = {"copies": "i32", "products": "i64"}
"""The type of the number of groups that may be under way."""
_SHOW: Final = cuda_matrix.PENDING["copies", "show"]
_GATHER: Final = "nvvm.ldmatrix.sync.aligned.m8n8.x4{}.b16.p3"
_WORDS: Final = "{ i32, i32, i32, i32 }"
_COPY: Final = f"nvvm.cp.async.cg.shared.global.{COPIED_BYTES}"


def assembly_of(target: NvTarget) -> frozenset[str]:
    """The texts of inline assembly that modules for an architecture may have."""
    tiles = [made for made in instructions_of(target.matrix) if not made.intrinsic]
    texts = {
        _text(made, a_across=a, b_across=b)
        for made in tiles
        for a, b in ((False, False), (False, True), (True, False), (True, True))
        if made.form.dtype.itemsize == dt.float16.itemsize or not (a or b)
    }
    return frozenset({_SHOW, *texts}) if tiles else frozenset()


def _text(made: MatrixInstruction, *, a_across: bool, b_across: bool) -> str:
    text = cuda_matrix.tile_text(made, a_across=a_across, b_across=b_across)
    return re.sub(r"%(\d)", r"$\1", text)


class MatrixLlvm(GpuLlvmPrinter):
    """Prints the statements of `compilers.ir.Together`, barriers excepted."""

    def matrix(self, step: Matrix, a_index: Value, b_index: Value) -> None:
        """The operands are in registers, in words; the products are added to the sums."""
        made, form = INSTRUCTIONS[step.form.name], step.form
        operands = [
            *self._words(made, step.a, a_index, form.a.count),
            *self._words(made, step.b, b_index, form.b.count),
        ]
        places, before = self._sums(step.acc, step.slot, form.sums.count)
        text = self.module.call(_struct(step.acc, len(places)), f"llvm.{made.intrinsic}",
                                *operands, *before)  # fmt: skip
        self._keep(step.acc, text, places)

    def tile_matrix(self, step: TileMatrix, a_index: Value, b_index: Value) -> None:
        made, count = INSTRUCTIONS[step.form.name], step.form.sums.count
        text = _text(made, a_across=step.a.across, b_across=step.b.across)
        places, before = self._sums(step.acc, step.slot, count)
        letter = "r" if made.total == "s32" else "f"
        ties = [*[f"={letter}"] * count, "l", "l", *map(str, range(count)), "~{memory}"]
        tiles = [
            self._tile(operand, index, step.form.dtype.itemsize)
            for operand, index in ((step.a, a_index), (step.b, b_index))
        ]
        given = ", ".join([f"i64 {tile.text}" for tile in tiles] + [typed(sum_) for sum_ in before])
        call = f'call {_struct(step.acc, count)} asm sideeffect "{text}", "{",".join(ties)}"'
        self._keep(step.acc, f"{call}({given})", places)

    def gather(self, step: Gather, index: Value) -> None:
        name = _GATHER.format(".trans" if step.turned else "")
        pointer, text = self._address(step.source, index).rsplit(" ", 1)
        whole = self._new(self.module.call(_WORDS, f"llvm.{name}", (pointer, text)), dt.uint32).text
        size = step.to.dtype.itemsize
        for i in range(4):
            one = self._new(f"extractvalue {_WORDS} {whole}, {i}", dt.uint32)
            at = self.literal(step.slot + i * WORD_BYTES // size, dt.int32)
            place = self._address(step.to, at)
            self.lines.append(f"store i32 {one.text}, {place}, align {WORD_BYTES}")

    def copy(self, step: Copy, index: Value, at: Value, mask: Value | None) -> None:
        to, source = (
            self._address(ref, where).rsplit(" ", 1)
            for ref, where in ((step.to, index), (step.source, at))
        )
        operands = [(to[0], to[1]), (source[0], source[1])]
        if mask is None:
            self.lines.append(self.module.call("void", f"llvm.{_COPY}", *operands))
            return
        size, none = (self.literal(n, dt.int32) for n in (COPIED_BYTES, 0))
        nbytes = self.emit("where", dt.int32, (mask, size, none), "")
        self.lines.append(self.module.call("void", f"llvm.{_COPY}.s", *operands, nbytes))

    def pending(self, step: Pending) -> None:
        if step.step == "show":
            self.lines.append(f'call void asm sideeffect "{_SHOW}", "~{{memory}}"()')
            return
        newest = [(_NEWEST[step.of], str(step.newest))] if step.step == "wait" else []
        name = _CALLS[step.of, step.step]
        self.lines.append(self.module.call("void", f"llvm.{name}", *newest))

    def _sums(self, acc: Ref, slot: int, count: int) -> tuple[list[str], list[Value]]:
        """Where a lane's sums are, and what they are."""
        kind = type_name(acc.dtype)
        places = [self._address(acc, self.literal(slot + i, dt.int32)) for i in range(count)]
        return places, [self._new(f"load {kind}, {at}, align 4", acc.dtype) for at in places]

    def _keep(self, acc: Ref, text: str, places: list[str]) -> None:
        """The members of a result, as sums."""
        kind, result = type_name(acc.dtype), _struct(acc, len(places))
        whole = self._new(text, acc.dtype).text
        for i, place in enumerate(places):
            one = self._new(f"extractvalue {result} {whole}, {i}", acc.dtype)
            self.lines.append(f"store {kind} {one.text}, {place}, align 4")

    def _words(
        self, made: MatrixInstruction, ref: Ref, index: Value, count: int
    ) -> Iterator[tuple[str, str]]:
        """A lane's operand registers, with their type."""
        for first in range(0, count, made.per_word):
            at = self.emit("add", index.dtype, [index, self.literal(first, index.dtype)], "")
            place = self._address(ref, at)
            if made.narrowed:
                wide = self._new(f"load float, {place}, align {WORD_BYTES}", dt.float32)
                loaded = self._call(dt.uint32, "nvvm.f2tf32.rna", wide)
            else:
                loaded = self._new(f"load {made.operand}, {place}, align {WORD_BYTES}", ref.dtype)
            yield made.operand, loaded.text

    def _tile(self, operand: TileOperand, index: Value, itemsize: int) -> Value:
        """A descriptor: see cuda_matrix.TILE."""
        leading, stride = cuda_matrix.strides(operand, itemsize)
        place = self._new(f"ptrtoint {self._address(operand.ref, index)} to i64", dt.uint64)
        short = self._new(f"and i64 {place.text}, {cuda_matrix.ADDRESS_MASK}", dt.uint64)
        low = self._new(f"lshr i64 {short.text}, 4", dt.uint64)
        more = cuda_matrix.descriptor_strides(leading, stride)
        return self._new(f"or i64 {low.text}, {more}", dt.uint64)


def _struct(acc: Ref, count: int) -> str:
    return f"{{ {', '.join([type_name(acc.dtype)] * count)} }}"

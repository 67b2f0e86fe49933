"""Products of 16-bit floats on a GPU's matrix units: WMMA on RDNA3 and RDNA4, MFMA on CDNA3.

Both operands are staged with k contiguous, so that a lane's part of a fragment is one wide read.
Each wave owns a rectangle of 16 x 16 fragments of the workgroup's tile; sums are float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.algorithm import Algorithm
from compilers.contraction import Contraction
from compilers.fragments import FORMS, SIZE, Form, form_of
from compilers.gpu_tiles import (
    Machine,
    Placement,
    Staged,
    Tile,
    busiest,
    extent,
    stage,
    unrolled,
    width_of,
)
from compilers.index import Index, Var
from compilers.ir import Barrier, Expr, Kernel, Loop, Matrix, Ref, Stmt, Store

PAD = 8
"""Elements between the rows of a staged tile: 16 bytes, so that lanes that read the same k of
neighbouring rows meet different banks, and every row stays aligned for 128-bit reads."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The tile of a workgroup, and how many fragments a wave has of it."""

    rows: int
    columns: int
    depth: int
    wave_rows: int
    wave_columns: int

    @property
    def waves(self) -> int:
        return self.rows * self.columns // (self.wave_rows * self.wave_columns * SIZE * SIZE)


SHAPES = (Shape(128, 128, 32, 4, 2), Shape(64, 64, 32, 2, 2), Shape(32, 32, 32, 1, 1))
"""Largest first."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """A product whose operands a matrix unit takes as they are."""

    a: Expr
    b: Expr
    form: str


def narrow(found: Contraction, arch: str) -> Narrow | None:
    """The 16-bit operands below the conversions to float32, where `arch` has an instruction."""
    operands = (found.a, found.b)
    if any(operand.op != "cast" or operand.dtype is not dt.float32 for operand in operands):
        return None
    a, b = (operand.src[0] for operand in operands)
    if a.dtype is not b.dtype:
        return None
    form = form_of(arch, a.dtype)
    if form is None or min(map(extent, (found.m, found.n, found.k))) < SIZE:
        return None
    return Narrow(a, b, form)


def _choose(found: Contraction, machine: Machine) -> Shape:
    sizes = [(shape.rows, shape.columns) for shape in SHAPES]
    return SHAPES[busiest(sizes, found, machine.threads)]


def lower_matrix(
    algorithm: Algorithm, found: Contraction, operands: Narrow, machine: Machine
) -> Kernel:
    """The kernel, without a name and parameters."""
    return _Fragments(algorithm, found, operands, machine).kernel()


class _Fragments:
    def __init__(
        self, algorithm: Algorithm, found: Contraction, operands: Narrow, machine: Machine
    ) -> None:
        self.operands, self.shape = operands, _choose(found, machine)
        self.form: Form = FORMS[operands.form]
        shape = self.shape
        tile = Tile(shape.rows, shape.columns, shape.depth, shape.waves * self.form.lanes)
        self.place = Placement(algorithm, found, tile)
        self.vector_bytes = machine.vector_bytes
        stride = shape.depth + PAD
        self.a, self.b = (
            Staged(Ref(name, value.dtype, size * stride, "shared"), stride, 1)
            for name, value, size in (
                ("a", operands.a, shape.rows),
                ("b", operands.b, shape.columns),
            )
        )
        count = shape.wave_rows * shape.wave_columns * self.form.sums
        self.acc = Ref("acc", dt.float32, count, "register")
        at = ix.var(self.place.lane)
        self.within, wave = at % self.form.lanes, at // self.form.lanes
        across = shape.columns // (shape.wave_columns * SIZE)
        self.first_row = (wave // across) * (shape.wave_rows * SIZE)
        self.first_column = (wave % across) * (shape.wave_columns * SIZE)

    def kernel(self) -> Kernel:
        place, form = self.place, self.form
        clear = Var("c", self.acc.size)
        body: list[Stmt] = [
            *unrolled({clear: "unroll"}, [Store(self.acc, ix.var(clear), ex.const(0, dt.float32))])
        ]
        fill: list[Stmt] = []
        pairs = ((self.operands.a, self.a, True), (self.operands.b, self.b, False))
        for value, staged, of_rows in pairs:
            width = width_of(value.dtype, self.vector_bytes)
            fill += stage(place, value, staged, width, of_rows=of_rows)
        again = Var("kk", self.shape.depth // form.depth)
        multiply = unrolled({again: "unroll"}, self._products(ix.var(again) * form.depth))
        step = (*fill, Barrier(), *multiply, Barrier())
        once = place.steps.extent == 1
        body.append(Loop(place.steps, "unroll", step[:-1]) if once else
                    Loop(place.steps, "serial", step))  # fmt: skip
        body += self._finish()
        lanes = Loop(place.lane, "lane", tuple(body))
        refs = (self.acc, self.a.ref, self.b.ref)
        return Kernel("", (), refs, Loop(place.grid, "grid", (lanes,)), place.tile.block)

    def _products(self, k: Index) -> Sequence[Stmt]:
        """All fragments of the wave, for one instruction's depth."""
        form, line = self.form, self.within % SIZE
        part = ((self.within // SIZE) % form.groups) * form.per_lane
        made: list[Stmt] = []
        for row in range(self.shape.wave_rows):
            for column in range(self.shape.wave_columns):
                slot = (row * self.shape.wave_columns + column) * form.sums
                a_at = self.a.at(self.first_row + line + row * SIZE, k + part)
                b_at = self.b.at(self.first_column + line + column * SIZE, k + part)
                made.append(
                    Matrix(self.operands.form, self.acc, slot, self.a.ref, a_at, self.b.ref, b_at)
                )
        return made

    def _finish(self) -> tuple[Stmt, ...]:
        """Every sum of every fragment, where it belongs."""
        form, line, part = self.form, self.within % SIZE, self.within // SIZE
        row, column, at = (
            Var("row", self.shape.wave_rows),
            Var("column", self.shape.wave_columns),
            Var("at", form.sums),
        )
        element = ix.var(at)
        height = element * (SIZE // form.sums) + part if form.interleaved else (
            part * form.sums + element)  # fmt: skip
        slot = (ix.var(row) * self.shape.wave_columns + ix.var(column)) * form.sums + element
        store = self.place.result(
            self.first_row + ix.var(row) * SIZE + height,
            self.first_column + ix.var(column) * SIZE + line,
            ex.load(self.acc, slot),
        )
        return unrolled({row: "unroll", column: "unroll", at: "unroll"}, [store])

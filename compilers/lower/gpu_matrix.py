"""Products of 16-bit floats on a GPU's matrix units: WMMA on RDNA3 and RDNA4, MFMA on CDNA3.

    load tile 0
    for each step along k but the last: store the tile; barrier; load the next; multiply; barrier
    store the tile; barrier; multiply

Loads go to registers and are on their way while the wave multiplies. Both operands lie in shared
memory with k contiguous (compilers/lower/gpu_staging.py), so that a lane's part of a fragment is
one wide read. Each wave owns a rectangle of fragments of the workgroup's tile; sums are float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.amd.matrix_forms import FORMS, SMALLEST, Form, form_of
from compilers.index import Index, Var
from compilers.ir import Barrier, Expr, Kernel, Loop, Matrix, Ref, Stmt, Store
from compilers.lower.contraction import Contraction
from compilers.lower.gpu_staging import PANEL, Lines, Operand
from compilers.lower.gpu_tiles import Machine, Placement, Tile, busiest, extent, unrolled
from compilers.plan.algorithm import Algorithm

PANELS = {128 * 128: 2, 64 * 64: 4, 32 * 32: 4}
"""Panels along k that a step of fragments of 32 x 32 has, by the elements of a tile. The largest
tile has one: smaller ones are used where there is less than a workgroup for each compute unit, so
that nobody computes while loads are on their way, and twice the loads need half as many waits."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The tile of a workgroup, and how many fragments a wave has of it."""

    rows: int
    columns: int
    wave_rows: int
    wave_columns: int

    def waves(self, size: int) -> int:
        """Waves of a workgroup, with fragments of `size` x `size`."""
        return self.rows * self.columns // (self.wave_rows * self.wave_columns * size * size)


SHAPES = {
    16: (Shape(128, 128, 4, 4), Shape(64, 64, 2, 2), Shape(32, 32, 1, 1)),
    32: (Shape(256, 128, 4, 2), Shape(128, 128, 2, 2), Shape(64, 64, 1, 1), Shape(32, 32, 1, 1)),
}
"""By the size of a fragment, largest first. The largest has 128 sums in a lane: a wave that reads
r + c lines of both operands from shared memory multiplies r x c of them."""
FULL = 4
"""Fragments along the columns with which nothing more fits in a lane's 256 registers where each
part of a wave holds all of K (RDNA3): where columns are cut off, guards need registers too."""


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
    if form is None or min(map(extent, (found.m, found.n, found.k))) < SMALLEST:
        return None
    return Narrow(a, b, form)


def _choose(found: Contraction, machine: Machine, form: Form) -> Shape:
    shapes = SHAPES[form.size]
    sizes = [(shape.rows, shape.columns) for shape in shapes]
    shape = shapes[busiest(sizes, found, machine.threads)]
    if form.groups == 1 and shape.wave_columns == FULL and extent(found.n) % shape.columns:
        return replace(shape, wave_columns=FULL // 2)
    return shape


def _panels(shape: Shape, size: int, depth: int) -> int:
    """Panels along k that a workgroup stages at once, of a product so deep."""
    wanted = PANELS.get(shape.rows * shape.columns, 1) if size == max(SHAPES) else 1
    return min(wanted, 1 << ((max(depth // PANEL, 1)).bit_length() - 1))


def lower_matrix(
    algorithm: Algorithm, found: Contraction, operands: Narrow, machine: Machine
) -> Kernel:
    """The kernel, without a name and parameters."""
    return _Fragments(algorithm, found, operands, machine).kernel()


class _Fragments:
    def __init__(
        self, algorithm: Algorithm, found: Contraction, operands: Narrow, machine: Machine
    ) -> None:
        self.name = operands.form
        self.form: Form = FORMS[operands.form]
        size = self.form.size
        self.shape = shape = _choose(found, machine, self.form)
        block = shape.waves(size) * self.form.lanes
        self.panels = _panels(shape, size, extent(found.k))
        depth = PANEL * self.panels
        self.place = Placement(algorithm, found, Tile(shape.rows, shape.columns, depth, block))
        self.a = Operand(self.place, operands.a, "a", Lines(size, shape.wave_rows), of_rows=True)
        self.b = Operand(
            self.place, operands.b, "b", Lines(size, shape.wave_columns), of_rows=False
        )
        count = shape.wave_rows * shape.wave_columns * self.form.sums
        self.acc = Ref("acc", dt.float32, count, "register")
        at = ix.var(self.place.lane)
        self.within, wave = at % self.form.lanes, at // self.form.lanes
        across = shape.columns // (shape.wave_columns * size)
        self.first_row = (wave // across) * (shape.wave_rows * size)
        self.first_column = (wave % across) * (shape.wave_columns * size)

    def kernel(self) -> Kernel:
        place = self.place
        body: list[Stmt] = [*self._clear(), *self._load(ix.const(0))]
        ahead = Var("step", place.steps.extent - 1)
        if ahead.extent > 0:
            load = (*self._load(ix.var(ahead) + 1), Barrier(meet=False))
            step = (*self._store(), Barrier(), *load, *self._multiply(), Barrier())
            body.append(Loop(ahead, "serial" if ahead.extent > 1 else "unroll", step))
        body += [*self._store(), Barrier(), *self._multiply(), *self._finish()]
        lanes = Loop(place.lane, "lane", tuple(body))
        refs = (self.acc, self.a.held, self.b.held, self.a.shared, self.b.shared)
        return Kernel("", (), refs, Loop(place.grid, "grid", (lanes,)), place.tile.block)

    def _clear(self) -> tuple[Stmt, ...]:
        clear = Var("c", self.acc.size)
        return unrolled(
            {clear: "unroll"}, [Store(self.acc, ix.var(clear), ex.const(0, dt.float32))]
        )

    def _load(self, step: Index) -> tuple[Stmt, ...]:
        return (*self.a.load(step), *self.b.load(step))

    def _store(self) -> tuple[Stmt, ...]:
        return (*self.a.store(), *self.b.store())

    def _multiply(self) -> tuple[Stmt, ...]:
        panel, again = Var("panel", self.panels), Var("kk", PANEL // self.form.depth)
        once = self._products(ix.var(panel), ix.var(again) * self.form.depth)
        return unrolled({panel: "unroll", again: "unroll"}, [*once, Barrier(meet=False)])

    def _products(self, panel: Index, k: Index) -> Sequence[Stmt]:
        """All fragments of the wave, for one load of each."""
        form = self.form
        line = self.within % form.size
        part = ((self.within // form.size) % form.groups) * form.per_lane
        made: list[Stmt] = []
        for row in range(self.shape.wave_rows):
            for column in range(self.shape.wave_columns):
                slot = (row * self.shape.wave_columns + column) * form.sums
                a_at = self.a.at(self.first_row + line + row * form.size, k + part, panel)
                at = self.first_column + line + column * form.size
                b_at = self.b.at(at, k + part, panel)
                made.append(
                    Matrix(self.name, self.acc, slot, self.a.shared, a_at, self.b.shared, b_at)
                )
        return made

    def _finish(self) -> tuple[Stmt, ...]:
        """Every sum of every fragment, where it belongs: neighbouring columns at once."""
        form, shape = self.form, self.shape
        line, part = self.within % form.size, self.within // form.size
        row, column, at = (
            Var("row", shape.wave_rows),
            Var("column", shape.wave_columns),
            Var("at", form.sums),
        )
        element = ix.var(at)
        chunk, inside = element // form.chunk, element % form.chunk
        height = (chunk * form.parts + part) * form.chunk + inside
        slot = (ix.var(row) * shape.wave_columns + ix.var(column)) * form.sums + element
        store = self.place.result(
            self.first_row + height * shape.wave_rows + ix.var(row),
            self.first_column + line * shape.wave_columns + ix.var(column),
            ex.load(self.acc, slot),
        )
        stores = unrolled({row: "unroll", column: "vector"}, [store])
        return unrolled({at: "unroll"}, [*stores, Barrier(meet=False)])

"""Products of floats on a GPU's matrix units, by the forms that its target has.

    load tile 0
    for each step along k but the last: store the tile; barrier; load the next; multiply; barrier
    store the tile; barrier; multiply

Loads go to registers and are in flight while the wave multiplies. Both operands are in shared
memory with k contiguous (compilers/lower/gpu_staging.py): a lane's part of a fragment is
one wide read, or a read for each run of its neighbours. Each wave owns a rectangle of fragments
of the workgroup's tile; sums are float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.gpu_target import GpuTarget
from compilers.index import Index, Var
from compilers.ir import Barrier, Expr, Kernel, Loop, Matrix, Ref, Stmt, Store
from compilers.lower.contraction import Contraction
from compilers.lower.gpu_staging import PANEL, Lines, Operand
from compilers.lower.gpu_tiles import Machine, Placement, Tile, busiest, extent, unrolled
from compilers.math.build import HALVES
from compilers.matrix_form import Fragment, MatrixForm
from compilers.plan.algorithm import Algorithm

BYTES = (dt.int8, dt.uint8)
"""Sums of their products are exact in int32, modulo its range."""
SMALLEST = 16
"""A product with fewer rows, columns or elements along K than this is left to the vector units."""
MOST_SUMS = 128
"""Of a lane: half of 256 registers. A wave that reads r + c lines of both operands from shared
memory multiplies r x c of them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The tile of a workgroup, and the part of it that a wave has. Elements of the result."""

    rows: int
    columns: int
    wave_rows: int
    wave_columns: int
    panels: int = 1
    """Panels along k that are staged at once."""

    @property
    def waves(self) -> int:
        """Waves of a workgroup."""
        return self.rows * self.columns // (self.wave_rows * self.wave_columns)


SHAPES = (
    Shape(256, 128, 128, 64),
    Shape(128, 128, 64, 64),
    Shape(64, 64, 32, 32),
    Shape(32, 32, 16, 16),
)
"""Largest first; a wave has at least one fragment."""
PANELS = {128 * 128: 2, 64 * 64: 4, 32 * 32: 4}
"""Panels of a step by the elements of a tile, where a fragment has WIDE_FORM rows. The largest tile
has one. Smaller ones are used where there is less than a workgroup for each compute unit: then no
wave computes while loads are in flight, and twice the loads need half as many waits."""
WIDE_FORM = 32
FULL = 4
"""Fragments along the columns that fill a lane's 256 registers where each part of a wave holds
all of K (`MatrixForm.copies`): where columns are cut off, guards need registers, too."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """A product with operands that a matrix unit takes as they are in memory."""

    a: Expr
    b: Expr
    form: MatrixForm


def narrow(found: Contraction, gpu: GpuTarget) -> Narrow | None:
    """The 16-bit operands below the conversions to float32, or those of 8 bits below conversions
    to int32, or those that are multiplied, where there is a form for them."""
    a, b = found.a, found.b
    wide = {dt.float32: HALVES, dt.int32: BYTES}.get(a.dtype, ())
    if a.op == b.op == "cast" and a.dtype is b.dtype and a.src[0].dtype in wide:
        a, b = a.src[0], b.src[0]
    if a.dtype is not b.dtype or min(map(extent, (found.m, found.n, found.k))) < SMALLEST:
        return None
    for form in gpu.matrix_forms:
        if form.dtype is a.dtype and form.lanes == gpu.wave_lanes:
            return Narrow(a, b, form)
    return None


def shapes(found: Contraction, form: MatrixForm, machine: Machine) -> Iterator[Shape]:
    """What a workgroup may compute: the largest that keeps the compute units busy, then smaller
    ones, for a GPU on which that does not fit."""
    possible = []
    for shape in SHAPES:
        rows, columns = max(shape.wave_rows, form.rows), max(shape.wave_columns, form.columns)
        if rows * columns <= MOST_SUMS * form.lanes:
            possible.append(replace(shape, wave_rows=rows, wave_columns=columns))
    sizes = [(shape.rows, shape.columns) for shape in possible]
    for shape in possible[busiest(sizes, found, machine.threads) :]:
        full = shape.wave_columns == FULL * form.columns
        if form.copies > 1 and full and extent(found.n) % shape.columns:
            yield replace(shape, wave_columns=shape.wave_columns // 2)
            continue
        panels = _panels(shape, form, extent(found.k))
        if panels > 1:
            yield replace(shape, panels=panels)
        yield shape


def _panels(shape: Shape, form: MatrixForm, depth: int) -> int:
    """Panels along k that a workgroup stages at once, of a product so deep."""
    wanted = PANELS.get(shape.rows * shape.columns, 1) if form.rows == WIDE_FORM else 1
    return min(wanted, 1 << (max(depth // PANEL, 1).bit_length() - 1))


def lower_matrix(
    algorithm: Algorithm, found: Contraction, operands: Narrow, shape: Shape
) -> Kernel:
    """The kernel, without a name and parameters."""
    return _Fragments(algorithm, found, operands, shape).kernel()


class _Fragments:
    def __init__(
        self, algorithm: Algorithm, found: Contraction, operands: Narrow, shape: Shape
    ) -> None:
        self.form = form = operands.form
        self.shape = shape
        self.down, self.right = shape.wave_rows // form.rows, shape.wave_columns // form.columns
        """Fragments of a wave, along rows and columns."""
        block = shape.waves * form.lanes
        tile = Tile(shape.rows, shape.columns, PANEL * shape.panels, block)
        self.place = Placement(algorithm, found, tile)
        self.a = Operand(self.place, operands.a, "a", Lines(form.rows, self.down), of_rows=True)
        self.b = Operand(
            self.place, operands.b, "b", Lines(form.columns, self.right), of_rows=False
        )
        count = self.down * self.right * form.sums.count
        self.acc = Ref("acc", form.sums_dtype, count, "register")
        self.result = algorithm.reductions[0].result
        self.gathered = {
            operand: Ref(f"{operand.shared.name}_part", form.dtype, number * part.count, "register")
            for operand, number, part in ((self.a, self.down, form.a), (self.b, self.right, form.b))
            if not part.whole
        }
        """Registers for operands with a lane's elements apart in shared memory."""
        at = ix.var(self.place.lane)
        self.within, wave = at % form.lanes, at // form.lanes
        across = shape.columns // shape.wave_columns
        self.first_row = (wave // across) * shape.wave_rows
        self.first_column = (wave % across) * shape.wave_columns

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
        held, shared = (self.a.held, self.b.held), (self.a.shared, self.b.shared)
        refs = (self.acc, *held, *shared, *self.gathered.values())
        return Kernel("", (), refs, Loop(place.grid, "grid", (lanes,)), place.tile.block)

    def _clear(self) -> tuple[Stmt, ...]:
        clear = Var("c", self.acc.size)
        return unrolled(
            {clear: "unroll"}, [Store(self.acc, ix.var(clear), ex.const(0, self.acc.dtype))]
        )

    def _load(self, step: Index) -> tuple[Stmt, ...]:
        return (*self.a.load(step), *self.b.load(step))

    def _store(self) -> tuple[Stmt, ...]:
        return (*self.a.store(), *self.b.store())

    def _multiply(self) -> tuple[Stmt, ...]:
        panel, again = Var("panel", self.shape.panels), Var("kk", PANEL // self.form.depth)
        once = self._products(ix.var(panel), ix.var(again) * self.form.depth)
        return unrolled({panel: "unroll", again: "unroll"}, [*once, Barrier(meet=False)])

    def _products(self, panel: Index, k: Index) -> Sequence[Stmt]:
        """All fragments of the wave, for one load of each."""
        form = self.form
        a_load, a_from, a_at = self._operand(self.a, form.a, self.first_row, self.down, panel, k)
        b_load, b_from, b_at = self._operand(
            self.b, form.b, self.first_column, self.right, panel, k
        )
        made: list[Stmt] = [*a_load, *b_load]
        for row in range(self.down):
            for column in range(self.right):
                slot = (row * self.right + column) * form.sums.count
                made.append(Matrix(form, self.acc, slot, a_from, a_at[row], b_from, b_at[column]))
        return made

    def _operand(
        self,
        operand: Operand,
        fragment: Fragment,
        first: Index,
        number: int,
        panel: Index,
        k: Index,
    ) -> tuple[list[Stmt], Ref, list[Index]]:
        """The loads of a wave's fragments of an operand, and where a lane's elements of each then
        begin: in shared memory, or in registers that runs of neighbours are gathered in."""
        size = operand.lines.size

        def at(part: int, element: Index) -> Index:
            line, along = fragment.place(self.within, element)
            return operand.at(first + line + part * size, k + along, panel)

        held = self.gathered.get(operand)
        if held is None:
            return [], operand.shared, [at(part, ix.const(0)) for part in range(number)]
        load: list[Stmt] = []
        for part in range(number):
            run, inside = Var("run", fragment.count // fragment.run), Var("v", fragment.run)
            element = ix.var(run) * fragment.run + ix.var(inside)
            read = ex.load(operand.shared, at(part, element))
            put = Store(held, element + part * fragment.count, read)
            load += unrolled({run: "unroll", inside: "vector"}, [put])
        return load, held, [ix.const(part * fragment.count) for part in range(number)]

    def _finish(self) -> tuple[Stmt, ...]:
        """Store every sum of every fragment: neighbouring columns at once."""
        sums = self.form.sums
        row, column, at = Var("row", self.down), Var("column", self.right), Var("at", sums.count)
        element = ix.var(at)
        height, width = sums.place(self.within, element)
        slot = (ix.var(row) * self.right + ix.var(column)) * sums.count + element
        store = self.place.result(
            self.first_row + height * self.down + ix.var(row),
            self.first_column + width * self.right + ix.var(column),
            ex.converted(ex.load(self.acc, slot), self.result.dtype),
        )
        stores = unrolled({row: "unroll", column: "vector"}, [store])
        return unrolled({at: "unroll"}, [*stores, Barrier(meet=False)])

"""Products on matrix units whose operands are copied to shared memory ahead of them.

    copy the tiles of the first steps, each to its stage
    for each step along k: wait for its copies; barrier; copy one more step; multiply

A stage is copied to again after the barrier that follows its last use. Sums stay in registers.

By waves: each owns a rectangle of fragments, whose operands its lanes gather together. By groups of
waves: a matrix unit reads both operands in shared memory, and is waited for one step later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compilers import expr as ex
from compilers import index as ix
from compilers.gpu_target import GpuTarget
from compilers.index import Index, Var
from compilers.ir import (
    COPIED_BYTES,
    Barrier,
    Expr,
    Gather,
    If,
    Kernel,
    Loop,
    Matrix,
    Pending,
    Ref,
    Stmt,
    Store,
    TileMatrix,
)
from compilers.lower.contraction import Contraction
from compilers.lower.gpu_copied import Tiled, copied, gathered
from compilers.lower.gpu_tiles import Machine, Placement, Tile, busiest, unrolled
from compilers.matrix_form import MatrixForm, TileForm
from compilers.plan.algorithm import Algorithm

PAIR = 2
"""Neighbouring columns that a lane has of a sum, and fragments of B that it gathers at once."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A workgroup's tile, the part of it that a wave (or group of waves) has, and the pipeline."""

    rows: int
    columns: int
    own_rows: int
    own_columns: int
    depth_bytes: int
    """Of a line, for each step."""
    stages: int

    @property
    def owners(self) -> int:
        """Waves, or groups of them, of a workgroup."""
        return self.rows * self.columns // (self.own_rows * self.own_columns)


WAVES = (
    Shape(128, 128, 64, 64, 64, 3),
    Shape(64, 64, 32, 32, 64, 4),
    Shape(32, 32, 16, 16, 64, 4),
)
"""Largest first. The first has 49 KiB of shared memory: two workgroups share 100 KiB."""
GROUPS = (
    Shape(128, 256, 64, 256, 128, 4),
    Shape(128, 128, 64, 128, 128, 4),
    Shape(64, 64, 64, 64, 128, 4),
)
"""For `TileForm`, whose rows are `own_rows`. The first has one workgroup a compute unit."""


@dataclass(frozen=True, slots=True)
class Factors:
    """Operands as they are in memory, and the form that multiplies them."""

    a: Expr
    b: Expr
    form: MatrixForm | TileForm


def shapes(found: Contraction, factors: Factors, machine: Machine) -> Iterator[Shape]:
    """What a workgroup may compute: the largest that keeps the compute units busy, then with fewer
    stages, then smaller ones."""
    tiled = isinstance(factors.form, TileForm)
    possible = GROUPS if tiled else WAVES
    first = busiest([(shape.rows, shape.columns) for shape in possible], found, machine.threads)
    for shape in possible[first:]:
        if tiled and shape.own_columns != factors.form.columns:
            continue
        for stages in range(shape.stages, 1 + tiled, -1):
            yield Shape(
                shape.rows, shape.columns, shape.own_rows, shape.own_columns,
                shape.depth_bytes, stages,
            )  # fmt: skip


def factors(
    a: Expr, b: Expr, found: Contraction, gpu: GpuTarget, form: MatrixForm
) -> Iterator[Factors]:
    """The ways to multiply operands that a matrix unit takes: none where they are not copied."""
    if not gpu.copies:
        return
    for tile in gpu.tile_forms:
        if tile.dtype is form.dtype and _both(a, b, found, across=tile.across):
            yield Factors(a, b, tile)
    if form.gathered and _both(a, b, found, across=form.dtype.itemsize == PAIR):
        yield Factors(a, b, form)


def _both(a: Expr, b: Expr, found: Contraction, *, across: bool) -> bool:
    return copied(found, a, of_rows=True, across=across) and copied(
        found, b, of_rows=False, across=across
    )


def lower_pipeline(
    algorithm: Algorithm, found: Contraction, given: Factors, shape: Shape
) -> Kernel:
    """The kernel, without a name and parameters."""
    kind = _Groups if isinstance(given.form, TileForm) else _Waves
    return kind(algorithm, found, given, shape).kernel()


class _Pipeline:
    """One lowering in progress: all but the products."""

    ahead: int
    """Steps whose copies are under way, or there, when one is multiplied."""

    def __init__(
        self, algorithm: Algorithm, found: Contraction, given: Factors, shape: Shape
    ) -> None:
        self.shape, form = shape, given.form
        self.piece = COPIED_BYTES // form.dtype.itemsize
        depth = shape.depth_bytes // form.dtype.itemsize
        tile = Tile(shape.rows, shape.columns, depth, shape.owners * form.lanes)
        self.place = Placement(algorithm, found, tile)
        self.result = algorithm.reductions[0].result
        self.a = Tiled(self.place, given.a, "a", shape.stages, of_rows=True)
        self.b = Tiled(self.place, given.b, "b", shape.stages, of_rows=False)
        self.sums, self.sums_dtype = form.sums, form.sums_dtype
        self.down, self.right = shape.own_rows // form.rows, shape.own_columns // form.columns
        count = self.down * self.right * form.sums.count
        self.acc = Ref("acc", form.sums_dtype, count, "register")
        at = ix.var(self.place.lane)
        self.within, owner = at % form.lanes, at // form.lanes
        across = shape.columns // shape.own_columns
        self.first_row = owner // across * shape.own_rows
        self.first_column = owner % across * shape.own_columns
        self.tile_rows, self.tile_columns = form.rows, form.columns

    @property
    def registers(self) -> tuple[Ref, ...]:
        """Further ones."""
        return ()

    def multiply(self, stage: Index) -> tuple[Stmt, ...]:
        """One step's products, and what is waited for."""
        raise NotImplementedError

    def kernel(self) -> Kernel:
        place, steps = self.place, self.place.steps.extent
        clear = Var("c", self.acc.size)
        zero = Store(self.acc, ix.var(clear), ex.const(0, self.acc.dtype))
        body: list[Stmt] = [*unrolled({clear: "unroll"}, [zero])]
        for first in range(self.ahead):
            if first < steps:
                body += self._copy(ix.const(first))
            body.append(Pending("copies", "close"))
        step = ix.var(place.steps)
        more = ex.bounded([(step, 0, steps - self.ahead)])
        further = self._copy(step + self.ahead) if steps > self.ahead else ()
        turn: tuple[Stmt, ...] = (
            Pending("copies", "wait", self.ahead - 1),
            *self.shown(),
            Barrier(),
            *((If(more, further),) if further and more else further),
            Pending("copies", "close"),
            *self.multiply(step % self.shape.stages),
        )
        body.append(Loop(place.steps, "serial" if steps > 1 else "unroll", turn))
        body += [*self.drained(), *self._finish()]
        lanes = Loop(place.lane, "lane", tuple(body))
        refs = (self.acc, *self.registers, self.a.shared, self.b.shared)
        return Kernel("", (), refs, Loop(place.grid, "grid", (lanes,)), place.tile.block)

    def shown(self) -> tuple[Stmt, ...]:
        """Before the barrier of a step."""
        return ()

    def drained(self) -> tuple[Stmt, ...]:
        """After the last step."""
        return ()

    def _copy(self, step: Index) -> tuple[Stmt, ...]:
        stage = step % self.shape.stages
        return (*self.a.copy(step, stage), *self.b.copy(step, stage))

    def _finish(self) -> tuple[Stmt, ...]:
        """Store every sum: two neighbouring columns at once."""
        sums, result = self.sums, self.result
        row, column = Var("row", self.down), Var("column", self.right)
        pair, inside = Var("pair", sums.count // PAIR), Var("v", PAIR)
        element = ix.var(pair) * PAIR + ix.var(inside)
        height, width = sums.place(self.within, element)
        slot = (ix.var(row) * self.right + ix.var(column)) * sums.count + element
        total = ex.converted(ex.load(self.acc, slot), result.dtype)
        store = self.place.result(
            self.first_row + ix.var(row) * self.tile_rows + height,
            self.first_column + ix.var(column) * self.tile_columns + width,
            total,
        )
        loops = {row: "unroll", column: "unroll", pair: "unroll", inside: "vector"}
        return unrolled(loops, [store])


class _Waves(_Pipeline):
    def __init__(
        self, algorithm: Algorithm, found: Contraction, given: Factors, shape: Shape
    ) -> None:
        super().__init__(algorithm, found, given, shape)
        if not isinstance(given.form, MatrixForm):
            raise TypeError(f"{given.form.name} is not a wave's form")
        self.form = form = given.form
        self.ahead = shape.stages - 1
        self.a_part, self.b_part = (
            Ref(f"{name}_part", form.dtype, number * part.count, "register")
            for name, number, part in (("a", self.down, form.a), ("b", self.right, form.b))
        )

    @property
    def registers(self) -> tuple[Ref, ...]:
        return (self.a_part, self.b_part)

    def multiply(self, stage: Index) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for k in range(0, self.place.tile.depth, self.form.depth):
            made += [*self._gather(stage, ix.const(k)), *self._products()]
        return tuple(made)

    def _gather(self, stage: Index, k: Index) -> Iterator[Gather]:
        """All fragments of both operands: one of A, two of B at once."""
        form = self.form
        for row in range(self.down):
            line = self.first_row + row * form.rows
            at = gathered(self.a, stage, line, k, self.within, down_first=True)
            yield Gather(self.a_part, row * form.a.count, self.a.shared, at, self.a.across)
        for column in range(0, self.right, PAIR):
            line = self.first_column + column * form.columns
            at = gathered(self.b, stage, line, k, self.within, down_first=False)
            yield Gather(self.b_part, column * form.b.count, self.b.shared, at, self.b.across)

    def _products(self) -> Iterator[Matrix]:
        form = self.form
        for row in range(self.down):
            for column in range(self.right):
                slot = (row * self.right + column) * form.sums.count
                a, b = ix.const(row * form.a.count), ix.const(column * form.b.count)
                yield Matrix(form, self.acc, slot, self.a_part, a, self.b_part, b)


class _Groups(_Pipeline):
    """A stage is copied to two steps after its products began: all groups have waited by then."""

    def __init__(
        self, algorithm: Algorithm, found: Contraction, given: Factors, shape: Shape
    ) -> None:
        super().__init__(algorithm, found, given, shape)
        if not isinstance(given.form, TileForm):
            raise TypeError(f"{given.form.name} is a wave's form")
        self.form, self.ahead = given.form, shape.stages - PAIR

    def shown(self) -> tuple[Stmt, ...]:
        return (Pending("copies", "show"),)

    def drained(self) -> tuple[Stmt, ...]:
        return (Pending("products", "wait"),)

    def multiply(self, stage: Index) -> tuple[Stmt, ...]:
        made: list[Stmt] = [Pending("products", "open")]
        for k in range(0, self.place.tile.depth, self.form.depth):
            a = self.a.operand(stage, self.first_row, k)
            b = self.b.operand(stage, self.first_column, k)
            made.append(TileMatrix(self.form, self.acc, 0, a, b))
        return (*made, Pending("products", "close"), Pending("products", "wait", 1))

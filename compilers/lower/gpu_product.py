"""Matrix products on a GPU's vector units: tiles in shared memory, a block of registers a lane.

    for each step along k: stage A and B; barrier; multiply; barrier

A lane owns `rows` x `columns` of the tile in groups of four neighbours, the groups spread over the
tile: its reads of shared memory are 128 bits wide and those of neighbouring lanes are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Barrier, Expr, Kernel, Loop, Ref, Stmt, Store
from compilers.lower.contraction import Contraction
from compilers.lower.gpu_tiles import (
    Machine,
    Placement,
    Staged,
    Tile,
    busiest,
    extent,
    stage,
    unrolled,
)
from compilers.plan.algorithm import Algorithm

GROUP = 4
"""Neighbouring rows, or columns, of a lane: 16 bytes of float32."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A tile, and a lane's part of it."""

    tile: Tile
    rows: int
    columns: int


SHAPES = (
    Shape(Tile(128, 128, 8, 256), 8, 8),
    Shape(Tile(64, 64, 16, 256), 4, 4),
    Shape(Tile(32, 32, 16, 64), 4, 4),
)
"""Largest first: a larger tile reads less memory, a smaller one has work for more units."""
UNROLL = 8
"""Steps along k without a branch: more would only keep more registers alive at once."""
WIDE_SHAPES = (Shape(Tile(64, 64, 8, 256), 4, 4), Shape(Tile(32, 32, 8, 64), 4, 4))
"""For elements of 64 bits."""
DEEP_SHAPES = (Shape(Tile(128, 256, 8, 64), 16, 32), Shape(Tile(128, 128, 8, 64), 16, 16))
"""For `GpuTarget.costly_loads`, of results at least as large as the tile.
# measured: lavapipe 22.3.6 on an AVX-512 processor, 2026-11, 512^3 of float32 through WGSL: 44 and
# 61 ms of processor time, 100 ms with the first of SHAPES."""


def shapes(found: Contraction, machine: Machine, *, deep: bool = False) -> Sequence[Shape]:
    """The largest shape that keeps the compute units busy, then smaller ones, for a GPU on which
    that does not fit. `deep`: of a GPU with `costly_loads`."""
    wide = max(found.a.dtype.itemsize, found.b.dtype.itemsize) > GROUP
    possible = WIDE_SHAPES if wide else SHAPES
    if deep and not wide:
        rows, columns = extent(found.m), extent(found.n)
        fit = (one for one in DEEP_SHAPES if one.tile.rows <= rows and one.tile.columns <= columns)
        possible = (*fit, *possible)
    sizes = [(shape.tile.rows, shape.tile.columns) for shape in possible]
    return possible[busiest(sizes, found, machine.threads) :]


def lower_product(
    algorithm: Algorithm, found: Contraction, machine: Machine, shape: Shape
) -> Kernel:
    """The kernel, without a name and parameters."""
    return _Product(algorithm, found, machine, shape).kernel()


class _Product:
    def __init__(
        self, algorithm: Algorithm, found: Contraction, machine: Machine, shape: Shape
    ) -> None:
        self.found, self.shape = found, shape
        self.tile = tile = self.shape.tile
        self.place = Placement(algorithm, found, tile)
        self.dtype = algorithm.reductions[0].result.dtype
        self.width = machine.width
        a, b = (
            Staged(Ref(name, value.dtype, tile.depth * (size + GROUP), "shared"), 1, size + GROUP)
            for name, value, size in (("a", found.a, tile.rows), ("b", found.b, tile.columns))
        )
        self.a, self.b = a, b
        rows, columns = self.shape.rows, self.shape.columns
        self.acc = Ref("acc", self.dtype, rows * columns, "register")
        self.left = Ref("left", found.a.dtype, rows, "register")
        self.right = Ref("right", found.b.dtype, columns, "register")
        across = tile.columns // columns
        at = ix.var(self.place.lane)
        self.lane_column, self.lane_row = at % across, at // across

    def kernel(self) -> Kernel:
        place, found = self.place, self.found
        body: list[Stmt] = [*self._each(_Product._clear)]
        fill: list[Stmt] = []
        for value, staged, of_rows in ((found.a, self.a, True), (found.b, self.b, False)):
            width = self.width(value.dtype.itemsize)
            fill += stage(place, value, staged, width, of_rows=of_rows)
        step = (*fill, Barrier(), *self._multiply(), Barrier())
        body.append(Loop(place.steps, "serial" if place.steps.extent > 1 else "unroll", step))
        if place.steps.extent == 1:
            body[-1] = Loop(place.steps, "unroll", step[:-1])
        body += self._each(_Product._finish)
        lanes = Loop(place.lane, "lane", tuple(body))
        refs = (self.acc, self.left, self.right, self.a.ref, self.b.ref)
        return Kernel("", (), refs, Loop(place.grid, "grid", (lanes,)), self.tile.block)

    def _spread(self, group: Index, at: Index, count: int, size: int, lane: Index) -> Index:
        """The position in the tile of element `at` of a lane's group number `group`."""
        return group * (size // (count // GROUP)) + lane * GROUP + at

    def _multiply(self) -> tuple[Stmt, ...]:
        again, inner = Var("ko", self.tile.depth // UNROLL), Var("ki", UNROLL)
        k = ix.var(again) * UNROLL + ix.var(inner)
        load: list[Stmt] = []
        for ref, staged, count, size, lane in (
            (self.left, self.a, self.shape.rows, self.tile.rows, self.lane_row),
            (self.right, self.b, self.shape.columns, self.tile.columns, self.lane_column),
        ):
            group, at = Var("group", count // GROUP), Var("at", GROUP)
            where = self._spread(ix.var(group), ix.var(at), count, size, lane)
            read = ex.load(staged.ref, staged.at(where, k))
            put = Store(ref, ix.var(group) * GROUP + ix.var(at), read)
            load += unrolled({group: "unroll", at: "vector"}, [put])
        kinds = {again: "serial", inner: "unroll"}
        return unrolled(kinds, [*load, *self._each(_Product._join)])

    def _each(self, store: _Make) -> tuple[Stmt, ...]:
        """A store for each of the lane's sums, in vectors of neighbours."""
        row, group, at = (
            Var("row", self.shape.rows),
            Var("group", self.shape.columns // GROUP),
            Var("at", GROUP),
        )
        column = ix.var(group) * GROUP + ix.var(at)
        slot = ix.var(row) * self.shape.columns + column
        made = store(self, ix.var(row), ix.var(group), ix.var(at), slot)
        return unrolled({row: "unroll", group: "unroll", at: "vector"}, [made])

    def _clear(self, row: Index, group: Index, at: Index, slot: Index) -> Store:
        return Store(self.acc, slot, ex.const(0, self.dtype))

    def _join(self, row: Index, group: Index, at: Index, slot: Index) -> Store:
        a, b = ex.load(self.left, row), ex.load(self.right, group * GROUP + at)
        old = ex.load(self.acc, slot)
        if self.found.multiply == "fma":
            return Store(self.acc, slot, Expr("fma", self.dtype, (a, b, old)))
        product = Expr("mul", self.dtype, (a, b))
        return Store(self.acc, slot, Expr("add", self.dtype, (old, product)))

    def _finish(self, row: Index, group: Index, at: Index, slot: Index) -> Store:
        rows, columns = self.shape.rows, self.shape.columns
        in_row = self._spread(row // GROUP, row % GROUP, rows, self.tile.rows, self.lane_row)
        in_column = self._spread(group, at, columns, self.tile.columns, self.lane_column)
        return self.place.result(in_row, in_column, ex.load(self.acc, slot))


_Make = Callable[[_Product, Index, Index, Index, Index], Store]
"""(product, row, group, position in it, slot) -> a store."""

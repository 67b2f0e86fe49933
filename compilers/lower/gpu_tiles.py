"""What matrix products on a GPU share: tiles, where they lie, and how they get to shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Expr, If, Loop, Ref, Stmt, Store, Valid
from compilers.lower.contraction import Contraction
from compilers.plan.algorithm import Algorithm

BUSY = 2
"""A tile is used where a workgroup for every second compute unit has one."""


class Machine(Protocol):
    """What products depend on."""

    def width(self, itemsize: int) -> int: ...
    @property
    def threads(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Tile:
    """Of the result, `rows` x `columns` a workgroup, summed `depth` at a time by `block` lanes."""

    rows: int
    columns: int
    depth: int
    block: int


def extent(axes: Sequence[Var]) -> int:
    """Points of some axes."""
    return prod(axis.extent for axis in axes)


def busiest(sizes: Sequence[tuple[int, int]], found: Contraction, units: int) -> int:
    """Which of some tiles, largest first: the first that has a workgroup for every second unit."""
    rows, columns, batches = map(extent, (found.m, found.n, found.batch))
    groups = [-(-rows // height) * -(-columns // width) * batches for height, width in sizes]
    enough = (number for number, count in enumerate(groups) if count * BUSY >= units)
    return next(enough, len(sizes) - 1)


class Placement:
    """Where the tiles of a product lie: the grid, and axes as indices of tile and position."""

    def __init__(self, algorithm: Algorithm, found: Contraction, tile: Tile) -> None:
        self.algorithm, self.found, self.tile = algorithm, found, tile
        self.m, self.n, self.k = (extent(axes) for axes in (found.m, found.n, found.k))
        parts = (-(-self.m // tile.rows), -(-self.n // tile.columns))
        batches = [axis.extent for axis in found.batch]
        self.grid = Var("g", prod(batches) * prod(parts))
        *batch, self.row_tile, self.column_tile = ix.unflatten(
            ix.var(self.grid), (*batches, *parts)
        )
        self.env = dict(zip(found.batch, batch, strict=True))
        self.lane = Var("lane", tile.block)
        self.steps = Var("step", -(-self.k // tile.depth))

    def rows(self, at: Index) -> tuple[dict[Var, Index], Valid]:
        """The axes of m at a position in the tile, and whether they exist."""
        return self._axes(self.found.m, self.row_tile * self.tile.rows + at)

    def columns(self, at: Index) -> tuple[dict[Var, Index], Valid]:
        """The same for n."""
        return self._axes(self.found.n, self.column_tile * self.tile.columns + at)

    def depth(self, at: Index, step: Index | None = None) -> tuple[dict[Var, Index], Valid]:
        """The same for k, in a step (without one: the loop's)."""
        step = ix.var(self.steps) if step is None else step
        return self._axes(self.found.k, step * self.tile.depth + at)

    @staticmethod
    def _axes(axes: Sequence[Var], at: Index) -> tuple[dict[Var, Index], Valid]:
        extents = tuple(axis.extent for axis in axes)
        guard = ex.bounded([(at, 0, prod(extents))])
        return dict(zip(axes, ix.unflatten(at, extents), strict=True)), guard

    def result(self, row: Index, column: Index, total: Expr) -> Store:
        """The store of one element of the result, through the epilogue."""
        in_row, row_exists = self.rows(row)
        in_column, column_exists = self.columns(column)
        env, guard = {**self.env, **in_row, **in_column}, (*row_exists, *column_exists)
        rewriter = ex.Rewriter(env, {self.algorithm.reductions[0].result: total}, guard)
        at = rewriter.index(self.algorithm.index)
        return Store(self.algorithm.out, at, rewriter.expr(self.algorithm.value), guard)


@dataclass(frozen=True, slots=True)
class Staged:
    """An operand's tile in shared memory: element (x, k) at x * x_stride + k * k_stride."""

    ref: Ref
    x_stride: int
    k_stride: int

    def at(self, x: Index, k: Index) -> Index:
        """Where an element lies."""
        return x * self.x_stride + k * self.k_stride


def stage(
    place: Placement, value: Expr, staged: Staged, width: int, *, of_rows: bool
) -> tuple[Stmt, ...]:
    """Fill the tile: each lane loads `width` neighbours at a time, along what is contiguous.

    What does not exist is zero.
    """
    tile = place.tile
    across = tile.rows if of_rows else tile.columns
    axes = place.found.m if of_rows else place.found.n
    deep = along_depth(value, place.found.k[-1], axes[-1])
    width = min(width, tile.depth if deep else across)
    vectors = tile.depth * across // width
    lane, round_ = Var("v", width), Var("r", -(-vectors // tile.block))
    number = ix.var(round_) * tile.block + ix.var(place.lane)
    per_line = (tile.depth if deep else across) // width
    fast = (number % per_line) * width + ix.var(lane)
    x, k = (number // per_line, fast) if deep else (fast, number // per_line)
    in_x, x_exists = place.rows(x) if of_rows else place.columns(x)
    in_k, k_exists = place.depth(k)
    guard = (*x_exists, *k_exists)
    source = ex.Rewriter({**place.env, **in_x, **in_k}, guard=guard).expr(value)
    source = ex.guarded(source, guard, ex.const(0, value.dtype))
    body: tuple[Stmt, ...] = (Store(staged.ref, staged.at(x, k), source),)
    body = (Loop(lane, "vector" if width > 1 else "unroll", body),)
    short = ex.bounded([(number, 0, vectors)])
    return (Loop(round_, "unroll", (If(short, body),) if short else body),)


def along_depth(value: Expr, deep: Var, across: Var) -> bool:
    """Whether more reads of the operand are contiguous along k than along the other axis."""
    reads = [read.index.terms for read in ex.loads(value)]
    return sum(t.get(deep) == 1 for t in reads) >= sum(t.get(across) == 1 for t in reads)


def unrolled(loops: Mapping[Var, str], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """`body` in loops of the given kinds, outermost first."""
    result = tuple(body)
    for var, kind in reversed(list(loops.items())):
        result = (Loop(var, "unroll" if var.extent == 1 else kind, result),)
    return result

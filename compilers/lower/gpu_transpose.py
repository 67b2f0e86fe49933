"""Transpositions on a GPU: reads along one axis and stores along another go through tiles.

A workgroup takes a square of elements. Operands contiguous along the other axis are read along it,
16 bytes a lane where elements are of 4 or 8, and put into shared memory; stores, and all other
reads, go along the axis of the result. Lines of the tile are an odd number of elements of 4 bytes
apart, so that at most two lanes conflict in a bank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Barrier, Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid
from compilers.lower.gpu import BLOCK
from compilers.plan.algorithm import Algorithm
from compilers.plan.coalesce import rank_by_stride

SIDE, WIDTH, WIDTH_BYTES = 64, 4, 16
"""Of a tile, and what a lane reads or stores at once at most."""
LEAST = 32
"""Shorter axes are not worth a tile."""
SHARED_BYTES, DWORD = 40 << 10, 4
"""Of tiles: more would leave a compute unit with a single workgroup."""


def crossed(algorithm: Algorithm, units: int) -> tuple[Var, Var, list[Expr]] | None:
    """The axis of the result's neighbours, the axis of the neighbours of most reads that are apart
    along it, and these reads; None where tiles do not help, or half of the compute units would have
    none."""
    order = rank_by_stride(algorithm.inner, algorithm.value, [algorithm.index] * 2)
    last = next((axis for axis in order if algorithm.index.terms.get(axis) == 1), None)
    if last is None or last.extent < LEAST:
        return None
    reads: dict[Var, list[Expr]] = {}
    for expr in ex.walk([algorithm.value]):
        if expr.op == "load" and _plain(expr.arg.index):
            terms = expr.arg.index.terms
            for axis in algorithm.inner:
                across = axis is not last and terms.get(axis) == 1 and axis.extent >= LEAST
                if across and abs(terms.get(last, 0)) > 1:
                    reads.setdefault(axis, []).append(expr)
    if not reads:
        return None
    axis = max(reads, key=lambda axis: len(reads[axis]))
    shared = sum(pitch(read) * SIDE * read.dtype.itemsize for read in reads[axis])
    tiles = prod(other.extent for other in algorithm.inner if other not in (last, axis))
    tiles *= -(-last.extent // SIDE) * -(-axis.extent // SIDE)
    return (last, axis, reads[axis]) if shared <= SHARED_BYTES and 2 * tiles >= units else None


def _plain(index: Index) -> bool:
    """Whether it is a sum of multiples of variables."""
    return all(isinstance(atom, Var) for atom in index.terms)


def pitch(read: Expr) -> int:
    """Elements from one line of a tile to the next: an odd number of dwords, or of 8 bytes."""
    return SIDE + max(DWORD // read.dtype.itemsize, 1)


def lower_transpose(algorithm: Algorithm, last: Var, axis: Var, reads: Sequence[Expr]) -> Kernel:
    """The kernel, without a name and parameters."""
    return _Transpose(algorithm, last, axis, reads).kernel()


class _Transpose:
    def __init__(self, algorithm: Algorithm, last: Var, axis: Var, reads: Sequence[Expr]) -> None:
        self.algorithm, self.last, self.axis, self.reads = algorithm, last, axis, reads
        self.lane = Var("lane", BLOCK)
        others = [other for other in algorithm.inner if other is not last and other is not axis]
        extents = [other.extent for other in others]
        parts = (-(-axis.extent // SIDE), -(-last.extent // SIDE))
        self.grid = Var("g", prod(extents) * prod(parts))
        *lead, self.row, self.column = ix.unflatten(ix.var(self.grid), (*extents, *parts))
        self.env = dict(zip(others, lead, strict=True))
        self.tiles = {
            read: Ref(f"tile{n}", read.dtype, SIDE * pitch(read), "shared")
            for n, read in enumerate(reads)
        }
        self.held = {
            read: Ref(f"held{n}", read.dtype, SIDE * SIDE // BLOCK, "register")
            for n, read in enumerate(reads)
        }

    def kernel(self) -> Kernel:
        """Whole tiles, and those at the ends of both axes, in branches uniform over the lanes."""
        rows, columns = (axis.extent // SIDE for axis in (self.axis, self.last))
        parts: list[Stmt] = [*self._tile(whole=True)] if rows and columns else []
        rest: list[Valid] = []
        if self.column.high >= columns:
            parts = [If(((self.column, 0, columns),), tuple(parts))] if parts else []
            rest.append(((self.column, columns, self.column.high + 1),))
        if self.row.high >= rows:
            below = tuple(If(valid, self._tile(whole=False)) for valid in rest)
            parts = [If(((self.row, 0, rows),), (*parts, *below))] if rows else []
            rest = [((self.row, rows, self.row.high + 1),)]
        parts += [If(valid, self._tile(whole=False)) for valid in rest]
        lanes = Loop(self.lane, "lane", tuple(parts))
        refs = (*self.tiles.values(), *self.held.values())
        return Kernel("", (), refs, Loop(self.grid, "grid", (lanes,)), BLOCK)

    def _tile(self, *, whole: bool) -> tuple[Stmt, ...]:
        loads = [self._load(read, whole=whole) for read in self.reads]
        puts = [self._put(read) for read in self.reads]
        return (*loads, *puts, Barrier(), self._finish(whole=whole))

    def _cover(self, itemsize: int, make: Callable[[Index, Index, Index, Index], Store]) -> Stmt:
        """`make` of (line, first of the vector, element of it, slot) for each of the lane's
        elements: 64 lines of 64 elements, neighbouring lanes along a line."""
        width = max(min(WIDTH, WIDTH_BYTES // itemsize), 1)
        slot, again = Var("v", width), Var("r", SIDE * SIDE // BLOCK // width)
        number = ix.var(again) * BLOCK + ix.var(self.lane)
        line, first = number // (SIDE // width), number % (SIDE // width) * width
        store = make(line, first, ix.var(slot), ix.var(again) * width + ix.var(slot))
        inner = Loop(slot, "vector" if width > 1 else "unroll", (store,))
        return Loop(again, "unroll", (inner,))

    def _at(self, row: Index, column: Index) -> dict[Var, Index]:
        here = {self.axis: self.row * SIDE + row, self.last: self.column * SIDE + column}
        return {**self.env, **here}

    def _guard(self, at: dict[Var, Index]) -> Valid:
        """Whether an element exists."""
        return ex.bounded((at[axis], 0, axis.extent) for axis in (self.axis, self.last))

    def _load(self, read: Expr, *, whole: bool) -> Stmt:
        def make(line: Index, first: Index, element: Index, slot: Index) -> Store:
            env = self._at(first + element, line)
            guard = () if whole else self._guard(env)
            value = ex.Rewriter(env, guard=guard).expr(read)
            return Store(self.held[read], slot, value)

        return self._cover(read.dtype.itemsize, make)

    def _put(self, read: Expr) -> Stmt:
        def make(line: Index, first: Index, element: Index, slot: Index) -> Store:
            at = (first + element) * pitch(read) + line
            return Store(self.tiles[read], at, ex.load(self.held[read], slot))

        return self._cover(read.dtype.itemsize, make)

    def _finish(self, *, whole: bool) -> Stmt:
        def make(line: Index, first: Index, element: Index, slot: Index) -> Store:
            env = self._at(line, first + element)
            guard = () if whole else self._guard(env)
            tiles = {
                read: ex.load(tile, line * pitch(read) + first + element)
                for read, tile in self.tiles.items()
            }
            rewriter = ex.Rewriter(env, tiles, guard)
            at, value = rewriter.index(self.algorithm.index), rewriter.expr(self.algorithm.value)
            return Store(self.algorithm.out, at, value, guard)

        return self._cover(self.algorithm.out.dtype.itemsize, make)

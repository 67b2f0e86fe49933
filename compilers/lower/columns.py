"""Reductions down the columns: vectors lie along an outer axis, one accumulator per column.

A block of columns is reduced row by row, so memory is read in its own order: whole rows where they
fit, since a row's neighbour follows it. The accumulators of a narrow block are registers; those of
a wide one are a scratch array in a near cache, and several rows are joined before it is written
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Expr, If, Loop, Ref, Stmt, Valid
from compilers.lower.sweep import Emit, accumulate, fill, serial, store, sweep
from compilers.plan.algorithm import Algorithm, Reduction
from compilers.plan.coalesce import rank_by_stride

NARROW_VECTORS = 4
WIDE_BYTES = 64 << 10
"""Of the accumulators of a block.
# measured: EPYC Zen 5, x @ w of float32, w [4096, 11008]: 17 GB/s in blocks of 2,048 columns, 26 in
# one; [4096, 4096]: 18 and 24 (four rows at once); numpy 24 and 28."""
LEAST_COLUMNS = 2048
"""Of a block that is made for another thread."""
ROWS_BYTES, LEAST_ROWS, MOST_ROWS = 24, 4, 8
"""Rows at once: so many bytes of a column. # measured: float32, six rows 26 GB/s, four 25, eight
23; float16, eight rows 27, four 19, twelve 22."""


def column_axis(algorithm: Algorithm) -> Var | None:
    """The outer axis along which the reduced values are contiguous, when it beats the rows.

    A read counts by the elements it walks: in `x @ A` the rows of A, not x.
    """
    rows = 0
    reads: list[tuple[Index, int]] = []
    for reduction in algorithm.reductions:
        for read in ex.loads(reduction.value):
            elements = prod(axis.extent for axis in read.index.vars())
            reads.append((read.index, elements))
            contiguous = any(read.index.terms.get(axis) == 1 for axis in reduction.axes)
            rows += elements if contiguous else 0

    def units(axis: Var) -> int:
        return sum(elements for index, elements in reads if index.terms.get(axis) == 1)

    best = max(algorithm.outer, default=None, key=units)
    return best if best is not None and best.extent >= 4 and units(best) > rows else None


def lower_columns(
    algorithm: Algorithm, column: Var, lanes: int, threads: int = 1
) -> tuple[Loop, list[Ref]]:
    """The loop nest and its accumulators; blocks for `threads` threads."""
    lanes = min(lanes, 1 << (column.extent.bit_length() - 1))
    narrow = column.extent <= 2 * NARROW_VECTORS * lanes
    others = [axis for axis in algorithm.outer if axis is not column]
    if narrow:
        span = min(NARROW_VECTORS, column.extent // lanes) * lanes
    else:
        span = _span(algorithm, column, -(-threads // prod(axis.extent for axis in others)), lanes)
    full, rest = divmod(column.extent, span)
    parts = full + (rest > 0)
    grid = Var("g", prod(axis.extent for axis in others) * parts)
    *point, part = ix.unflatten(ix.var(grid), (*(axis.extent for axis in others), parts))
    env = dict(zip(others, point, strict=True))
    local = _accumulators(algorithm, span, "register" if narrow else "scratch")
    block = _Block(algorithm, column, env, local, lanes)
    whole = block.body(part * span, span)
    if not rest:
        return Loop(grid, "grid", tuple(whole)), local
    edge = block.body(ix.const(full * span), rest)
    if not full:
        return Loop(grid, "grid", tuple(edge)), local
    return Loop(
        grid,
        "grid",
        (If(((part, 0, full),), tuple(whole)), If(((part, full, parts),), tuple(edge))),
    ), local


def _span(algorithm: Algorithm, column: Var, threads: int, lanes: int) -> int:
    """Columns of a wide block: equal blocks, one for each thread at least where they are wide."""
    each = sum(reduction.value.dtype.itemsize for reduction in algorithm.reductions)
    parts = -(-column.extent * each // WIDE_BYTES)
    parts = max(parts, min(threads, column.extent // LEAST_COLUMNS))
    return -(-column.extent // (parts * lanes)) * lanes


def _rows_at_once(reduction: Reduction, column: Var) -> int:
    """Rows of a wide block that are joined before the accumulators are written."""
    walked = [read for read in ex.loads(reduction.value) if column in read.index.vars()]
    widest = max((read.ref.dtype.itemsize for read in walked), default=1)
    return min(max(ROWS_BYTES // widest, LEAST_ROWS), MOST_ROWS)


def _accumulators(algorithm: Algorithm, span: int, space: str) -> list[Ref]:
    refs: list[Ref] = []
    at = 0
    for number, reduction in enumerate(algorithm.reductions):
        refs.append(Ref(f"acc{number}", reduction.value.dtype, span, space, at))
        at += -(-span * reduction.value.dtype.itemsize // 64) * 64
    return refs


class _Block:
    """The statements for one block of neighbouring columns."""

    def __init__(
        self,
        algorithm: Algorithm,
        column: Var,
        env: Mapping[Var, Index],
        local: Sequence[Ref],
        lanes: int,
    ) -> None:
        self.algorithm, self.column, self.env = algorithm, column, env
        self.local, self.lanes = local, lanes
        self.narrow = local[0].space == "register"

    def body(self, base: Index, columns: int) -> list[Stmt]:
        """All reductions and the final store for `columns` columns from `base` on."""
        result: list[Stmt] = []
        for reduction, acc in zip(self.algorithm.reductions, self.local, strict=True):
            result += fill(acc, reduction.kind, self.lanes)
            result += self._reduce(reduction, acc, base, columns)
        final = dict(self.env)

        def finish(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
            where = {**final, self.column: base + at}
            return [store(self.algorithm, where, guard, lane, self._results(at))]

        return [*result, *serial(self.algorithm.inner, final, lambda: self._cover(columns, finish))]

    def _cover(self, columns: int, emit: Emit) -> list[Stmt]:
        """Register accumulators need constant slots: their vectors are unrolled."""
        if not self.narrow:
            return sweep(Var("c", columns), self.lanes, 1, emit)
        chains = columns // self.lanes
        whole = Var("c", chains * self.lanes)
        stmts = _unrolled(sweep(whole, self.lanes, 1, emit)) if chains else []
        rest = columns - whole.extent
        if rest:

            def tail(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
                moved = at + whole.extent
                inside = ex.bounded([(moved, 0, columns)]) if guard else ()
                return emit(moved, inside, chain, lane)

            stmts += sweep(Var("c", rest), self.lanes, 1, tail)
        return stmts

    def _results(self, at: Index) -> dict[Expr, Expr]:
        return {
            reduction.result: ex.load(acc, at)
            for reduction, acc in zip(self.algorithm.reductions, self.local, strict=True)
        }

    def _reduce(self, reduction: Reduction, acc: Ref, base: Index, columns: int) -> list[Stmt]:
        order = rank_by_stride(reduction.axes, reduction.value) or [Var("point", 1)]
        *lead, last = order
        several = min(_rows_at_once(reduction, self.column), last.extent)
        together = 1 if self.narrow else several
        inner = dict(self.env)

        def rows(first: int, count: int, at_once: int) -> list[Stmt]:
            row = Var("row", count)

            def emit(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
                values = [
                    ex.Rewriter(
                        {
                            **inner,
                            self.column: base + at,
                            last: ix.var(row) * at_once + (first + step),
                        },
                        self._results(at),
                        guard,
                    ).expr(reduction.value)
                    for step in range(at_once)
                ]
                return [accumulate(reduction.kind, acc, at, values, ())]

            return [Loop(row, "serial", tuple(self._cover(columns, emit)))]

        def inside() -> list[Stmt]:
            whole, rest = divmod(last.extent, together)
            body = rows(0, whole, together)
            return body + rows(whole * together, rest, 1) if rest else body

        return list(serial(lead, inner, inside))


def _unrolled(stmts: Sequence[Stmt]) -> list[Stmt]:
    return [
        Loop(stmt.var, "unroll", stmt.body)
        if isinstance(stmt, Loop) and stmt.kind == "serial"
        else stmt
        for stmt in stmts
    ]

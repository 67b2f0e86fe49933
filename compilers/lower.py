"""Algorithm -> Kernel for elementwise work and reductions.

Three shapes of loop nest, chosen by which axis memory is contiguous along:

    map      no reductions: blocks of the fastest axis
    rows     one outer point at a time, vectors along the reduced (or inner) axes: sum(axis=-1)
    columns  vectors along an outer axis, the reduction walks down them: sum(axis=0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from compilers import expr as ex
from compilers import index as ix
from compilers.algorithm import Algorithm, Reduction
from compilers.coalesce import coalesce, rank_by_stride
from compilers.contraction import contraction, lower_contraction
from compilers.index import Index, Var
from compilers.ir import Expr, If, Kernel, Loop, Ref, Stmt, Store, Valid

BLOCK_BYTES = 32 << 10
"""What one grid item of an elementwise kernel writes: a good part of the first-level cache."""
STREAM_BYTES = 16 << 20
"""An output at least this large is not in a cache when it is read again: write past them."""
MAX_CHAINS = 8
"""Independent accumulators that hide the latency of the combining instruction."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the lowering has to know of a device. Widths in bytes."""

    vector_bytes: int
    threads: int = 1
    features: frozenset[str] = frozenset()


def lower(name: str, algorithm: Algorithm, target: Target) -> Kernel:
    """The kernel of an algorithm, in the shape that suits its memory accesses."""
    if contraction(algorithm) is not None:
        body, local = lower_contraction(coalesce(algorithm), target)
        return _kernel(name, body, local)
    algorithm = coalesce(algorithm)
    lanes = _lanes(algorithm, target)
    if not algorithm.reductions:
        return _kernel(name, _map(algorithm, lanes), ())
    column = _column_axis(algorithm)
    if column is not None:
        return _kernel(name, *_columns(algorithm, column, lanes))
    return _kernel(name, *_rows(algorithm, lanes))


def _kernel(name: str, body: Loop, local: Sequence[Ref]) -> Kernel:
    return Kernel(name, tuple(global_refs(body)), tuple(local), body)


def global_refs(body: Stmt) -> list[Ref]:
    """The parameters a body names, in the order of their slots."""
    found: dict[Ref, None] = {}

    def visit(stmt: Stmt) -> None:
        if isinstance(stmt, Store):
            refs = [stmt.ref, *(read.ref for read in ex.loads(stmt.value))]
            found.update(dict.fromkeys(ref for ref in refs if ref.space == "global"))
        else:
            for inner in stmt.body:
                visit(inner)

    visit(body)
    return sorted(found, key=lambda ref: ref.slot)


def _lanes(algorithm: Algorithm, target: Target) -> int:
    """Lanes of one vector: as many as the widest value computed allows."""
    widest = max((expr.dtype.itemsize for expr in ex.walk(algorithm.roots())
                  if expr.op not in ("const", "valid")), default=1)
    return max(target.vector_bytes // max(widest, algorithm.out.dtype.itemsize), 1)


Emit = Callable[[Index, Valid, int, Var | None], Sequence[Stmt]]
"""(index along the axis, guard, chain, lane variable) -> statements."""


def sweep(axis: Var, lanes: int, chains: int, emit: Emit) -> list[Stmt]:
    """Cover an axis: `chains` vectors at a time, then single vectors, then a masked one."""
    n, span = axis.extent, lanes * chains
    result: list[Stmt] = []
    if n >= span and chains > 1:
        t = Var("t", n // span)
        body: list[Stmt] = []
        for chain in range(chains):
            body += _vector(lanes, ix.var(t) * span + chain * lanes, (), chain, emit)
        result.append(Loop(t, "serial", tuple(body)))
    done = n // span * span if chains > 1 else 0
    if (n - done) // lanes:
        s = Var("s", (n - done) // lanes)
        result.append(Loop(s, "serial", _vector(lanes, ix.var(s) * lanes + done, (), 0, emit)))
    rest = n % lanes
    if rest:
        width = 1 << (rest - 1).bit_length()
        lane = Var("l", width)
        at = ix.var(lane) + (n - rest)
        guard = ex.bounded([(at, 0, n)])
        stmts = tuple(emit(at, guard, 0, lane))
        result.append(Loop(lane, "vector", stmts) if width > 1 else _scalar(stmts))
    return result


def _scalar(stmts: tuple[Stmt, ...]) -> Stmt:
    return Loop(Var("one", 1), "unroll", stmts)


def _vector(lanes: int, base: Index, guard: Valid, chain: int, emit: Emit) -> tuple[Stmt, ...]:
    if lanes == 1:
        return tuple(emit(base, guard, chain, None))
    lane = Var("l", lanes)
    return (Loop(lane, "vector", tuple(emit(base + ix.var(lane), guard, chain, lane))),)


def serial(axes: Sequence[Var], env: dict[Var, Index],
           inside: Callable[[], Sequence[Stmt]]) -> tuple[Stmt, ...]:
    """Serial loops over `axes`, bound in `env`, around what `inside` emits."""
    loops = [Var(axis.name, axis.extent) for axis in axes]
    env.update((axis, ix.var(loop)) for axis, loop in zip(axes, loops, strict=True))
    result = tuple(inside())
    for loop in reversed(loops):
        result = (Loop(loop, "serial", result),)
    return result


def _streams(algorithm: Algorithm, store: Store, lane: Var | None) -> bool:
    """Whether a vector store may go past the caches: large output, aligned full lines."""
    size = algorithm.out.dtype.itemsize
    if lane is None or algorithm.out.size * size < STREAM_BYTES or lane.extent * size < 64:
        return False
    others = [k for atom, k in store.index.terms.items() if atom is not lane]
    aligned = all(k * size % 64 == 0 for k in (*others, store.index.const))
    return aligned and store.index.terms.get(lane) == 1 and not store.valid


def _store(algorithm: Algorithm, env: dict[Var, Index], guard: Valid, lane: Var | None,
           results: dict[Expr, Expr]) -> Store:
    rewriter = ex.Rewriter(env, results, guard)
    store = Store(algorithm.out, rewriter.index(algorithm.index),
                  rewriter.expr(algorithm.value), guard)
    return replace(store, streaming=True) if _streams(algorithm, store, lane) else store


# --- map ---------------------------------------------------------------------------------------


def _map(algorithm: Algorithm, lanes: int) -> Loop:
    order = rank_by_stride(algorithm.inner, algorithm.value, [algorithm.index] * 2)
    if not order:
        order = [Var("point", 1)]
    *lead, last = order
    block = max(BLOCK_BYTES // algorithm.out.dtype.itemsize // lanes, 1) * lanes
    full, rest = divmod(last.extent, block) if last.extent > block else (0, last.extent)
    parts = full + (rest > 0)
    grid = Var("g", prod(axis.extent for axis in lead) * parts)
    *outer, part = ix.unflatten(ix.var(grid), (*(axis.extent for axis in lead), parts))
    env = dict(zip(lead, outer, strict=True))

    def cover(extent: int) -> tuple[Stmt, ...]:
        def emit(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
            position = part * block + at
            inside = ex.bounded([(position, 0, last.extent)]) if guard else ()
            return [_store(algorithm, {**env, last: position}, inside, lane, {})]
        return tuple(sweep(Var(last.name, extent), lanes, 1, emit))

    if not full or not rest:
        return Loop(grid, "grid", cover(block if full else rest))
    return Loop(grid, "grid", (If(((part, 0, full),), cover(block)),
                               If(((part, full, parts),), cover(rest))))


# --- rows --------------------------------------------------------------------------------------


def _rows(algorithm: Algorithm, lanes: int) -> tuple[Loop, list[Ref]]:
    grid = Var("g", prod(axis.extent for axis in algorithm.outer))
    point = ix.unflatten(ix.var(grid), tuple(axis.extent for axis in algorithm.outer))
    env = dict(zip(algorithm.outer, point, strict=True))
    body: list[Stmt] = []
    local: list[Ref] = []
    results: dict[Expr, Expr] = {}
    for number, reduction in enumerate(algorithm.reductions):
        acc = Ref(f"acc{number}", reduction.value.dtype, 0, "register")
        acc, stmts = _reduce_row(reduction, acc, env, lanes, results)
        body += stmts
        local.append(acc)
        results[reduction.result] = ex.load(acc, ix.const(0))
    body += _finish_row(algorithm, env, lanes, results)
    return Loop(grid, "grid", tuple(body)), local


def _reduce_row(reduction: Reduction, shape: Ref, env: dict[Var, Index], lanes: int,
                results: dict[Expr, Expr]) -> tuple[Ref, list[Stmt]]:
    """One accumulator per chain and lane, joined at the end."""
    order = rank_by_stride(reduction.axes, reduction.value) or [Var("point", 1)]
    *lead, last = order
    lanes = min(lanes, 1 << max(last.extent.bit_length() - 1, 0))
    chains = _chains(last.extent, lanes)
    acc = replace(shape, size=lanes * chains)
    inner = dict(env)

    def emit(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
        slot = ix.const(chain * lanes) + (ix.var(lane) if lane else 0)
        value = ex.Rewriter({**inner, last: at}, results, guard).expr(reduction.value)
        return [_accumulate(reduction.kind, acc, slot, value, guard)]

    loops = serial(lead, inner, lambda: sweep(last, lanes, chains, emit))
    return acc, [*_fill(acc, reduction.kind, lanes, chains), *loops,
                 *_join(acc, reduction.kind, lanes, chains)]


def _chains(extent: int, lanes: int) -> int:
    vectors = extent // lanes
    return min(MAX_CHAINS, 1 << max(vectors.bit_length() - 2, 0)) if vectors >= 2 else 1


def _accumulate(kind: str, acc: Ref, slot: Index, value: Expr, guard: Valid) -> Store:
    old = ex.load(acc, slot)
    joined = Expr(ex.COMBINE[kind], value.dtype, (old, value))
    return Store(acc, slot, ex.guarded(joined, guard, old))


def _fill(acc: Ref, kind: str, lanes: int, chains: int) -> list[Stmt]:
    start = ex.const(ex.identity(kind, acc.dtype), acc.dtype)
    result: list[Stmt] = []
    for chain in range(chains):
        result += _vector(lanes, ix.const(chain * lanes), (), 0,
                          lambda at, *_: [Store(acc, at, start)])
    return result


def _join(acc: Ref, kind: str, lanes: int, chains: int) -> list[Stmt]:
    """Chains onto the first vector pairwise, then its halves onto each other."""
    result: list[Stmt] = []

    def fold(width: int, distance: int, base: int = 0) -> None:
        def emit(at: Index, *_: object) -> list[Stmt]:
            return [_accumulate(kind, acc, at, ex.load(acc, at + distance), ())]
        result.extend(_vector(width, ix.const(base), (), 0, emit))

    half = chains // 2
    for _ in range(chains.bit_length() - 1):
        for chain in range(half):
            fold(lanes, half * lanes, chain * lanes)
        half //= 2
    width = lanes // 2
    for _ in range(lanes.bit_length() - 1):
        fold(width, width)
        width //= 2
    return result


def _finish_row(algorithm: Algorithm, env: dict[Var, Index], lanes: int,
                results: dict[Expr, Expr]) -> tuple[Stmt, ...]:
    order = rank_by_stride(algorithm.inner, algorithm.value, [algorithm.index] * 2)
    if not order:
        return (_store(algorithm, env, (), None, results),)
    *lead, last = order
    inner = dict(env)

    def emit(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
        return [_store(algorithm, {**inner, last: at}, guard, lane, results)]

    return serial(lead, inner, lambda: sweep(last, lanes, 1, emit))


# --- columns -----------------------------------------------------------------------------------


def _column_axis(algorithm: Algorithm) -> Var | None:
    """The outer axis along which the reduced values are contiguous, when it beats the rows."""
    reads = [read.index for reduction in algorithm.reductions
             for read in ex.loads(reduction.value)]
    rows = sum(any(index.terms.get(axis) == 1 for axis in reduction.axes)
               for reduction in algorithm.reductions
               for index in [read.index for read in ex.loads(reduction.value)])
    best = max(algorithm.outer, default=None,
               key=lambda axis: sum(index.terms.get(axis) == 1 for index in reads))
    if best is None or best.extent < 4:
        return None
    columns = sum(index.terms.get(best) == 1 for index in reads)
    return best if columns > rows else None


def _columns(algorithm: Algorithm, column: Var, lanes: int) -> tuple[Loop, list[Ref]]:
    lanes = min(lanes, 1 << (column.extent.bit_length() - 1))
    chains = min(4, max(column.extent // lanes, 1))
    span = lanes * chains
    full, rest = divmod(column.extent, span)
    parts = full + (rest > 0)
    others = [axis for axis in algorithm.outer if axis is not column]
    grid = Var("g", prod(axis.extent for axis in others) * parts)
    *point, part = ix.unflatten(ix.var(grid), (*(axis.extent for axis in others), parts))
    env = dict(zip(others, point, strict=True))
    local = [Ref(f"acc{number}", reduction.value.dtype, span, "register")
             for number, reduction in enumerate(algorithm.reductions)]
    whole = _column_block(algorithm, column, env, part * span, local, lanes, chains)
    if not rest:
        return Loop(grid, "grid", tuple(whole)), local
    edge = _column_block(algorithm, column, env, ix.const(full * span), local, lanes,
                         -(-rest // lanes))
    return Loop(grid, "grid", (If(((part, 0, full),), tuple(whole)),
                               If(((part, full, parts),), tuple(edge)))), local


def _column_block(algorithm: Algorithm, column: Var, env: dict[Var, Index], base: Index,
                  local: Sequence[Ref], lanes: int, chains: int) -> list[Stmt]:
    """All reductions and the final store for `chains` vectors of neighbouring columns."""
    body: list[Stmt] = []

    def each(emit: Callable[[Index, Index, Valid, dict[Expr, Expr], Var | None], Stmt],
             ) -> list[Stmt]:
        result: list[Stmt] = []
        for chain in range(chains):
            lane = Var("l", lanes)
            slot = ix.const(chain * lanes) + (ix.var(lane) if lanes > 1 else 0)
            at = base + slot
            results = {reduction.result: ex.load(acc, slot)
                       for reduction, acc in zip(algorithm.reductions, local, strict=True)}
            guard = ex.bounded([(at, 0, column.extent)])
            stmt = emit(at, slot, guard, results, lane if lanes > 1 else None)
            result.append(Loop(lane, "vector", (stmt,)) if lanes > 1 else stmt)
        return result

    for reduction, acc in zip(algorithm.reductions, local, strict=True):
        body += _fill(acc, reduction.kind, lanes, chains)
        inner = dict(env)

        def step(at: Index, slot: Index, guard: Valid, results: dict[Expr, Expr],
                 lane: Var | None, reduction: Reduction = reduction, acc: Ref = acc,
                 inner: dict[Var, Index] = inner) -> Stmt:
            rewriter = ex.Rewriter({**inner, column: at}, results, guard)
            return _accumulate(reduction.kind, acc, slot, rewriter.expr(reduction.value), ())

        order = rank_by_stride(reduction.axes, reduction.value)
        body += serial(order, inner, lambda step=step: each(step))
    final = dict(env)

    def finish(at: Index, slot: Index, guard: Valid, results: dict[Expr, Expr],
               lane: Var | None) -> Stmt:
        return _store(algorithm, {**final, column: at}, guard, lane, results)

    body += serial(algorithm.inner, final, lambda: each(finish))
    return body

"""Pieces every lowering uses: covering an axis with vectors, accumulators, the final store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Expr, Loop, Ref, Stmt, Store, Valid
from compilers.plan.algorithm import Algorithm

STREAM_BYTES = 16 << 20
"""An output at least this large is not in a cache when it is read again: write past them."""
STREAM_VECTOR_BYTES = 32
"""The narrowest vector that is stored past the caches: of AVX2. Two in a row fill a line."""
LINE_BYTES = 64

Emit = Callable[[Index, Valid, int, "Var | None"], Sequence[Stmt]]
"""(index along the axis, guard, chain, lane variable) -> statements."""


def sweep(axis: Var, lanes: int, chains: int, emit: Emit) -> list[Stmt]:
    """Cover an axis: `chains` vectors at a time, then single vectors, then a masked one."""
    n, span = axis.extent, lanes * chains
    result: list[Stmt] = []
    done = n // span * span if chains > 1 else 0
    if done:
        t = Var("t", done // span)
        body: list[Stmt] = []
        for chain in range(chains):
            body += vector(lanes, ix.var(t) * span + chain * lanes, emit, chain)
        result.append(Loop(t, "serial", tuple(body)))
    if (n - done) // lanes:
        s = Var("s", (n - done) // lanes)
        result.append(Loop(s, "serial", vector(lanes, ix.var(s) * lanes + done, emit)))
    rest = n % lanes
    if rest:
        lane = Var("l", 1 << (rest - 1).bit_length())
        at = ix.var(lane) + (n - rest)
        stmts = tuple(emit(at, ex.bounded([(at, 0, n)]), 0, lane))
        result.append(Loop(lane, "vector" if lane.extent > 1 else "unroll", stmts))
    return result


def vector(lanes: int, base: Index, emit: Emit, chain: int = 0) -> tuple[Stmt, ...]:
    """One vector of `lanes` elements from `base` on."""
    if lanes == 1:
        return tuple(emit(base, (), chain, None))
    lane = Var("l", lanes)
    return (Loop(lane, "vector", tuple(emit(base + ix.var(lane), (), chain, lane))),)


def serial(
    axes: Sequence[Var], env: dict[Var, Index], inside: Callable[[], Sequence[Stmt]]
) -> tuple[Stmt, ...]:
    """Serial loops over `axes`, bound in `env`, around what `inside` emits."""
    loops = [Var(axis.name, axis.extent) for axis in axes]
    env.update((axis, ix.var(loop)) for axis, loop in zip(axes, loops, strict=True))
    result = tuple(inside())
    for loop in reversed(loops):
        result = (Loop(loop, "serial", result),)
    return result


def accumulate(kind: str, acc: Ref, slot: Index, values: Sequence[Expr], guard: Valid) -> Store:
    """acc[slot] joined with `values`, where `guard` holds."""
    old = joined = ex.load(acc, slot)
    for value in values:
        joined = Expr(ex.COMBINE[kind], value.dtype, (joined, value))
    return Store(acc, slot, ex.guarded(joined, guard, old))


def fill(acc: Ref, kind: str, lanes: int) -> list[Stmt]:
    """Every element of an accumulator becomes the identity of `kind`."""
    start = ex.const(ex.identity(kind, acc.dtype), acc.dtype)
    if acc.space == "scratch":
        return sweep(Var("f", acc.size), lanes, 1, lambda at, *_: [Store(acc, at, start)])
    result: list[Stmt] = []
    for first in range(0, acc.size, lanes):
        result += vector(lanes, ix.const(first), lambda at, *_: [Store(acc, at, start)])
    return result


def store(
    algorithm: Algorithm,
    env: Mapping[Var, Index],
    guard: Valid,
    lane: Var | None,
    results: Mapping[Expr, Expr],
) -> Store:
    """The store of one point (or vector) of an algorithm's result."""
    rewriter = ex.Rewriter(env, results, guard)
    plain = Store(
        algorithm.out, rewriter.index(algorithm.index), rewriter.expr(algorithm.value), guard
    )
    return replace(plain, streaming=True) if _streams(plain, lane) else plain


def _streams(plain: Store, lane: Var | None) -> bool:
    """Whether a vector store may go past the caches: large output, and vectors that are aligned
    and fill lines, alone or with their neighbours."""
    size = plain.ref.dtype.itemsize
    if lane is None or plain.valid or plain.ref.size * size < STREAM_BYTES:
        return False
    nbytes = lane.extent * size
    if nbytes % STREAM_VECTOR_BYTES or plain.index.terms.get(lane) != 1:
        return False
    others = [abs(k) * size for atom, k in plain.index.terms.items() if atom is not lane]
    unit = min(nbytes, LINE_BYTES)
    aligned = all(k % unit == 0 for k in (*others, plain.index.const * size))
    return aligned and (nbytes % LINE_BYTES == 0 or nbytes in others)

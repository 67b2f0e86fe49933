"""Merging neighbouring axes that every access walks as one: fewer, longer loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compilers import expr as ex
from compilers import index as ix
from compilers.index import Index, Var
from compilers.ir import Expr
from compilers.plan.algorithm import Algorithm, Reduction


def coalesce(algorithm: Algorithm) -> Algorithm:
    """The same algorithm over as few axes as its accesses allow."""
    accesses = [algorithm.index]
    for expr in ex.walk(algorithm.roots()):
        accesses.extend(ex.indices(expr))
    env: dict[Var, Index] = {}
    outer = _merge(algorithm.outer, accesses, env)
    inner = _merge(algorithm.inner, accesses, env)
    axes = [_merge(reduction.axes, accesses, env) for reduction in algorithm.reductions]
    return substitute(algorithm, env, outer, inner, axes) if env else algorithm


def substitute(
    algorithm: Algorithm,
    env: Mapping[Var, Index],
    outer: tuple[Var, ...],
    inner: tuple[Var, ...],
    axes: Sequence[tuple[Var, ...]],
) -> Algorithm:
    """The algorithm with its axes replaced."""
    rewriter = ex.Rewriter(env)
    reductions = [
        Reduction(old.node, old.kind, new, rewriter.expr(old.value), rewriter.expr(old.result))
        for old, new in zip(algorithm.reductions, axes, strict=True)
    ]
    return Algorithm(
        algorithm.out,
        rewriter.index(algorithm.index),
        outer,
        inner,
        rewriter.expr(algorithm.value),
        reductions,
    )


def _merge(
    axes: tuple[Var, ...], accesses: Iterable[Index], env: dict[Var, Index]
) -> tuple[Var, ...]:
    """Merge from the innermost outwards; `env` receives what the old axes became."""
    merged: list[Var] = []
    chain: list[Var] = []
    for axis in reversed(axes):
        if chain and not _continues(axis, chain, accesses):
            merged.append(_join(chain, env))
            chain = []
        chain.append(axis)
    if chain:
        merged.append(_join(chain, env))
    return tuple(reversed(merged))


def _continues(axis: Var, chain: Sequence[Var], accesses: Iterable[Index]) -> bool:
    """Whether stepping `axis` is, in every access, stepping past the end of the chain."""
    inner = chain[-1]
    for index in accesses:
        if index.terms.get(axis, 0) != index.terms.get(inner, 0) * inner.extent:
            return False
        deep = {
            v
            for atom in index.terms
            if not isinstance(atom, Var)
            for v in Index({atom: 1}, 0).vars()
        }
        if axis in deep or inner in deep:
            return False
    return True


def _join(chain: Sequence[Var], env: dict[Var, Index]) -> Var:
    """One variable for a chain of axes, innermost first."""
    if len(chain) == 1:
        return chain[0]
    extent = 1
    for axis in chain:
        extent *= axis.extent
    joined = Var(chain[-1].name, extent)
    for axis in chain[1:]:
        env[axis] = ix.const(0)
    env[chain[0]] = ix.var(joined)
    return joined


def rank_by_stride(axes: Sequence[Var], value: Expr, extra: Sequence[Index] = ()) -> list[Var]:
    """`axes`, the one that most accesses walk with unit stride last."""
    accesses = [read.index for read in ex.loads(value)] + list(extra)

    def score(axis: Var) -> tuple[int, int]:
        units = sum(index.terms.get(axis, 0) == 1 for index in accesses)
        return units, list(axes).index(axis)

    return sorted(axes, key=score) if len(axes) > 1 else list(axes)

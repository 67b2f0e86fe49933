"""Scans and sorts on a GPU of which neither the width of a wave nor swaps are known.

A scan is cut into segments of about the square root of its row. Each lane takes one of them,
serially, begun with the running reduction of the totals of those before it:

    totals   of each segment but the last: an ordinary reduction
    before   the running reduction of the totals: a lane for each row
    scan     of each segment

A sort counts for each element what comes before it (compilers/lower/special.py): n times n
comparisons, so that long rows are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt, prod

from compilers import expr as ex
from compilers import index as ix
from compilers.graph import Node, reduce, reshape, scan, slice_
from compilers.index import Var
from compilers.ir import Expr, Kernel, Loop, Ref, Store
from compilers.lower.special import params
from compilers.plan.algorithm import Cut, Expander
from drivers.base.errors import Unsupported

LEAST_SPAN = 64
"""Elements of a segment: of a row that is not longer there is one."""
MOST_RANKED = 1 << 16
"""Elements of a row that is sorted: 2^32 comparisons."""


def split_lane_scans(nodes: Sequence[Node]) -> None:
    """Rewrite, in place, the scans among `nodes` of more than a segment."""
    for node in nodes:
        if node.op != "scan" or 0 in node.shape:
            continue
        kind, axis = node.arg
        span = max(isqrt(node.shape[axis]), LEAST_SPAN)
        parts = -(-node.shape[axis] // span)
        if parts > 1:
            whole = (*node.shape[:axis], parts - 1, span, *node.shape[axis + 1 :])
            kept = (*whole[:axis], (parts - 1) * span, *whole[axis + 2 :])
            source = slice_(node.src[0], ((0, 1),) * len(kept), kept)
            totals = reduce(kind, reshape(source, whole), (axis + 1,))
            node.src, node.arg = (node.src[0], scan(kind, totals, axis)), (kind, axis, span)


def lower_lane_scan(
    node: Node, name: str, out: Ref, ref_of: Callable[[Node], Ref | None], block: int
) -> Kernel:
    """A lane for each segment of each row. Raises: Cut, of what has to be realised before."""
    kind, axis, *spans = node.arg
    length = node.shape[axis]
    span = spans[0] if spans else length
    segments = -(-length // span)
    axes = [Var(f"i{number}", n) for number, n in enumerate(node.shape)]
    idx = tuple(map(ix.var, axes))
    before_it = Var("before", max(segments - 1, 1))
    expander = Expander(node, ref_of)
    value = expander.value(node.src[0], idx)
    identity = start = ex.const(ex.identity(kind, node.dtype), node.dtype)
    if spans:
        totals = (*idx[:axis], ix.var(before_it), *idx[axis + 1 :])
        start = expander.value(node.src[1], totals)
    if expander.reductions:
        raise Cut(expander.reductions[-1].node)
    others = [v for number, v in enumerate(axes) if number != axis]
    extents = (*(v.extent for v in others), segments)
    item = Var("g", prod(extents))
    *point, segment = ix.unflatten(ix.var(item), extents)
    env = dict(zip(others, point, strict=True))
    used = params(out, value, start)
    if spans:
        later = ex.bounded([(segment, 1, segments)])
        start = ex.Rewriter({**env, before_it: segment - 1}, guard=later).expr(start)
        start = ex.guarded(start, later, identity)
    step, acc, zero = Var("j", span), Ref("acc", node.dtype, 1, "register"), ix.const(0)
    at = segment * span + ix.var(step)
    exists = ex.bounded([(at, 0, length)])
    env[axes[axis]] = at
    here = ex.Rewriter(env, guard=exists).expr(value)
    joined = Expr(ex.COMBINE[kind], node.dtype, (ex.load(acc, zero), here))
    place = ix.flatten(idx, node.shape).substitute(env)
    each = (Store(acc, zero, joined, exists), Store(out, place, ex.load(acc, zero), exists))
    body = (Store(acc, zero, start), Loop(step, "serial" if span > 1 else "unroll", each))
    return Kernel(name, used, (acc,), Loop(item, "item", body), block)


def check_rank_sort(node: Node) -> None:
    """Raises: Unsupported for a row that would take too long."""
    length = node.shape[node.arg[0]]
    if length > MOST_RANKED:
        raise Unsupported(
            f"a sort of {length} elements needs lanes that exchange values, which this GPU's "
            "compiler does not offer",
            hint=f"Sort rows of at most {MOST_RANKED} elements, or on the CPU",
        )

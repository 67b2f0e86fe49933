"""Expressions that cost more to compute several times than to store once.

Fusion computes an expression wherever it is used. A stencil of a stencil computes the inner one at
every tap, so that a few fused steps do exponentially more work than the same steps one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf, prod

from compilers.graph import ELEMENTWISE, MATH1, MATH2, Node, toposort
from compilers.index import Index

MIN_ELEMENTS = 1 << 14
"""Smaller ones stay in the first-level cache; a kernel of their own costs more than they do."""
MAX_AGAIN = 16
"""Operations per element that are cheaper than storing it and reading it back.

# measured: EPYC Zen 5, 1024 x 1024 float32: 5-point averages in a row, 0.76 of numpy fused in
# twos, 2 one by one; separable 3-tap filters, 3 fused in twos.
"""
MIN_SPREAD, MIN_REPEATS, MIN_VECTOR = 1 << 18, 64, 16
"""A costly vector that is spread over a large result, which repeats every element of it so often,
is computed first."""
_DEAR = {"div": 4, "sqrt": 4, "floordiv": 8, "mod": 8} | dict.fromkeys(MATH1 | MATH2, 16)


def recomputed(
    root: Node, uses: Iterable[tuple[Node, tuple[Index, ...]]], stored: Collection[Node]
) -> Node | None:
    """The node nearest to `root` that is too costly for how often it is computed, if any.

    `uses` are the places at which nodes are computed. Only places in the same loops count: the
    passes of a softmax over its row each compute what they need.
    """
    places: dict[Node, dict[frozenset[object], set[tuple[Index, ...]]]] = {}
    for node, idx in uses:
        if node.op in ELEMENTWISE and node is not root:
            loops = frozenset(v for index in idx for v in index.vars())
            places.setdefault(node, {}).setdefault(loops, set()).add(idx)
    again = {node: _again(root, node, found.values()) for node, found in places.items()}
    if not any(again.values()):
        return None
    order = toposort([root], stored.__contains__)
    cost = _costs(order, stored)
    for node in reversed(order):
        if node not in stored and MAX_AGAIN < again.get(node, 0) * cost[node] < inf:
            return node
    return None


def _again(root: Node, node: Node, places: Iterable[Collection[tuple[Index, ...]]]) -> int:
    """How often an element of `node` is computed after its first time, as far as it matters."""
    elements, all_elements = prod(node.shape), prod(root.shape)
    spread = all_elements >= MIN_SPREAD and all_elements >= MIN_REPEATS * elements
    if spread and elements >= MIN_VECTOR:
        return 1
    return max(map(len, places)) - 1 if elements >= MIN_ELEMENTS else 0


def _costs(order: Iterable[Node], stored: Collection[Node]) -> dict[Node, float]:
    """Operations for one element; infinite where a reduction is inside."""
    cost: dict[Node, float] = {}
    for node in order:
        if node in stored:
            cost[node] = 1
        elif node.op == "reduce":
            cost[node] = inf
        else:
            own = _DEAR.get(node.op, 1) if node.op in ELEMENTWISE else 0
            cost[node] = own + sum(cost[source] for source in node.src)
    return cost

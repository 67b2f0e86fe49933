"""A reduction with too few points to keep a device busy becomes two: of parts, then of those."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from compilers.graph import Node, contiguous, permute, reduce, reshape
from compilers.lower.choose import Target
from compilers.lower.contraction import is_product
from compilers.plan.vector_parts import vector_parts

MIN_SPLIT, SPLIT_PARTS = 1 << 20, 64
"""On a CPU: elements that are worth it, and into how many parts."""
GROUPS = 4
"""Workgroups for each compute unit of a GPU, so that some wait while others compute."""
GROUP_ELEMENTS = 1 << 13
"""Fewest elements that a workgroup of a GPU reduces: 32 per lane."""
TILE, PRODUCT_DEPTH = 1024, 1024
"""Of a matrix product: elements of the result for each workgroup, where there are few, and how many
products a part sums for each at least."""


def split_long_reductions(nodes: Sequence[Node], target: Target) -> None:
    """Rewrite those of `nodes` that are worth it, in place."""
    for node in nodes:
        if node.op != "reduce" or 0 in node.src[0].shape:
            continue
        _, axes = node.arg
        source = node.src[0]
        if prod(node.shape) == 1:
            source = reshape(source, (prod(source.shape),))
            axes = (0,)
        axis = max(axes, key=lambda axis: source.shape[axis])
        most = _most_parts(node, target)
        parts = next((n for n in range(most, 1, -1) if source.shape[axis] % n == 0), 1)
        if parts > 1:
            _split(node, source, axes, axis, parts)


def _most_parts(node: Node, target: Target) -> int:
    """Into how many parts at most; 1 where the points alone are enough."""
    gpu, units = target.lanes, target.threads
    source, points = node.src[0], prod(node.shape)
    size = prod(source.shape)
    if gpu is None:
        worth = units > 1 and points == 1 and size >= MIN_SPLIT
        return SPLIT_PARTS if worth and size % SPLIT_PARTS == 0 else 1
    known = vector_parts(node, target) if gpu.swap_lanes > 1 else None
    if known is not None:
        return known
    groups, least = points, GROUP_ELEMENTS
    if is_product(node):
        groups, least = -(-points // TILE), PRODUCT_DEPTH * min(points, TILE)
    elif len(source.shape) - 1 not in node.arg[1]:
        groups = -(-points // gpu.team_lanes)
    if 2 * groups > units:
        return 1
    return min(GROUPS * units // groups, size // (groups * least))


def _split(node: Node, source: Node, axes: Sequence[int], axis: int, parts: int) -> None:
    shape = (*source.shape[:axis], parts, source.shape[axis] // parts, *source.shape[axis + 1 :])
    kind, _ = node.arg
    order = (axis, *(other for other in range(len(shape)) if other != axis))
    parted = permute(reshape(source, shape), order)
    part = contiguous(reduce(kind, parted, [other + 1 for other in axes]))
    total = reduce(kind, part, (0,))
    node.op, node.src, node.arg = "reshape", (total,), node.shape

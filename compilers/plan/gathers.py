"""A gather along more axes than a kernel has inputs becomes one along a single axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from compilers.graph import Node, binary, const, gather, reshape


def flatten_gathers(nodes: Sequence[Node], most: int) -> None:
    """Rewrite those of `nodes` with more than `most` sources, in place. The one position is a sum
    that is elementwise, so that it can be cut like any other."""
    for node in nodes:
        if node.op == "gather" and len(node.src) > most and 0 not in node.src[0].shape:
            source, *positions = node.src
            terms, stride = list[Node](), 1
            for position, extent in zip(reversed(positions), reversed(source.shape), strict=True):
                terms.append(_times(_inside(position, extent), stride))
                stride *= extent
            flat = reduce(lambda a, b: binary("add", a, b), terms)
            node.src = gather(reshape(source, (stride,)), [flat]).src


def _inside(position: Node, extent: int) -> Node:
    """The position clamped into its axis, as every gather does."""
    zero, last = (const(n, position.dtype, position.shape) for n in (0, extent - 1))
    return binary("min", binary("max", position, zero), last)


def _times(position: Node, stride: int) -> Node:
    return binary("mul", position, const(stride, position.dtype, position.shape))

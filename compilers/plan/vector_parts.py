"""Into how many sums a product of a few rows with a large matrix is cut, seen in the graph."""

from __future__ import annotations

from math import prod

from compilers.graph import ELEMENTWISE, Node, Shape
from compilers.lower.vector_product import MAX_ROWS, MIN_COLUMNS, Machine, Sizes, parts

_MAX_STEPS = 64
"""Nodes between a product and its operand."""


def vector_parts(node: Node, machine: Machine) -> int | None:
    """Parts along the reduced axis of a "reduce" node; None where it is no such product."""
    kind, axes = node.arg
    product = node.src[0]
    if kind != "add" or product.op != "mul" or len(axes) != 1:
        return None
    (depth,) = axes
    own = [s.src[0].shape if s.op == "expand" else s.shape for s in product.src]
    outer = [axis for axis in range(len(product.shape)) if axis != depth]
    if any(shape[depth] != product.shape[depth] for shape in own):
        return None
    alone = [
        [axis for axis in outer if here[axis] != 1 and there[axis] == 1]
        for here, there in (own, own[::-1])
    ]
    points = [prod(product.shape[axis] for axis in axes) for axes in alone]
    many = points.index(max(points))
    rows, columns = min(points), max(points)
    if rows > MAX_ROWS or columns < MIN_COLUMNS or len(alone[many]) != 1:
        return None
    matrix, axis = _stored_axis(product.src[many])
    if matrix is None or axis not in (depth, alone[many][0]):
        return None
    batch = prod(node.shape) // (rows * columns)
    size = Sizes(batch, rows, columns, product.shape[depth], matrix.dtype.itemsize, axis == depth)
    return parts(size, machine)


def _stored_axis(node: Node) -> tuple[Node | None, int]:
    """The largest buffer below a product's operand, and which axis of the operand is contiguous
    in it; None where a movement between them leaves elements out."""
    axes = list(range(len(node.shape)))
    for _ in range(_MAX_STEPS):
        if node.op in ("buffer", "contiguous"):
            return (node, axes[-1]) if axes else (None, 0)
        if node.op in ELEMENTWISE:
            node = max(node.src, key=_stored_size)
        elif node.op == "permute":
            back = [0] * len(axes)
            for position, axis in enumerate(node.arg):
                back[axis] = axes[position]
            axes, node = back, node.src[0]
        elif node.op == "expand":
            node = node.src[0]
        elif node.op == "reshape":
            axes, node = _reshaped(axes, node.shape, node.src[0].shape), node.src[0]
        else:
            break
    return None, 0


def _reshaped(axes: list[int], shape: Shape, source: Shape) -> list[int]:
    """The operand's axes as those of what was reshaped; -1 where one is a part of several."""
    kept = [axis for axis, n in zip(axes, shape, strict=True) if n != 1]
    wide = [place for place, n in enumerate(source) if n != 1]
    found = [-1] * len(source)
    if [n for n in shape if n != 1] == [source[place] for place in wide]:
        for place, axis in zip(wide, kept, strict=True):
            found[place] = axis
    elif kept and wide:
        found[wide[-1]] = kept[-1]
    return found


def _stored_size(node: Node) -> int:
    """Elements of what an operand of an operation was made of."""
    for _ in range(_MAX_STEPS):
        if node.op not in ("expand", "reshape", "permute", "cast"):
            break
        node = node.src[0]
    return prod(node.shape)

"""Operations on nodes of any dtype and shape: promotion, broadcasting, and the rules of bool.

`graph` requires operands of one dtype and shape; this module converts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index as as_int
from typing import Any

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node, Shape
from tensor.promotion import PROMOTE, Number, Scalar, as_scalar, floating, with_scalar

__all__ = [
    "DIRECT", "along", "axes_of", "axis_of", "beside", "binary", "broadcast_shape", "broadcasts_to",
    "combine", "constant", "integers", "keep_axes", "pad_with", "slice_axis", "take_along",
    "together", "where", "with_value", "wrap_index",
]  # fmt: skip

_SEQUENCES = (tuple, list)
_LOGICAL = {"add": "or", "mul": "and", "max": "or", "min": "and"}
"""Ops that stand for arithmetic of bool."""
_FLOAT_ONLY = frozenset({"div", "atan2", "hypot", "copysign", "nextafter"})
_KINDS = dict.fromkeys(("add", "sub", "mul", "max", "min", "floordiv", "mod", "pow"), "uif")
_KINDS |= dict.fromkeys(_FLOAT_ONLY, "f")
_KINDS |= dict.fromkeys(("and", "or", "xor"), "bui")
_KINDS |= dict.fromkeys(("shl", "shr"), "ui")
_KINDS |= dict.fromkeys(graph.COMPARE, "buif")
DIRECT = {op: frozenset(d for d in dt.ALL if d.kind in kinds) for op, kinds in _KINDS.items()}
"""The dtypes for which a binary op is one node."""


def broadcast_shape(*shapes: Shape) -> Shape:
    """numpy's broadcasting of shapes. Raises: ValueError naming them."""
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(shape, rank - len(shape)):
            if n != 1 and n != result[axis]:
                if result[axis] != 1:
                    raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
                result[axis] = n
    return tuple(result)


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Whether an array of `shape` broadcasts to `target`."""
    missing = len(target) - len(shape)
    if missing < 0:
        return False
    return all(n in (1, m) for n, m in zip(shape, target[missing:], strict=True))


def constant(value: object, dtype: DType, shape: Shape = ()) -> Node:
    """A scalar as an array. Raises: OverflowError when an integer does not fit."""
    return _constant(as_scalar(value), dtype, shape)


def _constant(number: Scalar, dtype: DType, shape: Shape) -> Node:
    if dtype.kind in "iu" and not isinstance(number, bool):
        low, high = dt.limits(dtype)
        if not low <= number <= high:
            raise OverflowError(f"{number} does not fit {dtype.name} ({low} to {high})")
    return graph.const(number, dtype, shape)


def together(a: Node, b: Node) -> tuple[Node, Node]:
    """Both operands in their common dtype and shape."""
    dtype = PROMOTE[a.dtype, b.dtype]
    a, b = graph.cast(a, dtype), graph.cast(b, dtype)
    if a.shape != b.shape:
        shape = broadcast_shape(a.shape, b.shape)
        a, b = graph.broadcast(a, shape), graph.broadcast(b, shape)
    return a, b


def beside(a: Node, value: Scalar) -> tuple[Node, Node]:
    """An array and a Python scalar in their common dtype and shape."""
    dtype = with_scalar(a.dtype, value)
    return graph.cast(a, dtype), _constant(value, dtype, a.shape)


def combine(op: str, a: Node, b: Node) -> Node:
    """A binary op of two nodes of equal dtype and shape. Raises: TypeError for a wrong dtype."""
    dtype = a.dtype
    if dtype in DIRECT[op]:
        return graph.binary(op, a, b)
    if op in _FLOAT_ONLY:
        wide = floating(dtype)
        return graph.binary(op, graph.cast(a, wide), graph.cast(b, wide))
    if dtype is dt.bool_ and op in _LOGICAL:
        return graph.binary(_LOGICAL[op], a, b)
    raise TypeError(f"{op} is not defined for {dtype.name}; cast with astype first")


def binary(op: str, a: Node, b: Node) -> Node:
    """A binary op of any two nodes."""
    return combine(op, *together(a, b))


def with_value(op: str, a: Node, value: Number, swapped: bool = False) -> Node:
    """A binary op of a node and a scalar, which is the first operand when `swapped`."""
    value = as_scalar(value)
    if op in graph.COMPARE and a.dtype.kind in "iu" and isinstance(value, int):
        low, high = dt.limits(a.dtype)
        if not low <= value <= high:
            return graph.const(_outside(op, value > high, swapped), dt.bool_, a.shape)
    x, y = beside(a, value)
    return combine(op, y, x) if swapped else combine(op, x, y)


def _outside(op: str, above: bool, swapped: bool) -> bool:
    """Comparison of any element with an integer beyond its dtype."""
    return above != swapped if op in ("lt", "le") else op == "ne"


def where(condition: Node, a: Node, b: Node) -> Node:
    """`a` where `condition`, else `b`; the three broadcast."""
    a, b = together(a, b)
    shape = broadcast_shape(condition.shape, a.shape)
    return graph.where(*(graph.broadcast(node, shape) for node in (condition, a, b)))


def integers(value: Any) -> tuple[int, ...]:
    """One integer or several, of whatever has an __index__ (numpy's, a 0-d tensor), as ints."""
    if isinstance(value, _SEQUENCES):  # the usual case, without an exception
        return tuple(map(as_int, value))
    try:
        return (as_int(value),)
    except TypeError:
        if not isinstance(value, Iterable):
            raise
    return tuple(map(as_int, value))


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis. Raises: IndexError outside [-rank, rank)."""
    axis = as_int(axis)
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} is out of range for an array of rank {rank}")
    return axis + rank if axis < 0 else axis


def axes_of(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Non-negative axes, each once; None is all of them."""
    if axis is None:
        return tuple(range(rank))
    if isinstance(axis, int):
        return (axis_of(axis, rank),)
    axes = tuple(axis_of(a, rank) for a in integers(axis))
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis {axis} is repeated")
    return axes


def keep_axes(x: Node, shape: Shape, axes: Sequence[int]) -> Node:
    """A reduced node with its `axes` of `shape` back, each of size 1."""
    return graph.reshape(x, tuple(1 if axis in axes else n for axis, n in enumerate(shape)))


def along(n: int, axis: int, shape: Shape) -> Node:
    """0..n-1 along one axis of `shape`."""
    line = (1,) * axis + (n,) + (1,) * (len(shape) - axis - 1)
    return graph.expand(graph.reshape(graph.iota(n), line), shape)


def pad_with(x: Node, widths: Sequence[tuple[int, int]], value: Number) -> Node:
    """Pad with a value; one other than zero is selected where the mask of x is 0."""
    padded = graph.pad(x, widths)
    if padded is x or (value == 0 and str(value)[0] != "-"):
        return padded
    inside = graph.pad(graph.const(True, dt.bool_, x.shape), widths)
    return graph.where(inside, padded, constant(value, x.dtype, padded.shape))


def slice_axis(x: Node, axis: int, start: int, count: int, step: int = 1) -> Node:
    """`count` elements of one axis, from `start` by `step`."""
    steps = [(0, 1)] * len(x.shape)
    steps[axis] = (start, step)
    return graph.slice_(x, steps, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def wrap_index(index: Node, extent: int) -> Node:
    """Indices that count from the end become ones that count from the start; int64."""
    if index.dtype is dt.uint64:  # those beyond int64 would become negative
        index = graph.binary("min", index, graph.const(extent, dt.uint64, index.shape))
    if index.dtype.kind == "u":
        return graph.cast(index, dt.int64)
    index = graph.cast(index, dt.int64)
    below = graph.binary("lt", index, graph.const(0, dt.int64, index.shape))
    moved = graph.binary("add", index, graph.const(extent, dt.int64, index.shape))
    return graph.where(below, moved, index)


def take_along(x: Node, index: Node, axis: int) -> Node:
    """x[..., index, ...]: index has x's rank, and its other axes are x's."""
    indices = [index if a == axis else along(n, a, index.shape) for a, n in enumerate(index.shape)]
    return graph.gather(x, indices)

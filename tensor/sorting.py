"""Sorting along an axis; always stable, NaN last as the largest value."""

from __future__ import annotations

from operator import index as as_int

from compilers import graph
from compilers.graph import Node
from tensor import ops
from tensor.arguments import takes_tensors
from tensor.core import Tensor
from tensor.ops import axis_of

__all__ = ["argsort", "sort", "topk"]


def _order(x: Tensor, axis: int, descending: bool) -> tuple[Node, int]:
    """Places in sorted order along an axis, and the axis counted from 0."""
    if x.ndim == 0:
        raise ValueError("a tensor of rank 0 has no axis to sort; reshape it to (1,)")
    at = axis_of(axis, x.ndim)
    return graph.argsort(x._node, at, descending), at


@takes_tensors
def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Places of the elements in sorted order, as int64; equal elements keep their order."""
    return Tensor(_order(x, axis, descending)[0], x.device)


@takes_tensors
def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in sorted order."""
    order, at = _order(x, axis, descending)
    return Tensor(ops.take_along(x._node, order, at), x.device)


@takes_tensors
def topk(x: Tensor, k: int, /, *, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements in order, and their places (not in the standard)."""
    order, at = _order(x, axis, largest)
    k = as_int(k)
    if not 0 <= k <= x.shape[at]:
        raise ValueError(f"topk needs 0 <= k <= {x.shape[at]}, not {k}")
    places = ops.slice_axis(order, at, 0, k)
    return Tensor(ops.take_along(x._node, places, at), x.device), Tensor(places, x.device)

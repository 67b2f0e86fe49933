"""Products of matrices and tensors, all as one form: multiply two expanded operands, then sum.

The compiler recognises that form as a contraction. Half precision is multiplied and accumulated
in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import index as as_int

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from tensor import ops
from tensor.arguments import takes_tensors
from tensor.core import Tensor, common_device
from tensor.ops import axes_of, axis_of
from tensor.promotion import PROMOTE, accumulator

__all__ = ["diagonal", "matmul", "outer", "tensordot", "vecdot"]


def _operands(x1: Tensor, x2: Tensor) -> tuple[Node, Node, DType, str]:
    """Both in the dtype they are multiplied in, the result's dtype, and the device."""
    dtype = PROMOTE[x1.dtype, x2.dtype]
    if dtype is dt.bool_:
        raise TypeError("a product of bool matrices is not defined; cast with astype first")
    wide = accumulator(dtype)
    device = common_device([x1, x2])
    return graph.cast(x1._node, wide), graph.cast(x2._node, wide), dtype, device


def _contract(a: Node, b: Node, dtype: DType, axes: Sequence[int]) -> Node:
    """Multiply, sum `axes`, and go back to the result's dtype; a and b broadcast."""
    shape = ops.broadcast_shape(a.shape, b.shape)
    product = graph.binary("mul", graph.broadcast(a, shape), graph.broadcast(b, shape))
    return graph.cast(graph.reduce("add", product, axes), dtype)


@takes_tensors
def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrix product over the last two axes; rank 1 counts as a row or column.

    Raises: ValueError for rank 0 or sizes that differ.
    """
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("matmul needs rank 1 or more; multiply with * instead")
    inner = x2.shape[-2] if x2.ndim > 1 else x2.shape[0]
    if x1.shape[-1] != inner:
        raise ValueError(f"matmul of {x1.shape} and {x2.shape}: {x1.shape[-1]} meets {inner}")
    a, b, dtype, device = _operands(x1, x2)
    if x1.ndim > 1:
        a = graph.reshape(a, (*a.shape[:-1], *((1,) if x2.ndim > 1 else ()), inner))
    if x2.ndim > 1:
        rank = x2.ndim
        b = graph.permute(b, (*range(rank - 2), rank - 1, rank - 2))
        if x1.ndim > 1:
            b = graph.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    rank = max(len(a.shape), len(b.shape))
    return Tensor(_contract(a, b, dtype, (rank - 1,)), device)


@takes_tensors
def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sum of products along one axis of both, counted from the end."""
    if not -min(x1.ndim, x2.ndim) <= axis <= -1:
        raise ValueError(f"vecdot needs an axis in [-{min(x1.ndim, x2.ndim)}, -1], not {axis}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot of {x1.shape} and {x2.shape} on axis {axis}: sizes differ")
    a, b, dtype, device = _operands(x1, x2)
    rank = max(x1.ndim, x2.ndim)
    return Tensor(_contract(a, b, dtype, (axis_of(axis, rank),)), device)


@takes_tensors
def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Sum of products over pairs of axes: the last and first `axes`, or two lists of them."""
    if not isinstance(axes, Iterable):
        axes = as_int(axes)
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise ValueError(f"tensordot cannot contract {axes} axes of {x1.shape}, {x2.shape}")
        first, second = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    else:
        first, second = axes_of(axes[0], x1.ndim), axes_of(axes[1], x2.ndim)
    met = tuple(x1.shape[a] for a in first)
    if met != tuple(x2.shape[a] for a in second):
        raise ValueError(f"tensordot of {x1.shape} and {x2.shape}: axes {axes} differ in size")
    a, b, dtype, device = _operands(x1, x2)
    left = [a for a in range(x1.ndim) if a not in first]
    right = [a for a in range(x2.ndim) if a not in second]
    outer = (*(x1.shape[i] for i in left), *(x2.shape[i] for i in right))
    rows, columns = prod(x1.shape[i] for i in left), prod(x2.shape[i] for i in right)
    inner = prod(met)
    a = graph.reshape(graph.permute(a, (*left, *first)), (rows, 1, inner))
    b = graph.reshape(graph.permute(b, (*right, *second)), (1, columns, inner))
    return Tensor(graph.reshape(_contract(a, b, dtype, (2,)), outer), device)


@takes_tensors
def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Every product of an element of x1 with one of x2, which have rank 1."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer needs rank 1, not {x1.ndim} and {x2.ndim}")
    return Tensor(graph.reshape(x1._node, (x1.size, 1)), x1.device) * x2


def diagonal(x: Node) -> Node:
    """The diagonal of the last two axes, which have one size."""
    n = x.shape[-1]
    if n == 0:
        return graph.reshape(x, x.shape[:-1])
    flat = graph.reshape(x, (*x.shape[:-2], n * n))
    return ops.slice_axis(flat, len(flat.shape) - 1, 0, n, n + 1)

"""Reductions and running sums.

Half precision is accumulated in float32. Sums of small integers widen as in the standard.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from math import prod as product
from operator import index as as_int
from typing import TypeAlias

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from tensor import ops
from tensor.arguments import takes_tensors
from tensor.core import Tensor
from tensor.elementwise import sqrt, where
from tensor.manipulation import concat
from tensor.ops import axes_of, axis_of
from tensor.promotion import PROMOTE, accumulator, as_dtype, as_scalar, floating, summed

__all__ = [
    "all_", "any_", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum",
    "diff", "max_", "mean", "min_", "prod", "reduced", "searchsorted", "std", "sum_", "total",
    "var",
]  # fmt: skip

Axis: TypeAlias = int | Sequence[int] | None


def reduced(kind: str, x: Node, axes: Sequence[int], keepdims: bool) -> Node:
    """A reduction in x's own dtype."""
    node = graph.reduce(kind, x, axes)
    return ops.keep_axes(node, x.shape, axes) if keepdims else node


def total(kind: str, x: Node, axes: Sequence[int], keepdims: bool, dtype: DType) -> Node:
    """A sum or product, accumulated wide, as `dtype`."""
    wide = accumulator(dtype)
    return graph.cast(reduced(kind, graph.cast(x, wide), axes, keepdims), dtype)


@takes_tensors
def sum_(
    x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Tensor:
    """Sum; of nothing, 0."""
    axes = axes_of(axis, x.ndim)
    return Tensor(total("add", x._node, axes, keepdims, as_dtype(dtype, summed(x.dtype))), x.device)


@takes_tensors
def prod(
    x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Tensor:
    """Product; of nothing, 1."""
    axes = axes_of(axis, x.ndim)
    return Tensor(total("mul", x._node, axes, keepdims, as_dtype(dtype, summed(x.dtype))), x.device)


def _extreme(kind: str, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = axes_of(axis, x.ndim)
    if any(x.shape[a] == 0 for a in axes):
        raise ValueError(f"{kind} of nothing: axes {axes} of {x.shape}")
    node = graph.cast(x._node, dt.uint8) if x.dtype is dt.bool_ else x._node
    return Tensor(graph.cast(reduced(kind, node, axes, keepdims), x.dtype), x.device)


@takes_tensors
def max_(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element; NaN if there is one. Raises: ValueError for nothing."""
    return _extreme("max", x, axis, keepdims)


@takes_tensors
def min_(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element; NaN if there is one. Raises: ValueError for nothing."""
    return _extreme("min", x, axis, keepdims)


def _truth(kind: str, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    node = graph.cast(graph.cast(x._node, dt.bool_), dt.uint8)
    node = reduced(kind, node, axes_of(axis, x.ndim), keepdims)
    return Tensor(graph.cast(node, dt.bool_), x.device)


@takes_tensors
def any_(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether some element is not zero (NaN is not zero); of nothing, False."""
    return _truth("max", x, axis, keepdims)


@takes_tensors
def all_(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element is not zero; of nothing, True."""
    return _truth("min", x, axis, keepdims)


@takes_tensors
def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero, as int64."""
    node = graph.cast(graph.cast(x._node, dt.bool_), dt.int64)
    return Tensor(reduced("add", node, axes_of(axis, x.ndim), keepdims), x.device)


@takes_tensors
def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean; of nothing, NaN."""
    axes = axes_of(axis, x.ndim)
    dtype = floating(x.dtype)
    node = _mean(graph.cast(x._node, accumulator(dtype)), axes, keepdims)
    return Tensor(graph.cast(node, dtype), x.device)


def _mean(x: Node, axes: Sequence[int], keepdims: bool) -> Node:
    count = product(x.shape[a] for a in axes)
    return _divided(reduced("add", x, axes, keepdims), count)


def _divided(x: Node, count: float) -> Node:
    return graph.binary("div", x, graph.const(count, x.dtype, x.shape))


@takes_tensors
def var(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Variance over n - `correction`; NaN when that is not positive."""
    axes = axes_of(axis, x.ndim)
    dtype = floating(x.dtype)
    node = graph.cast(x._node, accumulator(dtype))
    centre = graph.expand(_mean(node, axes, True), node.shape) if axes else node
    offset = graph.binary("sub", node, centre)
    square = reduced("add", graph.binary("mul", offset, offset), axes, keepdims)
    freedom = product(x.shape[a] for a in axes) - as_scalar(correction)
    return Tensor(graph.cast(_divided(square, freedom if freedom > 0 else nan), dtype), x.device)


@takes_tensors
def std(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Standard deviation: the root of `var`."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _first(kind: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    """Place of the first extreme: the smallest place with an element equal to it, or NaN."""
    node = x._node if x.dtype is not dt.bool_ else graph.cast(x._node, dt.uint8)
    if axis is None:
        node = graph.reshape(node, (x.size,))
    at = 0 if axis is None else axis_of(axis, x.ndim)
    if node.shape[at] == 0:
        raise ValueError(f"arg{kind} of nothing: axis {at} of {x.shape}")
    best = graph.expand(reduced(kind, node, (at,), True), node.shape)
    hit = graph.binary("eq", node, best)
    if node.dtype.kind == "f":
        hit = graph.binary("or", hit, graph.binary("ne", node, node))
    n = node.shape[at]
    places = ops.along(n, at, node.shape)
    candidates = graph.where(hit, places, graph.const(n, dt.int64, node.shape))
    found = reduced("min", candidates, (at,), keepdims)
    if axis is None and keepdims:
        found = graph.reshape(found, (1,) * x.ndim)
    return Tensor(found, x.device)


@takes_tensors
def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Place of the first largest element (of the first NaN, if any), as int64."""
    return _first("max", x, axis, keepdims)


@takes_tensors
def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Place of the first smallest element (of the first NaN, if any), as int64."""
    return _first("min", x, axis, keepdims)


def _running(
    kind: str, x: Tensor, axis: int | None, dtype: DType | None, include_initial: bool
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"a running reduction of rank {x.ndim} needs an axis")
        axis = 0
    at, wanted = axis_of(axis, x.ndim), as_dtype(dtype, summed(x.dtype))
    node = graph.scan(kind, graph.cast(x._node, accumulator(wanted)), at)
    result = Tensor(graph.cast(node, wanted), x.device)
    if not include_initial:
        return result
    first = (*x.shape[:at], 1, *x.shape[at + 1 :])
    start = graph.const(1 if kind == "mul" else 0, wanted, first)
    return concat([Tensor(start, x.device), result], axis=at)


@takes_tensors
def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Running sum; `include_initial` puts a 0 before it."""
    return _running("add", x, axis, dtype, include_initial)


@takes_tensors
def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Running product; `include_initial` puts a 1 before it."""
    return _running("mul", x, axis, dtype, include_initial)


@takes_tensors
def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours, taken `n` times; of bool, whether they differ."""
    n = as_int(n)
    if n < 0:
        raise ValueError(f"diff needs n >= 0, not {n}")
    at = axis_of(axis, x.ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    node = (x if n == 0 or len(parts) == 1 else concat(parts, axis=at))._node
    for _ in range(min(n, node.shape[at])):
        left = max(node.shape[at] - 1, 0)
        late = ops.slice_axis(node, at, 1 if left else 0, left)
        early = ops.slice_axis(node, at, 0, left)
        node = graph.binary("ne" if node.dtype is dt.bool_ else "sub", late, early)
    return Tensor(node, x.device)


@takes_tensors
def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where each x2 would enter the ascending x1, as int64: how many elements stay before it."""
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', not {side!r}")
    if x1.ndim != 1:
        raise ValueError(f"searchsorted searches rank 1, not {x1.ndim}")
    dtype = PROMOTE[x1.dtype, x2.dtype]
    line = x1 if sorter is None else x1[sorter]
    shape = (*x2.shape, x1.shape[0])
    a = Tensor(graph.cast(graph.broadcast(line._node, shape), dtype), x1.device)
    b_node = graph.reshape(graph.cast(x2._node, dtype), (*x2.shape, 1))
    b = Tensor(graph.expand(b_node, shape), x2.device)
    before = a < b if side == "left" else a <= b
    if dtype.kind == "f":
        past_nan = b != b if side == "right" else (b != b) & (a == a)
        before = where(past_nan, True, before)
    return sum_(before, axis=-1, dtype=dt.int64)

"""What small models need: activations, normalisation, convolution, pooling, attention.

Reductions keep the leading axes and are expanded back, so that a row stays in one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index as as_int

import numpy as np

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from tensor import ops
from tensor.arguments import takes_tensors
from tensor.core import Tensor, common_device
from tensor.creation import tril
from tensor.elementwise import erf, exp, log, maximum, sqrt, tanh, where
from tensor.manipulation import reshape, take
from tensor.products import matmul
from tensor.promotion import PROMOTE, accumulator, floating
from tensor.statistics import max_, mean, sum_

__all__ = [
    "avg_pool2d", "conv2d", "embedding", "gelu", "layer_norm", "log_softmax", "max_pool2d", "relu",
    "rms_norm", "scaled_dot_product_attention", "sigmoid", "silu", "softmax",
]  # fmt: skip

Pair = int | tuple[int, int]


def __dir__() -> list[str]:
    return __all__


def _wide(x: Tensor) -> Tensor:
    """x in the dtype of its sums."""
    return _as(x, accumulator(floating(x.dtype)))


def _as(x: Tensor, dtype: DType) -> Tensor:
    return Tensor(graph.cast(x._node, dtype), x.device)


def _finite_below(x: Tensor) -> Tensor:
    """x with its lowest number for minus infinity, which times 0 is NaN and no limit."""
    return maximum(x, float(np.finfo(x.dtype.storage).min))


def _below_zero(x: Tensor, axis: int) -> Tensor:
    """x, wide, less its largest element along `axis`."""
    wide = _wide(x)
    return wide - max_(wide, axis=axis, keepdims=True) if x.size else wide


@takes_tensors
def softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """exp(x) over its sum along `axis`, without overflow; NaN where no element is above -inf."""
    power = exp(_below_zero(x, axis))
    return _as(power / sum_(power, axis=axis, keepdims=True), floating(x.dtype))


@takes_tensors
def log_softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """log(softmax(x)) without overflow; NaN where no element is above -inf."""
    offset = _below_zero(x, axis)
    result = offset - log(sum_(exp(offset), axis=axis, keepdims=True))
    return _as(result, floating(x.dtype))


@takes_tensors
def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    /,
    *,
    axis: int | Sequence[int] = -1,
    eps: float = 1e-5,
) -> Tensor:
    """x with mean 0 and variance 1 along `axis`, then times `weight` plus `bias`."""
    wide = _wide(x)
    offset = wide - mean(wide, axis=axis, keepdims=True)
    spread = mean(offset * offset, axis=axis, keepdims=True)
    return _scaled(offset / sqrt(spread + eps), weight, bias, x)


@takes_tensors
def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    /,
    *,
    axis: int | Sequence[int] = -1,
    eps: float = 1e-6,
) -> Tensor:
    """x over its root mean square along `axis`, then times `weight`."""
    wide = _wide(x)
    spread = mean(wide * wide, axis=axis, keepdims=True)
    return _scaled(wide / sqrt(spread + eps), weight, None, x)


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None, like: Tensor) -> Tensor:
    if weight is not None:
        x = x * weight
    if bias is not None:
        x = x + bias
    return _as(x, floating(like.dtype))


@takes_tensors
def relu(x: Tensor, /) -> Tensor:
    """x where it is positive, else 0."""
    return maximum(x, 0)


@takes_tensors
def sigmoid(x: Tensor, /) -> Tensor:
    """1 / (1 + exp(-x))."""
    wide = _wide(x)
    return _as(1.0 / (exp(-wide) + 1.0), floating(x.dtype))


@takes_tensors
def silu(x: Tensor, /) -> Tensor:
    """x * sigmoid(x): x at infinity, and 0 at minus infinity."""
    wide = _wide(x)
    return _as(_finite_below(wide) / (exp(-wide) + 1.0), floating(x.dtype))


@takes_tensors
def gelu(x: Tensor, /, *, approximate: str = "none") -> Tensor:
    """x times the normal distribution function at x; "tanh" is the usual approximation of it.

    x at infinity, and 0 at minus infinity.
    """
    wide = _wide(x)
    if approximate == "none":
        share = erf(wide * math.sqrt(0.5)) + 1.0
    elif approximate == "tanh":
        inner = (wide + wide * wide * wide * 0.044715) * math.sqrt(2.0 / math.pi)
        share = tanh(inner) + 1.0
    else:
        raise ValueError(f"approximate is 'none' or 'tanh', not {approximate!r}")
    return _as(_finite_below(wide) * (share * 0.5), floating(x.dtype))


def _pair(value: Pair, what: str, least: int) -> tuple[int, int]:
    """(rows, columns) of a setting. Raises: ValueError below `least`."""
    given = ops.integers(value)
    rows, columns = given * 2 if len(given) == 1 else given
    if rows < least or columns < least:
        raise ValueError(f"{what} is {least} or more, not {value}")
    return rows, columns


def _windows(x: Node, axis: int, size: int, stride: int, dilation: int) -> Node:
    """Every window of one axis, which becomes two: the place in the window and the window.

    The axis repeated end to end and read in rows longer by `dilation` starts each row that much
    later: row r, column c is element r * dilation + c.
    """
    n = x.shape[axis]
    reach = dilation * (size - 1) + 1
    if n < reach:
        raise ValueError(f"a window of {reach} does not fit an axis of {n}")
    count = (n - reach) // stride + 1
    front, back = x.shape[:axis], x.shape[axis + 1 :]
    times = -(-size * (n + dilation) // n)
    x = graph.expand(graph.reshape(x, (*front, 1, n, *back)), (*front, times, n, *back))
    x = graph.reshape(x, (*front, times * n, *back))
    x = ops.slice_axis(x, axis, 0, size * (n + dilation))
    x = graph.reshape(x, (*front, size, n + dilation, *back))
    return ops.slice_axis(x, axis + 1, 0, count, stride)


def _patches(x: Node, size: Sequence[int], stride: Pair, dilation: Pair) -> Node:
    """(..., H, W) to (..., KH, OH, KW, OW)."""
    rank = len(x.shape)
    if rank < 2:
        raise ValueError(f"windows need rank 2 or more, not {rank}; use expand_dims")
    (sh, sw), (dh, dw) = _pair(stride, "stride", 1), _pair(dilation, "dilation", 1)
    return _windows(_windows(x, rank - 2, size[0], sh, dh), rank, size[1], sw, dw)


def _padded(x: Node, padding: Pair, value: float) -> Node:
    rows, columns = _pair(padding, "padding", 0)
    widths = [(0, 0)] * (len(x.shape) - 2) + [(rows, rows), (columns, columns)]
    return ops.pad_with(x, widths, value)


@takes_tensors
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (not flipped) of x[N, C, H, W] with weight[O, C / groups, KH, KW]."""
    if x.ndim != 4 or weight.ndim != 4:
        raise ValueError(f"conv2d needs rank 4, not {x.ndim} and {weight.ndim}; use expand_dims")
    groups = as_int(groups)
    count, channels = x.shape[:2]
    out, inner, kh, kw = weight.shape
    if groups < 1 or inner * groups != channels or out % groups:
        raise ValueError(f"weight {weight.shape} does not fit {channels} channels, {groups} groups")
    dtype = PROMOTE[x.dtype, weight.dtype]
    wide = accumulator(dtype)
    node = _patches(_padded(graph.cast(x._node, wide), padding, 0), (kh, kw), stride, dilation)
    oh, ow = node.shape[3], node.shape[5]
    node = graph.reshape(node, (count, groups, 1, inner, kh, oh, kw, ow))
    node = graph.permute(node, (0, 1, 2, 5, 7, 3, 4, 6))
    kernel = graph.cast(weight._node, wide)
    kernel = graph.reshape(kernel, (1, groups, out // groups, 1, 1, inner, kh, kw))
    shape = (count, groups, out // groups, oh, ow, inner, kh, kw)
    product = graph.binary("mul", graph.expand(node, shape), graph.expand(kernel, shape))
    result = graph.reshape(graph.reduce("add", product, (5, 6, 7)), (count, out, oh, ow))
    tensor = Tensor(graph.cast(result, dtype), common_device([x, weight]))
    if bias is None:
        return tensor
    if bias.shape != (out,):
        raise ValueError(f"a bias of shape {bias.shape} does not fit {out} channels")
    return tensor + reshape(bias, (out, 1, 1))


@takes_tensors
def max_pool2d(
    x: Tensor,
    size: Pair,
    /,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> Tensor:
    """Largest element of each window of the last two axes; padding never wins."""
    low = -math.inf if x.dtype.kind == "f" else dt.limits(x.dtype)[0]
    node = _padded(x._node, padding, low)
    node = _patches(node, _pair(size, "size", 1), size if stride is None else stride, dilation)
    rank = x.ndim
    return Tensor(graph.reduce("max", node, (rank - 2, rank)), x.device)


@takes_tensors
def avg_pool2d(
    x: Tensor, size: Pair, /, *, stride: Pair | None = None, padding: Pair = 0
) -> Tensor:
    """Mean of each window of the last two axes; padding counts as zeros."""
    wide = _wide(x)
    node = _padded(wide._node, padding, 0)
    node = _patches(node, _pair(size, "size", 1), size if stride is None else stride, 1)
    rank = x.ndim
    result = mean(Tensor(node, x.device), axis=(rank - 2, rank))
    return _as(result, floating(x.dtype))


@takes_tensors
def embedding(weight: Tensor, indices: Tensor, /) -> Tensor:
    """Rows of `weight` by number; one outside of them means the nearest, as in `take`."""
    return take(weight, indices, axis=0)


@takes_tensors
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    /,
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query @ key.mT * scale + mask) @ value; a bool mask selects keys.

    A query that no key is left for, or whose scores are all -inf, gives 0. Queries of no elements
    weigh all keys alike, and without any key the result is 0.
    """
    factor = 1.0 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    scores = matmul(query, key.mT) * factor
    if is_causal:
        allowed = Tensor(graph.const(True, dt.bool_, scores.shape[-2:]), scores.device)
        scores = where(tril(allowed), scores, -math.inf)
    if mask is not None:
        scores = where(mask, scores, -math.inf) if mask.dtype is dt.bool_ else scores + mask
    return matmul(_weights(scores), value)


def _weights(scores: Tensor) -> Tensor:
    """softmax(scores) along the last axis, but 0 in rows of -inf.

    # src: PyTorch aten/src/ATen/native/transformers/attention.cpp, _safe_softmax
    """
    wide = _wide(scores)
    if scores.size:
        wide = wide - _finite_below(max_(wide, axis=-1, keepdims=True))
    power = exp(wide)
    total = sum_(power, axis=-1, keepdims=True)
    return _as(power / maximum(total, 1.0), floating(scores.dtype))  # exp(0) is in every other sum

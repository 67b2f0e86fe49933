"""The standard's creation functions."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from operator import index as as_int
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node, Shape
from drivers.kinds import BEST_FIRST, Kind
from tensor import engine, ops
from tensor.arguments import takes_tensors
from tensor.core import Tensor, common_device, wrap
from tensor.promotion import (
    DEFAULT_FLOAT,
    Scalar,
    as_dtype,
    as_scalar,
    from_numpy,
    scalar_dtype,
)

__all__ = [
    "arange", "as_shape", "asarray", "empty", "empty_like", "eye", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "to_bfloat16", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def as_shape(shape: int | Sequence[int]) -> Shape:
    """A tuple of sizes. Raises: ValueError for a negative one."""
    result = ops.integers(shape)
    if any(n < 0 for n in result):
        raise ValueError(f"shape {result} has a negative size")
    return result


def to_bfloat16(array: NDArray[Any]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, halves to even; NaN stays NaN."""
    bits = np.asarray(array, np.float32, order="C").view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(bits.view(np.float32)), quiet, rounded).astype(np.uint16)


def asarray(
    obj: Any,
    /,
    *,
    dtype: DType | None = None,
    device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of an array, a Python number, nested sequences, or a buffer.

    numpy arrays and buffers are shared with the tensor where the device accesses host memory, so
    that later writes to them change what is computed after that: pass copy=True, which never
    shares, to keep the current values. Python floats become float32, integers int64; numpy arrays
    and scalars keep their dtype here, but a list of float64 becomes float32.
    Raises: ValueError when copy=False and a copy is needed.
    """
    if isinstance(obj, Tensor):
        return _again(obj, dtype, device, copy)
    described = None if isinstance(obj, np.ndarray) else _described(obj)
    if described is not None:
        from tensor import sharing

        return _again(sharing.from_array(obj, described, device), dtype, None, copy)
    where = engine.device_name(device)
    if isinstance(obj, bool | int | float) and not isinstance(obj, np.generic):
        if copy is False:
            raise ValueError("a Python number cannot become a tensor without a copy")
        kind = as_dtype(dtype, scalar_dtype(obj))
        return Tensor(ops.constant(obj, kind), where)
    return _from_host(obj, None if dtype is None else as_dtype(dtype), where, copy)


def _described(obj: Any) -> Kind | None:
    """The kind of device whose array interface an object has."""
    names = ((kind, kind.array_interface) for kind in BEST_FIRST if kind.array_interface)
    return next((kind for kind, name in names if hasattr(obj, name)), None)


def _again(x: Tensor, dtype: DType | None, device: str | None, copy: bool | None) -> Tensor:
    result = x if device is None else x.to(device)
    if dtype is not None:
        result = Tensor(graph.cast(result._node, as_dtype(dtype)), result.device)
    if copy is False and result._node is not x._node:
        raise ValueError("this dtype or device needs a copy; pass copy=None")
    node = engine.copy(result._node, result.device, result.device) if copy else result._node
    return Tensor(node, result.device)


def _from_host(obj: Any, dtype: DType | None, device: str, copy: bool | None) -> Tensor:
    """Any value that numpy converts."""
    if isinstance(obj, bytes):
        obj = memoryview(obj)
    listed = isinstance(obj, list | tuple | range)
    if dtype is None or not listed:
        array = np.asarray(obj)
    else:
        array = np.asarray(obj, np.float32 if dtype is dt.bfloat16 else dtype.storage)
    kind = dtype or from_numpy(array.dtype)
    if dtype is None and listed and kind is dt.float64:
        kind = DEFAULT_FLOAT
    stored = to_bfloat16(array) if kind is dt.bfloat16 else array.astype(kind.storage, copy=False)
    stored = np.asarray(stored, order="C")
    shared = not listed and (stored is array or np.shares_memory(stored, array))
    shared = shared and engine.device(device).limits.uses_host_memory
    if copy is False and not shared:
        raise ValueError("this object cannot become a tensor without a copy; pass copy=None")
    if shared and (copy or not stored.flags.aligned):
        stored = stored.copy()
    return wrap(stored, device, kind)


def full(
    shape: int | Sequence[int],
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """`fill_value` everywhere; its dtype is that of the Python number unless given."""
    kind = as_dtype(dtype, scalar_dtype(fill_value))
    return Tensor(ops.constant(fill_value, kind, as_shape(shape)), engine.device_name(device))


def zeros(
    shape: int | Sequence[int], *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Zeros, float32 unless `dtype` is given."""
    return full(shape, 0, dtype=as_dtype(dtype, DEFAULT_FLOAT), device=device)


def ones(
    shape: int | Sequence[int], *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Ones, float32 unless `dtype` is given."""
    return full(shape, 1, dtype=as_dtype(dtype, DEFAULT_FLOAT), device=device)


def empty(
    shape: int | Sequence[int], *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Elements of no particular value: zeros, because tensors are values."""
    return zeros(shape, dtype=dtype, device=device)


@takes_tensors
def full_like(
    x: Tensor,
    /,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """`fill_value` in x's shape, and in x's dtype and on x's device unless given."""
    return full(x.shape, fill_value, dtype=as_dtype(dtype, x.dtype), device=device or x.device)


@takes_tensors
def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Zeros in x's shape."""
    return full_like(x, 0, dtype=dtype, device=device)


@takes_tensors
def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Ones in x's shape."""
    return full_like(x, 1, dtype=dtype, device=device)


@takes_tensors
def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Elements of no particular value in x's shape."""
    return full_like(x, 0, dtype=dtype, device=device)


def _line(count: int, start: Scalar, step: Scalar, dtype: DType) -> Node:
    """start + i * step, in int64 where that is exact, else in float64."""
    kind = dt.int64 if isinstance(start, int) and isinstance(step, int) else dt.float64
    node = graph.cast(graph.iota(count), kind)
    if step != 1:
        node = graph.binary("mul", node, graph.const(step, kind, (count,)))
    if start != 0:
        node = graph.binary("add", node, graph.const(start, kind, (count,)))
    return graph.cast(node, dtype)


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """start, start + step, ... before `stop`. Raises: ValueError for a step of 0."""
    if stop is None:
        start, stop = 0, start
    start, stop, step = as_scalar(start), as_scalar(stop), as_scalar(step)
    if step == 0:
        raise ValueError("arange with a step of 0 has no end")
    kind = as_dtype(dtype, scalar_dtype(0, start, stop, step))
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        count = len(range(start, stop, step))
    else:
        count = max(0, ceil((stop - start) / step))
    return Tensor(_line(count, start, step, kind), engine.device_name(device))


def linspace(
    start: int | float,
    stop: int | float,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced values; the last is exactly `stop` unless `endpoint` is False."""
    num, start, stop = as_int(num), as_scalar(start), as_scalar(stop)
    if num < 0:
        raise ValueError(f"linspace needs num >= 0, not {num}")
    gaps = max(num - 1 if endpoint else num, 1)
    node = _line(num, float(start), (stop - start) / gaps, dt.float64)
    if endpoint and num > 1:
        last = ops.with_value("eq", graph.iota(num), num - 1)
        node = graph.where(last, graph.const(stop, dt.float64, (num,)), node)
    kind = as_dtype(dtype, DEFAULT_FLOAT)
    if kind.kind != "f":
        node = graph.unary("floor", node)
    return Tensor(graph.cast(node, kind), engine.device_name(device))


def _diagonal_mask(rows: int, columns: int, k: int, op: str) -> Node:
    """Comparison of the column with the row + k."""
    shape = (rows, columns)
    row, column = ops.along(rows, 0, shape), ops.along(columns, 1, shape)
    return graph.binary(op, column, ops.with_value("add", row, k))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    rows, columns = as_shape((n_rows, n_rows if n_cols is None else n_cols))
    mask = _diagonal_mask(rows, columns, k, "eq")
    return Tensor(graph.cast(mask, as_dtype(dtype, DEFAULT_FLOAT)), engine.device_name(device))


def _triangle(x: Tensor, k: int, upper: bool) -> Tensor:
    if x.ndim < 2:
        raise ValueError(f"a triangle needs rank 2 or more, not {x.ndim}")
    rows, columns = x.shape[-2:]
    mask = _diagonal_mask(rows, columns, k - 1 if upper else k, "le")
    zero = graph.const(0, x.dtype, x.shape)
    inside, outside = (zero, x._node) if upper else (x._node, zero)
    return Tensor(graph.where(graph.broadcast(mask, x.shape), inside, outside), x.device)


@takes_tensors
def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Each matrix with zeros above its k-th diagonal."""
    return _triangle(x, k, upper=False)


@takes_tensors
def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Each matrix with zeros below its k-th diagonal."""
    return _triangle(x, k, upper=True)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinate arrays of 1-d coordinates. Raises: ValueError for an unknown `indexing`."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    common_device(arrays, "an array of meshgrid")
    for array in arrays:
        if array.ndim != 1:
            raise ValueError(f"meshgrid needs rank 1, not {array.ndim}; reshape it to (-1,)")
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[0], order[1] = 1, 0
    shape = tuple(arrays[i].shape[0] for i in order)
    result = []
    for place, array in enumerate(arrays):
        axis = order.index(place)
        line = tuple(n if a == axis else 1 for a, n in enumerate(shape))
        node = graph.expand(graph.reshape(array._node, line), shape)
        result.append(Tensor(node, array.device))
    return result

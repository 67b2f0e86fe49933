"""Reference evaluation of a graph of nodes in plain numpy, one node after another.

Shares only the node's fields with the compiler: the differential oracle of the engine.
bfloat16 values are held as float32 and rounded after every operation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from compilers import dtype as dt
from compilers.graph import COMPARE, Node

Array = np.ndarray[Any, Any]

_MATH = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "neg": "negative", "abs": "absolute", "invert": "invert",
}  # fmt: skip
_BINARY = {
    "sub": "subtract", "mul": "multiply", "div": "true_divide", "floordiv": "floor_divide",
    "max": "maximum", "min": "minimum", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lt": "less", "le": "less_equal", "eq": "equal", "ne": "not_equal",
    "atan2": "arctan2", "pow": "power",
}  # fmt: skip
_REDUCE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def held(dtype: dt.DType) -> np.dtype[Any]:
    """The numpy dtype that values of `dtype` are held in here."""
    return np.dtype("float32" if dtype is dt.bfloat16 else dtype.name)


def round_bfloat16(values: Array) -> Array:
    """float32 values rounded to the nearest bfloat16, halves to even."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    result = rounded.astype(np.uint32).view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), result)


def _fit(values: Any, dtype: dt.DType) -> Array:
    array = np.asarray(values)
    if dtype is dt.bfloat16:
        return round_bfloat16(array.astype(np.float32))
    return array.astype(held(dtype), copy=False)


def _unary(node: Node, x: Array) -> Array:
    if node.op == "erf":
        return np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64))
    return np.asarray(getattr(np, _MATH.get(node.op, node.op))(x))


def _shift(node: Node, x: Array, by: Array) -> Array:
    bits = node.dtype.bits
    far = (by < 0) | (by >= bits)
    near = np.where(far, 0, by).astype(x.dtype)
    if node.op == "shl":
        return np.where(far, np.zeros_like(x), np.left_shift(x, near))
    return np.where(far, np.where(x < 0, -1, 0).astype(x.dtype), np.right_shift(x, near))


def _int_pow(node: Node, x: Array, y: Array) -> Array:
    """Wrapping power; a negative exponent truncates towards zero."""
    mask, flat = (1 << node.dtype.bits) - 1, []
    for base, power in zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True):
        if power >= 0:
            value = pow(base, power, mask + 1)
        else:
            value = {1: 1, -1: -1 if power % 2 else 1}.get(base, 0)
        flat.append(value & mask)
    unsigned = np.array(flat, f"uint{node.dtype.bits}")
    return unsigned.view(held(node.dtype)).reshape(x.shape)


def _binary(node: Node, x: Array, y: Array) -> Array:
    if node.op in ("shl", "shr"):
        return _shift(node, x, y)
    if node.op == "pow" and node.dtype.kind in "iu":
        return _int_pow(node, x, y)
    name = _BINARY.get(node.op, node.op)
    return np.asarray(getattr(np, name)(x, y))


def _bitcast(node: Node, x: Array) -> Array:
    source = node.src[0].dtype
    raw = x
    if source is dt.bfloat16:
        raw = (np.ascontiguousarray(x).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if node.dtype is dt.bfloat16:
        wide = np.ascontiguousarray(raw).view(np.uint16).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32)
    return np.ascontiguousarray(raw).view(held(node.dtype)).reshape(x.shape)


def _movement(node: Node, x: Array) -> Array:
    if node.op == "reshape":
        return x.reshape(node.shape)
    if node.op == "permute":
        return x.transpose(node.arg)
    if node.op == "expand":
        return np.broadcast_to(x, node.shape)
    if node.op == "pad":
        return np.pad(x, node.arg)
    for axis, ((start, step), count) in enumerate(zip(node.arg, node.shape, strict=True)):
        x = np.take(x, start + step * np.arange(count), axis=axis)
    return x


def _reduce(node: Node, x: Array) -> Array:
    kind, axes = node.arg
    function = _REDUCE[kind]
    if kind in ("add", "mul"):
        return np.asarray(function.reduce(x, axis=axes, dtype=x.dtype))
    if node.dtype.kind == "f":
        start: Any = -np.inf if kind == "max" else np.inf
    else:
        low, high = dt.limits(node.dtype)
        start = low if kind == "max" else high
    return np.asarray(function.reduce(x, axis=axes, initial=x.dtype.type(start)))


def _argsort(node: Node, x: Array) -> Array:
    axis, descending = node.arg
    if not descending:
        return np.argsort(x, axis=axis, stable=True)
    backwards = np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
    return x.shape[axis] - 1 - backwards


def _gather(x: Array, indices: list[Array]) -> Array:
    clamped = [np.clip(index, 0, max(n - 1, 0)) for index, n in zip(indices, x.shape, strict=True)]
    return x[tuple(clamped)] if clamped else x


def _buffer(node: Node) -> Array:
    if isinstance(node.storage, np.ndarray):
        raw = node.storage
    else:
        from tensor import engine

        raw = engine.to_numpy(node, node.storage.device)
    if node.dtype is dt.bfloat16:
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw


def _compute(node: Node, sources: list[Array]) -> Array:
    op = node.op
    if op == "buffer":
        return _buffer(node)
    if op == "const":
        return np.array(node.arg, held(node.dtype))
    if op == "iota":
        return np.arange(node.shape[0])
    if op in ("reshape", "permute", "expand", "pad", "slice"):
        return _movement(node, sources[0])
    if op == "where":
        return np.where(*sources)
    if op in ("cast", "contiguous", "copy"):
        return sources[0]
    if op == "bitcast":
        return _bitcast(node, sources[0])
    if op == "reduce":
        return _reduce(node, sources[0])
    if op == "scan":
        kind, axis = node.arg
        return np.asarray(_REDUCE[kind].accumulate(sources[0], axis=axis, dtype=sources[0].dtype))
    if op == "argsort":
        return _argsort(node, sources[0])
    if op == "gather":
        return _gather(sources[0], sources[1:])
    return _unary(node, *sources) if len(sources) == 1 else _binary(node, *sources)


def evaluate(root: Node) -> Array:
    """The elements of `root`; bfloat16 as the float32 of their values."""
    values: dict[int, Array] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [source for source in node.src if id(source) not in values]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if id(node) in values:
            continue
        with np.errstate(all="ignore"):
            result = _compute(node, [values[id(source)] for source in node.src])
            target = dt.bool_ if node.op in COMPARE else node.dtype
            values[id(node)] = _fit(result, target)
        if values[id(node)].shape != node.shape:
            raise AssertionError(f"{node}: numpy gives shape {values[id(node)].shape}")
    return values[id(root)]

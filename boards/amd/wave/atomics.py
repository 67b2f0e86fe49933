"""Read-modify-write of many lanes at once: conflicts are resolved in lane order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.float_ops import maximum, minimum
from boards.machine.arrays import Array, Words

Load = Callable[[Array], Words]
Store = Callable[[Array, Words], None]

_DTYPES: dict[str, Any] = {
    "u32": np.uint32, "i32": np.int32, "b32": np.uint32, "f32": np.float32, "u64": np.uint64,
    "i64": np.int64, "b64": np.uint64, "f64": np.float64,
}  # fmt: skip


def _increment(old: Array, limit: Array) -> Array:
    answer: Array = np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))
    return answer


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "swap": lambda old, data: data,
    "storexchg": lambda old, data: data,
    "add": lambda old, data: old + data,
    "sub": lambda old, data: old - data,
    "rsub": lambda old, data: data - old,
    "csub": lambda old, data: np.where(old >= data, old - data, old.dtype.type(0)),
    "min": lambda old, data: _least(old, data),
    "max": lambda old, data: _greatest(old, data),
    "and": lambda old, data: old & data,
    "or": lambda old, data: old | data,
    "xor": lambda old, data: old ^ data,
    "inc": _increment,
    "dec": _decrement,
    "cond_sub": lambda old, data: np.where(old >= data, old - data, old),
    "pk_add_f16": lambda old, data: _packed_add(old, data, _from_f16, _to_f16),
    "pk_add_bf16": lambda old, data: _packed_add(old, data, _from_bf16, _to_bf16),
}


def known(name: str) -> bool:
    """Whether `apply_atomic` performs "add_u32", "pk_add_f16", ..."""
    action, _, kind = name.replace("_rtn", "").rpartition("_")
    if action in ("cmpswap", "cmpstore"):
        return kind in _DTYPES
    return (action in _FUNCTIONS and kind in _DTYPES) or name in _FUNCTIONS


def _from_f16(halves: Array) -> Array:
    return halves.view(np.float16).astype(np.float64)


def _to_f16(values: Array) -> Array:
    return values.astype(np.float16).view(np.uint16)


def _from_bf16(halves: Array) -> Array:
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _to_bf16(values: Array) -> Array:
    raw = values.astype(np.float32).view(np.uint32)
    near = raw + np.uint32(0x7FFF) + (raw >> np.uint32(16) & np.uint32(1))
    bits = np.where(np.isnan(values), raw | np.uint32(0x400000), near)
    return np.asarray(bits >> np.uint32(16), np.uint16)


def _packed_add(
    old: Array, data: Array, widen: Callable[[Array], Array], narrow: Callable[[Array], Array]
) -> Array:
    """Both halves of dwords, each rounded for itself."""
    x, y = (widen(np.ascontiguousarray(v).view(np.uint16)) for v in (old, data))
    return np.ascontiguousarray(narrow(x + y)).view(np.uint32)


def _least(old: Array, data: Array) -> Array:
    return minimum(old, data) if old.dtype.kind == "f" else np.minimum(old, data)


def _greatest(old: Array, data: Array) -> Array:
    return maximum(old, data) if old.dtype.kind == "f" else np.maximum(old, data)


_REDUCIBLE: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _swap_if_equal(old: Array, new: Array, compare: Array) -> Array:
    return np.where(old == compare, new, old)


_TWO_OPERANDS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "cmpswap": _swap_if_equal,
    "cmpstore": _swap_if_equal,
    # src: RDNA2 ISA, DS_CMPST_B32: the operands of older chips come in the other order.
    "cmpst": lambda old, compare, new: _swap_if_equal(old, new, compare),
    "mskor": lambda old, clear, bits: (old & ~clear) | bits,
    "wrap": lambda old, limit, more: np.where(old >= limit, old - limit, old + more),
}


def typed(words: Words, dtype: Any) -> Array:
    """(dwords, n) as n values."""
    if np.dtype(dtype).itemsize == 4:
        return np.ascontiguousarray(words[0]).view(dtype)
    answer: Array = np.ascontiguousarray(words.T).view(dtype)[:, 0]
    return answer


def untyped(values: Array) -> Words:
    """n values as (dwords, n)."""
    dwords = values.dtype.itemsize // 4
    return np.ascontiguousarray(values).view(np.uint32).reshape(len(values), dwords).T


def apply_atomic(
    name: str, va: Array, data: Words, load: Load, store: Store, *, returns: bool
) -> Words:
    """Perform atomic `name` ("add_u32", "cmpswap_b64", ...); the old values, (dwords, n).

    `load` and `store` take positions in `va`. Without a result, lanes that share an address are
    combined at once where the order cannot matter.
    """
    action, kind = name.rsplit("_", 1)
    action = action.replace("_rtn", "")
    if action == "pk_add":
        action, kind = f"{action}_{kind}", "b32"
    dtype = _DTYPES[kind]
    unique, first, inverse = np.unique(va, return_index=True, return_inverse=True)
    if not returns and action in _REDUCIBLE and len(unique) < len(va):
        current = typed(load(first), dtype).copy()
        _REDUCIBLE[action].at(current, inverse, typed(data, dtype))
        store(first, untyped(current))
        return data
    old = np.zeros((np.dtype(dtype).itemsize // 4, len(va)), np.uint32)
    for members in conflict_rounds(inverse, len(unique)):
        before = load(members)
        old[:, members] = before
        result = _combine(action, typed(before, dtype), data[:, members], dtype)
        store(members, untyped(result))
    return old


def _combine(action: str, old: Array, data: Words, dtype: Any) -> Array:
    if action in _TWO_OPERANDS:
        half = len(data) // 2
        return _TWO_OPERANDS[action](old, typed(data[:half], dtype), typed(data[half:], dtype))
    return np.asarray(_FUNCTIONS[action](old, typed(data, dtype)), old.dtype)


def conflict_rounds(inverse: Array, count: int) -> list[Array]:
    """Split positions into rounds in which no address repeats, keeping lane order."""
    order = np.argsort(inverse, kind="stable")
    sizes = np.bincount(inverse, minlength=count)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(inverse), np.int64)
    rank[order] = np.arange(len(inverse)) - np.repeat(starts, sizes)
    by_rank = np.argsort(rank, kind="stable")
    edges = np.cumsum(np.bincount(rank))[:-1]
    return np.split(by_rank, edges)

"""x[key] and x[key] = value on nodes: integers, slices, ellipsis, None, integer arrays, masks.

Basic keys become slice and reshape nodes, integer arrays one gather node. Assignment builds the
new value of the whole array, never in place. A number outside of its axis raises where the host
knows it; in an index tensor, which only the device reads, it means the nearest end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import index as as_int
from typing import Any

import numpy as np

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node, Shape
from tensor import engine, ops

__all__ = ["Plan", "expand_key", "getitem", "host_index", "parse", "setitem"]


@dataclass(slots=True)
class Plan:
    """A parsed key: how each axis of the source is sliced, and what the result's axes are."""

    steps: list[tuple[int, int]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    dropped: list[bool] = field(default_factory=list)
    """Axes indexed by an integer."""
    inserted: list[int] = field(default_factory=list)
    """For each None, the number of source axes before it."""
    arrays: list[tuple[int, Node]] = field(default_factory=list)
    """Source axis and its int64 index array."""
    adjacent: bool = True
    """The index arrays are adjacent in the key."""


def expand_key(key: Any, rank: int) -> list[Any]:
    """The key as a list with one entry for each axis, and None for new ones."""
    parts = list(key) if isinstance(key, tuple) else [key]
    used = sum(part is not None and part is not Ellipsis for part in parts)
    dots = sum(part is Ellipsis for part in parts)
    if used > rank or dots > 1:
        raise IndexError(
            f"key {key!r} has too many {'...' if dots > 1 else 'indices'} for rank {rank}"
        )
    if not dots:
        parts.append(Ellipsis)
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    return parts[:at] + [slice(None)] * (rank - used) + parts[at + 1 :]


def _is_array(part: Any) -> bool:
    return isinstance(getattr(part, "_node", None), Node) or isinstance(part, list | np.ndarray)


def _array_index(part: Any, extent: int, device: str) -> Node | None:
    """The index array that an entry is, or None when it is an integer."""
    node = getattr(part, "_node", None)
    if isinstance(node, Node):
        if node.dtype.kind not in "iu":
            raise _no_index(node.dtype.name)
        if part.device != device:
            raise ValueError(f"an index on {part.device} for an array on {device}; use .to")
        return ops.wrap_index(node, extent)
    if isinstance(part, list | np.ndarray):
        return host_index(np.asarray(part), extent, device)
    return None


def _no_index(dtype: str) -> IndexError:
    return IndexError(
        f"an index array of {dtype} is not supported: with a mask the shape would depend on data; "
        "use where(mask, x, y), or x[mask] = value with nothing else in the key"
    )


def host_index(array: np.ndarray[Any, Any], extent: int, device: str) -> Node:
    """An index array that the host knows. Raises: IndexError outside [-extent, extent)."""
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise _no_index(str(array.dtype))
    bad = (array < -extent) | (array >= extent)
    if bad.any():
        raise IndexError(f"index {array[bad][0]} is out of range for an axis of size {extent}")
    array = array.astype(np.int64)
    whole = np.where(array < 0, array + extent, array)
    return graph.cast(engine.positions(whole, device), dt.int64)


def parse(key: Any, shape: Shape, device: str) -> Plan:
    """Raises: IndexError for a key that does not fit `shape`."""
    plan = Plan()
    state = 0  # 0: no index array yet, 1: in a run of them, 2: after the run
    parts = expand_key(key, len(shape))
    mixed = any(_is_array(part) for part in parts)
    for part in parts:
        if part is None:
            plan.inserted.append(len(plan.steps))
            state = 2 if state else 0
            continue
        extent = shape[len(plan.steps)]
        if isinstance(part, slice):
            start, stop, step = part.indices(extent)
            count = len(range(start, stop, step))
            plan.steps.append((start, step) if count > 1 else (start if count else 0, 1))
            plan.counts.append(count)
            plan.dropped.append(False)
            state = 2 if state else 0
            continue
        node = _entry(part, plan, extent, device if mixed else None)
        if node is not None:
            plan.arrays.append((len(plan.steps) - 1, node))
            plan.adjacent &= state != 2
            state = 1
    return plan


def _entry(part: Any, plan: Plan, extent: int, device: str | None) -> Node | None:
    """An index array; an integer becomes one beside others (`device` is given)."""
    node = None if device is None else _array_index(part, extent, device)
    place = 0 if node is not None else _integer(part, extent)
    plan.dropped.append(device is None)
    if device is None:
        plan.steps.append((place, 1))
        plan.counts.append(1)
        return None
    plan.steps.append((0, 1))
    plan.counts.append(extent)
    return graph.const(place, dt.int64) if node is None else node


def _integer(part: Any, extent: int) -> int:
    if isinstance(part, bool | np.bool_):
        raise IndexError("a bool is not an index here; use where(mask, x, y)")
    try:
        place = as_int(part)
    except TypeError as error:
        raise IndexError(
            f"{part!r} is not an index; integers, slices, ..., None and integer arrays are"
        ) from error
    if not -extent <= place < extent:
        raise IndexError(f"index {place} is out of range for an axis of size {extent}")
    return place + extent if place < 0 else place


def getitem(x: Node, key: Any, device: str) -> Node:
    """x[key], with numpy's rules for where the axes of index arrays go."""
    plan = parse(key, x.shape, device)
    view = graph.slice_(x, plan.steps, tuple(plan.counts))
    if plan.arrays:
        return _gather(view, plan)
    return graph.reshape(view, _visible(plan))


def _visible(plan: Plan) -> Shape:
    """The result's shape of a key without index arrays."""
    kept: list[int] = []
    for axis, count in enumerate([*plan.counts, 0]):
        kept.extend([1] * plan.inserted.count(axis))
        if axis < len(plan.counts) and not plan.dropped[axis]:
            kept.append(count)
    return tuple(kept)


def _gather(view: Node, plan: Plan) -> Node:
    shape = ops.broadcast_shape(*(node.shape for _, node in plan.arrays))
    arrays = dict(plan.arrays)
    if any(view.shape[axis] == 0 for axis in arrays) and 0 not in shape:
        raise IndexError("an axis of size 0 has no element to index")
    before: list[int] = []  # axes of the result before the arrays'
    after: list[int] = []
    first = plan.arrays[0][0]
    for axis in range(len(view.shape)):
        if axis not in arrays:
            (before if plan.adjacent and axis < first else after).append(axis)
    whole = (*(view.shape[a] for a in before), *shape, *(view.shape[a] for a in after))
    indices = []
    for axis, extent in enumerate(view.shape):
        if axis in arrays:
            node = graph.broadcast(arrays[axis], shape)
            line = (1,) * len(before) + shape + (1,) * len(after)
            indices.append(graph.expand(graph.reshape(node, line), whole))
        else:
            at = (
                before.index(axis)
                if axis in before
                else len(before) + len(shape) + after.index(axis)
            )
            indices.append(ops.along(extent, at, whole))
    return _insert(graph.gather(view, indices), plan, before, len(shape))


def _insert(x: Node, plan: Plan, before: list[int], spread: int) -> Node:
    """Insert the axes of None into the result of a gather."""
    if not plan.inserted:
        return x
    arrays = {axis for axis, _ in plan.arrays}
    shape = list(x.shape)
    for axes_before in reversed(plan.inserted):
        plain = sum(1 for axis in range(axes_before) if axis not in arrays)
        passed = not plan.adjacent or any(axis < axes_before for axis in arrays)
        shape.insert(plain + (spread if passed else 0), 1)
    return graph.reshape(x, tuple(shape))


def setitem(x: Node, key: Any, value: Node, device: str) -> Node:
    """The array after x[key] = value; `value` broadcasts and takes x's dtype.

    Raises: IndexError for an index array, which would need a scatter.
    """
    mask = _mask(key, device)
    if mask is not None:
        return _set_where(x, mask, value)
    plan = parse(key, x.shape, device)
    if plan.arrays:
        raise IndexError("assignment through an index array is not supported; use where")
    shape = tuple(plan.counts)
    value = _fitted(value, x.dtype, _visible(plan))
    if 0 in shape:
        return x
    placed = graph.reshape(value, shape)
    mask = graph.const(True, dt.bool_, shape)
    for axis, (start, step) in enumerate(plan.steps):
        placed = _spread(placed, axis, start, step, x.shape[axis])
        mask = _spread(mask, axis, start, step, x.shape[axis])
    return placed if shape == x.shape else graph.where(mask, placed, x)


def _fitted(value: Node, dtype: dt.DType, shape: Shape) -> Node:
    """The value in the dtype and shape of its target. Raises: ValueError."""
    value = graph.cast(value, dtype)
    surplus = len(value.shape) - len(shape)
    if surplus > 0 and all(size == 1 for size in value.shape[:surplus]):
        value = graph.reshape(value, value.shape[surplus:])
    if not ops.broadcasts_to(value.shape, shape):
        raise ValueError(f"a value of shape {value.shape} does not fit into {shape}")
    return graph.broadcast(value, shape)


def _mask(key: Any, device: str) -> Node | None:
    """The bool array that a key is, alone or in a tuple of one; else None."""
    if isinstance(key, tuple) and len(key) == 1:
        (key,) = key
    if isinstance(key, list | np.ndarray):
        array = np.asarray(key)
        return engine.from_numpy(array.copy(), device, dt.bool_) if array.dtype == bool else None
    node = getattr(key, "_node", None)
    if not isinstance(node, Node) or node.dtype is not dt.bool_:
        return None
    if key.device != device:
        raise ValueError(f"a mask on {key.device} for an array on {device}; use .to")
    return node


def _set_where(x: Node, mask: Node, value: Node) -> Node:
    """`value`, the same for every True of the mask, which lies over the first axes of x."""
    rank = len(mask.shape)
    if mask.shape != x.shape[:rank]:
        raise IndexError(f"a mask of shape {mask.shape} does not lie over the axes of {x.shape}")
    place = x.shape[rank:]
    if not ops.broadcasts_to(value.shape, (1, *place)):
        raise ValueError(
            f"a value of shape {value.shape} is not the same for each place of shape {place} that "
            "the mask names, whose number depends on data; use where(mask, x, y)"
        )
    placed = graph.broadcast(_fitted(value, x.dtype, place), x.shape)
    mask = graph.reshape(mask, (*mask.shape, *[1] * (len(x.shape) - rank)))
    return graph.where(graph.broadcast(mask, x.shape), placed, x)


def _spread(x: Node, axis: int, start: int, step: int, extent: int) -> Node:
    """Put the elements of one axis at start, start + step, ... of an axis of `extent` zeros."""
    count = x.shape[axis]
    if step < 0:
        start, step = start + (count - 1) * step, -step
        x = ops.slice_axis(x, axis, count - 1, count, -1)
    if step > 1 and count > 1:
        apart = graph.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
        apart = graph.pad(apart, _widths(len(apart.shape), axis + 1, (0, step - 1)))
        x = graph.reshape(apart, (*x.shape[:axis], count * step, *x.shape[axis + 1 :]))
        count = (count - 1) * step + 1
        x = ops.slice_axis(x, axis, 0, count)
    return graph.pad(x, _widths(len(x.shape), axis, (start, extent - start - count)))


def _widths(rank: int, axis: int, width: tuple[int, int]) -> Sequence[tuple[int, int]]:
    return [width if a == axis else (0, 0) for a in range(rank)]

"""Functions that move elements and compute none: shapes, axes, joining, splitting, repeating."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from operator import index as as_int

import numpy as np

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from tensor import engine, indexing, ops
from tensor.arguments import takes_tensors, tensors_of
from tensor.core import Tensor, common_device
from tensor.creation import as_shape
from tensor.ops import axes_of, axis_of
from tensor.promotion import PROMOTE, Scalar

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "contiguous", "copy",
    "expand_dims", "flip", "matrix_transpose", "moveaxis", "pad", "permute_dims", "repeat",
    "reshape", "roll", "split", "squeeze", "stack", "take", "take_along_axis", "tile", "unstack",
]  # fmt: skip


@takes_tensors
def reshape(x: Tensor, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The elements in row-major order in another shape; one size may be -1."""
    sizes = [*ops.integers(shape)]
    if sizes.count(-1) == 1:
        rest = -prod(sizes)
        if rest == 0 or x.size % rest:
            raise ValueError(f"cannot reshape {x.shape} into {tuple(sizes)}")
        sizes[sizes.index(-1)] = x.size // rest
    if any(n < 0 for n in sizes):
        raise ValueError(f"shape {tuple(sizes)} has a negative size")
    return Tensor(graph.reshape(x._node, tuple(sizes)), x.device)


@takes_tensors
def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order. Raises: ValueError unless `axes` names each once."""
    order = axes_of(tuple(axes), x.ndim)
    if len(order) != x.ndim:
        raise ValueError(f"axes {tuple(axes)} do not name all {x.ndim} axes")
    return Tensor(graph.permute(x._node, order), x.device)


@takes_tensors
def matrix_transpose(x: Tensor, /) -> Tensor:
    """Every matrix in the last two axes transposed."""
    return x.mT


@takes_tensors
def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Axes moved to new places; the others keep their order."""
    sources, places = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    if len(sources) != len(places):
        raise ValueError(f"{len(sources)} axes cannot move to {len(places)} places")
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return Tensor(graph.permute(x._node, order), x.device)


@takes_tensors
def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """A new axis of size 1 at `axis` of the result."""
    at = axis_of(axis, x.ndim + 1)
    return Tensor(graph.reshape(x._node, (*x.shape[:at], 1, *x.shape[at:])), x.device)


@takes_tensors
def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    """Without the axes of size 1 that are named. Raises: ValueError for another size."""
    axes = axes_of(axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"axis {a} of {x.shape} has size {x.shape[a]}, not 1")
    shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    return Tensor(graph.reshape(x._node, shape), x.device)


@takes_tensors
def broadcast_to(x: Tensor, /, shape: int | Sequence[int]) -> Tensor:
    """x repeated to `shape`. Raises: ValueError when x does not broadcast to it."""
    target = as_shape(shape)
    if not ops.broadcasts_to(x.shape, target):
        raise ValueError(f"{x.shape} does not broadcast to {target}")
    return Tensor(graph.broadcast(x._node, target), x.device)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all of `shapes` broadcast to."""
    return ops.broadcast_shape(*map(as_shape, shapes))


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Every array in the common shape."""
    common_device(arrays, "an array of broadcast_arrays")
    shape = ops.broadcast_shape(*(x.shape for x in arrays))
    return [Tensor(graph.broadcast(x._node, shape), x.device) for x in arrays]


@takes_tensors
def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """The order of the elements reversed along `axis`; None is every axis."""
    axes = axes_of(axis, x.ndim)
    steps = [(n - 1, -1) if a in axes and n > 1 else (0, 1) for a, n in enumerate(x.shape)]
    return Tensor(graph.slice_(x._node, steps, x.shape), x.device)


@takes_tensors
def pad(x: Tensor, /, pad_width: Sequence[Sequence[int]], *, constant_values: Scalar = 0) -> Tensor:
    """(before, after) elements of `constant_values` around each axis (not in the standard)."""
    widths = [(as_int(before), as_int(after)) for before, after in pad_width]
    if len(widths) != x.ndim or any(n < 0 for width in widths for n in width):
        raise ValueError(f"pad_width {widths} does not fit rank {x.ndim}")
    return Tensor(ops.pad_with(x._node, widths, constant_values), x.device)


@takes_tensors
def roll(
    x: Tensor,
    /,
    shift: int | Sequence[int],
    *,
    axis: int | Sequence[int] | None = None,
) -> Tensor:
    """Elements moved by `shift`; what leaves one end enters the other."""
    shifts = ops.integers(shift)
    if axis is None:
        if len(shifts) != 1:
            raise ValueError("several shifts need an axis each")
        return reshape(roll(reshape(x, (-1,)) if x.size else x, shift, axis=0), x.shape)
    axes = ops.integers(axis)
    if not isinstance(shift, Iterable):
        shifts = shifts * len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"{len(shifts)} shifts for {len(axes)} axes; give one for each")
    node = x._node
    for a, by in zip(axes, shifts, strict=True):
        at = axis_of(a, x.ndim)
        n = x.shape[at]
        if n and by % n:
            by %= n
            tail, head = (
                ops.slice_axis(node, at, n - by, by),
                ops.slice_axis(node, at, 0, n - by),
            )
            node = _join(tail, head, at)
    return Tensor(node, x.device)


def _join(a: Node, b: Node, axis: int) -> Node:
    """Two nodes end to end: both padded to the whole, and a mask selects the node."""
    n, m = a.shape[axis], b.shape[axis]
    if not m:
        return a
    if not n:
        return b
    front = [(0, m) if at == axis else (0, 0) for at in range(len(a.shape))]
    back = [(n, 0) if at == axis else (0, 0) for at in range(len(a.shape))]
    mask = graph.pad(graph.const(True, dt.bool_, a.shape), front)
    return graph.where(mask, graph.pad(a, front), graph.pad(b, back))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays end to end along `axis`; None flattens them first."""
    tensors = tensors_of(arrays, "arrays of concat")
    if not tensors:
        raise ValueError("concat needs at least one array")
    device = common_device(tensors)
    if axis is None:
        tensors = [reshape(x, (x.size,)) for x in tensors]
    at = axis_of(axis or 0, tensors[0].ndim)
    dtype = tensors[0].dtype
    around = [(*x.shape[:at], *x.shape[at + 1 :]) for x in tensors]
    for x, others in zip(tensors, around, strict=True):
        dtype = PROMOTE[dtype, x.dtype]
        if others != around[0] or x.ndim != tensors[0].ndim:
            raise ValueError(f"shapes {tensors[0].shape} and {x.shape} do not join on axis {at}")
    nodes = [graph.cast(x._node, dtype) for x in tensors]
    # Pairwise, so that an element takes log(n) selects and not n.
    for _ in range(len(nodes).bit_length()):
        pairs = zip(nodes[::2], nodes[1::2], strict=False)
        odd = nodes[-1:] if len(nodes) % 2 else []
        nodes = [_join(a, b, at) for a, b in pairs] + odd
    return Tensor(nodes[0], device)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    tensors = tensors_of(arrays, "arrays of stack")
    return concat([expand_dims(x, axis) for x in tensors], axis=axis)


@takes_tensors
def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, without it."""
    at = axis_of(axis, x.ndim)
    shape = (*x.shape[:at], *x.shape[at + 1 :])
    return tuple(
        Tensor(graph.reshape(ops.slice_axis(x._node, at, i, 1), shape), x.device)
        for i in range(x.shape[at])
    )


@takes_tensors
def split(x: Tensor, /, indices_or_sections: int | Sequence[int], *, axis: int = 0) -> list[Tensor]:
    """Equal parts, or the parts between the given indices (not in the standard)."""
    at = axis_of(axis, x.ndim)
    n = x.shape[at]
    if not isinstance(indices_or_sections, Iterable):
        parts = as_int(indices_or_sections)
        if parts < 1 or n % parts:
            raise ValueError(f"an axis of size {n} does not split into {parts} equal parts")
        bounds = [i * (n // parts) for i in range(parts + 1)]
    else:
        bounds = [0, *(slice(i).indices(n)[1] for i in indices_or_sections), n]
    spans = [(start, stop - start) if stop > start else (0, 0) for start, stop in pairwise(bounds)]
    return [Tensor(ops.slice_axis(x._node, at, *span), x.device) for span in spans]


@takes_tensors
def tile(x: Tensor, repetitions: int | Sequence[int], /) -> Tensor:
    """The whole array repeated along each axis."""
    given = as_shape(repetitions)
    times = (1,) * (x.ndim - len(given)) + given
    shape = (1,) * (len(times) - x.ndim) + x.shape
    apart = tuple(n for size in shape for n in (1, size))
    wide = tuple(n for pair in zip(times, shape, strict=True) for n in pair)
    node = graph.expand(graph.reshape(x._node, apart), wide)
    whole = tuple(t * n for t, n in zip(times, shape, strict=True))
    return Tensor(graph.reshape(node, whole), x.device)


@takes_tensors
def repeat(
    x: Tensor, repeats: int | Sequence[int] | Tensor, /, *, axis: int | None = None
) -> Tensor:
    """Each element repeated. Counts in a tensor are read: they decide the shape."""
    if axis is None:
        return repeat(reshape(x, (x.size,)), repeats, axis=0)
    at = axis_of(axis, x.ndim)
    n = x.shape[at]
    if not isinstance(repeats, Iterable):
        repeats = as_int(repeats)
        if repeats < 0:
            raise ValueError(f"repeat needs a count of 0 or more, not {repeats}")
        node = graph.reshape(x._node, (*x.shape[: at + 1], 1, *x.shape[at + 1 :]))
        node = graph.expand(node, (*x.shape[: at + 1], repeats, *x.shape[at + 1 :]))
        whole = (*x.shape[:at], n * repeats, *x.shape[at + 1 :])
        return Tensor(graph.reshape(node, whole), x.device)
    counts = repeats.numpy() if isinstance(repeats, Tensor) else np.asarray(repeats)
    picks = np.repeat(np.arange(n), np.broadcast_to(counts, (n,)))
    index = indexing.host_index(picks, n, x.device)
    return Tensor(_take(x._node, index, at), x.device)


def _take(x: Node, index: Node, axis: int) -> Node:
    """Elements of one axis, which becomes the axes of `index`."""
    spread = len(index.shape)
    whole = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    line = (1,) * axis + index.shape + (1,) * (len(x.shape) - axis - 1)
    indices = [
        ops.along(n, a if a < axis else a + spread - 1, whole)
        if a != axis
        else graph.expand(graph.reshape(index, line), whole)
        for a, n in enumerate(x.shape)
    ]
    return graph.gather(x, indices)


def _checked(index: Tensor, extent: int) -> Node:
    if index.dtype.kind not in "iu":
        raise IndexError(f"an index array has an integer dtype, not {index.dtype.name}")
    if extent == 0 and index.size:
        raise IndexError("an axis of size 0 has no element to take")
    return ops.wrap_index(index._node, extent)


@takes_tensors
def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Elements of one axis by number; `axis` may be left out for rank 1.

    -1 is the last. A number outside of the axis means its nearest end: a device cannot raise.
    """
    if axis is None and x.ndim != 1:
        raise ValueError(f"take from rank {x.ndim} needs an axis")
    at = axis_of(axis or 0, x.ndim)
    index = _checked(indices, x.shape[at])
    return Tensor(_take(x._node, index, at), common_device([x, indices]))


@takes_tensors
def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """For each place of `indices`, the element of x there along `axis`; the rest broadcasts.

    -1 is the last. A number outside of the axis means its nearest end: a device cannot raise.
    """
    at = axis_of(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ValueError(f"indices of rank {indices.ndim} beside an array of rank {x.ndim}")
    index = _checked(indices, x.shape[at])
    around = ops.broadcast_shape(
        *((*shape[:at], 1, *shape[at + 1 :]) for shape in (x.shape, index.shape))
    )
    source = graph.broadcast(x._node, (*around[:at], x.shape[at], *around[at + 1 :]))
    index = graph.broadcast(index, (*around[:at], index.shape[at], *around[at + 1 :]))
    return Tensor(ops.take_along(source, index, at), common_device([x, indices]))


@takes_tensors
def contiguous(x: Tensor, /) -> Tensor:
    """x as the end of a kernel: computed once for all its uses (not in the standard)."""
    return Tensor(graph.contiguous(x._node), x.device)


@takes_tensors
def copy(x: Tensor, /) -> Tensor:
    """The elements in memory of their own (not in the standard)."""
    return Tensor(engine.copy(x._node, x.device, x.device), x.device)

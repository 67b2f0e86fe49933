"""Memory of other libraries as tensors, without a copy: on every device, or refused with why."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from compilers.plan.dtypes import check_dtype
from drivers.base.contracts import Device
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.base.lent import Exported, Lent, check_inside
from drivers.choice import split_name
from drivers.kinds import BY_NAME, Kind, named
from drivers.world.native import address_of
from tensor import array_description, engine, ops
from tensor.core import Tensor, not_a_tensor
from tensor.creation import as_shape
from tensor.dtype_names import dtype_from
from tensor.executable import LentStorage, Storage
from tensor.strides import Strided, row_major

__all__ = ["export_dmabuf", "from_array", "from_blob", "is_writable", "lent_node", "native_handles"]


def from_blob(
    pointer: int,
    shape: int | Sequence[int],
    dtype: Any,
    device: str | None = None,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    owner: Any = None,
    *,
    nbytes: int | None = None,
    readonly: bool = False,
    kind: str = "",
) -> Tensor:
    """Memory that another library has, as a tensor: nothing is copied, nothing is written to it.

    `pointer` is an address of the host ("address"), or a handle: what `kind` says, else what the
    device's first kind is (docs/sharing.md). Element 0 is `offset` elements behind it.
    `strides` are in elements, row-major without them. `dtype` may be torch's or numpy's.
    A dma-buf ("dmabuf") is given by its descriptor, which stays the caller's and may be closed
    afterwards.
    `owner` is kept until the last tensor and array over the memory is gone; without one the caller
    keeps it. Later writes of the owner change what is computed after them.
    Units: `shape`, `strides` and `offset` in elements, `nbytes` (all there is at `pointer`) in
    bytes. An owner with the buffer protocol, or torch's tensor, says `nbytes` and read-only itself.
    Raises: BadArgument out of bounds, not aligned, null, read-only memory that is not declared so;
    Unsupported for a device without sharing, a dtype it lacks, overlapping rows; UseAfterFree for
    an owner that was released; TypeError for an unknown dtype.
    """
    where, element = engine.device_name(device), dtype_from(dtype)
    layout = _layout(as_shape(shape), strides)
    target = engine.device(where)
    first = (index(offset) + layout.low) * element.itemsize
    bounds, hold, locked = _memory_of(owner)
    span = layout.span * element.itemsize
    if type(pointer) is not int:
        raise BadArgument(
            f"{pointer!r:.40} is not a pointer",
            hint="pass it as an int: array.ctypes.data, data_ptr()",
        )
    if nbytes is not None and span:
        check_inside(first, span, index(nbytes), pointer)
    lent = Lent(
        pointer=pointer, first=first, nbytes=span, align=element.itemsize, kind=kind,
        readonly=readonly or locked, bounds=bounds, owner=hold,
    )  # fmt: skip
    return Tensor(lent_node(target, where, lent, layout, element), where)


def from_array(obj: Any, kind: Kind, device: str | None) -> Tensor:
    """An array of another library over memory of a kind of device, as its array interface says.

    The device's kernels wait for the stream that it names. Its memory is shared where `device` is
    of that kind, else copied there.
    Raises: BadArgument, Unsupported, TypeError, as `from_blob`; what the interface lacks, or says
    in another form than its own: BadArgument.
    """
    said = array_description.read(obj, kind.array_interface)
    element = dtype_from(said.element)
    steps = array_description.steps(said, element.itemsize)
    default = engine.default_device()
    where = next((one for one in (device, default) if one and _is_of(one, kind)), kind.name)
    if said.stream is not None and kind.streams:
        named(kind.streams)(engine.device(engine.device_name(where))).precede(said.stream)
    pointer = said.pointer if all(said.shape) else 1  # of no elements: no memory is looked at
    made = from_blob(pointer, said.shape, element, where, steps, owner=obj, readonly=said.readonly)
    return made if device is None or _is_of(device, kind) else made.to(device)


def is_writable(storage: Storage) -> bool:
    """Whether it is memory of another library that may write it."""
    return isinstance(storage, LentStorage) and storage.writable


def _is_of(device: str, kind: Kind) -> bool:
    return split_name(engine.device_name(device))[0] == kind.name


def lent_node(target: Device, where: str, lent: Lent, layout: Strided, dtype: DType) -> Node:
    """A node over lent memory. Raises: BadArgument, Unsupported."""
    check_dtype(dtype, target.limits.dtypes, where)
    kind = BY_NAME[split_name(where)[0]]
    if not kind.borrows:
        raise Unsupported(
            f"{where} takes no memory of other libraries",
            hint=f"copy the elements: asarray(array, device={where!r})",
        )
    if not layout.nested:
        raise Unsupported(
            f"rows of shape {layout.shape} with strides {layout.strides} overlap",
            hint="make the array contiguous where it comes from",
        )
    if not layout.span:
        return graph.buffer(Storage(target.alloc(1), where), dtype, layout.shape)
    buffer, skip = named(kind.borrows)(target, lent)
    storage = LentStorage(buffer, where, writable=not lent.readonly)
    if layout.contiguous and not skip:
        return graph.buffer(storage, dtype, layout.shape)
    before = skip // dtype.itemsize
    line = graph.buffer(storage, dtype, (before + layout.span,))
    return layout.view(graph.slice_(line, [(before, 1)], (layout.span,)))


def _layout(shape: tuple[int, ...], strides: Sequence[int] | None) -> Strided:
    steps = row_major(shape) if strides is None else ops.integers(tuple(strides))
    if len(steps) != len(shape):
        raise BadArgument(
            f"{len(steps)} strides of {len(shape)} axes", hint="pass one stride for each axis"
        )
    return Strided(shape, steps)


def _memory_of(owner: Any) -> tuple[tuple[int, int] | None, Any, bool]:
    """((address, bytes) where it says so, what to keep, whether it is read-only).

    A buffer is locked by its view: it can neither move nor be closed meanwhile.
    Raises: UseAfterFree for a buffer that was released.
    """
    storage = getattr(owner, "untyped_storage", None)
    if storage is not None:  # torch's tensor
        whole = storage()  # kept, too: the tensor can be given another one
        if owner.device.type != "cpu":
            return None, (owner, whole), False
        return (whole.data_ptr(), whole.nbytes()), (owner, whole), False
    if isinstance(owner, np.ndarray):
        return _memory_of_array(owner)
    if isinstance(owner, Tensor):  # a buffer of it, from Python 3.12 on, may be of a copy
        node = owner._node
        return None, owner, node.op == "buffer" and not is_writable(node.storage)
    try:
        view = memoryview(owner)
    except TypeError:
        return None, owner, False
    except ValueError as error:
        if not isinstance(owner, memoryview | mmap.mmap):
            return None, owner, False  # elements that the buffer protocol cannot name
        raise UseAfterFree(
            f"the owner's memory is gone: {error}", hint="share it before it is released or closed"
        ) from error
    if not view.c_contiguous or not view.nbytes:
        return None, (owner, view), view.readonly
    return (address_of(view), view.nbytes), (owner, view), view.readonly


def _memory_of_array(array: NDArray[Any]) -> tuple[tuple[int, int] | None, Any, bool]:
    """The same of numpy's array, whatever its elements are (datetime64, ml_dtypes)."""
    readonly = not array.flags.writeable
    if not array.flags.c_contiguous or not array.nbytes:
        return None, array, readonly
    address, _ = array.__array_interface__["data"]
    return (address, array.nbytes), array, readonly


def export_dmabuf(x: Tensor) -> Exported:
    """A tensor's memory as a dma-buf: (fd, offset, nbytes), for another driver or process.

    All work is done when it is returned. The descriptor is new, and the caller closes it. Keep the
    tensor while the other side uses the memory: later it is other tensors'. Whoever imports it may
    write it, which changes what is computed after that.
    Units: `offset` (of element 0 in the dma-buf) and `nbytes` in bytes.
    Raises: Unsupported for a device without dma-bufs, memory of another library, or less memory
    than is exported alone (256 KiB); what the kernel refuses; TypeError for what is no tensor.
    """
    if not isinstance(x, Tensor):
        raise not_a_tensor(x, "export_dmabuf(x)")
    found = BY_NAME[split_name(x.device)[0]].exports
    if not found:
        raise Unsupported(f"{x.device} exports no dma-buf", hint="copy it: .numpy()")
    node = engine.realized(x._node, x.device)
    if node is not x._node:
        raise Unsupported(
            "this is a view of another library's memory", hint="share what that library has"
        )
    made: Exported = named(found)(node.storage.buffer)
    return made._replace(nbytes=x.size * x.dtype.itemsize)


def native_handles(device: str | None = None) -> Mapping[str, int]:
    """Handles with which other libraries share the memory of a device, by their names.

    "cl_context" for example, for pyopencl.Context.from_int_ptr(). {} for a device without any.
    """
    where = engine.device_name(device)
    found = BY_NAME[split_name(where)[0]].handles
    handles: Mapping[str, int] = named(found)(engine.device(where)) if found else {}
    return handles

"""Memory that a Metal device shares with other libraries: MTLBuffers, and pages of the host.

An MTLBuffer belongs to one MTLDevice, which is the same object for all libraries of a process.
# src: pytorch aten/src/ATen/mps/MPSAllocator.mm, MPSAllocator::allocate: the data pointer of a
# storage on mps is its id<MTLBuffer>
# src: dmlc/dlpack include/dlpack/dlpack.h, DLTensor.byte_offset: for handles that nothing can be
# added to
"""

from __future__ import annotations

import weakref
from functools import partial
from mmap import PAGESIZE
from typing import Final

from drivers.base.errors import BadArgument, Unsupported
from drivers.base.lent import ADDRESS, Lent, check_inside, checked_kind
from drivers.metal.abi import CONSTANTS
from drivers.metal.device import MetalDevice
from drivers.metal.memory import Block, MetalBuffer, RawMemory
from drivers.metal.objects import check_object
from drivers.world.native import memory_at
from drivers.world.own_memory import check_mapped

MTLBUFFER: Final = "mtlbuffer"
_SHARED: Final = CONSTANTS["MTL::StorageModeShared"]
_MANAGED: Final = CONSTANTS["MTL::StorageModeManaged"]
_PRIVATE: Final = CONSTANTS["MTL::StorageModePrivate"]
_MESSAGES: Final = ("length", "device", "storageMode", "contents", "gpuAddress", "retain")
_OBJECT_HINT: Final = (
    "pass the MTLBuffer itself, its bytes beside it as offset (torch: untyped_storage().data_ptr() "
    "and storage_offset()), and what keeps it as owner="
)


def handles(device: MetalDevice) -> dict[str, int]:
    """What another library needs to work beside the device: the MTLDevice, and the queue of its
    kernels, on which command buffers run in the order in which they are committed."""
    device.check_open()
    return {"MTLDevice": device.handle, "MTLCommandQueue": device.rings[0].queue.handle}


def borrow(device: MetalDevice, lent: Lent) -> tuple[MetalBuffer, int]:
    """A buffer over the whole MTLBuffer, or over pages of the host; and the byte of it where the
    lent memory begins. The MTLBuffer is retained until no work uses it; the owner is kept.

    Raises: BadArgument for no MTLBuffer, one of another device, or bytes outside of it; Unsupported
    for managed memory, and for host memory that is read-only or not whole pages.
    """
    with device.lock:
        device.check_open()
        if checked_kind(lent, (MTLBUFFER, ADDRESS), device.name) == ADDRESS:
            return _borrow_pages(device, lent)
        shared = _checked(device, lent)
        made = device.lend(lent.pointer, lent.owner, shared=shared, readonly=lent.readonly)
        return made, lent.first


def _checked(device: MetalDevice, lent: Lent) -> bool:
    """Whether the host sees an MTLBuffer that the device's kernels may use."""
    api, handle, name = device.api, lent.pointer, f"{lent.pointer:#x}"
    check_object(api, handle, "MTLBuffer", _MESSAGES, _OBJECT_HINT)
    with api.pool():
        numbers = {
            api.send["registryID"](one) for one in (api.send["device"](handle), device.handle)
        }
    if len(numbers) != 1:
        raise BadArgument(
            f"{name} belongs to another GPU than {device.name}",
            hint="name its device (METAL:1 for example), or copy the elements",
        )
    mode = api.send["storageMode"](handle)
    if mode not in (_SHARED, _PRIVATE):
        kind = "managed" if mode == _MANAGED else f"of storage mode {mode}"
        raise Unsupported(
            f"{name} is {kind}: the host and the GPU have a copy each, or one has none",
            hint="create it with MTLResourceStorageModeShared or MTLResourceStorageModePrivate",
        )
    check_inside(lent.first, lent.nbytes, api.send["length"](handle), handle)
    return bool(mode == _SHARED)


def _borrow_pages(device: MetalDevice, lent: Lent) -> tuple[MetalBuffer, int]:
    """The pages around the lent bytes, where all of them are the lender's."""
    if lent.readonly:
        raise Unsupported(
            f"{device.name} maps pages only where the process may write them",
            hint=f"copy the elements: asarray(..., device={device.name!r})",
        )
    if lent.bounds is None:
        check_mapped(lent.address, lent.nbytes, writable=True)
    skip = lent.address % PAGESIZE
    first, span = lent.address - skip, skip + lent.nbytes
    nbytes = -(-span // PAGESIZE) * PAGESIZE
    start, size = lent.bounds or (lent.address, lent.nbytes)
    if first < start or first + nbytes > start + size:
        raise Unsupported(
            f"{lent.nbytes} bytes at {lent.address:#x} are not whole pages of {PAGESIZE} bytes",
            hint="share memory of mmap and pass it as owner=, or copy the elements: "
            f"asarray(..., device={device.name!r})",
        )
    pages = memory_at(first, nbytes, partial(_returned, lent.owner)).cast("B")
    return device.wrap(pages), skip


def _returned(owner: object) -> None:
    """The pages are given back; with this call the reference to their owner is, too."""


def lend(buffer: MetalBuffer) -> tuple[int, object]:
    """The MTLBuffer of a buffer, and what keeps it valid, also after the device is closed."""
    device = buffer.device
    with device.lock:
        device.check_open()
        return buffer.block.handle, _View(device.raw, buffer.block)


class _View:
    """A user of an MTLBuffer, until the last reference to this is gone."""

    __slots__ = ("__weakref__",)

    def __init__(self, raw: RawMemory, block: Block) -> None:
        block.views += 1
        weakref.finalize(self, raw.view_gone, block).atexit = False

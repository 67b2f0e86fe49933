"""Memory of others as buffers of a GPU: the whole pages around host memory, dma-bufs."""

from __future__ import annotations

import errno
from functools import partial
from typing import Protocol, runtime_checkable

from drivers.base.contracts import Buffer, Device
from drivers.base.errors import BadArgument, DeviceError, Unsupported
from drivers.base.lent import ADDRESS, DMABUF, Exported, Lent, checked_kind
from drivers.base.pages import PAGE_BYTES
from drivers.gpu.blocks import Block
from drivers.gpu.buffer import GpuBuffer
from drivers.world.native import memory_at


@runtime_checkable
class Sharer(Protocol):
    """A device that takes and gives dma-bufs."""

    def import_dmabuf(self, fd: int, first: int, nbytes: int, owner: object) -> Buffer: ...

    def export_dmabuf(self, block: Block) -> int: ...


def borrow(device: Device, lent: Lent) -> tuple[Buffer, int]:
    """A buffer over the lent bytes, on their whole pages, which the GPU reaches. The owner is kept.

    Raises: BadArgument for addresses that are not mapped, and for no dma-buf; Unsupported for
    read-only memory, for pages that another buffer has, and where the GPU cannot reach it.
    """
    kinds = (ADDRESS, DMABUF) if isinstance(device, Sharer) else (ADDRESS,)
    if checked_kind(lent, kinds, device.name) == DMABUF and isinstance(device, Sharer):
        return device.import_dmabuf(lent.pointer, lent.first, lent.nbytes, lent.owner), 0
    if lent.readonly:
        raise Unsupported(
            f"{device.name} pins pages only where the process may write them",
            hint=f"copy the elements: asarray(..., device={device.name!r})",
        )
    skip = lent.address % PAGE_BYTES
    first = lent.address - skip
    nbytes = -(-(skip + lent.nbytes) // PAGE_BYTES) * PAGE_BYTES
    pages = memory_at(first, nbytes, partial(_returned, lent.owner)).cast("B")
    try:
        buffer = device.wrap(pages)
    except DeviceError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EFAULT:
            raise
        raise BadArgument(
            f"{lent.nbytes} bytes at {lent.address:#x} are not memory of this process",
            hint="the owner freed it, or the shape, strides or offset lead outside: pass owner=",
        ) from error
    if not isinstance(buffer, GpuBuffer):
        return buffer, skip
    buffer.narrow(skip, lent.nbytes)
    return buffer, 0


def _returned(owner: object) -> None:
    """The pages are given back; with this call the reference to their owner is, too."""


def export(buffer: Buffer) -> Exported:
    """A buffer's memory as a dma-buf, after all work that was given to its device.

    Raises: Unsupported for lent memory, for small buffers, and over PCI.
    """
    device, block = buffer.device, buffer.block if isinstance(buffer, GpuBuffer) else None
    if block is None or not isinstance(device, Sharer):
        raise Unsupported(
            f"{buffer!r} is memory of another library", hint="share what that library has"
        )
    fd = device.export_dmabuf(block)
    return Exported(fd, buffer.gpu_va - block.bo.gpu_va, buffer.nbytes)

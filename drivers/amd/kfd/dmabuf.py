"""dma-bufs through KFD: memory of another driver or process imported, ours exported.

A dma-buf is a file. The kernel keeps its memory while a descriptor or an import of it is there,
whoever freed it. # src: drivers/dma-buf/dma-buf.c; amdgpu_amdkfd_gpuvm.c import_obj_create()
"""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import Final

from drivers.amd.chips import PAGE_BYTES
from drivers.amd.kfd.abi import has
from drivers.amd.kfd.bo import Bo, Gpu, free_at, handle_gpu, map_to_gpus, reserve
from drivers.amd.kfd.memory import (
    EXPORT_DMABUF,
    GET_DMABUF_INFO,
    IMPORT_DMABUF,
    AllocFlag,
    ExportDmabufArgs,
    GetDmabufInfoArgs,
    ImportDmabufArgs,
)
from drivers.base.contracts import World
from drivers.base.errors import BadArgument, DeviceError, MalformedInput, Unsupported
from drivers.base.oserrors import errno_of
from drivers.base.undo import Undo

_FD_LIMIT: Final = 1 << 31
_VA_LIMIT: Final = 1 << 47
"""No memory is larger than the addresses of a process."""
_KINDS: Final = AllocFlag.VRAM | AllocFlag.GTT


def import_dmabuf(gpu: Gpu, fd: int, first: int, nbytes: int) -> Bo:
    """The whole dma-buf `fd`, mapped to the GPU; `nbytes` from byte `first` on are used of it.

    `fd` stays the caller's: a duplicate is asked about and imported, so that both are one file.
    Raises: BadArgument for a descriptor that is not open, that is no dma-buf of amdgpu, or that is
    smaller; Unsupported for VRAM of another GPU; OutOfMemory; MalformedInput.
    """
    gpu.session.check_process()
    with Undo() as undo:
        own = _duplicate(gpu.world, fd)
        undo.add(partial(gpu.world.close, own))
        size = _checked_size(gpu, own, fd)
        if not 0 <= first <= size - nbytes:
            raise BadArgument(
                f"bytes {first} ... {first + nbytes} are outside of the {size} of dma-buf {fd}",
                hint="correct the shape, the strides or the offset",
            )
        made = _import(gpu, own, size)
        undo.hand_over(made.free)
        gpu.world.close(own)
    return made


def _duplicate(world: World, fd: int) -> int:
    try:
        return world.duplicate(fd)
    except DeviceError as error:
        if errno_of(error) != errno.EBADF:
            raise
        raise BadArgument(
            f"descriptor {fd} is not open", hint="pass one that is open in this process"
        ) from error.__cause__


def _checked_size(gpu: Gpu, own: int, fd: int) -> int:
    """Bytes of a dma-buf that the GPU reaches where it is.

    Only for VRAM is the GPU in the answer the owner: for GTT memory, which every GPU reaches, it is
    the first one that KFD has. # src: Linux 9d7993a7ab96 (6.9), kfd_ioctl_get_dmabuf_info()
    """
    info = GetDmabufInfoArgs(dmabuf_fd=own)
    try:
        GET_DMABUF_INFO(gpu.world, gpu.session.fd, info)
    except Unsupported as error:
        if errno_of(error) != errno.EINVAL:
            raise
        raise BadArgument(
            f"descriptor {fd} is not a dma-buf of amdgpu",
            hint="export one there (EXPORT_DMABUF, DRM PRIME), or copy the memory through the host",
        ) from error.__cause__
    kind = AllocFlag(info.flags) & _KINDS
    if not 0 < info.size < _VA_LIMIT or info.size % PAGE_BYTES or kind not in tuple(_KINDS):
        raise MalformedInput(f"GET_DMABUF_INFO answered {info!r}", hint="report it with `uname -r`")
    if kind is AllocFlag.VRAM and info.gpu_id != gpu.gpu_id:
        raise Unsupported(
            f"dma-buf {fd} is memory of GPU {info.gpu_id:#x}, this is GPU {gpu.gpu_id:#x}",
            hint="import it with that GPU's device, then copy: .to(device)",
        )
    size: int = info.size
    return size


def _import(gpu: Gpu, own: int, nbytes: int) -> Bo:
    world = gpu.world
    with Undo() as undo:
        space, at = reserve(world, nbytes)
        undo.add(space.close)
        gpu_va = space.cpu_va + at
        args = ImportDmabufArgs(va_addr=gpu_va, gpu_id=gpu.gpu_id, dmabuf_fd=own)
        IMPORT_DMABUF(world, gpu.session.fd, args)
        handle = args.handle
        if handle_gpu(handle) != gpu.gpu_id:
            raise MalformedInput(
                f"IMPORT_DMABUF answered {args!r}", hint="report it with `uname -r`"
            )
        gpu.handles += 1
        gpu.bytes_held += nbytes
        undo.hand_over(lambda: free_at(gpu, handle, nbytes, space))
        map_to_gpus(gpu, handle, [gpu.gpu_id])
    return Bo(gpu, "dma-buf", handle, gpu_va, nbytes, None, space)


def export_dmabuf(bo: Bo) -> int:
    """A new descriptor, the caller's to close, of a dma-buf of the whole buffer object.

    Raises: Unsupported before KFD 1.12; Denied for host memory; what the kernel refuses.
    """
    session = bo.gpu.session
    session.check_process()
    if not has(EXPORT_DMABUF.name, session.minor):
        raise Unsupported(
            f"KFD 1.{session.minor} exports no dma-buf",
            hint="boot a kernel with KFD 1.12 or later, which has AMDKFD_IOC_EXPORT_DMABUF",
        )
    args = ExportDmabufArgs(handle=bo.handle, flags=os.O_CLOEXEC)
    EXPORT_DMABUF(session.world, session.fd, args)
    fd: int = args.dmabuf_fd
    if fd >= _FD_LIMIT:
        raise MalformedInput(f"EXPORT_DMABUF answered {args!r}", hint="report it with `uname -r`")
    return fd

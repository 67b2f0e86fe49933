"""dma-bufs of a board: memory of one process as a file that others import.

src: amdkfd/kfd_chardev.c kfd_ioctl_get_dmabuf_info(), kfd_ioctl_import_dmabuf(),
src: kfd_ioctl_export_dmabuf(); amdgpu/amdgpu_amdkfd.c amdgpu_amdkfd_get_dmabuf_info();
src: amdgpu/amdgpu_amdkfd_gpuvm.c import_obj_create(); drivers/dma-buf/dma-buf.c

Not here: mmap of a dma-buf, export of doorbells and registers, and the move to system memory of
VRAM that another GPU imports and cannot reach.
"""

from __future__ import annotations

import errno
from types import SimpleNamespace

from boards.amd.kfd import types as k
from boards.amd.kfd.device import Buffer, Device
from boards.amd.kfd.memory import Memory

_CACHED = k.COHERENT | k.UNCACHED | k.EXT_COHERENT


class DmaBuf:
    """Keeps a buffer's memory while a file or an import refers to it, whoever freed it."""

    def __init__(self, memory: Memory, buffer: Buffer) -> None:
        self._memory, self.buffer = memory, buffer
        self._users = 0
        buffer.maps += 1

    def hold(self) -> None:
        """One more user."""
        self._users += 1

    def drop(self) -> None:
        """One less; with the last one the memory goes where its buffer was freed."""
        self._users -= 1
        if not self._users:
            self.buffer.maps -= 1
            self._memory.settle(self.buffer)


def describe(dmabuf: DmaBuf, args: SimpleNamespace, first_gpu: int) -> None:
    """GET_DMABUF_INFO. KFD's buffers have no metadata.

    Only a buffer that was asked for as VRAM knows its partition (xcp_id), and with it its GPU: for
    the others the kernel gives the first GPU of the topology that the process may use.
    src: Linux 9d7993a7ab96 "drm/amdkfd: Check cgroup when returning DMABuf info" (6.9)
    src: amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu(), xcp_id
    """
    buffer = dmabuf.buffer.first
    local = buffer.kind == "VRAM"
    args.size = buffer.nbytes
    args.gpu_id = buffer.device.gpu.gpu_id if buffer.flags & k.VRAM else first_gpu
    args.flags = k.VRAM if local else k.GTT
    args.flags |= buffer.flags & k.PUBLIC if local else 0
    if args.metadata_ptr:
        args.metadata_size = 0


def import_(memory: Memory, device: Device, dmabuf: DmaBuf, args: SimpleNamespace) -> None:
    """IMPORT_DMABUF: a buffer of this process over the same memory, all rights given.

    How caches treat it is the memory's own. src: gmc_v*_get_vm_pte(), which reads bo->flags
    Raises: OSError EOPNOTSUPP for what a board does not do, see above.
    """
    found = dmabuf.buffer
    if found.kind == "VRAM" and found.home is not device.gpu and not memory.large_bar:
        raise OSError(errno.EOPNOTSUPP, "a board moves no VRAM to system memory")
    kind = k.VRAM if found.kind == "VRAM" else k.GTT
    handle = next(n for n in range(len(device.handles) + 1) if n not in device.handles)
    made = Buffer(
        handle, device, args.va_addr, found.nbytes,
        kind | k.WRITABLE | k.EXECUTABLE | found.flags & _CACHED,
        found.kind, found.pool, found.pieces, found.bus, offset=-1, source=dmabuf,
    )  # fmt: skip
    dmabuf.hold()
    device.handles[handle] = made
    memory.buffers.append(made)
    args.handle = args.gpu_id << 32 | handle


def export(memory: Memory, handle: int) -> DmaBuf:
    """EXPORT_DMABUF without the descriptor. Raises: OSError EINVAL; EPERM for user memory.

    src: amdgpu_dma_buf.c amdgpu_gem_prime_export()
    """
    buffer = memory.find(handle)
    if buffer.pool is None or buffer.kind == "USERPTR":
        raise OSError(errno.EPERM, f"{buffer} is not exported")
    return DmaBuf(memory, buffer)

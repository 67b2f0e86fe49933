"""Memory of the host that kernels of a device reach, and that both see: pages, locked."""

from __future__ import annotations

import mmap

from drivers.base.buffer import checked_size
from drivers.cuda.device import CudaDevice
from drivers.cuda.memory import CudaBuffer


def pinned(device: CudaDevice, nbytes: int) -> CudaBuffer:
    """A buffer in memory of the host: kernels reach it over the bus, `host` is the memory itself.

    Its contents are zero. Synchronise before the host reads what kernels wrote. Raises:
    OutOfMemory, Unsupported where pages cannot be locked.
    """
    checked_size(nbytes)
    size = -(-max(nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return device.wrap(memoryview(pages))

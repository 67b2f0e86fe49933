"""/dev/dma_heap/system: memory that any driver can import.

src: Linux include/uapi/linux/dma-heap.h, drivers/dma-buf/dma-heap.c
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from boards.machine import host
from boards.machine.records import Record
from boards.qcom.hardware import AdrenoHardware
from boards.qcom.memory import Memory

_ALLOC = 0xC0184800
_DATA = Record("dma_heap_allocation_data", "len:Q fd:I fd_flags:I heap_flags:Q")
_FD_FLAGS = 0o2000003
"""O_CLOEXEC and the access mode."""


def allocate(
    hardware: AdrenoHardware, request: int, argument: bytearray, take: Callable[[Memory], int]
) -> None:
    """DMA_HEAP_IOCTL_ALLOC. Raises: OSError ENOTTY, EINVAL, ENOMEM."""
    if request != _ALLOC:
        raise OSError(errno.ENOTTY, f"a heap has no request {request:#x}")
    args = _DATA.load(argument)
    if args.fd or args.heap_flags or args.fd_flags & ~_FD_FLAGS or not 0 < args.len < 1 << 40:
        raise OSError(errno.EINVAL, "DMA_HEAP_IOCTL_ALLOC")
    memory = hardware.memory.new(
        "a dma-buf of the system's heap", host.pages(args.len), cached=not hardware.coherent
    )
    args.fd = take(memory)
    _DATA.store(argument, args)

"""Messages of the vfio-user protocol: numbers, layouts, bounds.

# src: qemu docs/interop/vfio-user.rst; include/uapi/linux/vfio.h for what it borrows
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass, field
from enum import IntEnum

MAJOR, MINOR = 0, 1
"""The protocol's version. # src: qemu hw/vfio-user/protocol.h VFIO_USER_MAJOR_VER, _MINOR_VER"""
HEADER = struct.Struct("<HHIII")
"""Message id, command, size of it all, flags, error."""
TYPE_MASK, TYPE_REPLY, NO_REPLY, ERROR = 0xF, 1, 1 << 4, 1 << 5

MAX_DATA_BYTES = 1 << 20
"""Most data of one message; the protocol's default."""
MAX_BODY_BYTES = MAX_DATA_BYTES + 4096
MAX_DESCRIPTORS = 8
"""Most descriptors of one message."""
MAX_DMA_MAPS = 65535
PAGE_BYTES = 4096


class Command(IntEnum):
    """What a client asks for."""

    VERSION = 1
    DMA_MAP = 2
    DMA_UNMAP = 3
    DEVICE_GET_INFO = 4
    DEVICE_GET_REGION_INFO = 5
    DEVICE_GET_REGION_IO_FDS = 6
    DEVICE_GET_IRQ_INFO = 7
    DEVICE_SET_IRQS = 8
    REGION_READ = 9
    REGION_WRITE = 10
    DEVICE_RESET = 13
    REGION_WRITE_MULTI = 15


VERSION = struct.Struct("<HH")
DMA_MAP = struct.Struct("<IIQQQ")
"""argsz, flags, offset in the file, address, size."""
DMA_UNMAP = struct.Struct("<IIQQ")
"""argsz, flags, address, size."""
DEVICE_INFO = struct.Struct("<IIII")
"""argsz, flags, regions, kinds of interrupts."""
REGION_INFO = struct.Struct("<IIIIQQ")
"""argsz, flags, index, offset of the capabilities, size, offset in the file."""
SPARSE_MMAP = struct.Struct("<HHIIIQQ")
"""Capability's id, version, next; areas, reserved; offset and size of the one area."""
IRQ_INFO = struct.Struct("<IIII")
"""argsz, flags, index, count."""
IRQ_SET = struct.Struct("<IIIII")
"""argsz, flags, index, start, count; booleans follow."""
REGION_ACCESS = struct.Struct("<QII")
"""offset, region, bytes; data follow."""
WRITE_COUNT = struct.Struct("<Q")
WRITE_ENTRY = struct.Struct("<QII8s")
"""offset, region, bytes, data."""

DMA_READ, DMA_WRITE = 1, 2
UNMAP_ALL = 2
"""# src: qemu hw/vfio-user/container.c: address and size are zero then"""

DEVICE_RESETS, DEVICE_IS_PCI = 1, 2
REGION_READABLE, REGION_WRITABLE, REGION_MAPPABLE, REGION_HAS_CAPS = 1, 2, 4, 8
CAP_SPARSE_MMAP = 1
ROM_REGION, CONFIG_REGION, REGIONS = 6, 7, 9
"""# src: linux/vfio.h VFIO_PCI_ROM_REGION_INDEX, CONFIG_REGION_INDEX, VFIO_PCI_NUM_REGIONS"""
INTX, MSI, IRQS = 0, 1, 5
"""# src: linux/vfio.h VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_NUM_IRQS"""
IRQ_EVENTFD, IRQ_MASKABLE, IRQ_AUTOMASKED, IRQ_NO_RESIZE = 1, 2, 4, 8
SET_NONE, SET_BOOL, SET_EVENTFD, SET_MASK, SET_UNMASK, SET_TRIGGER = 1, 2, 4, 8, 16, 32


@dataclass(slots=True)
class Message:
    """A command with what came beside it. Descriptors that are not taken are closed."""

    message_id: int
    command: int
    wants_reply: bool
    body: bytes
    descriptors: list[int] = field(default_factory=list)

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        """The first fields of the body. Raises: OSError EINVAL when it is shorter."""
        if len(self.body) < layout.size:
            raise refusal(f"{len(self.body)} bytes where {layout.size} are needed")
        return layout.unpack_from(self.body)


def refusal(why: str, number: int = errno.EINVAL) -> OSError:
    """What a client has done wrong; becomes the error of the reply."""
    return OSError(number, why)

"""Numbers of VFIO and iommufd as this made-up kernel answers them.

src: Linux 6.12 include/uapi/linux/vfio.h, include/uapi/linux/iommufd.h: _IO(';', 100 + n) and
src: _IO(';', 0x80 + n); requests carry no size
"""

from __future__ import annotations

import errno
import struct

_TYPE = ord(";") << 8
_BASE = 100


def _vfio(number: int) -> int:
    return _TYPE | _BASE + number


GET_API_VERSION, CHECK_EXTENSION, SET_IOMMU = _vfio(0), _vfio(1), _vfio(2)
GROUP_GET_STATUS, GROUP_SET_CONTAINER, GROUP_UNSET_CONTAINER = _vfio(3), _vfio(4), _vfio(5)
GROUP_GET_DEVICE_FD, DEVICE_GET_INFO, DEVICE_GET_REGION_INFO = _vfio(6), _vfio(7), _vfio(8)
DEVICE_GET_IRQ_INFO, DEVICE_SET_IRQS, DEVICE_RESET = _vfio(9), _vfio(10), _vfio(11)
IOMMU_GET_INFO, IOMMU_MAP_DMA, IOMMU_UNMAP_DMA = _vfio(12), _vfio(13), _vfio(14)
DEVICE_BIND_IOMMUFD, DEVICE_ATTACH_PT, DEVICE_DETACH_PT = _vfio(18), _vfio(19), _vfio(20)
IOMMU_DESTROY, IOAS_ALLOC, IOAS_IOVA_RANGES = _TYPE | 0x80, _TYPE | 0x81, _TYPE | 0x84
IOAS_MAP, IOAS_UNMAP = _TYPE | 0x85, _TYPE | 0x86

TYPE1, TYPE1V2, UNMAP_ALL_EXTENSION = 1, 3, 9
GROUP_VIABLE, GROUP_CONTAINER_SET = 1, 2
DEVICE_FLAG_RESET, DEVICE_FLAG_PCI = 1, 2
REGION_READ, REGION_WRITE, REGION_MMAP = 1, 2, 4
IRQ_EVENTFD, IRQ_MASKABLE, IRQ_AUTOMASKED, IRQ_NORESIZE = 1, 2, 4, 8
SET_NONE, SET_BOOL, SET_EVENTFD, SET_TRIGGER = 1, 2, 4, 32
SET_DATA_MASK, SET_ACTION_MASK = 7, 56
DMA_READ, DMA_WRITE = 1, 2
UNMAP_ALL = 2
INFO_PGSIZES, INFO_CAPS = 1, 2
CAP_IOVA_RANGE, CAP_DMA_AVAIL = 1, 3
CONFIG_REGION, ROM_REGION, REGIONS = 7, 6, 9
INTX, MSI, MSIX, ERROR, REQUEST, IRQS = 0, 1, 2, 3, 4, 5
REGION_SHIFT = 40
"""src: drivers/vfio/pci/vfio_pci_priv.h VFIO_PCI_OFFSET_SHIFT"""
IOAS_FIXED, IOAS_WRITEABLE, IOAS_READABLE = 1, 2, 4


def fields(argument: bytearray | int, layout: str) -> tuple[int, ...]:
    """The members of a struct whose first word is its size. Raises: OSError EFAULT, EINVAL."""
    if isinstance(argument, int):
        raise OSError(errno.EFAULT, "a number where a struct belongs")
    size = struct.calcsize(f"<{layout}")
    if len(argument) < size:
        raise OSError(errno.EFAULT, f"{len(argument)} bytes where the kernel reads {size}")
    values = struct.unpack_from(f"<{layout}", argument)
    if values[0] < size or values[0] > len(argument):
        raise OSError(errno.EINVAL, f"the struct says it has {values[0]} bytes")
    return values


def answer(argument: bytearray | int, layout: str, *values: int) -> None:
    """Fill a struct in."""
    if isinstance(argument, int):
        raise OSError(errno.EFAULT, "a number where a struct belongs")
    struct.pack_into(f"<{layout}", argument, 0, *values)


def number(argument: bytearray | int) -> int:
    """An argument that is passed by value. Raises: OSError EINVAL for memory."""
    if not isinstance(argument, int):
        raise OSError(errno.EINVAL, "memory where a number belongs")
    return argument

"""The ioctls of /dev/iommu (iommufd): address spaces without containers and groups.

Source: Linux 6.12 include/uapi/linux/iommufd.h.
"""

from __future__ import annotations

from enum import IntFlag

from drivers.base.ioctl import Struct, u32, u64
from drivers.pci.vfio_abi import GROUP, SizelessIoctl

NODE = "/dev/iommu"


class MapFlag(IntFlag):
    """How memory is mapped; the kernel chooses an address unless it is fixed."""

    FIXED_IOVA = 1 << 0
    WRITEABLE = 1 << 1
    READABLE = 1 << 2


class DestroyArgs(Struct, size=8):
    """Any object by its id."""

    nbytes: int = u32()
    id: int = u32()


class IoasAllocArgs(Struct, size=12):
    """A new address space."""

    nbytes: int = u32()
    flags: int = u32()
    out_ioas_id: int = u32()


class IoasIovaRangesArgs(Struct, size=32):
    """Which addresses may be mapped; `allowed_iovas` points to an array of IovaRange."""

    nbytes: int = u32()
    ioas_id: int = u32()
    num_iovas: int = u32()
    reserved: int = u32()
    allowed_iovas: int = u64()
    out_iova_alignment: int = u64()


class IoasMapArgs(Struct, size=40):
    """Memory of this process, and where devices see it."""

    nbytes: int = u32()
    flags: int = u32()
    ioas_id: int = u32()
    reserved: int = u32()
    user_va: int = u64()
    length: int = u64()
    iova: int = u64()


class IoasUnmapArgs(Struct, size=24):
    """What devices see no longer."""

    nbytes: int = u32()
    ioas_id: int = u32()
    iova: int = u64()
    length: int = u64()


class IovaRange(Struct, size=16):
    """Addresses that may be mapped, `last` among them."""

    start: int = u64()
    last: int = u64()


DESTROY = SizelessIoctl("IOMMU_DESTROY", GROUP, 0x80, DestroyArgs)
IOAS_ALLOC = SizelessIoctl("IOMMU_IOAS_ALLOC", GROUP, 0x81, IoasAllocArgs)
IOAS_IOVA_RANGES = SizelessIoctl("IOMMU_IOAS_IOVA_RANGES", GROUP, 0x84, IoasIovaRangesArgs)
IOAS_MAP = SizelessIoctl("IOMMU_IOAS_MAP", GROUP, 0x85, IoasMapArgs)
IOAS_UNMAP = SizelessIoctl("IOMMU_IOAS_UNMAP", GROUP, 0x86, IoasUnmapArgs)

NUMBERS: dict[str, int] = {
    item.name: item.request
    for item in (DESTROY, IOAS_ALLOC, IOAS_IOVA_RANGES, IOAS_MAP, IOAS_UNMAP)
}
"""Every request by the kernel's name."""

"""The ioctls of VFIO: container, group and device, type1 mappings, and the character device.

All are _IO: no size is in the number, the struct's first word says how long it is (`argsz`).
Requests whose argument is a plain number or a string are only numbers here.

Source: Linux 6.12 include/uapi/linux/vfio.h.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TypeVar

from drivers.base.ioctl import Ioctl, Struct, i32, request_number, u8, u16, u32, u64

GROUP, BASE = ";", 100
API_VERSION = 0
TYPE1V2_IOMMU = 3
"""Type1 where an unmap never covers part of a mapping."""
DEVICE_API = "vfio-pci"


S = TypeVar("S", bound=Struct)


class SizelessIoctl(Ioctl[S]):
    """An ioctl whose number holds no size."""

    __slots__ = ()

    def __init__(self, name: str, group: str, number: int, args: type[S]) -> None:
        super().__init__(name, "", group, number, args)
        self.request = request_number("", group, number, 0)


def _vfio(name: str, number: int, args: type[S]) -> SizelessIoctl[S]:
    return SizelessIoctl(name, GROUP, BASE + number, args)


def _plain(number: int) -> int:
    return request_number("", GROUP, BASE + number, 0)


GET_API_VERSION = _plain(0)
"""On a container, no argument; the result is API_VERSION."""
CHECK_EXTENSION = _plain(1)
"""On a container, a number such as TYPE1V2_IOMMU; the result is 1 when it is there."""
SET_IOMMU = _plain(2)
"""On a container with a group, a number such as TYPE1V2_IOMMU."""
GROUP_GET_DEVICE_FD = _plain(6)
"""On a group, a PCI address as a C string; the result is a descriptor."""
DEVICE_RESET = _plain(11)
"""On a device, no argument."""


class GroupFlag(IntFlag):
    """What a group is."""

    VIABLE = 1 << 0
    CONTAINER_SET = 1 << 1


class DeviceFlag(IntFlag):
    """What a device is."""

    RESET = 1 << 0
    PCI = 1 << 1
    CAPS = 1 << 7


class RegionFlag(IntFlag):
    """What a region allows."""

    READ = 1 << 0
    WRITE = 1 << 1
    MMAP = 1 << 2
    CAPS = 1 << 3


class IrqFlag(IntFlag):
    """What an interrupt index can do."""

    EVENTFD = 1 << 0
    MASKABLE = 1 << 1
    AUTOMASKED = 1 << 2
    NORESIZE = 1 << 3


class IrqSet(IntFlag):
    """The data and the action of SET_IRQS."""

    DATA_NONE = 1 << 0
    DATA_BOOL = 1 << 1
    DATA_EVENTFD = 1 << 2
    ACTION_MASK = 1 << 3
    ACTION_UNMASK = 1 << 4
    ACTION_TRIGGER = 1 << 5


class MapFlag(IntFlag):
    """What a device may do with mapped memory."""

    READ = 1 << 0
    WRITE = 1 << 1


class UnmapFlag(IntFlag):
    """How to unmap."""

    ALL = 1 << 1


class InfoFlag(IntFlag):
    """Which members of the type1 facts mean something."""

    PGSIZES = 1 << 0
    CAPS = 1 << 1


class RegionIndex(IntEnum):
    """Regions of a vfio-pci device."""

    BAR0 = 0
    BAR1 = 1
    BAR2 = 2
    BAR3 = 3
    BAR4 = 4
    BAR5 = 5
    ROM = 6
    CONFIG = 7
    VGA = 8


class IrqIndex(IntEnum):
    """Interrupts of a vfio-pci device."""

    INTX = 0
    MSI = 1
    MSIX = 2
    ERR = 3
    REQ = 4


REGION_CAP_SPARSE_MMAP, REGION_CAP_TYPE, REGION_CAP_MSIX_MAPPABLE = 1, 2, 3
TYPE1_CAP_IOVA_RANGE, TYPE1_CAP_DMA_AVAIL = 1, 3


class GroupStatus(Struct, size=8):
    """Whether a group may be used."""

    argsz: int = u32()
    flags: int = u32()


class SetContainerArgs(Struct, size=4):
    """The container's descriptor."""

    container: int = i32()


class DeviceInfo(Struct, size=24):
    """How many regions and interrupts a device has."""

    argsz: int = u32()
    flags: int = u32()
    num_regions: int = u32()
    num_irqs: int = u32()
    cap_offset: int = u32()
    pad: int = u32()


class RegionInfo(Struct, size=32):
    """Where a region is in the device's file."""

    argsz: int = u32()
    flags: int = u32()
    index: int = u32()
    cap_offset: int = u32()
    region_bytes: int = u64()
    offset: int = u64()


class IrqInfo(Struct, size=16):
    """How many interrupts an index has."""

    argsz: int = u32()
    flags: int = u32()
    index: int = u32()
    count: int = u32()


class IrqSetHeader(Struct, size=20):
    """In front of the data of SET_IRQS."""

    argsz: int = u32()
    flags: int = u32()
    index: int = u32()
    start: int = u32()
    count: int = u32()


class OneIrqArgs(Struct, size=24):
    """SET_IRQS of one interrupt, with one eventfd as its data; -1 is none."""

    argsz: int = u32()
    flags: int = u32()
    index: int = u32()
    start: int = u32()
    count: int = u32()
    eventfd: int = i32()


class BindIommufdArgs(Struct, size=16):
    """Ties a character device to an iommufd."""

    argsz: int = u32()
    flags: int = u32()
    iommufd: int = i32()
    out_devid: int = u32()


class AttachPtArgs(Struct, size=12):
    """Gives a character device an address space."""

    argsz: int = u32()
    flags: int = u32()
    pt_id: int = u32()


class DetachPtArgs(Struct, size=8):
    """Takes the address space away: DMA is blocked."""

    argsz: int = u32()
    flags: int = u32()


class Type1Info(Struct, size=24):
    """What the type1 IOMMU can do."""

    argsz: int = u32()
    flags: int = u32()
    iova_pgsizes: int = u64()
    cap_offset: int = u32()
    pad: int = u32()


class MapDmaArgs(Struct, size=32):
    """Memory of this process, and where the device sees it."""

    argsz: int = u32()
    flags: int = u32()
    vaddr: int = u64()
    iova: int = u64()
    nbytes: int = u64()


class UnmapDmaArgs(Struct, size=24):
    """What the device sees no longer; `nbytes` becomes what was unmapped."""

    argsz: int = u32()
    flags: int = u32()
    iova: int = u64()
    nbytes: int = u64()


class CapHeader(Struct, size=8):
    """In front of every capability behind an INFO struct."""

    id: int = u16()
    version: int = u16()
    next: int = u32()


class IovaRange(Struct, size=16):
    """Addresses that may be mapped; `end` is the last one."""

    start: int = u64()
    end: int = u64()


class SparseArea(Struct, size=16):
    """A part of a region that may be mapped."""

    offset: int = u64()
    nbytes: int = u64()


class HotResetDevice(Struct, size=8):
    """A function that a bus reset would reset too."""

    group_id: int = u32()
    segment: int = u16()
    bus: int = u8()
    devfn: int = u8()


GROUP_GET_STATUS = _vfio("VFIO_GROUP_GET_STATUS", 3, GroupStatus)
GROUP_SET_CONTAINER = _vfio("VFIO_GROUP_SET_CONTAINER", 4, SetContainerArgs)
DEVICE_GET_INFO = _vfio("VFIO_DEVICE_GET_INFO", 7, DeviceInfo)
DEVICE_GET_REGION_INFO = _vfio("VFIO_DEVICE_GET_REGION_INFO", 8, RegionInfo)
DEVICE_GET_IRQ_INFO = _vfio("VFIO_DEVICE_GET_IRQ_INFO", 9, IrqInfo)
DEVICE_SET_IRQS = _vfio("VFIO_DEVICE_SET_IRQS", 10, OneIrqArgs)
DEVICE_CLEAR_IRQS = _vfio("VFIO_DEVICE_SET_IRQS", 10, IrqSetHeader)
"""The same request with no data and a count of zero: the whole index is switched off."""
IOMMU_GET_INFO = _vfio("VFIO_IOMMU_GET_INFO", 12, Type1Info)
IOMMU_MAP_DMA = _vfio("VFIO_IOMMU_MAP_DMA", 13, MapDmaArgs)
IOMMU_UNMAP_DMA = _vfio("VFIO_IOMMU_UNMAP_DMA", 14, UnmapDmaArgs)
DEVICE_BIND_IOMMUFD = _vfio("VFIO_DEVICE_BIND_IOMMUFD", 18, BindIommufdArgs)
DEVICE_ATTACH_PT = _vfio("VFIO_DEVICE_ATTACH_IOMMUFD_PT", 19, AttachPtArgs)
DEVICE_DETACH_PT = _vfio("VFIO_DEVICE_DETACH_IOMMUFD_PT", 20, DetachPtArgs)

NUMBERS: dict[str, int] = {
    "VFIO_GET_API_VERSION": GET_API_VERSION,
    "VFIO_CHECK_EXTENSION": CHECK_EXTENSION,
    "VFIO_SET_IOMMU": SET_IOMMU,
    "VFIO_GROUP_GET_DEVICE_FD": GROUP_GET_DEVICE_FD,
    "VFIO_DEVICE_RESET": DEVICE_RESET,
} | {item.name: item.request for item in list(vars().values()) if isinstance(item, Ioctl)}
"""Every request by the kernel's name."""

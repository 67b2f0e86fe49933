"""An open VFIO device, however it was opened, and requests whose argument is no struct."""

from __future__ import annotations

import os
from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import Denied, DeviceError
from drivers.pci.dma import Iommu

NOT_ISOLATED = "this platform isolates no interrupts: see the kernel log (dmesg)"
"""Why the kernel gives no address space to a user who may open the nodes (EPERM).

# src: drivers/vfio/vfio_iommu_type1.c vfio_iommu_type1_attach_group();
# src: drivers/iommu/iommufd/device.c iommufd_device_bind(): iommu_group_has_isolated_msi()
"""


@dataclass(frozen=True, slots=True)
class VfioHandle:
    """Descriptors: the device, and what has to be closed after it, in this order."""

    device: int
    iommu: Iommu
    others: tuple[int, ...]


def open_node(world: World, path: str) -> int:
    """Open a node of VFIO. Raises: NotFound, Denied and Busy that say what to do."""
    try:
        return world.open(path, os.O_RDWR)
    except Denied as error:
        raise error.advised(f"as root: chown $USER {path}") from error.__cause__


def plain(world: World, fd: int, name: str, request: int, value: int = 0) -> int:
    """A request whose argument is a number. Raises: DeviceError that names it."""
    try:
        return world.ioctl(fd, request, value)
    except DeviceError as error:
        raise error.named(name) from error.__cause__

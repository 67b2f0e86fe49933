"""A machine with a GPU on PCI, driven through the kernel's interfaces by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.machine.pci.world import PciWorld
from drivers.pci import vfio_abi as abi

GPU, AUDIO = "0000:03:00.0", "0000:03:00.1"
DEVICES, DRIVERS = "/sys/bus/pci/devices", "/sys/bus/pci/drivers"
FOLDER = f"{DEVICES}/{GPU}"
RDWR = 2


def machine(chip: str = "gfx1100", **more: Any) -> PciWorld:
    """A small one."""
    return open_pci_board(chip, options=MachineOptions(**{"vram_bytes": 256 << 20, **more}))


@contextmanager
def fails(number: int) -> Iterator[None]:
    """The block raises OSError with this errno."""
    with pytest.raises(OSError, match=rf"^\[Errno {number}\]"):
        yield


def text(world: PciWorld, path: str) -> str:
    return world.read(path).decode().strip()


def bound_to(world: PciWorld, address: str = GPU) -> str:
    """The driver that has a function, "" when none has."""
    path = f"{DEVICES}/{address}/driver"
    return world.readlink(path).rpartition("/")[2] if world.exists(path) else ""


def to_vfio(world: PciWorld) -> None:
    """Bind the GPU to vfio-pci, whoever has it."""
    if bound_to(world):
        world.write(f"{DRIVERS}/{bound_to(world)}/unbind", GPU.encode())
    world.write(f"{FOLDER}/driver_override", b"vfio-pci")
    world.write("/sys/bus/pci/drivers_probe", GPU.encode())


def group_of(world: PciWorld) -> tuple[int, int]:
    """A container with the GPU's group and an IOMMU driver: their descriptors."""
    to_vfio(world)
    container = world.open("/dev/vfio/vfio", RDWR)
    group = world.open("/dev/vfio/14", RDWR)
    world.ioctl(group, abi.GROUP_SET_CONTAINER.request, bytearray(struct.pack("<i", container)))
    world.ioctl(container, abi.SET_IOMMU, abi.TYPE1V2_IOMMU)
    return container, group


def device_of(world: PciWorld, group: int) -> int:
    """The GPU's descriptor."""
    return world.ioctl_fd(group, abi.GROUP_GET_DEVICE_FD, bytearray(GPU.encode() + b"\0"))


def map_dma(world: PciWorld, container: int, va: int, iova: int, nbytes: int, flags: int) -> None:
    """VFIO_IOMMU_MAP_DMA."""
    args = bytearray(struct.pack("<IIQQQ", 32, flags, va, iova, nbytes))
    world.ioctl(container, abi.IOMMU_MAP_DMA.request, args)


def unmap_dma(world: PciWorld, container: int, iova: int, nbytes: int, flags: int = 0) -> int:
    """VFIO_IOMMU_UNMAP_DMA: how much went."""
    args = bytearray(struct.pack("<IIQQ", 24, flags, iova, nbytes))
    world.ioctl(container, abi.IOMMU_UNMAP_DMA.request, args)
    return int(struct.unpack("<IIQQ", args)[3])


def dma(world: PciWorld, address: int, nbytes: int, *, write: bool) -> bytearray | None:
    """What the GPU reaches at a bus address, as bytes that can be changed; None: nothing."""
    found = world.machine.slot(0).decode(address, nbytes, write)
    if found is None:
        return None
    pool, off = found
    if write:
        pool.bytes[off : off + nbytes] = 0xA5
    return bytearray(pool.bytes[off : off + nbytes].tobytes())

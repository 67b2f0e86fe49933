"""VFIO through the function's character device and an iommufd: since Linux 6.6.

Source: Linux Documentation/driver-api/vfio.rst ("VFIO Device cdev"), userspace-api/iommufd.rst.
"""

from __future__ import annotations

import os
import re

from drivers.base.contracts import World
from drivers.base.errors import Denied, MalformedInput, OutOfMemory
from drivers.base.undo import Undo
from drivers.base.view import View
from drivers.pci import iommufd_abi as iommufd
from drivers.pci import vfio_abi as abi
from drivers.pci.functions import PciFunction
from drivers.pci.strict import names_in
from drivers.pci.vfio_handle import NOT_ISOLATED, VfioHandle, open_node

_PAGE_BYTES = 4096
_NODES = "/dev/vfio/devices"
_NAME = re.compile(r"vfio[0-9]{1,9}").fullmatch
"""What a device without an IOMMU is called does not match: "noiommu-vfio0"."""


class IoAddressSpace:
    """An address space of an iommufd."""

    def __init__(self, world: World, fd: int, ioas: int) -> None:
        self._world, self._fd, self._ioas = world, fd, ioas

    def ranges(self) -> list[tuple[int, int]]:
        """What may be mapped. Raises: DeviceError (EMSGSIZE) for more ranges than fit a page."""
        most = _PAGE_BYTES // iommufd.IovaRange.SIZE
        buffer = self._world.mmap(-1, _PAGE_BYTES)
        try:
            args = iommufd.IoasIovaRangesArgs(
                nbytes=iommufd.IoasIovaRangesArgs.SIZE,
                ioas_id=self._ioas,
                num_iovas=most,
                allowed_iovas=buffer.cpu_va,
            )
            iommufd.IOAS_IOVA_RANGES(self._world, self._fd, args)
            view = View(buffer.read(0, _PAGE_BYTES), "IOMMU_IOAS_IOVA_RANGES")
        finally:
            buffer.close()
        if args.out_iova_alignment > _PAGE_BYTES:
            raise view.fail(
                f"addresses are multiples of {args.out_iova_alignment:#x}; 4 KiB needed"
            )
        return [(a, b) for a, b in view.table("QQ", 0, args.num_iovas, "address ranges")]

    def map(self, iova: int, cpu_va: int, nbytes: int) -> None:
        """Pin and map. Raises: OutOfMemory that names the limit of locked memory."""
        flags = iommufd.MapFlag
        args = iommufd.IoasMapArgs(
            nbytes=iommufd.IoasMapArgs.SIZE,
            flags=flags.FIXED_IOVA | flags.WRITEABLE | flags.READABLE,
            ioas_id=self._ioas,
            user_va=cpu_va,
            length=nbytes,
            iova=iova,
        )
        try:
            iommufd.IOAS_MAP(self._world, self._fd, args)
        except OutOfMemory as error:
            error.requested = nbytes
            raise error.advised("raise the limit of locked memory (ulimit -l)") from error.__cause__

    def unmap(self, iova: int, nbytes: int) -> None:
        """Unmap exactly this range. Raises: MalformedInput when the kernel took another."""
        args = iommufd.IoasUnmapArgs(
            nbytes=iommufd.IoasUnmapArgs.SIZE, ioas_id=self._ioas, iova=iova, length=nbytes
        )
        iommufd.IOAS_UNMAP(self._world, self._fd, args)
        if args.length != nbytes:
            raise MalformedInput(
                f"{args.length:#x} of {nbytes:#x} bytes at device address {iova:#x} were unmapped",
                hint="close the session: the kernel then unmaps everything",
            )


def character_device(world: World, function: PciFunction) -> str:
    """Its node, "" where this kernel, or this user, has only groups."""
    for name in names_in(world, f"{function.folder}/vfio-dev"):
        path = f"{_NODES}/{name}"
        if _NAME(name) and world.exists(path) and world.exists(iommufd.NODE):
            both = os.R_OK | os.W_OK
            if world.access(path, both) and world.access(iommufd.NODE, both):
                return path
    return ""


def open_through_iommufd(world: World, path: str) -> VfioHandle:
    """Open a character device and give it an address space. Raises: Denied, Busy, Unsupported."""
    with Undo() as undo:
        space = open_node(world, iommufd.NODE)
        undo.add(lambda: world.close(space))
        device = open_node(world, path)
        undo.add(lambda: world.close(device))
        size = abi.BindIommufdArgs.SIZE
        try:
            abi.DEVICE_BIND_IOMMUFD(world, device, abi.BindIommufdArgs(argsz=size, iommufd=space))
        except Denied as error:
            raise error.advised(NOT_ISOLATED) from error.__cause__
        made = iommufd.IoasAllocArgs(nbytes=iommufd.IoasAllocArgs.SIZE)
        iommufd.IOAS_ALLOC(world, space, made)
        ioas: int = made.out_ioas_id
        abi.DEVICE_ATTACH_PT(
            world, device, abi.AttachPtArgs(argsz=abi.AttachPtArgs.SIZE, pt_id=ioas)
        )
    return VfioHandle(device, IoAddressSpace(world, space, ioas), (space,))

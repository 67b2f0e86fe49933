"""VFIO through a container and a group: the interface that every kernel with VFIO has.

The order is the kernel's: group into container, IOMMU of the container, then the device.
Source: Linux Documentation/driver-api/vfio.rst; include/uapi/linux/vfio.h.
"""

from __future__ import annotations

from drivers.base.contracts import World
from drivers.base.errors import Busy, Denied, DeviceError, MalformedInput, OutOfMemory, Unsupported
from drivers.base.undo import Undo
from drivers.pci import vfio_abi as abi
from drivers.pci.functions import PciFunction
from drivers.pci.info_caps import iova_ranges, whole_answer
from drivers.pci.vfio_handle import NOT_ISOLATED, VfioHandle, open_node, plain

CONTAINER = "/dev/vfio/vfio"
_PAGE_BYTES = 4096
_EVERYTHING = [(0, (1 << 39) - 1)]
"""Where the kernel does not say what may be mapped: what the smallest IOMMU has, 39 bits.

# src: drivers/iommu/intel: an AGAW of 39 bits is the least that VT-d hardware may have
"""


class Type1:
    """The address space of a container."""

    def __init__(self, world: World, container: int) -> None:
        self._world, self._fd = world, container

    def ranges(self) -> list[tuple[int, int]]:
        """What may be mapped. Raises: Unsupported when 4 KiB pages may not be."""
        args = abi.Type1Info(argsz=abi.Type1Info.SIZE)
        abi.IOMMU_GET_INFO(self._world, self._fd, args)
        if args.flags & abi.InfoFlag.PGSIZES and not args.iova_pgsizes & _PAGE_BYTES:
            raise Unsupported(f"the IOMMU maps no 4 KiB pages (sizes {args.iova_pgsizes:#x})")
        if not args.flags & abi.InfoFlag.CAPS or args.argsz <= args.SIZE:
            return _EVERYTHING
        view = whole_answer(self._world, self._fd, abi.IOMMU_GET_INFO, args)
        args = abi.Type1Info.of(view.bytes(0, args.SIZE, "the answer"))
        return iova_ranges(view, args.cap_offset) or _EVERYTHING

    def map(self, iova: int, cpu_va: int, nbytes: int) -> None:
        """Pin and map. Raises: OutOfMemory that names the limit of locked memory."""
        args = abi.MapDmaArgs(
            argsz=abi.MapDmaArgs.SIZE,
            flags=abi.MapFlag.READ | abi.MapFlag.WRITE,
            vaddr=cpu_va,
            iova=iova,
            nbytes=nbytes,
        )
        try:
            abi.IOMMU_MAP_DMA(self._world, self._fd, args)
        except OutOfMemory as error:
            error.requested = nbytes
            raise error.advised("raise the limit of locked memory (ulimit -l)") from error.__cause__

    def unmap(self, iova: int, nbytes: int) -> None:
        """Unmap exactly this range. Raises: MalformedInput when the kernel took another."""
        size = abi.UnmapDmaArgs.SIZE
        args = abi.UnmapDmaArgs(argsz=size, iova=iova, nbytes=nbytes)
        abi.IOMMU_UNMAP_DMA(self._world, self._fd, args)
        if args.nbytes != nbytes:
            raise MalformedInput(
                f"{args.nbytes:#x} of {nbytes:#x} bytes at device address {iova:#x} were unmapped",
                hint="close the session: the kernel then unmaps everything",
            )


def open_through_group(world: World, function: PciFunction) -> VfioHandle:
    """Open a function that vfio-pci has. Raises: Denied, Busy, NotFound, Unsupported."""
    with Undo() as undo:
        container = open_node(world, CONTAINER)
        undo.add(lambda: world.close(container))
        _same_api(world, container)
        group = open_node(world, f"/dev/vfio/{function.iommu_group}")
        undo.add(lambda: world.close(group))
        _viable(world, group, function)
        args = abi.SetContainerArgs(container=container)
        abi.GROUP_SET_CONTAINER(world, group, args)
        _set_iommu(world, container)
        device = _device(world, group, function.address)
    return VfioHandle(device, Type1(world, container), (group, container))


def _same_api(world: World, container: int) -> None:
    version = plain(world, container, "VFIO_GET_API_VERSION", abi.GET_API_VERSION)
    if version != abi.API_VERSION:
        raise Unsupported(f"VFIO has API version {version}; {abi.API_VERSION} is known")
    extension = abi.TYPE1V2_IOMMU
    if plain(world, container, "VFIO_CHECK_EXTENSION", abi.CHECK_EXTENSION, extension) != 1:
        raise Unsupported(
            "VFIO has no type1v2 IOMMU here", hint="as root: modprobe vfio_iommu_type1"
        )


def _viable(world: World, group: int, function: PciFunction) -> None:
    status = abi.GROUP_GET_STATUS(world, group, abi.GroupStatus(argsz=abi.GroupStatus.SIZE))
    if not status.flags & abi.GroupFlag.VIABLE:
        raise Busy(
            f"IOMMU group {function.iommu_group}: a driver has another function of it",
            hint=f"see /sys/kernel/iommu_groups/{function.iommu_group}/devices",
        )


def _set_iommu(world: World, container: int) -> None:
    try:
        plain(world, container, "VFIO_SET_IOMMU", abi.SET_IOMMU, abi.TYPE1V2_IOMMU)
    except Denied as error:
        raise error.advised(NOT_ISOLATED) from error.__cause__


def _device(world: World, group: int, address: str) -> int:
    name = bytearray(address.encode() + b"\0")
    try:
        return world.ioctl_fd(group, abi.GROUP_GET_DEVICE_FD, name)
    except DeviceError as error:
        raise error.named(f"VFIO_GROUP_GET_DEVICE_FD of {address}") from error.__cause__

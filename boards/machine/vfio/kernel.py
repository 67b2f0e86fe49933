"""VFIO's containers and groups: who may have the devices of an IOMMU group, and their mappings.

Order is the kernel's: group into container, IOMMU driver for the container, then devices. A device
keeps its group, a group its container: mappings live until the last of them is closed.

src: Linux 6.12 drivers/vfio/container.c, drivers/vfio/group.c, drivers/vfio/vfio_iommu_type1.c
"""

from __future__ import annotations

import errno
import struct

from boards.machine.iommu import APERTURE, ENTRY_LIMIT, Domain
from boards.machine.open_files import Argument, OpenFile, Process
from boards.machine.pci.kernel import Kernel
from boards.machine.vfio import numbers as n
from boards.machine.vfio.device import VfioDevice

_PAGE_SIZES = (1 << 64) - (1 << 12)
"""src: vfio_pgsize_bitmap(): all multiples of a page"""
_WHOLE = 1 << 64


class Container(OpenFile):
    """/dev/vfio/vfio."""

    def __init__(self, path: str, kernel: Kernel, process: Process) -> None:
        super().__init__(path)
        self._kernel, self._process = kernel, process
        self.groups: set[str] = set()
        self.domain: Domain | None = None

    def ioctl(self, request: int, argument: Argument) -> int | OpenFile:
        if request == n.GET_API_VERSION:
            return 0
        if request == n.CHECK_EXTENSION:
            return int(n.number(argument) in (n.TYPE1, n.TYPE1V2, n.UNMAP_ALL_EXTENSION))
        if request == n.SET_IOMMU:
            return self._set_iommu(n.number(argument))
        if self.domain is None:
            raise OSError(errno.EINVAL, "the container has no IOMMU driver yet")
        if request == n.IOMMU_GET_INFO:
            return self._info(argument, self.domain)
        if request == n.IOMMU_MAP_DMA:
            return self._map(argument, self.domain)
        if request == n.IOMMU_UNMAP_DMA:
            return self._unmap(argument, self.domain)
        return super().ioctl(request, argument)

    def _set_iommu(self, kind: int) -> int:
        if not self.groups or self.domain is not None:
            raise OSError(errno.EINVAL, "a container with groups takes one IOMMU driver, once")
        if kind not in (n.TYPE1, n.TYPE1V2):
            raise OSError(errno.ENODEV, f"no IOMMU driver of kind {kind}")
        self.domain = self._kernel.new_domain()
        for group in self.groups:
            self._kernel.attach(group, self.domain)
        return 0

    def _info(self, argument: Argument, domain: Domain) -> int:
        n.fields(argument, "IIQ")
        room = len(argument) if isinstance(argument, bytearray) else 0
        ranges = b"".join(struct.pack("<QQ", low, high) for low, high in APERTURE)
        first = struct.pack("<HHIII", n.CAP_IOVA_RANGE, 1, 0, len(APERTURE), 0) + ranges
        at = 24
        second = struct.pack("<HHII", n.CAP_DMA_AVAIL, 1, 0, ENTRY_LIMIT - domain.mappings)
        first = first[:4] + struct.pack("<I", at + len(first)) + first[8:]
        size = at + len(first) + len(second)
        flags = n.INFO_PGSIZES | n.INFO_CAPS
        if room >= size and isinstance(argument, bytearray):
            n.answer(argument, "IIQII", room, flags, _PAGE_SIZES, at, 0)
            argument[at:size] = first + second
        elif room >= at:
            n.answer(argument, "IIQII", size, flags, _PAGE_SIZES, 0, 0)
        else:
            n.answer(argument, "IIQ", size, flags, _PAGE_SIZES)
        return 0

    def _map(self, argument: Argument, domain: Domain) -> int:
        _, flags, va, iova, nbytes = n.fields(argument, "IIQQQ")
        if flags & ~(n.DMA_READ | n.DMA_WRITE):
            raise OSError(errno.EINVAL, f"flags {flags:#x}")
        read, write = bool(flags & n.DMA_READ), bool(flags & n.DMA_WRITE)
        domain.map(self._process, iova, va, nbytes, read=read, write=write)
        return 0

    def _unmap(self, argument: Argument, domain: Domain) -> int:
        size, flags, iova, nbytes = n.fields(argument, "IIQQ")
        if flags & ~n.UNMAP_ALL:
            raise OSError(errno.EINVAL, f"flags {flags:#x}")
        if flags & n.UNMAP_ALL:
            if iova or nbytes:
                raise OSError(errno.EINVAL, "all of it has neither start nor size")
            nbytes = _WHOLE
        elif not nbytes or (iova | nbytes) % 4096 or iova + nbytes > _WHOLE:
            raise OSError(errno.EINVAL, f"cannot unmap {nbytes:#x} bytes at {iova:#x}")
        n.answer(argument, "IIQQ", size, flags, iova, domain.unmap(iova, iova + nbytes))
        return 0

    def leave(self, group: str) -> None:
        """A group is detached; with the last one everything is unmapped."""
        self.groups.discard(group)
        self._kernel.detach(group)
        if not self.groups and self.domain is not None:
            self.domain.clear()
            self.domain = None


class Group(OpenFile):
    """/dev/vfio/NUMBER."""

    def __init__(self, path: str, name: str, kernel: Kernel, process: Process) -> None:
        super().__init__(path)
        self._kernel, self._process, self.name = kernel, process, name
        if name in kernel.open_groups:
            raise OSError(errno.EBUSY, f"group {name} is open already")
        kernel.open_groups.add(name)
        self.container: Container | None = None
        self.devices, self._closed = 0, False

    def ioctl(self, request: int, argument: Argument) -> int | OpenFile:
        if request == n.GROUP_GET_STATUS:
            size, _ = n.fields(argument, "II")
            flags = n.GROUP_VIABLE if self._viable() else 0
            flags |= n.GROUP_CONTAINER_SET if self.container is not None else 0
            n.answer(argument, "II", size, flags)
            return 0
        if request == n.GROUP_SET_CONTAINER:
            return self._enter(argument)
        if request == n.GROUP_UNSET_CONTAINER:
            if self.container is None:
                raise OSError(errno.EINVAL, "the group is in no container")
            if self.devices:
                raise OSError(errno.EBUSY, "a device of the group is open")
            self._leave()
            return 0
        if request == n.GROUP_GET_DEVICE_FD:
            return self._device(argument)
        return super().ioctl(request, argument)

    def _viable(self) -> bool:
        return self.container is not None or not self._kernel.group_users(self.name)

    def _enter(self, argument: Argument) -> int:
        if self.container is not None:
            raise OSError(errno.EINVAL, "the group is in a container already")
        if not isinstance(argument, bytearray) or len(argument) < 4:
            raise OSError(errno.EFAULT, "the container's descriptor is not there")
        found = self._process.file(int.from_bytes(argument[:4], "little", signed=True))
        if not isinstance(found, Container):
            raise OSError(errno.EINVAL, f"{found.path} is no container")
        self._kernel.claim_group(self.name)
        self.container = found
        found.groups.add(self.name)
        if found.domain is not None:
            self._kernel.attach(self.name, found.domain)
        return 0

    def _device(self, argument: Argument) -> OpenFile:
        if not isinstance(argument, bytearray) or b"\0" not in argument:
            raise OSError(errno.EFAULT, "a device is named by a C string")
        address = argument.partition(b"\0")[0].decode("ascii", "replace")
        slot = self._kernel.vfio_slot(address, self.name)
        if self.container is None or self.container.domain is None:
            raise OSError(errno.EINVAL, "the group's container has no IOMMU driver")
        made = VfioDevice(self._kernel, self._process, slot, self._device_closed)
        made.open()
        self.devices += 1
        return made

    def _device_closed(self) -> None:
        self.devices -= 1
        if self._closed and not self.devices:
            self._release()

    def _leave(self) -> None:
        container, self.container = self.container, None
        if container is not None:
            container.leave(self.name)
            self._kernel.release_group(self.name)

    def _release(self) -> None:
        self._leave()
        self._kernel.open_groups.discard(self.name)

    def close(self) -> None:
        self._closed = True
        if not self.devices:
            self._release()

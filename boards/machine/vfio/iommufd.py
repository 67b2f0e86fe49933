"""/dev/iommu and VFIO's character devices: address spaces without containers and groups.

src: Linux 6.12 drivers/iommu/iommufd/{ioas,main,io_pagetable}.c, drivers/vfio/device_cdev.c
"""

from __future__ import annotations

import errno
import struct

from boards.machine.iommu import APERTURE, Domain
from boards.machine.open_files import Argument, OpenFile, Process
from boards.machine.pci.kernel import Kernel
from boards.machine.pci.slot import Slot
from boards.machine.vfio import numbers as n
from boards.machine.vfio.device import VfioDevice

_PAGE_BYTES = 4096
_WHOLE = (1 << 64) - 1
_FLAGS = n.IOAS_FIXED | n.IOAS_WRITEABLE | n.IOAS_READABLE


class Iommufd(OpenFile):
    """/dev/iommu: objects by number; here all are address spaces or devices."""

    def __init__(self, path: str, kernel: Kernel, process: Process) -> None:
        super().__init__(path)
        self._kernel, self._process = kernel, process
        self._next = 0
        self.spaces: dict[int, Domain] = {}
        self.users: dict[int, int] = {}
        """How many devices are attached to an address space."""
        self.devices: set[int] = set()

    def new_id(self) -> int:
        """A number for an object."""
        self._next += 1
        return self._next

    def space(self, number: int) -> Domain:
        """Raises: OSError ENOENT."""
        if number not in self.spaces:
            raise OSError(errno.ENOENT, f"no address space {number}")
        return self.spaces[number]

    def ioctl(self, request: int, argument: Argument) -> int | OpenFile:
        if request == n.IOAS_ALLOC:
            size, flags, _ = n.fields(argument, "III")
            if flags:
                raise OSError(errno.EOPNOTSUPP, f"flags {flags:#x}")
            number = self.new_id()
            self.spaces[number], self.users[number] = self._kernel.new_domain(), 0
            n.answer(argument, "III", size, 0, number)
            return 0
        if request == n.IOAS_IOVA_RANGES:
            return self._ranges(argument)
        if request == n.IOAS_MAP:
            return self._map(argument)
        if request == n.IOAS_UNMAP:
            return self._unmap(argument)
        if request == n.IOMMU_DESTROY:
            return self._destroy(n.fields(argument, "II")[1])
        return super().ioctl(request, argument)

    def _ranges(self, argument: Argument) -> int:
        size, number, count, reserved, where, _ = n.fields(argument, "IIIIQQ")
        self.space(number)
        ranges = b"".join(struct.pack("<QQ", low, high) for low, high in APERTURE)
        if reserved:
            raise OSError(errno.EOPNOTSUPP, "a reserved field is not zero")
        known = len(APERTURE)
        n.answer(argument, "IIIIQQ", size, number, known, 0, where, _PAGE_BYTES)
        if count < known:
            raise OSError(errno.EMSGSIZE, f"{known} ranges do not fit {count}")
        self._process.copy_out(where, ranges)
        return 0

    def _map(self, argument: Argument) -> int:
        size, flags, number, reserved, va, nbytes, iova = n.fields(argument, "IIIIQQQ")
        if flags & ~_FLAGS or reserved:
            raise OSError(errno.EOPNOTSUPP, f"flags {flags:#x}")
        domain = self.space(number)
        if not flags & n.IOAS_FIXED:
            iova = self._free(domain, nbytes)
        read, write = bool(flags & n.IOAS_READABLE), bool(flags & n.IOAS_WRITEABLE)
        domain.map(self._process, iova, va, nbytes, read=read, write=write)
        n.answer(argument, "IIIIQQQ", size, flags, number, 0, va, nbytes, iova)
        return 0

    def _free(self, domain: Domain, nbytes: int) -> int:
        """An address that nothing is mapped at. Raises: OSError ENOSPC."""
        at = APERTURE[1][0]
        for mapping in domain.inside(at, _WHOLE):
            if mapping.iova >= at + nbytes:
                break
            at = mapping.end
        if at + nbytes > APERTURE[1][1]:
            raise OSError(errno.ENOSPC, f"no room for {nbytes:#x} bytes")
        return at

    def _unmap(self, argument: Argument) -> int:
        size, number, iova, nbytes = n.fields(argument, "IIQQ")
        domain = self.space(number)
        if (iova, nbytes) == (0, _WHOLE):
            done = domain.unmap(0, _WHOLE + 1)
        else:
            inside = list(domain.inside(iova, iova + nbytes))
            end = iova + nbytes
            if not inside or any(one.iova < iova or one.end > end for one in inside):
                raise OSError(errno.ENOENT, f"{iova:#x}+{nbytes:#x} is no mapping")
            done = domain.unmap(iova, end)
        n.answer(argument, "IIQQ", size, number, iova, done)
        return 0

    def _destroy(self, number: int) -> int:
        if number in self.devices or self.users.get(number):
            raise OSError(errno.EBUSY, f"object {number} is in use")
        self.space(number).clear()
        del self.spaces[number], self.users[number]
        return 0

    def close(self) -> None:
        """Devices hold a reference of it; what they are attached to stays until they close."""
        for number in [number for number, users in self.users.items() if not users]:
            self.spaces[number].clear()


class VfioCdev(VfioDevice):
    """/dev/vfio/devices/vfioN: nothing works before it is bound to an iommufd."""

    def __init__(self, path: str, kernel: Kernel, process: Process, slot: Slot) -> None:
        super().__init__(kernel, process, slot, lambda: None)
        self.path = path
        self._iommufd: Iommufd | None = None
        self._id, self._space = 0, 0

    def ioctl(self, request: int, argument: Argument) -> int | OpenFile:
        if request == n.DEVICE_BIND_IOMMUFD:
            return self._bind(argument)
        if self._iommufd is None:
            raise OSError(errno.EINVAL, "the device is not bound to an iommufd")
        if request == n.DEVICE_ATTACH_PT:
            size, flags, number = n.fields(argument, "III")
            if flags:
                raise OSError(errno.EINVAL, f"flags {flags:#x}")
            domain = self._iommufd.space(number)
            self._detach()
            self._space = number
            self._iommufd.users[number] += 1
            self._kernel.attach(self._slot.group, domain)
            n.answer(argument, "III", size, 0, number)
            return 0
        if request == n.DEVICE_DETACH_PT:
            n.fields(argument, "II")
            self._detach()
            return 0
        return super().ioctl(request, argument)

    def _bind(self, argument: Argument) -> int:
        size, flags, fd, _ = n.fields(argument, "IIiI")
        if flags or self._iommufd is not None:
            raise OSError(errno.EINVAL, "bound already, or flags")
        found = self._process.file(fd)
        if not isinstance(found, Iommufd):
            raise OSError(errno.EBADFD, f"{found.path} is no iommufd")
        if self._slot.opened or self._slot.group in self._kernel.open_groups:
            raise OSError(errno.EBUSY, f"{self._slot.address} is open already")
        self._kernel.claim_group(self._slot.group)
        self._iommufd, self._id = found, found.new_id()
        found.devices.add(self._id)
        self.open()
        n.answer(argument, "IIiI", size, 0, fd, self._id)
        return 0

    def _detach(self) -> None:
        if self._iommufd is not None and self._space:
            self._iommufd.users[self._space] -= 1
            self._space = 0
            self._kernel.detach(self._slot.group)

    def close(self) -> None:
        if self._iommufd is None:
            return
        super().close()
        self._detach()
        self._iommufd.devices.discard(self._id)
        self._kernel.release_group(self._slot.group)
        self._iommufd = None

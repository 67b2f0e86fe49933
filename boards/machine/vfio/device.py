"""One device of VFIO: its regions, its interrupts, its config space, and what closing it does.

src: Linux 6.12 drivers/vfio/pci/vfio_pci_core.c, vfio_pci_intrs.c, vfio_pci_config.c
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable

from boards.machine.open_files import Argument, EventFile, OpenFile, Process, Region
from boards.machine.pci.kernel import Kernel
from boards.machine.pci.slot import COMMAND, COMMAND_BYTES, Slot
from boards.machine.region import Reservation
from boards.machine.vfio import numbers as n

_CONFIG_BYTES = 4096
_BAR_FIRST, _BAR_END = 0x10, 0x28
_OFFSET_MASK = (1 << n.REGION_SHIFT) - 1
_MAPPED = n.REGION_READ | n.REGION_WRITE | n.REGION_MMAP
_NO_DESCRIPTOR = -1


class VfioDevice(OpenFile):
    """What GROUP_GET_DEVICE_FD gives, and what a bound character device is."""

    def __init__(
        self, kernel: Kernel, process: Process, slot: Slot, closed: Callable[[], None]
    ) -> None:
        super().__init__("anon_inode:[vfio-device]")
        self._kernel, self._process, self._slot = kernel, process, slot
        self._closed = closed
        self._opened = False

    def open(self) -> None:
        """src: vfio_pci_core_enable(): no bus mastering, memory on, reset where that works"""
        slot = self._slot
        slot.opened += 1
        self._opened = True
        if slot.opened > 1:
            return
        slot.set_master(on=False)
        slot.enable()
        if slot.can_reset:
            slot.reset()

    def close(self) -> None:
        """src: vfio_pci_core_disable()"""
        if not self._opened:
            return
        self._opened = False
        slot = self._slot
        slot.opened -= 1
        if not slot.opened:
            slot.left_by(self._process)
            slot.set_master(on=False)
            slot.unhook()
            if slot.can_reset:
                slot.reset()
            slot.disable()
        self._closed()

    def ioctl(self, request: int, argument: Argument) -> int | OpenFile:
        self._slot.panel.call(f"ioctl {request:#x} of {self._slot.address}")
        if request == n.DEVICE_GET_INFO:
            size, *_ = n.fields(argument, "IIII")
            flags = n.DEVICE_FLAG_PCI | (n.DEVICE_FLAG_RESET if self._slot.can_reset else 0)
            n.answer(argument, "IIII", size, flags, n.REGIONS, n.IRQS)
            return 0
        if request == n.DEVICE_GET_REGION_INFO:
            return self._region_info(argument)
        if request == n.DEVICE_GET_IRQ_INFO:
            return self._irq_info(argument)
        if request == n.DEVICE_SET_IRQS:
            return self._set_irqs(argument)
        if request == n.DEVICE_RESET:
            if not self._slot.can_reset:
                raise OSError(errno.EINVAL, f"{self._slot.address} cannot be reset by itself")
            self._slot.reset()
            return 0
        return super().ioctl(request, argument)

    def _region_info(self, argument: Argument) -> int:
        size, _, index, _, _, _ = n.fields(argument, "IIIIQQ")
        if index >= n.REGIONS - 1:
            raise OSError(errno.EINVAL, f"no region {index}")
        nbytes, flags = self._slot.bar_bytes(index), _MAPPED
        if index == n.CONFIG_REGION:
            nbytes, flags = _CONFIG_BYTES, n.REGION_READ | n.REGION_WRITE
        flags = flags if nbytes else 0
        n.answer(argument, "IIIIQQ", size, flags, index, 0, nbytes, index << n.REGION_SHIFT)
        return 0

    def _irq_info(self, argument: Argument) -> int:
        size, _, index, _ = n.fields(argument, "IIII")
        if index >= n.IRQS:
            raise OSError(errno.EINVAL, f"no interrupt {index}")
        counts = {n.INTX: 1, n.MSI: self._slot.msi_vectors, n.ERROR: 1, n.REQUEST: 1}
        flags = n.IRQ_EVENTFD
        flags |= n.IRQ_MASKABLE | n.IRQ_AUTOMASKED if index == n.INTX else n.IRQ_NORESIZE
        n.answer(argument, "IIII", size, flags, index, counts.get(index, 0))
        return 0

    def _set_irqs(self, argument: Argument) -> int:
        size, flags, index, start, count = n.fields(argument, "IIIII")
        limit = self._slot.msi_vectors if index == n.MSI else int(index in (n.INTX, n.REQUEST))
        if index >= n.IRQS or start + count > limit or not flags & n.SET_ACTION_MASK:
            raise OSError(errno.EINVAL, f"interrupts {start} to {start + count} of {index}")
        if index != n.MSI or flags & n.SET_ACTION_MASK != n.SET_TRIGGER:
            raise OSError(errno.ENOTTY, "this kernel triggers MSI, and nothing else")
        data = flags & n.SET_DATA_MASK
        if data == n.SET_NONE and not count:
            self._slot.unhook()
            return 0
        if data != n.SET_EVENTFD or not isinstance(argument, bytearray) or not count:
            raise OSError(errno.EINVAL, f"data of kind {data:#x} for {count} interrupts")
        if size - 20 < 4 * count or len(argument) < size:
            raise OSError(errno.EINVAL, f"{count} descriptors do not fit {size} bytes")
        for at, fd in enumerate(struct.unpack_from(f"<{count}i", argument, 20)):
            self._slot.hook(start + at, self._event(fd))
        return 0

    def _event(self, fd: int) -> EventFile | None:
        if fd == _NO_DESCRIPTOR:
            return None
        found = self._process.file(fd)
        if not isinstance(found, EventFile):
            raise OSError(errno.EINVAL, f"{found.path} is no eventfd")
        return found

    # Regions

    def map(
        self, nbytes: int, offset: int, write: bool, within: Reservation | None, at: int
    ) -> Region:
        index, start = offset >> n.REGION_SHIFT, offset & _OFFSET_MASK
        if index >= n.ROM_REGION or start + nbytes > self._slot.bar_bytes(index):
            raise OSError(errno.EINVAL, f"{nbytes:#x} bytes at {offset:#x} are no region's")
        return self._slot.map_bar(self._process, self, index, start, nbytes, write, within, at)

    def pread(self, nbytes: int, offset: int) -> bytes:
        index, start = offset >> n.REGION_SHIFT, offset & _OFFSET_MASK
        if index != n.CONFIG_REGION or start + nbytes > _CONFIG_BYTES:
            raise OSError(errno.EINVAL, f"{nbytes} bytes at {offset:#x}")
        return self._slot.config_read(start, nbytes)

    def pwrite(self, data: bytes, offset: int) -> int:
        """The command register passes, and brings lost BARs back; all else is the kernel's here.

        src: vfio_basic_config_write(), vfio_need_bar_restore()
        """
        index, start = offset >> n.REGION_SHIFT, offset & _OFFSET_MASK
        if index != n.CONFIG_REGION or start + len(data) > _CONFIG_BYTES:
            raise OSError(errno.EINVAL, f"{len(data)} bytes at {offset:#x}")
        if start >= COMMAND and start + len(data) <= COMMAND + COMMAND_BYTES:
            if self._slot.bars_lost:
                self._slot.restore_bars()
            self._slot.config_write(start, data)
        elif start < _BAR_END and start + len(data) > _BAR_FIRST:
            self._slot.find("write to a BAR through VFIO", f"byte {start:#x}", "it has no effect")
        else:
            self._slot.find("write to config space through VFIO", f"byte {start:#x}", "no effect")
        return len(data)

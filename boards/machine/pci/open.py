"""Files of a function that are opened rather than read: `config` and `resourceN`.

src: Linux 6.12 drivers/pci/pci-sysfs.c (pci_read_config, pci_write_config, pci_mmap_resource)
"""

from __future__ import annotations

import errno
import os

from boards.machine.open_files import OpenFile, Process, Region
from boards.machine.pci.slot import COMMAND, MASTER, Slot
from boards.machine.region import Reservation

_CONFIG_BYTES = 4096
_READ_ONLY = "the file was opened read-only"


def _writes(flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


class ConfigFile(OpenFile):
    """Config space of a function; a driver that has the function is not asked."""

    def __init__(self, path: str, slot: Slot, process: Process, flags: int) -> None:
        super().__init__(path)
        self._slot, self._process, self._flags = slot, process, flags

    def close(self) -> None:
        if _writes(self._flags) and not self._slot.driver:
            self._slot.left_by(self._process)

    def pread(self, nbytes: int, offset: int) -> bytes:
        nbytes = max(0, min(nbytes, _CONFIG_BYTES - offset))
        return self._slot.config_read(offset, nbytes) if nbytes else b""

    def pwrite(self, data: bytes, offset: int) -> int:
        if not _writes(self._flags):
            raise OSError(errno.EBADF, _READ_ONLY)
        slot = self._slot
        if slot.driver:
            slot.find("write to the config space of a driver's function", slot.driver, "")
        slot.config_write(offset, data)
        if slot.iommu and not slot.driver and slot.word(COMMAND) & MASTER:
            slot.find("bus mastering behind an IOMMU without VFIO", slot.address, "")
        return len(data)


class ResourceFile(OpenFile):
    """One BAR."""

    def __init__(self, path: str, slot: Slot, bar: int, process: Process, flags: int) -> None:
        super().__init__(path)
        self._slot, self._bar, self._process, self._flags = slot, bar, process, flags

    def map(
        self, nbytes: int, offset: int, write: bool, within: Reservation | None, at: int
    ) -> Region:
        slot = self._slot
        if write and not _writes(self._flags):
            raise OSError(errno.EACCES, _READ_ONLY)
        if offset + nbytes > slot.bar_bytes(self._bar):
            raise OSError(errno.EINVAL, f"{nbytes:#x} bytes are not in BAR {self._bar}")
        if slot.driver:
            slot.find("mapped a BAR of a driver's function", f"{slot.address}, {slot.driver}", "")
            raise OSError(errno.EINVAL, f"{slot.driver} has {slot.address}")
        return slot.map_bar(self._process, self, self._bar, offset, nbytes, write, within, at)

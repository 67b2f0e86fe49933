"""What a machine without PCI functions refuses: descriptors of VFIO, config files and events."""

from __future__ import annotations

import errno
from typing import NoReturn


def _refuse(what: str) -> NoReturn:
    raise OSError(errno.ENOTTY, f"nothing here has {what}")


class BareFiles:
    """The methods of a machine that only a bare PCI function needs, all refused."""

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        """Never a new descriptor."""
        _refuse("a request that makes descriptors")

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        """Nothing is read at an offset."""
        _refuse("an offset to read at")

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        """Nothing is written at an offset."""
        _refuse("an offset to write at")

    def eventfd(self) -> int:
        """Nothing would signal it."""
        _refuse("events")

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        """Nothing would signal it."""
        _refuse("events")

"""Whose files are; what a machine without PCI functions refuses: VFIO, config files and events."""

from __future__ import annotations

import errno
from abc import abstractmethod
from typing import NoReturn

RENDER_GROUP = 992
"""What Debian gives the group render, to which udev gives the nodes (50-udev-default.rules)."""


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

    def poll(self, fd: int, timeout_s: float) -> bool:
        """No file here becomes readable later."""
        _refuse("something to wait for")


class Owners:
    """Whose files are: device nodes are the group render's, everything else is root's."""

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    def owning_group(self, path: str) -> int:
        """A group's number. Raises: OSError ENOENT."""
        if not self.exists(path):
            raise OSError(errno.ENOENT, f"no {path}")
        return RENDER_GROUP if path.startswith("/dev/") else 0

"""What open(2) gives in a machine with PCI functions: files that refuse what they cannot do."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from boards.machine.pinned import Pinner
from boards.machine.region import HostRegion, RegisterRegion, Reservation

Argument = bytearray | int
Region = HostRegion | RegisterRegion | Reservation


class Process(Pinner, Protocol):
    """A process as its open files see it."""

    dead: bool
    """It was killed: its files are closed for it."""

    def file(self, fd: int) -> OpenFile:
        """Raises: OSError EBADF."""
        ...

    def copy_out(self, va: int, data: bytes) -> None:
        """copy_to_user(). Raises: OSError EFAULT."""
        ...

    def map_file(
        self, file: OpenFile, fd: int, nbytes: int, offset: int, write: bool,
        within: Reservation | None, at: int,
    ) -> Region:  # fmt: skip
        """Map a memory file of the board, which `file` stands for."""
        ...

    def map_registers(
        self, file: OpenFile, nbytes: int, load: Callable[[int, int], int],
        store: Callable[[int, int, int], None],
    ) -> Region:  # fmt: skip
        """Map registers, of which every access is told."""
        ...


class OpenFile:
    """A plain file; others add to it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def ioctl(self, request: int, argument: Argument) -> int | OpenFile:
        """One request; a file is the result of one that makes descriptors."""
        raise OSError(errno.ENOTTY, f"{self.path} knows no request {request:#x}")

    def map(
        self, nbytes: int, offset: int, write: bool, within: Reservation | None, at: int
    ) -> Region:
        """mmap(2) of the file."""
        raise OSError(errno.ENODEV, f"{self.path} cannot be mapped")

    def pread(self, nbytes: int, offset: int) -> bytes:
        """pread(2)."""
        raise OSError(errno.EINVAL, f"{self.path} cannot be read")

    def pwrite(self, data: bytes, offset: int) -> int:
        """pwrite(2): how many bytes were taken."""
        raise OSError(errno.EINVAL, f"{self.path} cannot be written")

    @property
    def readable(self) -> bool:
        """Whether it has something to read; of an eventfd alone."""
        raise OSError(errno.EINVAL, f"{self.path} is no eventfd")

    def take(self) -> bool:
        """Whether it was signalled; it is reset."""
        return self.readable

    def close(self) -> None:
        """The last descriptor of it is gone."""


class EventFile(OpenFile):
    """An eventfd."""

    def __init__(self) -> None:
        super().__init__("anon_inode:[eventfd]")
        self.count = 0

    def signal(self) -> None:
        """What a kernel driver does to it."""
        self.count += 1

    @property
    def readable(self) -> bool:
        return self.count > 0

    def take(self) -> bool:
        was, self.count = self.count, 0
        return was > 0


class ReaderFile(OpenFile):
    """A file whose bytes are asked for at an offset."""

    def __init__(self, path: str, read: Callable[[int, int], bytes]) -> None:
        super().__init__(path)
        self._read = read

    def pread(self, nbytes: int, offset: int) -> bytes:
        return self._read(nbytes, offset)

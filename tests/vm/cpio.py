"""An initial file system for Linux: the "newc" format of cpio, written in Python.

# src: linux Documentation/driver-api/early-userspace/buffer-format.rst
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

_ALIGN = 4
_TRAILER = "TRAILER!!!"


class CpioWriter:
    """Files, directories, links and devices into one uncompressed archive.

    Linux unpacks archives one behind the other: `append` writes another one to the same file.
    """

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self._file = path.open("ab" if append else "wb")
        self._inode = 0
        self._folders: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if error is None:
            self._entry(_TRAILER, 0, b"")
        self._file.close()

    def _entry(
        self, name: str, mode: int, data: bytes, mtime: int = 0, device: tuple[int, int] = (0, 0)
    ) -> None:
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = (
            self._inode, mode, 0, 0, 1, mtime, len(data), 0, 0, *device, len(encoded), 0,
        )  # fmt: skip
        head = b"070701" + "".join(f"{field:08X}" for field in fields).encode() + encoded
        for part in (head, data):
            self._file.write(part + bytes(-len(part) % _ALIGN))

    def folder(self, path: str) -> None:
        """A directory, after those above it."""
        path = path.strip("/")
        if not path or path in self._folders:
            return
        self.folder(os.path.dirname(path))
        self._folders.add(path)
        self._entry(path, stat.S_IFDIR | 0o755, b"")

    def data(self, path: str, data: bytes, mode: int = 0o644, mtime: int = 0) -> None:
        """A file with this content."""
        self.folder(os.path.dirname(path))
        self._entry(path.strip("/"), stat.S_IFREG | mode, data, mtime)

    def file(self, path: str, source: Path) -> None:
        """A copy of a file; its time stays, because Python's compiled files name it."""
        status = source.stat()
        mode = 0o755 if status.st_mode & 0o111 else 0o644
        self.data(path, source.read_bytes(), mode, int(status.st_mtime))

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self.folder(os.path.dirname(path))
        self._entry(path.strip("/"), stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, path: str, major: int, minor: int) -> None:
        """A node that the first process needs before /dev is there."""
        self.folder(os.path.dirname(path))
        self._entry(path.strip("/"), stat.S_IFCHR | 0o600, b"", device=(major, minor))

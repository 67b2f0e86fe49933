"""A machine's files as a process without rights sees them: read, listed, never written."""

from __future__ import annotations

import errno
from typing import Protocol

from boards.machine.bare_files import BareFiles


class Files(Protocol):
    """Text files and folders. Each raises OSError as Linux would."""

    def exists(self, path: str) -> bool: ...
    def read(self, path: str) -> bytes: ...
    def listdir(self, path: str) -> list[str]: ...


class ReadOnlyFiles(BareFiles):
    """The methods of a world that read `_tree`."""

    _tree: Files

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        data = self._content(path)
        if len(data) > limit_bytes:
            raise OSError(errno.EFBIG, f"{path} is longer than {limit_bytes} bytes")
        return data

    def _content(self, path: str) -> bytes:
        """What is in a file. Raises: OSError."""
        return self._tree.read(path)

    def write(self, path: str, data: bytes) -> None:
        self._tree.read(path)
        raise OSError(errno.EACCES, f"{path} is read-only")

    def listdir(self, path: str) -> list[str]:
        return self._tree.listdir(path)

    def exists(self, path: str) -> bool:
        return self._tree.exists(path)

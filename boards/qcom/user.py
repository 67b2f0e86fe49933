"""Memory of the process that asks, as copy_from_user and copy_to_user reach it."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from boards.machine import host
from boards.machine.arrays import Array


class UserMemory(Protocol):
    """Of one process. Every method raises OSError EFAULT where nothing is mapped."""

    def load(self, va: int, nbytes: int) -> bytes: ...
    def store(self, va: int, data: bytes) -> None: ...
    def pages(self, va: int, nbytes: int) -> Array:
        """The bytes themselves, for a GPU to write to."""
        ...


class OwnMemory:
    """The process that the board is in."""

    def load(self, va: int, nbytes: int) -> bytes:
        """A copy of bytes."""
        return bytes(host.user_bytes(va, nbytes)) if nbytes else b""

    def store(self, va: int, data: bytes) -> None:
        """Bytes to memory."""
        host.user_bytes(va, len(data))
        host.copy_to_user(va, data)

    def pages(self, va: int, nbytes: int) -> Array:
        """A view; whoever holds it keeps no mapping alive."""
        host.user_bytes(va, nbytes)
        found: Array = np.frombuffer(host.view(va, nbytes), np.uint8)
        return found

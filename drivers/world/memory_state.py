"""A StateStore in memory: locks and records of a GPU that is not there, as in a replay."""

from __future__ import annotations

import os

from drivers.base.errors import Busy


class MemoryState:
    """Locks and files of this object alone: no other process sees them, and nothing stays."""

    path = "memory"

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._held: set[str] = set()

    def lock(self, name: str) -> MemoryLock:
        """See `StateStore.lock`. Raises: Busy where it is held."""
        if name in self._held:
            raise Busy(f"{name} is held by this process", pid=os.getpid(), hint="close it first")
        self._held.add(name)
        return MemoryLock(self._held, name)

    def names(self) -> list[str]:
        """See `StateStore.names`."""
        return sorted(self._files)

    def read(self, name: str) -> bytes | None:
        """See `StateStore.read`."""
        return self._files.get(name)

    def write(self, name: str, data: bytes) -> None:
        """See `StateStore.write`."""
        self._files[name] = bytes(data)

    def remove(self, name: str) -> None:
        """See `StateStore.remove`."""
        self._files.pop(name, None)


class MemoryLock:
    """A lock of a MemoryState."""

    def __init__(self, held: set[str], name: str) -> None:
        self._held, self._name = held, name

    def release(self) -> None:
        """Let go. A second release does nothing."""
        self._held.discard(self._name)
        self._held = set()

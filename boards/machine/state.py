"""A private directory for locks and records, kept by the machine and not by its processes.

Locks die with their holder; files outlive it, whatever happens, until the machine restarts.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field


class Held(OSError):
    """EBUSY: the process `pid` has the lock."""

    def __init__(self, name: str, pid: int) -> None:
        super().__init__(errno.EBUSY, f"{name} is held by process {pid}")
        self.pid = pid


@dataclass(slots=True)
class Shared:
    """What all processes of one user see."""

    files: dict[str, bytes] = field(default_factory=dict)
    locks: dict[str, int] = field(default_factory=dict)


class BoardLock:
    """Held until `release`, or until its process is gone."""

    def __init__(self, shared: Shared, name: str, pid: int) -> None:
        self._shared, self._name, self._pid = shared, name, pid

    def release(self) -> None:
        """Let go. A second release does nothing."""
        if self._shared.locks.get(self._name) == self._pid:
            del self._shared.locks[self._name]


class BoardState:
    """The directory as one process sees it."""

    path = "/run/unbound"

    def __init__(self, shared: Shared, pid: int) -> None:
        self._shared, self._pid = shared, pid
        self._dead = False

    def _alive(self) -> None:
        if self._dead:
            raise OSError(errno.ESRCH, f"process {self._pid} is no more")

    def lock(self, name: str) -> BoardLock:
        """Raises: Held."""
        self._alive()
        owner = self._shared.locks.get(name)
        if owner is not None:
            raise Held(name, owner)
        self._shared.locks[name] = self._pid
        return BoardLock(self._shared, name, self._pid)

    def names(self) -> list[str]:
        """What is there, locks too, as files they are."""
        self._alive()
        return sorted({*self._shared.files, *self._shared.locks})

    def read(self, name: str) -> bytes | None:
        """A whole file; None when there is none."""
        self._alive()
        return self._shared.files.get(name)

    def write(self, name: str, data: bytes) -> None:
        """Replace a file as a whole."""
        self._alive()
        self._shared.files[name] = bytes(data)

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when there is none."""
        self._alive()
        self._shared.files.pop(name, None)

    def die(self) -> None:
        """The process is gone, its locks with it."""
        self._dead = True
        for name in [name for name, pid in self._shared.locks.items() if pid == self._pid]:
            del self._shared.locks[name]

"""What claiming a PCI function needs in addition to a World: a store for locks and records.

The real one is `drivers.world.state`; tests pass in others.
"""

from __future__ import annotations

from typing import Protocol


class Lock(Protocol):
    """Held until `release`, or until the process that took it is gone."""

    def release(self) -> None:
        """Let go. A second release does nothing."""


class StateStore(Protocol):
    """A private directory of this user (or of root): locks, and small files that stay."""

    path: str

    def lock(self, name: str) -> Lock:
        """Take a lock at once or not at all. Raises: Busy with the owner's pid, Denied."""

    def names(self) -> list[str]:
        """What is there, sorted."""

    def read(self, name: str) -> bytes | None:
        """A whole file; None when there is none. Raises: MalformedInput when it is too long."""

    def write(self, name: str, data: bytes) -> None:
        """Replace a file atomically: after a kill it is the old one or the new one."""

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when there is none."""

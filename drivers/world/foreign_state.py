"""A StateStore around a foreign object with the same methods, whose errors are plain OSError.

A lock that another process has is EBUSY, with that process's number as the error's `pid`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from drivers.base.errors import Busy
from drivers.base.oserrors import translate
from drivers.base.pci import Lock, StateStore


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        pid = getattr(error, "pid", None)
        if error.errno == errno.EBUSY and isinstance(pid, int):
            raise Busy(f"{what}: process {pid} has it", pid=pid, hint="wait, or end it") from error
        raise translate(error, what) from error


class ForeignState:
    """`inner` has every method of a StateStore and raises OSError where it fails."""

    def __init__(self, inner: StateStore) -> None:
        self.inner, self.path = inner, inner.path

    def lock(self, name: str) -> Lock:
        """Take a lock at once or not at all. Raises: Busy with the owner's pid."""
        with _translated(f"lock {self.path}/{name}"):
            return self.inner.lock(name)

    def names(self) -> list[str]:
        """What is there, sorted."""
        with _translated(f"list {self.path}"):
            return self.inner.names()

    def read(self, name: str) -> bytes | None:
        """A whole file; None when there is none."""
        with _translated(f"read {self.path}/{name}"):
            return self.inner.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Replace a file as a whole."""
        with _translated(f"write {self.path}/{name}"):
            self.inner.write(name, data)

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when there is none."""
        with _translated(f"remove {self.path}/{name}"):
            self.inner.remove(name)

"""Memory for what the arguments of ioctls point at.

A call fills a piece of it, makes its ioctl, and reads the answer. A signal handler that does so in
the middle of another call gets a piece of its own: memory that both filled would lose one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Final

from drivers.base.contracts import Region
from drivers.base.errors import Busy

_ALIGN: Final = 16


class Piece:
    """A part of an arena, for one call."""

    __slots__ = ("_off", "_region", "cpu_va", "nbytes")

    def __init__(self, region: Region, off: int, nbytes: int) -> None:
        self._region, self._off, self.nbytes = region, off, nbytes
        self.cpu_va = region.cpu_va + off

    def read(self) -> bytes:
        """What is there now."""
        return self._region.read(self._off, self.nbytes)


class Arena:
    """Pieces are taken like frames of a stack; threads wait for each other."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._top = 0
        self.after_fork()

    def after_fork(self) -> None:
        """In a child: a thread that is not here may hold the lock."""
        self.lock = RLock()

    @contextmanager
    def piece(self, data: bytes | bytearray) -> Iterator[Piece]:
        """A piece with these bytes. Raises: Busy where too many calls are inside each other."""
        nbytes = len(data)
        size = -(-nbytes // _ALIGN) * _ALIGN
        region = self._region
        most = region.nbytes
        with self.lock:
            first = self._top
            if first + size > most:
                raise Busy(
                    f"{nbytes} bytes for an ioctl: {first} of {most} are in use by calls that "
                    "signal handlers have interrupted",
                    hint="let the handlers return first",
                )
            self._top = first + size  # no handler can run from the read of it to here
            try:
                region.write(first, bytes(data))
                yield Piece(region, first, nbytes)
            finally:
                self._top = first

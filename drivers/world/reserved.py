"""Inaccessible address space that this process reserves, and mappings placed in it.

A GPU that shares the process's addresses needs memory at an address chosen before the memory
exists. MAP_FIXED replaces whatever is mapped there, so it is used only in our own reservations.
Like every mapping, one in a reservation stays until the last view of it is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from drivers.base import forks
from drivers.base.errors import BadArgument, UseAfterFree
from drivers.world import native
from drivers.world.no_contents import NoContents

_EMPTY = native.MAP_PRIVATE | native.MAP_ANONYMOUS | native.MAP_NORESERVE


class Reservation(NoContents):
    """A Region without contents: only `cpu_va`, `nbytes` and `close` are valid."""

    def __init__(self, nbytes: int, on_close: Callable[[], None]) -> None:
        self.nbytes = nbytes
        self.cpu_va = native.map_memory(0, nbytes, 0, _EMPTY)
        self._on_close = on_close
        self._pieces: dict[int, int] = {}
        """Bytes of every mapping inside, by start address."""
        self._closed = False
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Reservation({self.nbytes:#x} bytes at {self.cpu_va:#x})"

    def place(self, fd: int, nbytes: int, offset: int, at: int, prot: int) -> memoryview:
        """Map at byte `at`. Raises: BadArgument, UseAfterFree, the translated errno."""
        with self._lock:
            self._check(at, nbytes)
            shared = native.MAP_PRIVATE | native.MAP_ANONYMOUS if fd == -1 else native.MAP_SHARED
            flags = shared | native.MAP_FIXED
            address = native.map_memory(self.cpu_va + at, nbytes, prot, flags, fd, offset)
            self._pieces[at] = nbytes
        return native.memory_at(address, nbytes, lambda: self._gone(at))

    def _check(self, at: int, nbytes: int) -> None:
        if self._closed:
            raise UseAfterFree(f"{self!r} is closed", hint="reserve again")
        if at < 0 or at + nbytes > self.nbytes:
            raise BadArgument(f"{nbytes:#x} bytes at {at:#x} are not inside {self!r}")
        for start, size in self._pieces.items():
            if start < at + nbytes and at < start + size:
                raise BadArgument(
                    f"{nbytes:#x} bytes at {at:#x} of {self!r} cover a mapping at {start:#x}",
                    hint="close it, and let go of every view of it, first",
                )

    def _gone(self, at: int) -> None:
        """The last view of a mapping is gone: reserve its space again, or unmap everything."""
        with self._lock:
            nbytes = self._pieces[at]
            native.map_memory(self.cpu_va + at, nbytes, 0, _EMPTY | native.MAP_FIXED)
            del self._pieces[at]
            last = self._closed and not self._pieces
        if last:
            native.unmap_memory(self.cpu_va, self.nbytes)

    def close(self) -> None:
        """Give the addresses back once nothing is mapped there. A second close does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            empty = not self._pieces
        self._on_close()
        if empty:
            native.unmap_memory(self.cpu_va, self.nbytes)

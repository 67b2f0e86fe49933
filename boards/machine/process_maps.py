"""What a process has: numbers for open files, and memory mapped in this very process.

Every world of a board is one of these; what its files are is the world's own.
"""

from __future__ import annotations

import errno
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from boards.machine import host
from boards.machine.bare_files import Owners
from boards.machine.extents import Piece
from boards.machine.region import HostRegion, RegisterRegion, Reservation

Region = HostRegion | RegisterRegion | Reservation
FileT = TypeVar("FileT")
_FIRST_FD = 1000


@dataclass(slots=True)
class _Map:
    """Something that is mapped, and what is to be done once it is not."""

    region: Region | None = None
    on_gone: Callable[[], object] | None = None


class _Gone:
    """Reports to a process that a mapping is gone, without keeping the process alive."""

    def __init__(self, owner: ProcessMaps[FileT], number: int) -> None:
        self._owner, self._number = weakref.ref(owner), number

    def __call__(self) -> None:
        owner = self._owner()
        if owner is not None:
            owner.unmapped(self._number)


def _vanish(gone: _Gone, within: Reservation | None, va: int, nbytes: int) -> None:
    """A mapping has no view any more: its range is reserved space again, or free."""
    if within is not None:
        within.vacate(va, nbytes)
    else:
        host.unmap(va, nbytes)
    gone()


class ProcessMaps(Owners, Generic[FileT]):
    """Descriptors and mappings of one process."""

    def __init__(self) -> None:
        self._fds: dict[int, FileT] = {}
        self._next_fd = _FIRST_FD
        self._maps: dict[int, _Map] = {}
        self._next_map = 0

    # Descriptors

    def _install(self, file: FileT) -> int:
        """A descriptor of a file."""
        fd = self._next_fd
        self._next_fd += 1
        self._fds[fd] = file
        return fd

    def _file(self, fd: int) -> FileT:
        found = self._fds.get(fd)
        if found is None:
            raise OSError(errno.EBADF, f"descriptor {fd} is not open here")
        return found

    def duplicate(self, fd: int) -> int:
        """Another descriptor of an open file."""
        return self._install(self._file(fd))

    # Mappings

    def reserve(self, nbytes: int) -> Reservation:
        if nbytes <= 0:
            raise OSError(errno.EINVAL, "nothing to reserve")
        number = self._new_map()
        found = Reservation(nbytes, _Gone(self, number))
        self._maps[number].region = found
        return found

    def _new_map(self) -> int:
        """A number for something that is mapped until `unmapped`."""
        self._next_map += 1
        self._maps[self._next_map] = _Map()
        return self._next_map

    def unmapped(self, number: int) -> None:
        """A mapping is gone: what it kept from being reused may be."""
        gone = self._maps.pop(number, None)
        if gone is not None and gone.on_gone is not None:
            gone.on_gone()

    def _map_pieces(
        self, fd: int, pieces: Sequence[Piece], nbytes: int, write: bool,
        within: Reservation | None, at: int, on_gone: Callable[[], object] | None = None,
    ) -> HostRegion:  # fmt: skip
        """Map the pieces of a file one after the other, or anonymous memory where `fd` is -1."""
        va = within.place(at, nbytes) if within is not None else host.reserve(nbytes)
        done = 0
        for piece in pieces:
            part = min(piece.nbytes, nbytes - done)
            if part > 0:
                host.map_file(fd, piece.start, part, at=va + done, write=write)
                done += part
        if fd == -1:
            host.map_anonymous(nbytes, at=va, write=write)
        number = self._new_map()
        vanish = partial(_vanish, _Gone(self, number), within, va, nbytes)
        region = HostRegion(va, nbytes, vanish, write=write)
        self._maps[number] = _Map(region, on_gone)
        return region

    def _map_stores(
        self, nbytes: int, store: Callable[[int, int, int], None],
        load: Callable[[int, int], int] = lambda off, nbytes: 0,
        on_gone: Callable[[], object] | None = None,
    ) -> RegisterRegion:  # fmt: skip
        """Registers: every store, and every load, is told."""
        number = self._new_map()
        region = RegisterRegion(nbytes, store, _Gone(self, number), load)
        self._maps[number] = _Map(region, on_gone)
        return region

    def _close_maps(self) -> None:
        """Everything that is mapped is closed; memory goes with the last view of it."""
        for mapped in list(self._maps.values()):
            if mapped.region is not None:
                mapped.region.close()

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        if write and execute:
            raise OSError(errno.ENOTSUP, "memory that is writable and executable at once")
        if not isinstance(region, HostRegion):
            raise OSError(errno.ENOTSUP, "only memory can be protected")
        prot = host.PROT_READ | (host.PROT_WRITE if write else 0)
        region.protect(prot | (host.PROT_EXEC if execute else 0))

    # Code of the process

    def symbol(self, name: str) -> int:
        return host.symbol(name)

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        return host.function(address, nargs)

"""The client's memory as the function reaches it: DMA windows over files that both map.

A file is mapped once, whole, however many windows show parts of it, so that one byte is one byte;
it stays mapped for as long as there is a view.
Windows that came without a descriptor (ROMs) exist and cannot be reached.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from boards.machine import host
from boards.machine.pool import Pool
from boards.vfio_user import wire
from boards.vfio_user.wire import refusal

MAX_FILES = 64
MAX_FILE_BYTES = 1 << 36
_TOP = 1 << 64


@dataclass(slots=True)
class _File:
    """A memory file of the client, mapped here, and how many windows show it."""

    key: tuple[int, int]
    pool: Pool
    ours: bool
    windows: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """A range of DMA addresses. `file` is None where there is nothing to map."""

    address: int
    nbytes: int
    flags: int
    file: _File | None
    offset: int

    def cut_by(self, address: int, nbytes: int) -> bool:
        """Whether some of it is in a range, and some is not."""
        end, stop = self.address + self.nbytes, address + nbytes
        return self.address < stop and address < end and not address <= self.address < end <= stop


class ClientMemory:
    """Windows by address. `known` are files of the function itself, which clients map back."""

    def __init__(self, known: list[Pool]) -> None:
        self._files = {_key(pool.fd): _File(_key(pool.fd), pool, ours=True) for pool in known}
        self._starts: list[int] = []
        self._windows: list[Window] = []

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def mapped_files(self) -> int:
        """Files of the client that are mapped here."""
        return sum(not file.ours for file in self._files.values())

    def add(
        self, address: int, nbytes: int, flags: int, descriptor: int | None, offset: int
    ) -> None:
        """A new window; the descriptor stays the caller's. Raises: OSError."""
        if nbytes <= 0 or (address | nbytes) % wire.PAGE_BYTES or address + nbytes > _TOP:
            raise refusal(f"a window of {nbytes:#x} bytes at {address:#x}")
        if flags & ~(wire.DMA_READ | wire.DMA_WRITE):
            raise refusal(f"a window with flags {flags:#x}")
        at = bisect_right(self._starts, address)
        before = self._windows[at - 1] if at else None
        if before is not None and before.address + before.nbytes > address:
            raise refusal(f"a window at {address:#x} over another", errno.EEXIST)
        if at < len(self._starts) and self._starts[at] < address + nbytes:
            raise refusal(f"a window at {address:#x} under another", errno.EEXIST)
        if len(self._windows) >= wire.MAX_DMA_MAPS:
            raise refusal(f"more than {wire.MAX_DMA_MAPS} windows", errno.ENOSPC)
        file = None if descriptor is None else self._open(descriptor, offset, nbytes)
        if file is not None:
            file.windows += 1
        self._starts.insert(at, address)
        self._windows.insert(at, Window(address, nbytes, flags, file, offset))

    def _open(self, descriptor: int, offset: int, nbytes: int) -> _File:
        key = _key(descriptor)
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = self._map(key, descriptor)
        if offset % wire.PAGE_BYTES or offset + nbytes > file.pool.nbytes:
            self._drop(file)
            raise refusal(f"a window past the {file.pool.nbytes:#x} bytes of its file")
        return file

    def _map(self, key: tuple[int, int], descriptor: int) -> _File:
        if self.mapped_files >= MAX_FILES:
            raise refusal(f"more than {MAX_FILES} files", errno.ENOSPC)
        size = os.fstat(descriptor).st_size
        if not 0 < size <= MAX_FILE_BYTES or size % wire.PAGE_BYTES:
            raise refusal(f"a file of {size:#x} bytes")
        if not _cannot_shrink(descriptor):
            raise refusal(
                "memory that could vanish under its mapping; give the virtual machine"
                " a memory-backend-memfd, which is sealed"
            )
        va = host.map_file(descriptor, 0, size)
        pool = Pool(f"client memory {key[1]}", va, size)
        # engines may still hold a view when the last window goes
        weakref.finalize(pool.bytes, host.unmap, va, size).atexit = False
        return _File(key, pool, ours=False)

    def remove(self, address: int, nbytes: int) -> None:
        """Take away every window in a range, which may hold none. Raises: OSError EINVAL.

        The protocol wants exactly what was given; QEMU, with an IOMMU of the guest, also takes
        away what it never gave, as VFIO in a kernel allows (vfio_iommu_type1.c
        vfio_dma_do_unmap). What it does not allow either is half a window.
        """
        if nbytes <= 0 or address + nbytes > _TOP:
            raise refusal(f"no range of {nbytes:#x} bytes at {address:#x}")
        first = bisect_left(self._starts, address)
        last = bisect_left(self._starts, address + nbytes)
        for at in (first - 1, last - 1):
            window = self._windows[at] if at >= 0 else None
            if window is not None and window.cut_by(address, nbytes):
                raise refusal(f"half of the window at {window.address:#x}")
        taken = self._windows[first:last]
        del self._starts[first:last], self._windows[first:last]
        for window in taken:
            if window.file is not None:
                window.file.windows -= 1
                self._drop(window.file)

    def remove_all(self) -> None:
        """Forget the client's memory."""
        self.remove(0, _TOP)

    def _drop(self, file: _File) -> None:
        if not file.windows and not file.ours:
            del self._files[file.key]

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """Where a bus address is, all of it and with the right to go there; else None."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or nbytes <= 0:
            return None
        window = self._windows[at]
        inside = address - window.address
        if window.file is None or inside + nbytes > window.nbytes:
            return None
        if not window.flags & (wire.DMA_WRITE if write else wire.DMA_READ):
            return None
        return window.file.pool, window.offset + inside


def _key(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _cannot_shrink(descriptor: int) -> bool:
    """Whether it is a memory file that is sealed against shrinking."""
    try:
        return bool(fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
    except OSError as error:
        if error.errno != errno.EINVAL:  # what is no memory file has no seals
            raise
        return False

"""What `mmap` gives: plain memory, reserved address space, pages of registers."""

from __future__ import annotations

import errno
import weakref
from collections.abc import Callable

import numpy as np

from boards.machine import host
from boards.machine.arrays import Array

_WORD, _DOUBLE = 4, 8


def _closed() -> OSError:
    return OSError(errno.EBADF, "this mapping is closed")


class Reservation:
    """Address space without memory; stays until it and everything in it is closed."""

    def __init__(self, nbytes: int, on_gone: Callable[[], None]) -> None:
        self.nbytes = host.pages(nbytes)
        self.cpu_va = host.reserve(self.nbytes)
        self._on_gone = on_gone
        self._unmap = weakref.finalize(self, host.unmap, self.cpu_va, self.nbytes)
        self._unmap.atexit = False
        self._taken: list[tuple[int, int]] = []
        self._closing = False

    def place(self, at: int, nbytes: int) -> int:
        """The address of a range nothing else is mapped in. Raises: OSError EINVAL, ENOMEM."""
        if self._closing:
            raise _closed()
        if at < 0 or at % host.PAGE_BYTES or at + nbytes > self.nbytes:
            raise OSError(errno.EINVAL, f"{nbytes:#x} bytes at {at:#x} are not in the reservation")
        if any(at < start + count and start < at + nbytes for start, count in self._taken):
            raise OSError(errno.EINVAL, f"something is mapped at {at:#x}")
        self._taken.append((at, nbytes))
        return self.cpu_va + at

    def vacate(self, va: int, nbytes: int) -> None:
        """A mapping is gone: its range is reserved space again."""
        host.withdraw(va, nbytes)
        self._taken.remove((va - self.cpu_va, nbytes))
        self._settle()

    def _settle(self) -> None:
        if self._closing and not self._taken and self.nbytes:
            self._unmap()
            self.nbytes = 0
            self._on_gone()

    def view(self) -> memoryview:
        raise OSError(errno.ENOTSUP, "reserved address space has no bytes")

    def _none(self) -> OSError:
        return OSError(errno.EFAULT, "nothing is mapped here")

    def read(self, off: int, nbytes: int) -> bytes:
        raise self._none()

    def write(self, off: int, data: bytes | memoryview) -> None:
        raise self._none()

    def read32(self, off: int) -> int:
        raise self._none()

    def write32(self, off: int, value: int) -> None:
        raise self._none()

    def read64(self, off: int) -> int:
        raise self._none()

    def write64(self, off: int, value: int) -> None:
        raise self._none()

    def close(self) -> None:
        """Idempotent."""
        if not self._closing:
            self._closing = True
            self._settle()


class HostRegion:
    """Plain memory at `cpu_va`. It stays mapped while there is a view of it."""

    def __init__(
        self, va: int, nbytes: int, unmap: Callable[[], None], *, write: bool = True
    ) -> None:
        self.cpu_va, self.nbytes = va, nbytes
        array: Array = np.frombuffer(host.view(va, nbytes), np.uint8)
        array.flags.writeable = write
        self._array: Array | None = array
        finalizer = weakref.finalize(array, unmap)
        finalizer.atexit = False

    @property
    def memory(self) -> Array | None:
        """The bytes, which stay mapped with whoever holds them; None once it is closed."""
        return self._array

    def _at(self, off: int, nbytes: int) -> Array:
        if self._array is None:
            raise _closed()
        if off < 0 or nbytes < 0 or off + nbytes > self.nbytes:
            raise IndexError(f"{off:#x}+{nbytes:#x} is outside {self.nbytes:#x} bytes")
        return self._array[off : off + nbytes]

    def _put(self, off: int, data: bytes | memoryview) -> None:
        part = self._at(off, len(data))
        if not part.flags.writeable:
            raise OSError(errno.EACCES, "this mapping is read-only")
        part[:] = np.frombuffer(data, np.uint8)

    def protect(self, prot: int) -> None:
        """mprotect the whole mapping."""
        array = self._at(0, self.nbytes)
        host.protect(self.cpu_va, self.nbytes, prot)
        if self._array is not None:
            self._array.flags.writeable = bool(prot & host.PROT_WRITE)
        del array

    def read(self, off: int, nbytes: int) -> bytes:
        return self._at(off, nbytes).tobytes()

    def write(self, off: int, data: bytes | memoryview) -> None:
        self._put(off, memoryview(data).cast("B"))

    def read32(self, off: int) -> int:
        return int.from_bytes(self._at(off, _WORD).tobytes(), "little")

    def write32(self, off: int, value: int) -> None:
        self._put(off, value.to_bytes(_WORD, "little"))

    def read64(self, off: int) -> int:
        return int.from_bytes(self._at(off, _DOUBLE).tobytes(), "little")

    def write64(self, off: int, value: int) -> None:
        self._put(off, value.to_bytes(_DOUBLE, "little"))

    def view(self) -> memoryview:
        """The bytes themselves."""
        return self._at(0, self.nbytes).data

    def close(self) -> None:
        """Idempotent; unmaps once the last view is gone."""
        self._array = None


class RegisterRegion:
    """A page that is no memory: stores call the board; loads call `load`, or read zero."""

    cpu_va = 0

    def __init__(
        self, nbytes: int, store: Callable[[int, int, int], None], on_close: Callable[[], None],
        load: Callable[[int, int], int] = lambda off, nbytes: 0,
    ) -> None:  # fmt: skip
        self.nbytes, self._store, self._on_close, self._load = nbytes, store, on_close, load
        self._open = True

    def _check(self, off: int, nbytes: int) -> None:
        if not self._open:
            raise _closed()
        if off < 0 or off % nbytes or off + nbytes > self.nbytes:
            raise IndexError(f"no register of {nbytes} bytes at {off:#x}")

    def read32(self, off: int) -> int:
        self._check(off, _WORD)
        return self._load(off, _WORD)

    def read64(self, off: int) -> int:
        self._check(off, _DOUBLE)
        return self._load(off, _DOUBLE)

    def write32(self, off: int, value: int) -> None:
        self._check(off, _WORD)
        value.to_bytes(_WORD, "little")
        self._store(off, _WORD, value)

    def write64(self, off: int, value: int) -> None:
        self._check(off, _DOUBLE)
        value.to_bytes(_DOUBLE, "little")
        self._store(off, _DOUBLE, value)

    def read(self, off: int, nbytes: int) -> bytes:
        raise OSError(errno.ENOTSUP, "registers are read word by word")

    def write(self, off: int, data: bytes | memoryview) -> None:
        raise OSError(errno.ENOTSUP, "registers are written word by word")

    def view(self) -> memoryview:
        raise OSError(errno.ENOTSUP, "registers are no memory")

    def close(self) -> None:
        """Idempotent."""
        if self._open:
            self._open = False
            self._on_close()

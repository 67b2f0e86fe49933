"""A World around a foreign object with the same methods, whose errors are plain OSError.

A software GPU shares no code with the driver it tests, not even error classes. Here its errno
becomes a DeviceError, as in `LinuxWorld`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drivers.base.contracts import Machine, Region
from drivers.base.errors import BadArgument, DeviceError, MalformedInput, Unsupported
from drivers.base.library import Library
from drivers.base.oserrors import translate
from drivers.base.usb import Usb
from drivers.world.foreign_usb import ForeignUsb, Inner

_RAISED = {errno.EFBIG: MalformedInput, errno.ENOTSUP: Unsupported}


def _ours(error: OSError, what: str, nbytes: int = 0) -> DeviceError:
    """The DeviceError of its errno."""
    kind = _RAISED.get(error.errno or 0)
    if kind is not None:
        return kind(f"{what}: {error.strerror}")
    return translate(error, what, nbytes)


@contextmanager
def _translated(what: str, nbytes: int = 0) -> Iterator[None]:
    """OSError inside becomes the DeviceError of its errno."""
    try:
        yield
    except OSError as error:
        raise _ours(error, what, nbytes) from error


class ForeignRegion:
    """A region of the foreign world, `inner`. Registers take a fast path: no `with`."""

    __slots__ = ("cpu_va", "inner", "nbytes")

    def __init__(self, inner: Region) -> None:
        self.inner, self.nbytes, self.cpu_va = inner, inner.nbytes, inner.cpu_va

    def read32(self, off: int) -> int:
        try:
            return self.inner.read32(off)
        except OSError as error:
            raise _ours(error, f"read32 {off:#x}") from error

    def write32(self, off: int, value: int) -> None:
        try:
            self.inner.write32(off, value)
        except OSError as error:
            raise _ours(error, f"write32 {off:#x}") from error

    def read64(self, off: int) -> int:
        with _translated(f"read64 {off:#x}"):
            return self.inner.read64(off)

    def write64(self, off: int, value: int) -> None:
        try:
            self.inner.write64(off, value)
        except OSError as error:
            raise translate(error, f"write64 {off:#x}") from error

    def read(self, off: int, nbytes: int) -> bytes:
        with _translated(f"read {off:#x}+{nbytes:#x}"):
            return self.inner.read(off, nbytes)

    def write(self, off: int, data: bytes | memoryview) -> None:
        with _translated(f"write {off:#x}"):
            self.inner.write(off, data)

    def view(self) -> memoryview:
        with _translated("view"):
            return self.inner.view()

    def close(self) -> None:
        with _translated("close a mapping"):
            self.inner.close()


def _own(region: Region) -> Region:
    """The foreign object of a region. Raises: Unsupported for any other region."""
    if not isinstance(region, ForeignRegion):
        raise Unsupported(f"{region!r} is not a region of this world")
    return region.inner


class ForeignWorld:
    """`inner` has every method of a World and raises OSError for failures."""

    def __init__(self, inner: Machine, usb: Callable[[int, int, int], Inner] | None = None) -> None:
        self.inner, self.name, self._usb = inner, inner.name, usb
        self.kept: dict[str, object] = {}

    def open(self, path: str, flags: int) -> int:
        with _translated(f"open {path}"):
            return self.inner.open(path, flags)

    def close(self, fd: int) -> None:
        with _translated(f"close descriptor {fd}"):
            self.inner.close(fd)

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        with _translated(f"read {path}"):
            data = self.inner.read(path, limit_bytes)
        if len(data) > limit_bytes:
            raise MalformedInput(f"{path} is longer than {limit_bytes} bytes")
        return data

    def write(self, path: str, data: bytes) -> None:
        with _translated(f"write {path}"):
            self.inner.write(path, data)

    def listdir(self, path: str) -> list[str]:
        with _translated(f"list {path}"):
            return sorted(self.inner.listdir(path))

    def readlink(self, path: str) -> str:
        with _translated(f"readlink {path}"):
            return self.inner.readlink(path)

    def exists(self, path: str) -> bool:
        with _translated(f"look for {path}"):
            return self.inner.exists(path)

    def access(self, path: str, mode: int) -> bool:
        with _translated(f"access {path}"):
            return self.inner.access(path, mode)

    def owning_group(self, path: str) -> int:
        with _translated(f"stat {path}"):
            return self.inner.owning_group(path)

    def device_number(self, path: str) -> int:
        with _translated(f"stat {path}"):
            return self.inner.device_number(path)

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        with _translated(f"ioctl {request:#010x} on descriptor {fd}"):
            return self.inner.ioctl(fd, request, argument)

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        with _translated(f"ioctl {request:#010x} on descriptor {fd}"):
            return self.inner.ioctl_fd(fd, request, argument)

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        with _translated(f"read {nbytes} bytes of descriptor {fd} at {offset:#x}"):
            data = self.inner.pread(fd, nbytes, offset)
        if len(data) != nbytes:
            raise MalformedInput(f"descriptor {fd} at {offset:#x}: {len(data)} of {nbytes} bytes")
        return data

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        with _translated(f"write {len(data)} bytes of descriptor {fd} at {offset:#x}"):
            self.inner.pwrite(fd, data, offset)

    def eventfd(self) -> int:
        with _translated("make an eventfd"):
            return self.inner.eventfd()

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        with _translated(f"wait for descriptor {fd}"):
            return self.inner.wait_event(fd, timeout_s)

    def duplicate(self, fd: int) -> int:
        with _translated(f"duplicate descriptor {fd}"):
            return self.inner.duplicate(fd)

    def poll(self, fd: int, timeout_s: float) -> bool:
        with _translated(f"poll descriptor {fd}"):
            return self.inner.poll(fd, timeout_s)

    def library(self, name: str) -> Library:
        """Raises Unsupported: a library of this process would bypass the machine."""
        raise Unsupported(f"{self.name} has no library {name}")

    def usb(self, bus: int, address: int, interface: int) -> Usb:
        """A USB device of the foreign world, if it has one."""
        if self._usb is None:
            raise Unsupported(f"{self.name} has no USB")
        with _translated(f"open USB device {bus}-{address}"):
            return ForeignUsb(self._usb(bus, address, interface))

    def reserve(self, nbytes: int) -> Region:
        with _translated(f"reserve {nbytes} bytes", nbytes):
            return ForeignRegion(self.inner.reserve(nbytes))

    def mmap(
        self,
        fd: int,
        nbytes: int,
        offset: int = 0,
        *,
        write: bool = True,
        within: Region | None = None,
        at: int = 0,
        huge: bool = False,
    ) -> Region:
        own = None if within is None else _own(within)
        if own is not None and not 0 <= at <= own.nbytes - nbytes:
            raise BadArgument(f"{nbytes:#x} bytes at {at:#x} are not inside the reservation")
        with _translated(f"mmap {nbytes} bytes of descriptor {fd}", nbytes):
            region = self.inner.mmap(fd, nbytes, offset, write=write, within=own, at=at, huge=huge)
        return ForeignRegion(region)

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        with _translated("protect"):
            self.inner.protect(_own(region), write=write, execute=execute)

    def symbol(self, name: str) -> int:
        with _translated(f"symbol {name}"):
            return self.inner.symbol(name)

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        with _translated(f"function at {address:#x}"):
            return self.inner.function(address, nargs)

    def monotonic_s(self) -> float:
        return self.inner.monotonic_s()

    def sleep(self, seconds: float) -> None:
        self.inner.sleep(seconds)

"""The real machine: files, ioctl, mmap and machine code of this Linux process."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import time
from collections.abc import Callable

from drivers.base.contracts import Region
from drivers.base.errors import (
    BadArgument,
    Busy,
    MalformedInput,
    OutOfMemory,
    Unsupported,
    UseAfterFree,
)
from drivers.base.library import Library
from drivers.base.oserrors import translate
from drivers.base.region import MemoryRegion
from drivers.base.usb import Usb
from drivers.world import files, libraries, libusb, native
from drivers.world.reserved import Reservation

HUGE_PAGE_BYTES = 2 << 20
PAGE_BYTES = mmap.PAGESIZE
_LARGEST_FILE = 1 << 63
"""From here on offsets are valid for devices only, and Python's own mmap refuses them."""


class LinuxWorld:
    """The machine this process runs on. Every failure is a DeviceError with errno in __cause__."""

    name = "linux"

    def __init__(self) -> None:
        self.kept: dict[str, object] = {}
        self._fds: set[int] = set()
        self.maps = 0
        """Live mappings; with `fds`, what a leak test compares with its baseline."""
        self.mapped_bytes = 0

    @property
    def fds(self) -> int:
        """Descriptors opened through this world and not closed yet."""
        return len(self._fds)

    def open(self, path: str, flags: int) -> int:
        """open(2), close-on-exec. Raises: NotFound, Denied, Busy, ..."""
        try:
            fd = os.open(path, flags | os.O_CLOEXEC)
        except OSError as error:
            raise translate(error, f"open {path}") from error
        self._fds.add(fd)
        return fd

    def close(self, fd: int) -> None:
        """close(2). Raises: UseAfterFree when `fd` is not open in this world."""
        self._known(fd)
        self._fds.discard(fd)
        try:
            os.close(fd)
        except OSError as error:
            raise translate(error, f"close descriptor {fd}") from error

    def _known(self, fd: int) -> None:
        if fd not in self._fds:
            raise UseAfterFree(f"descriptor {fd} is not open here", hint="open the path first")

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        """A whole file. Raises: MalformedInput when it is longer than `limit_bytes`."""
        try:
            with open(path, "rb", opener=_open_for_read) as file:
                data = file.read(limit_bytes + 1)
                if data is None:  # open for writing elsewhere, and nothing written yet
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except OSError as error:
            raise translate(error, f"read {path}") from error
        if len(data) > limit_bytes:
            raise MalformedInput(
                f"{path} is longer than {limit_bytes} bytes", hint="check that it is the right file"
            )
        return data

    def write(self, path: str, data: bytes) -> None:
        """One write(2) to an existing file, as sysfs wants it; nothing is created or truncated."""
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            raise translate(error, f"write {path}") from error
        if written != len(data):
            raise Unsupported(f"{path} took {written} of {len(data)} bytes", hint="write less")

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            raise translate(error, f"list {path}") from error

    def readlink(self, path: str) -> str:
        """Target of a symbolic link, as it is stored."""
        try:
            return os.readlink(path)
        except OSError as error:
            raise translate(error, f"readlink {path}") from error

    def exists(self, path: str) -> bool:
        """Whether `path` exists for this user."""
        return os.path.exists(path)

    def access(self, path: str, mode: int) -> bool:
        """access(2) with os.R_OK, os.W_OK, os.X_OK."""
        return os.access(path, mode)

    def owning_group(self, path: str) -> int:
        """stat(2): st_gid, through links."""
        try:
            return os.stat(path).st_gid
        except OSError as error:
            raise translate(error, f"stat {path}") from error

    def device_number(self, path: str) -> int:
        """stat(2): st_rdev of a character or block device, through links; else 0."""
        try:
            facts = os.stat(path)
        except OSError as error:
            raise translate(error, f"stat {path}") from error
        device = stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode)
        return facts.st_rdev if device else 0

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        """ioctl(2); bytes are read and changed in place, a number is passed by value."""
        self._known(fd)
        return files.ioctl(fd, request, argument)

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        """ioctl(2) whose result is a descriptor, to be closed through this world."""
        made = self.ioctl(fd, request, argument)
        self._fds.add(made)
        return made

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        """pread(2), all of it."""
        self._known(fd)
        return files.pread(fd, nbytes, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        """pwrite(2), all of it."""
        self._known(fd)
        files.pwrite(fd, data, offset)

    def eventfd(self) -> int:
        """eventfd(2), close-on-exec."""
        fd = files.eventfd()
        self._fds.add(fd)
        return fd

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        """poll(2) and read(2) of an eventfd."""
        self._known(fd)
        return files.wait_event(fd, timeout_s)

    def duplicate(self, fd: int) -> int:
        """fcntl(2) F_DUPFD_CLOEXEC of any descriptor of the process."""
        made = files.duplicate(fd)
        self._fds.add(made)
        return made

    def poll(self, fd: int, timeout_s: float) -> bool:
        """poll(2) for POLLIN."""
        self._known(fd)
        return files.poll(fd, timeout_s)

    def library(self, name: str) -> Library:
        """dlopen(3). Raises: NotFound with the loader's message."""
        return libraries.load(name)

    def usb(self, bus: int, address: int, interface: int) -> Usb:
        """Through libusb. Raises: NotFound without libusb or the device, Denied, Busy."""
        return libusb.open_device(libusb.find_library(self.library), bus, address, interface)

    def reserve(self, nbytes: int) -> Region:
        """Inaccessible address space; see `drivers.world.reserved`."""
        if nbytes <= 0 or nbytes % PAGE_BYTES:
            raise ValueError(f"cannot reserve {nbytes} bytes: whole pages")
        reservation = Reservation(nbytes, lambda: self._unmapped(0))
        self.maps += 1
        return reservation

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
        """Map `nbytes` of `fd`, or of fresh zeroed memory when `fd` is -1."""
        if nbytes <= 0 or offset < 0 or offset % PAGE_BYTES or at % PAGE_BYTES:
            raise ValueError(f"cannot map {nbytes} bytes at {offset:#x}: positive, page-aligned")
        if fd != -1:
            self._known(fd)
        if huge:
            memory: mmap.mmap | memoryview = _huge(fd, nbytes, write, within)
        elif within is not None or offset >= _LARGEST_FILE:
            memory = _placed(fd, nbytes, offset, write, within, at)
        else:
            memory = _anywhere(fd, nbytes, offset, write)
        self.maps += 1
        self.mapped_bytes += nbytes
        return MemoryRegion(
            memoryview(memory) if write else memoryview(memory).toreadonly(),
            cpu_va=native.address_of(memory),
            name=f"mapping of descriptor {fd}" if fd >= 0 else "anonymous memory",
            on_close=lambda: self._unmapped(nbytes),
        )

    def _unmapped(self, nbytes: int) -> None:
        self.maps -= 1
        self.mapped_bytes -= nbytes

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        """mprotect a whole mapping. Raises: Unsupported when both are asked for (W^X)."""
        if write and execute:
            raise Unsupported(
                "memory that is writable and executable at once",
                hint="write the code first, then protect it as executable",
            )
        if not isinstance(region, MemoryRegion) or not region.cpu_va:
            raise Unsupported("only mappings of this world can be protected")
        region.view().release()  # a closed region raises UseAfterFree
        flags = native.PROT_READ | (native.PROT_WRITE if write else 0)
        native.protect(region.cpu_va, region.nbytes, flags | (native.PROT_EXEC if execute else 0))
        region.writable = write

    def symbol(self, name: str) -> int:
        """Address of a C library function. Raises: NotFound."""
        return native.symbol(name)

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        """Call machine code: `nargs` uint64 arguments, a uint64 result, the GIL released."""
        return native.function(address, nargs)

    def monotonic_s(self) -> float:
        """Seconds on a clock that only grows."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Yield the core for `seconds`."""
        time.sleep(seconds)


def _open_for_read(path: str, flags: int) -> int:
    """Without blocking on a FIFO that has no writer, and without taking a terminal."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _prot(write: bool) -> int:
    return native.PROT_READ | (native.PROT_WRITE if write else 0)


def _anywhere(fd: int, nbytes: int, offset: int, write: bool) -> mmap.mmap:
    """A mapping where the kernel finds room, unmapped with the last view of it."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if fd == -1 else mmap.MAP_SHARED
    try:
        mapping = mmap.mmap(fd, nbytes, flags=flags, prot=_prot(write), offset=offset)
        if fd == -1 and nbytes >= HUGE_PAGE_BYTES and _has_huge_pages():
            mapping.madvise(mmap.MADV_HUGEPAGE)
    except ValueError as error:  # Python's own check of the file's size
        raise Unsupported(f"mmap {nbytes} bytes of descriptor {fd}: {error}") from error
    except (OSError, OverflowError) as error:
        cause = error if isinstance(error, OSError) else OSError(errno.ENOMEM, str(error))
        raise translate(cause, f"mmap {nbytes} bytes of descriptor {fd}", nbytes) from cause
    return mapping


def _placed(
    fd: int, nbytes: int, offset: int, write: bool, within: Region | None, at: int
) -> memoryview:
    """A mapping in a reservation, or at a device's offset beyond those of files."""
    if isinstance(within, Reservation):
        return within.place(fd, nbytes, offset, at, _prot(write))
    if within is not None:
        raise Unsupported("mappings are placed in reservations of this world alone")
    address = native.map_memory(0, nbytes, _prot(write), native.MAP_SHARED, fd, offset)
    return native.memory_at(address, nbytes, lambda: native.unmap_memory(address, nbytes))


def _huge(fd: int, nbytes: int, write: bool, within: Region | None) -> memoryview:
    """Locked anonymous memory in 2 MiB pages. Raises: OutOfMemory that names the kernel's pool.

    Shared: a write after a fork would copy a private page and leave its frame.
    """
    if fd != -1 or within is not None or not write or nbytes % HUGE_PAGE_BYTES:
        raise BadArgument(f"{nbytes:#x} bytes in 2 MiB pages: anonymous, writable, whole pages")
    flags = native.MAP_SHARED | native.MAP_ANONYMOUS | native.MAP_HUGE
    try:
        address = native.map_memory(0, nbytes, _prot(True), flags)
    except OutOfMemory as error:
        pages = nbytes // HUGE_PAGE_BYTES
        raise error.advised(f"as root: add {pages} to /proc/sys/vm/nr_hugepages") from error
    except Busy as error:  # EAGAIN: more than RLIMIT_MEMLOCK
        raise error.advised("raise this user's limit of locked memory (ulimit -l)") from error
    return native.memory_at(address, nbytes, lambda: native.unmap_memory(address, nbytes))


def _has_huge_pages() -> bool:
    return os.path.exists("/sys/kernel/mm/transparent_hugepage")

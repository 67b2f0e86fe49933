"""A machine made of a dictionary: only what probe and doctor inspect."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from typing import NoReturn

from drivers.base.contracts import Region
from drivers.base.errors import MalformedInput, NotFound
from drivers.base.oserrors import translate

X86 = {
    "/proc/cpuinfo": b"processor\t: 0\nflags\t\t: fpu lm sse2 avx avx2 fma f16c bmi1\n",
    "/proc/meminfo": b"MemTotal:       1048576 kB\nHugePages_Total:       0\n",
    "/proc/self/status": b"Cpus_allowed_list:\t0-3\nUid:\t1000\t1000\t1000\t1000\n"
    b"Gid:\t100\t100\t100\t100\nGroups:\t44 992\n",
    "/proc/self/limits": b"Limit   Soft Limit  Hard Limit  Units\n"
    b"Max locked memory         8388608              8388608              bytes     \n",
    "/proc/sys/kernel/ostype": b"Linux\n",
    "/proc/sys/kernel/osrelease": b"6.12.0\n",
    "/etc/group": b"root:x:0:\nvideo:x:44:\nrender:x:992:\nplugdev:x:46:\nusers:x:100:\n",
    "/sys/class/drm/version": b"drm 1.1.0\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": b"always [madvise] never\n",
}
"""A small x86-64 machine with four processors and no GPU."""


RENDER_GROUP = 992


def pci(address: str, ids: str, kind: str = "0x030000", driver: str = "") -> dict[str, bytes | str]:
    """The sysfs files of one PCI function; `ids` is "vendor:device"."""
    folder = f"/sys/bus/pci/devices/{address}"
    vendor, device = ids.split(":")
    files: dict[str, bytes | str] = {
        f"{folder}/class": f"{kind}\n".encode(),
        f"{folder}/vendor": f"0x{vendor}\n".encode(),
        f"{folder}/device": f"0x{device}\n".encode(),
        f"{folder}/resource0": b"",
        f"{folder}/resource": b"0x0000008000000000 0x000000800fffffff 0x000000000014220c\n",
    }
    if driver:
        files[f"{folder}/driver"] = f"../../../../bus/pci/drivers/{driver}"
    return files


def enclosure(
    ids: str, product: str, *, address: str = "2-1", serial: str = "c0ffee01"
) -> dict[str, bytes | str]:
    """The files of one USB device; `ids` is "vendor:product"."""
    folder = f"/sys/bus/usb/devices/{address}"
    vendor, number = ids.split(":")
    return {
        f"{folder}/idVendor": f"{vendor}\n".encode(),
        f"{folder}/idProduct": f"{number}\n".encode(),
        f"{folder}/product": f"{product}\n".encode(),
        f"{folder}/serial": f"{serial}\n".encode(),
        f"{folder}/busnum": b"2\n",
        f"{folder}/devnum": b"7\n",
        f"{folder}/speed": b"10000\n",
        "/dev/bus/usb/002/007": b"",
    }


class FakeMachine:
    """Files (bytes) and symbolic links (str). `denied` paths exist but may not be opened.

    Every operation that could change state raises AssertionError: the code under test only reads.
    """

    name = "fake"

    def __init__(self, files: Mapping[str, bytes | str], denied: tuple[str, ...] = ()) -> None:
        self.files, self.denied = dict(files), denied
        self.groups: dict[str, int] = {}
        self.refuses: dict[str, int] = {}
        """Nodes that this user may open by their mode, and what open(2) says nevertheless."""
        self.opened: list[str] = []
        self.fds: set[int] = set()
        self.touched: list[str] = []
        self.kept: dict[str, object] = {}

    def _fail(self, number: int, what: str) -> Exception:
        cause = OSError(number, os.strerror(number))
        error = translate(cause, what)
        error.__cause__ = cause
        return error

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        data = self.files.get(path)
        if not isinstance(data, bytes):
            raise self._fail(errno.ENOENT, f"read {path}")
        if path in self.denied:
            raise self._fail(errno.EACCES, f"read {path}")
        if len(data) > limit_bytes:
            raise MalformedInput(f"{path} is longer than {limit_bytes} bytes")
        return data

    def listdir(self, path: str) -> list[str]:
        start = path.rstrip("/") + "/"
        names = {name[len(start) :].split("/")[0] for name in self.files if name.startswith(start)}
        if not names:
            raise self._fail(errno.ENOENT, f"list {path}")
        return sorted(names)

    def readlink(self, path: str) -> str:
        target = self.files.get(path)
        if not isinstance(target, str):
            number = errno.EINVAL if self.exists(path) else errno.ENOENT
            raise self._fail(number, f"readlink {path}")
        return target

    def exists(self, path: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for name in self.files)

    def owning_group(self, path: str) -> int:
        """Group of nodes: render's in X86's /etc/group, or that in `groups`."""
        if not self.exists(path):
            raise self._fail(errno.ENOENT, f"stat {path}")
        return self.groups.get(path, RENDER_GROUP)

    def device_number(self, path: str) -> int:
        self.readlink(path)
        return 0

    def access(self, path: str, mode: int) -> bool:
        return self.exists(path) and path not in self.denied

    def _never(self, what: str) -> AssertionError:
        self.touched.append(what)
        return AssertionError(f"only looking is allowed, not {what}")

    def open(self, path: str, flags: int) -> int:
        """Of a node, as the probe and the doctor try it; `refuses` has its errno."""
        if not path.startswith("/dev/") or flags != os.O_RDWR:
            raise self._never(f"open {path}")
        number = errno.EACCES if path in self.denied else self.refuses.get(path, 0)
        if not self.exists(path) or number:
            raise self._fail(number or errno.ENOENT, f"open {path}")
        self.opened.append(path)
        self.fds.add(len(self.opened))
        return len(self.opened)

    def close(self, fd: int) -> None:
        self.fds.remove(fd)

    def write(self, path: str, data: bytes) -> None:
        raise self._never(f"write {path}")

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        raise self._never("ioctl")

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        raise self._never("a descriptor")

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        raise self._never("a descriptor")

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        raise self._never("a descriptor")

    def eventfd(self) -> int:
        raise self._never("a descriptor")

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        raise self._never("a descriptor")

    def reserve(self, nbytes: int) -> Region:
        raise self._never("reserve")

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
        raise self._never("mmap")

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        raise self._never("protect")

    def symbol(self, name: str) -> int:
        raise self._never("symbol")

    def library(self, name: str) -> NoReturn:
        """Its files are no libraries."""
        raise NotFound(f"{name} cannot be loaded")

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        raise self._never("function")

    def monotonic_s(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise self._never("sleep")

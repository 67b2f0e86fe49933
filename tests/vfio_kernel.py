"""A made-up kernel with one PCI function: VFIO's container, group, device and iommufd, and sysfs.

It is strict: it refuses what Linux refuses, with the same errno, and reports a violation for what
Linux forgives (memory freed while the device may reach it). Numbers: Linux 6.12's headers.
"""

from __future__ import annotations

import errno
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from drivers.base.contracts import Region
from drivers.base.region import MemoryRegion
from drivers.world.foreign import ForeignWorld
from tests.support import check
from tests.vfio_objects import Area, File
from tests.vfio_requests import REQUESTS, get_device

GPU, FOLDER = "0000:03:00.0", "/sys/bus/pci/devices/0000:03:00.0"
MAPS = "/proc/self/maps"
PAGE = 4096
HUGE = 2 << 20
BAR_BYTES = {0: 1 << 20, 2: 1 << 18, 5: 1 << 16}
REGION_SHIFT = 40
TYPE = ord(";") << 8
GET_DEVICE = TYPE + 106


@dataclass
class Options:
    """Properties of the machine."""

    driver: str = "vfio-pci"
    group: str = "14"
    group_name: str = ""
    cdev: bool = False
    viable: bool = True
    isolated: bool = True
    """Whether the platform remaps interrupts."""
    sparse: bool = False
    """BAR 5 can be mapped except for its second page."""
    denied: tuple[str, ...] = ()
    """Paths that this user may not open."""
    page_sizes: int = 0x4020_1000
    """Of the IOMMU: bit n is 2^n bytes."""
    locked_bytes: int = 1 << 30
    ranges: tuple[tuple[int, int], ...] = ((0, 0xFEDF_FFFF), (0xFEF0_0000, (1 << 48) - 1))
    msi: int = 1
    reset: bool = True
    stuck_master: bool = False
    frames: Callable[[int], int] = field(default=lambda page: 1 << 63 | (0x10_0000 + page % 512))
    """The pagemap entry of a page of huge memory, counted from its start."""


@dataclass
class Claimed:
    """The interface of a claim to a session."""

    method: str
    address: str = GPU


class VfioKernel:
    """Methods of a World that raise OSError; `world` is the World for drivers."""

    name = "made-up"

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.files = _files(self.options)
        self.links = {f"{FOLDER}/driver": f"../drivers/{self.options.driver}"}
        if not self.options.driver:
            self.links.clear()
        if self.options.group:
            self.links[f"{FOLDER}/iommu_group"] = f"../iommu_groups/{self.options.group}"
        self.config = bytearray(4096)
        struct.pack_into("<HHHH", self.config, 0, 0x1002, 0x744C, 0x0002, 0x0010)
        struct.pack_into("<6I", self.config, 0x10, 0xC, 0x80, 0x1000_000C, 0x80, 0, 0xFC90_0000)
        self.bars = {number: bytearray(nbytes) for number, nbytes in BAR_BYTES.items()}
        self.open_files: dict[int, File] = {}
        self.maps: dict[int, Area] = {}
        self.violations: list[str] = []
        self.log: list[str] = []
        self.slept_s = 0.0
        self.reported: set[int] = set()
        """Physical memory that was programmed into the device, by its host address."""
        self.stuck: list[str] = []
        """Lines of /proc/self/maps that stay because of a view of a BAR."""
        self._next = 50
        self.world = ForeignWorld(self)

    # Files

    def _fail(self, number: int, why: str) -> OSError:
        return OSError(number, why)

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        if path not in self.files:
            raise self._fail(errno.ENOENT, path)
        if path == MAPS:
            return "".join(self.stuck).encode()
        return self.files[path]

    def write(self, path: str, data: bytes) -> None:
        self.read(path)
        self.log.append(f"{path} <- {data.decode()}")

    def listdir(self, path: str) -> list[str]:
        start = path + "/"
        known = [*self.files, *self.links]
        names = {name[len(start) :].split("/")[0] for name in known if name.startswith(start)}
        if not names:
            raise self._fail(errno.ENOENT, path)
        return sorted(names)

    def readlink(self, path: str) -> str:
        if path not in self.links:
            raise self._fail(errno.ENOENT, path)
        return self.links[path]

    def exists(self, path: str) -> bool:
        return path in self.files

    def owning_group(self, path: str) -> int:
        return 0

    def device_number(self, path: str) -> int:
        self.readlink(path)
        return 0

    def access(self, path: str, mode: int) -> bool:
        return self.exists(path) and path not in self.options.denied

    def open(self, path: str, flags: int) -> int:
        self.read(path)
        if path in self.options.denied:
            raise self._fail(errno.EACCES, path)
        kind = path.rsplit("/", 1)[-1] if path.startswith(FOLDER) else path
        if path == f"/dev/vfio/{self.options.group}":
            kind = "group"
        if path.startswith("/dev/vfio/devices/"):
            kind = "device"
        taken = {other.kind for other in self.open_files.values()}
        if kind in {"group", "device"} and kind in taken:
            raise self._fail(errno.EBUSY, "open already")
        return self._new(File(kind, cdev=kind == "device"))

    def _new(self, file: File) -> int:
        self._next += 1
        self.open_files[self._next] = file
        return self._next

    def _file(self, fd: int, *kinds: str) -> File:
        file = self.open_files.get(fd)
        if file is None:
            raise self._fail(errno.EBADF, f"{fd} is not open")
        if kinds and file.kind not in kinds:
            raise self._fail(errno.ENOTTY, f"{file.kind} has no such request")
        return file

    def close(self, fd: int) -> None:
        file = self._file(fd)
        del self.open_files[fd]
        if file.kind == "device":
            file.event = None
            if self.master:
                self.violations.append("the device was closed while it was bus master")
            self._command(self.command & ~4)
        users = [
            f for f in self.open_files.values() if f.space is file.space and f.kind == "device"
        ]
        if file.kind != "device" and file.space and users:
            self.violations.append(f"{file.kind} was closed before its device")

    # Config space and BARs

    @property
    def command(self) -> int:
        return int.from_bytes(self.config[4:6], "little")

    def _command(self, value: int) -> None:
        if not self.options.stuck_master:
            self.config[4:6] = value.to_bytes(2, "little")

    @property
    def master(self) -> bool:
        return bool(self.command & 4)

    def _place(self, file: File, offset: int) -> tuple[bytearray, int]:
        if file.kind == "config":
            return self.config, offset
        region, off = offset >> REGION_SHIFT, offset & (1 << REGION_SHIFT) - 1
        if file.kind != "device" or not file.ready:
            raise self._fail(errno.EINVAL, "not a device that is ready")
        if region == 7:
            return self.config, off
        if not self.command & 2:
            raise self._fail(errno.EIO, "memory is not decoded")
        return self.bars[region], off

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        file = self._file(fd)
        if file.kind == "/proc/self/pagemap":
            return self._pagemap(nbytes, offset)
        data, off = self._place(file, offset)
        return bytes(data[off : off + nbytes])

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        target, off = self._place(self._file(fd), offset)
        if target is self.config and off == 4:
            self.log.append(f"COMMAND <- {int.from_bytes(data, 'little'):#x}")
            self._command(int.from_bytes(data, "little"))
        else:
            target[off : off + len(data)] = data

    def _pagemap(self, nbytes: int, offset: int) -> bytes:
        words = []
        for page in range(offset // 8, (offset + nbytes) // 8):
            area = next((a for a in self.maps.values() if a.has(page * PAGE)), None)
            huge = area is not None and area.huge
            words.append(self.options.frames(page - area.va // PAGE) if area and huge else 0)
        return struct.pack(f"<{len(words)}Q", *words)

    # Events

    def eventfd(self) -> int:
        return self._new(File("event"))

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        file = self._file(fd, "event")
        came, file.signals = file.signals, 0
        return came > 0

    def interrupt(self) -> bool:
        """The device sends its message; whether an eventfd received it."""
        for file in self.open_files.values():
            if file.kind == "device" and file.event is not None and self.master:
                file.event.signals += 1
                return True
        return False

    # Memory

    def mmap(
        self, fd: int, nbytes: int, offset: int = 0, *, write: bool = True,
        within: Region | None = None, at: int = 0, huge: bool = False,
    ) -> Region:  # fmt: skip
        if huge and nbytes % HUGE:
            raise self._fail(errno.EINVAL, "whole huge pages")
        memory = self._anonymous(nbytes) if fd == -1 else self._device_memory(fd, nbytes, offset)
        va = int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])
        self._next += 1
        number = self._next
        self.maps[number] = Area(va, nbytes, huge, memory if fd == -1 else None)
        return MemoryRegion(memory, cpu_va=va, on_close=lambda: self._unmapped(number))

    def _anonymous(self, nbytes: int) -> memoryview:
        return memoryview(mmap.mmap(-1, -(-nbytes // PAGE) * PAGE))[:nbytes]

    def _device_memory(self, fd: int, nbytes: int, offset: int) -> memoryview:
        file = self._file(fd)
        if file.kind.startswith("resource"):
            number, off = int(file.kind[8:].removesuffix("_wc")), offset
        else:
            number, off = offset >> REGION_SHIFT, offset & (1 << REGION_SHIFT) - 1
            if file.kind != "device" or not file.ready:
                raise self._fail(errno.EINVAL, "not a device that is ready")
            if self.options.sparse and number == 5 and off < 2 * PAGE and off + nbytes > PAGE:
                raise self._fail(errno.EINVAL, "this page may not be mapped")
        if number not in self.bars or off % PAGE or off + nbytes > BAR_BYTES[number]:
            raise self._fail(errno.EINVAL, f"BAR {number} has no {nbytes:#x} bytes at {off:#x}")
        return memoryview(self.bars[number])[off : off + nbytes]

    def _unmapped(self, number: int) -> None:
        area = self.maps.pop(number)
        spaces = {id(f.space): f.space for f in self.open_files.values() if f.space is not None}
        for space in spaces.values():
            if any(va < area.end and area.va < va + size for va, size in space.mapped.values()):
                self.violations.append(f"memory at {area.va:#x} was freed while the device has it")
        if area.va in self.reported and self.master:
            self.violations.append("physical memory was freed while the device was bus master")

    def device_access(self, address: int, data: bytes | None, nbytes: int = 0) -> bytes:
        """The device reads or writes host memory. Raises: PermissionError where it may not."""
        if not self.master:
            raise PermissionError("bus mastering is off")
        size = len(data) if data is not None else nbytes
        for file in self.open_files.values():
            mapped = file.space.mapped if file.space and file.kind == "device" else {}
            for iova, (va, length) in mapped.items():
                if iova <= address and address + size <= iova + length:
                    return self._host(va + address - iova, data, size)
        raise PermissionError(f"{address:#x} is not mapped")

    def _host(self, va: int, data: bytes | None, nbytes: int) -> bytes:
        area = next(a for a in self.maps.values() if a.has(va))
        start = va - area.va
        if data is not None and area.memory is not None:
            area.memory[start : start + nbytes] = data
        return b"" if area.memory is None else bytes(area.memory[start : start + nbytes])

    def locked_bytes(self) -> int:
        spaces = {id(f.space): f.space for f in self.open_files.values() if f.space is not None}
        return sum(size for space in spaces.values() for _, size in space.mapped.values())

    # Requests

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        file, number = self._file(fd), request - TYPE
        self.log.append(f"{file.kind} {number}")
        kind, call = REQUESTS.get(number, ("", None))
        if call is None or file.kind != kind:
            raise self._fail(errno.ENOTTY, f"{file.kind} has no request {number}")
        return call(self, file, argument)

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        group = self._file(fd, "group")
        self.log.append(f"group {request - TYPE}")
        if request != GET_DEVICE:
            raise self._fail(errno.ENOTTY, "no descriptor comes of it")
        if any(f.kind == "device" for f in self.open_files.values()):
            raise self._fail(errno.EBUSY, "open already")
        self._command(self.command & ~4)
        return self._new(get_device(self, group, argument))

    # The rest of a machine

    def reserve(self, nbytes: int) -> Region:
        raise self._fail(errno.ENOMEM, "no reservations")

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        raise self._fail(errno.EINVAL, "nothing is protected")

    def symbol(self, name: str) -> int:
        raise self._fail(errno.ENOENT, name)

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        raise self._fail(errno.ENOENT, hex(address))

    def monotonic_s(self) -> float:
        return self.slept_s

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def check_empty(self, what: str) -> None:
        """Check that no descriptor, mapping or permission is left, and no rule was broken."""
        check(not self.violations, f"{what}: {self.violations}")
        check(not self.open_files, f"{what}: open {[f.kind for f in self.open_files.values()]}")
        check(not self.maps, f"{what}: {len(self.maps)} mappings")
        check(not self.master, f"{what}: still bus master")


def _files(options: Options) -> dict[str, bytes]:
    lines = {
        0: (0x80_0000_0000, 0x14220C),
        2: (0x80_1000_0000, 0x14220C),
        5: (0xFC90_0000, 0x40200),
    }
    table = ""
    for bar in range(13):
        start, flags = lines.get(bar, (0, 0))
        end = start + BAR_BYTES[bar] - 1 if flags else 0
        table += f"0x{start:016x} 0x{end:016x} 0x{flags:016x}\n"
    files = {
        f"{FOLDER}/class": b"0x030000\n", f"{FOLDER}/vendor": b"0x1002\n",
        f"{FOLDER}/device": b"0x744c\n", f"{FOLDER}/resource": table.encode(),
        f"{FOLDER}/config": b"", f"{FOLDER}/driver_override": b"(null)\n",
        "/proc/self/pagemap": b"", MAPS: b"",
    }  # fmt: skip
    files |= {f"{FOLDER}/resource{bar}{end}": b"" for bar in BAR_BYTES for end in ("", "_wc")}
    if options.reset:
        files[f"{FOLDER}/reset"] = b""
    if options.group:
        files |= {"/dev/vfio/vfio": b"", f"/dev/vfio/{options.group}": b""}
        name = options.group_name.encode()
        if name:
            files[f"/sys/kernel/iommu_groups/{options.group}/name"] = name
    if options.cdev:
        files |= {"/dev/iommu": b"", "/dev/vfio/devices/vfio0": b""}
        files[f"{FOLDER}/vfio-dev/vfio0/dev"] = b"511:0\n"
    return files

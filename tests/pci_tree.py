"""A made-up sysfs and /proc in real files, with the part of the kernel that binds drivers.

Real files, so that several processes can share one machine and one of them can be killed. Writes
act as in Linux: drivers/base/bus.c, drivers/pci/pci-sysfs.c.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from drivers.base.contracts import Region
from drivers.base.errors import DeviceError, MalformedInput
from drivers.base.oserrors import translate
from drivers.base.region import MemoryRegion

GPU, AUDIO, BRIDGE = "0000:03:00.0", "0000:03:00.1", "0000:02:00.0"
BOOT_ID = "6f1c1ab0-5a0e-4b43-9d2e-0f4a6a8b7c11"
BUS = "/sys/bus/pci"
LINE = "0x{:016x} 0x{:016x} 0x{:016x}\n"
BAR_VRAM, BAR_DOORBELL, BAR_REGISTERS = 0, 2, 5
RESOURCES = {
    BAR_VRAM: (0x80_0000_0000, 0x83_FFFF_FFFF, 0x14220C),
    BAR_DOORBELL: (0x84_0000_0000, 0x84_0FFF_FFFF, 0x14220C),
    4: (0xE000, 0xE0FF, 0x40101),
    BAR_REGISTERS: (0xFC90_0000, 0xFC9F_FFFF, 0x40200),
}
"""A gfx1100 with a large BAR, as such a card's `resource` shows it."""


class PciTree:
    """Builds the machine. Paths are the machine's own ("/sys/...")."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("/proc/sys/kernel/random/boot_id", BOOT_ID)
        self.put("/proc/iomem", "00000000-0009ffff : System RAM")
        for driver in ("amdgpu", "vfio-pci", "snd_hda_intel", "pcieport", "nvidia"):
            self.driver(driver)
        self.put(f"{BUS}/drivers_probe", "")
        self.process(1, "init", [])

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def put(self, path: str, text: str) -> None:
        file = self.at(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n" if text else "")

    def link(self, path: str, target: str) -> None:
        file = self.at(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def driver(self, name: str) -> None:
        for file in ("bind", "unbind"):
            self.put(f"{BUS}/drivers/{name}/{file}", "")

    def function(
        self, address: str, ids: str, kind: str, driver: str = "", group: str = ""
    ) -> None:
        folder = f"{BUS}/devices/{address}"
        vendor, device = ids.split(":")
        self.put(f"{folder}/vendor", f"0x{vendor}")
        self.put(f"{folder}/device", f"0x{device}")
        self.put(f"{folder}/class", f"0x{kind}")
        self.put(f"{folder}/driver_override", "(null)")
        self.put(f"{folder}/enable", "1" if driver else "0")
        self.put(f"{folder}/power/control", "auto")
        lines = [LINE.format(*RESOURCES.get(bar, (0, 0, 0))) for bar in range(13)]
        self.put(f"{folder}/resource", "".join(lines).rstrip("\n"))
        self.put(f"/native/{address}", driver)
        if driver:
            self.link(f"{folder}/driver", f"../../../bus/pci/drivers/{driver}")
        if group:
            self.link(f"{folder}/iommu_group", f"../../../kernel/iommu_groups/{group}")
            target = os.path.relpath(
                self.at(folder), self.at(f"/sys/kernel/iommu_groups/{group}/devices")
            )
            self.link(f"/sys/kernel/iommu_groups/{group}/devices/{address}", target)

    def process(self, pid: int, name: str, files: list[str], maps: str = "") -> None:
        self.put(f"/proc/{pid}/comm", name)
        self.put(f"/proc/{pid}/maps", maps)
        self.at(f"/proc/{pid}/fd").mkdir(parents=True, exist_ok=True)
        for number, target in enumerate(files):
            self.link(f"/proc/{pid}/fd/{number}", target)

    def card(self, address: str, number: int) -> None:
        """The DRM nodes that a GPU's driver makes."""
        for name, minor in ((f"card{number}", number), (f"renderD{128 + number}", 128 + number)):
            self.put(f"{BUS}/devices/{address}/drm/{name}/dev", f"226:{minor}")

    def node(self, path: str, number: str) -> None:
        """A device node at any path."""
        self.put(f"/rdev{path}", number)

    def connector(self, address: str, name: str, status: str, enabled: str) -> None:
        folder = f"{BUS}/devices/{address}/drm/{name.partition('-')[0]}/{name}"
        self.put(f"{folder}/status", status)
        self.put(f"{folder}/enabled", enabled)

    def bound(self, address: str = GPU) -> str:
        link = self.at(f"{BUS}/devices/{address}/driver")
        return link.readlink().name if link.is_symlink() else ""

    def text(self, path: str) -> str:
        return self.at(path).read_text().strip()


def desktop(root: Path, *, audio: str = "", group: str = "14") -> PciTree:
    """A second GPU that may be claimed: bound to amdgpu, and unused."""
    tree = PciTree(root)
    tree.function(BRIDGE, "1002:1478", "060400", "pcieport", group)
    tree.function(GPU, "1002:744c", "030000", "amdgpu", group)
    tree.function(AUDIO, "1002:ab30", "040300", audio, group)
    tree.card(GPU, 1)
    tree.connector(GPU, "card1-DP-1", "disconnected", "disabled")
    tree.put(f"{BUS}/devices/{GPU}/boot_vga", "0")
    tree.put(f"{BUS}/devices/{GPU}/sriov_numvfs", "0")
    tree.process(812, "Xorg", ["/dev/dri/card0", "socket:[1234]", "/dev/dri/renderD128"])
    return tree


class TreeWorld:
    """A World over a tree. `writes` are all writes, `denied` the paths this user may not access."""

    name = "tree"

    def __init__(self, root: Path, denied: tuple[str, ...] = ()) -> None:
        self.root, self.denied = root, denied
        self.kept: dict[str, object] = {}
        self.writes: list[tuple[str, str]] = []
        self.opened: dict[int, str] = {}

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _fail(self, number: int, what: str) -> DeviceError:
        cause = OSError(number, os.strerror(number))
        error = translate(cause, what)
        error.__cause__ = cause
        return error

    def _do(self, what: str, path: str, call: Callable[[], object]) -> object:
        if any(path.startswith(denied) for denied in self.denied):
            raise self._fail(errno.EACCES, f"{what} {path}")
        try:
            return call()
        except OSError as error:
            raise translate(error, f"{what} {path}") from error

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        data = self._do("read", path, self.at(path).read_bytes)
        if not isinstance(data, bytes) or len(data) > limit_bytes:
            raise MalformedInput(f"{path} is longer than {limit_bytes} bytes")
        return data

    def listdir(self, path: str) -> list[str]:
        names = self._do("list", path, lambda: sorted(os.listdir(self.at(path))))
        return names if isinstance(names, list) else []

    def readlink(self, path: str) -> str:
        return str(self._do("readlink", path, lambda: os.readlink(self.at(path))))

    def exists(self, path: str) -> bool:
        return self.at(path).exists()

    def owning_group(self, path: str) -> int:
        self.at(path)
        return 0

    def device_number(self, path: str) -> int:
        """The file beside the tree for the node that a link of /proc names."""
        node = self.root / "rdev" / self.readlink(path).lstrip("/")
        return os.makedev(*map(int, node.read_text().split(":"))) if node.is_file() else 0

    def access(self, path: str, mode: int) -> bool:
        return self.exists(path) and not any(path.startswith(name) for name in self.denied)

    def write(self, path: str, data: bytes) -> None:
        self._do("write", path, lambda: self._written(path, data.decode()))

    def _written(self, path: str, text: str) -> None:
        self.writes.append((path, text))
        parts = path.split("/")
        word = text.strip()
        if path == f"{BUS}/drivers_probe":
            override = self.at(f"{BUS}/devices/{word}/driver_override").read_text().strip()
            native = self.at(f"/native/{word}").read_text().strip()
            self._bind(native if override == "(null)" else override, word)
        elif parts[-1] == "unbind":
            self._unbind(parts[-2], word)
        elif parts[-1] == "bind":
            if not self.at(path).exists():
                raise OSError(errno.ENOENT, "no such driver")
            self._bind(parts[-2], word)
        elif parts[-1] == "driver_override":
            self.at(path).write_text((word or "(null)") + "\n")
        elif parts[-1] == "enable":
            if self.at(path).with_name("driver").is_symlink():
                raise OSError(errno.EBUSY, "a driver has it")
            self._count(self.at(path), 1 if word == "1" else -1)
        elif parts[-1] == "control":
            self.at(path).write_text(text + "\n")
        else:
            raise OSError(errno.EACCES, path)

    def _unbind(self, driver: str, address: str) -> None:
        link = self.at(f"{BUS}/devices/{address}/driver")
        if not link.is_symlink() or link.readlink().name != driver:
            raise OSError(errno.ENODEV, "not bound to it")
        link.unlink()
        shutil.rmtree(self.at(f"{BUS}/devices/{address}/drm"), ignore_errors=True)
        if driver != "vfio-pci":
            self._count(self.at(f"{BUS}/devices/{address}/enable"), -1)

    def _bind(self, driver: str, address: str) -> None:
        folder = self.at(f"{BUS}/devices/{address}")
        override = (folder / "driver_override").read_text().strip()
        matches = override in ("(null)", driver)
        exists = self.at(f"{BUS}/drivers/{driver}").is_dir()
        if (folder / "driver").is_symlink() or not matches or not exists or not driver:
            raise OSError(errno.ENODEV, "it cannot be bound")
        (folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
        if driver != "vfio-pci":
            self._count(folder / "enable", 1)

    def _count(self, file: Path, change: int) -> None:
        """How often a function was enabled; vfio-pci does so while it is open.

        src: drivers/pci/pci-sysfs.c enable_store(), enable_show(): the count of pci_dev
        """
        count = int(file.read_text()) + change
        if count < 0:
            raise OSError(errno.EIO, "it is not enabled")
        file.write_text(f"{count}\n")

    def open(self, path: str, flags: int) -> int:
        self._do("open", path, self.at(path).stat)
        fd = 100 + len(self.opened)
        self.opened[fd] = path
        return fd

    def close(self, fd: int) -> None:
        del self.opened[fd]

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        raise self._fail(errno.ENOTTY, "ioctl")

    def ioctl_fd(self, fd: int, request: int, argument: bytearray | int) -> int:
        raise self._fail(errno.ENOTTY, "no such descriptor")

    def pread(self, fd: int, nbytes: int, offset: int) -> bytes:
        raise self._fail(errno.ENOTTY, "no such descriptor")

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        raise self._fail(errno.ENOTTY, "no such descriptor")

    def eventfd(self) -> int:
        raise self._fail(errno.ENOTTY, "no such descriptor")

    def wait_event(self, fd: int, timeout_s: float) -> bool:
        raise self._fail(errno.ENOTTY, "no such descriptor")

    def reserve(self, nbytes: int) -> Region:
        raise self._fail(errno.ENOMEM, "reserve")

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
        return MemoryRegion(bytearray(4096), name=f"{self.opened[fd]} of {nbytes} bytes")

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        raise self._fail(errno.EINVAL, "protect")

    def symbol(self, name: str) -> int:
        raise self._fail(errno.ENOENT, name)

    def function(self, address: int, nargs: int) -> Callable[..., int]:
        raise self._fail(errno.ENOENT, hex(address))

    def monotonic_s(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise self._fail(errno.EINTR, "sleep")

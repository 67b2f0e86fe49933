"""PCI functions, drivers and IOMMU groups as sysfs shows them; writes go to the made-up kernel.

src: Linux 6.12 Documentation/ABI/testing/sysfs-bus-pci, sysfs-kernel-iommu_groups,
src: sysfs-class-drm, sysfs-devices-power; drivers/pci/pci-sysfs.c for formats
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import partial

from boards.machine.file_tree import File, FileTree
from boards.machine.pci.kernel import VFIO, Kernel
from boards.machine.pci.open import ConfigFile, ResourceFile
from boards.machine.pci.slot import Slot

BUS = "/sys/bus/pci"
GROUPS = "/sys/kernel/iommu_groups"
_ROOT = "/sys/devices/pci0000:00"
_LINES = 13
"""src: include/linux/pci.h: 6 BARs, ROM, and room for SR-IOV and bridge windows"""
_BARS = 6
_FIRST_MINOR = 128
_DRM_MAJOR = 226


def folder_of(slot: Slot) -> str:
    """Where a function's files really are."""
    return f"{_ROOT}/{slot.address}"


def _word(data: bytes) -> str:
    return data.decode("ascii", "replace").strip()


class PciSysfs:
    """Keeps the tree as the kernel would; `connectors` ("DP-1" to status, enabled) are of GPUs."""

    def __init__(
        self, tree: FileTree, kernel: Kernel, connectors: Mapping[str, tuple[str, str]]
    ) -> None:
        self._tree, self._kernel = tree, kernel
        self._connectors = connectors
        tree.put(f"{BUS}/drivers_probe", write=lambda data: kernel.probe(_word(data)))
        for name in kernel.drivers:
            folder = f"{BUS}/drivers/{name}"
            tree.put(f"{folder}/bind", write=partial(self._bind, name))
            tree.put(f"{folder}/unbind", write=partial(self._unbind, name))
            tree.put(f"{folder}/new_id", write=self._no_ids)
        for slot in kernel.slots.values():
            self._function(slot)

    def _bind(self, driver: str, data: bytes) -> None:
        self._kernel.bind(driver, _word(data))

    def _unbind(self, driver: str, data: bytes) -> None:
        self._kernel.unbind(driver, _word(data))

    def _no_ids(self, data: bytes) -> None:
        """An id would bind every such function of the machine, asked for or not."""
        self._kernel.find("write to new_id", _word(data), "it takes functions that were not named")
        raise OSError(errno.EACCES, "new_id is not for this")

    # One function

    def _function(self, slot: Slot) -> None:
        tree, folder = self._tree, folder_of(slot)

        def put(
            name: str, read: Callable[[], str], write: Callable[[str], None] | None = None
        ) -> None:
            taken = None if write is None else lambda data, to=write: to(data.decode("ascii"))
            tree.put(f"{folder}/{name}", lambda: f"{read()}\n".encode(), taken)

        tree.link(f"{BUS}/devices/{slot.address}", f"../../..{folder.removeprefix('/sys')}")
        put("vendor", lambda: f"0x{slot.word(0):04x}")
        put("device", lambda: f"0x{slot.word(2):04x}")
        put("revision", lambda: f"0x{slot.word(8, 1):02x}")
        put("class", lambda: f"0x{slot.word(8, 4) >> 8:06x}")
        put("subsystem_vendor", lambda: f"0x{slot.word(0x2C):04x}")
        put("subsystem_device", lambda: f"0x{slot.word(0x2E):04x}")
        put("enable", lambda: str(slot.enabled), partial(self._kernel.enable, slot))
        override = partial(self._kernel.override, slot)
        put("driver_override", lambda: slot.override or "(null)", override)
        put("power/control", lambda: slot.power, partial(self._power, slot))
        put("power/runtime_status", lambda: "active")
        put("numa_node", lambda: "-1")
        tree.place(f"{folder}/config", self._config(slot))
        tree.put(f"{folder}/resource", partial(self._resource, slot))
        if slot.group:
            tree.link(f"{folder}/iommu_group", f"../../../kernel/iommu_groups/{slot.group}")
            link = f"{GROUPS}/{slot.group}/devices/{slot.address}"
            tree.link(link, f"../../../../devices/{folder.removeprefix('/sys/devices/')}")
        if slot.gpu is not None:
            self._gpu(slot, put)

    def _gpu(self, slot: Slot, put: Callable[..., None]) -> None:
        folder = folder_of(slot)
        if slot.word(8, 4) >> 16 == 0x0300:
            put("boot_vga", lambda: str(int(slot.boot_vga)))
        put("sriov_numvfs", lambda: str(slot.virtual_functions))
        if slot.can_reset:
            put("reset", lambda: "", lambda text: slot.reset())
        for bar, facts in slot.gpu.bars.items() if slot.gpu is not None else ():
            for suffix in ("", "_wc") if facts.prefetchable else ("",):
                path = f"{folder}/resource{bar}{suffix}"
                self._tree.place(path, File(opens=partial(ResourceFile, path, slot, bar)))
            if slot.sizes(bar):
                put(f"resource{bar}_resize", partial(self._sizes, slot, bar),
                    partial(self._resize, slot, bar))  # fmt: skip

    def _config(self, slot: Slot) -> File:
        path = f"{folder_of(slot)}/config"
        return File(lambda: slot.config.read(0, 4096), opens=partial(ConfigFile, path, slot))

    def _power(self, slot: Slot, text: str) -> None:
        if text.strip() not in ("on", "auto"):
            raise OSError(errno.EINVAL, f"{text!r} is neither on nor auto")
        slot.power = text.strip()

    def _resource(self, slot: Slot) -> bytes:
        lines = []
        for bar in range(_LINES):
            nbytes = slot.bar_bytes(bar) if bar < _BARS else 0
            start = slot.starts.get(bar, 0)
            numbers = (start, start + nbytes - 1, slot.flags(bar)) if nbytes else (0, 0, 0)
            lines.append("0x{:016x} 0x{:016x} 0x{:016x}\n".format(*numbers))
        return "".join(lines).encode()

    def _sizes(self, slot: Slot, bar: int) -> str:
        return f"{slot.sizes(bar):016x}"

    def _resize(self, slot: Slot, bar: int, text: str) -> None:
        if not text.strip().isdigit():
            raise OSError(errno.EINVAL, f"{text!r} is no size")
        slot.resize(bar, int(text))

    # What a binding changes

    def refresh(self, slot: Slot) -> None:
        """A function was bound or let go."""
        tree, folder = self._tree, folder_of(slot)
        number = self._number(slot)
        for path in ("driver", "drm", "vfio-dev"):
            tree.remove(f"{folder}/{path}")
        for node in (f"card{number}", f"renderD{_FIRST_MINOR + number}"):
            tree.remove(f"/dev/dri/{node}")
            tree.remove(f"/sys/class/drm/{node}")
        for name in self._kernel.drivers:
            tree.remove(f"{BUS}/drivers/{name}/{slot.address}")
        if not slot.driver:
            return
        tree.link(f"{folder}/driver", f"../../../bus/pci/drivers/{slot.driver}")
        target = f"../../../..{folder.removeprefix('/sys')}"
        tree.link(f"{BUS}/drivers/{slot.driver}/{slot.address}", target)
        if self._kernel.drivers[slot.driver].renders:
            self._drm(slot, number)
        elif slot.driver == VFIO and slot.gpu is not None:
            tree.put(f"{folder}/vfio-dev/vfio{number}/dev", b"511:%d\n" % number)

    def _number(self, slot: Slot) -> int:
        gpus = [one for one in self._kernel.slots.values() if one.gpu is not None]
        return gpus.index(slot) if slot in gpus else len(gpus)

    def _drm(self, slot: Slot, number: int) -> None:
        folder = f"{folder_of(slot)}/drm"
        for node, minor in ((f"card{number}", number), (f"renderD{128 + number}", 128 + number)):
            self._tree.put(f"{folder}/{node}/dev", f"{_DRM_MAJOR}:{minor}\n".encode())
            self._tree.link(f"{folder}/{node}/device", f"../../../{slot.address}")
            self._tree.put(f"/dev/dri/{node}")
            self._tree.link(f"/sys/class/drm/{node}", f"{folder}/{node}")
        for name, (status, enabled) in self._connectors.items():
            connector = f"{folder}/card{number}/card{number}-{name}"
            self._tree.put(f"{connector}/status", f"{status}\n".encode())
            self._tree.put(f"{connector}/enabled", f"{enabled}\n".encode())

"""Which processes hold a function: its nodes, the nodes its driver shares, its BARs.

Source: proc(5), /proc/PID/fd and /proc/PID/maps; Linux Documentation/gpu/drm-uapi.rst.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import Denied, DeviceError
from drivers.base.oserrors import errno_of
from drivers.pci.functions import PciFunction
from drivers.pci.strict import linked_name, names_in

_SHARED = {
    "amdgpu": ("kfd",),
    "nvidia": ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"),
}
"""Nodes in /dev through which any GPU of a driver may be used: who holds one may use this GPU."""
_NUMBERED = {"nvidia": "nvidia"}
"""Drivers whose nodes are not below the function in sysfs: any /dev/nvidia0, 1, ... counts."""
_NODE_FOLDERS = frozenset({"dev", "dri"})
"""Where nodes are, in this mount namespace (/dev, /dev/dri) or in another one."""
_MAPS_BYTES = 1 << 26
_DELETED = " (deleted)"
_GONE = frozenset({errno.ENOENT, errno.ESRCH})


@dataclass(frozen=True, slots=True)
class Nodes:
    """What a process may hold: names of nodes wherever they are mounted, whole paths, BARs."""

    names: frozenset[str]
    paths: frozenset[str]
    address: str
    numbered: str

    def has(self, target: str) -> bool:
        """Whether an open file, or a mapped one, is one of them."""
        target = target.removesuffix(_DELETED)
        folder, _, name = target.rpartition("/")
        if target in self.paths:
            return True
        if folder.rpartition("/")[2] in _NODE_FOLDERS:
            number = name.removeprefix(self.numbered) if self.numbered else ""
            return name in self.names or (number != name and number.isdigit())
        return name.startswith("resource") and folder.endswith(f"/{self.address}")


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, and one thing of the function that it has."""

    pid: int
    target: str
    evidence: str


def nodes_of(world: World, function: PciFunction) -> Nodes:
    """Every node of a function and of its driver."""
    folder = function.folder
    cards = names_in(world, f"{folder}/drm")
    names = set(cards) | set(names_in(world, f"{folder}/graphics"))
    names |= {name for name in names_in(world, folder) if name.startswith("i2c-")}
    for card in cards:
        for connector in names_in(world, f"{folder}/drm/{card}"):
            if connector.startswith(f"{card}-"):
                inside = names_in(world, f"{folder}/drm/{card}/{connector}")
                names |= {name for name in inside if name.startswith("drm_dp_aux")}
    names |= set(_SHARED.get(function.driver, ()))
    paths = {f"/dev/vfio/devices/{name}" for name in names_in(world, f"{folder}/vfio-dev")}
    if function.driver == "vfio-pci":
        group = linked_name(world, f"{folder}/iommu_group")
        paths |= {f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}"}
    numbered = _NUMBERED.get(function.driver, "")
    return Nodes(frozenset(names), frozenset(paths), function.address, numbered)


def holders(world: World, nodes: Nodes) -> tuple[list[Holder], list[int]]:
    """Processes that hold any of the nodes, and processes that this user may not look into."""
    found: list[Holder] = []
    unseen: list[int] = []
    for entry in names_in(world, "/proc"):
        if not entry.isascii() or not entry.isdigit():
            continue
        try:
            holder = next(_of_process(world, int(entry), nodes), None)
        except Denied:
            unseen.append(int(entry))
            continue
        except DeviceError as error:
            if errno_of(error) not in _GONE:
                raise
            continue  # it ended meanwhile
        if holder is not None:
            found.append(holder)
    return found, unseen


def _of_process(world: World, pid: int, nodes: Nodes) -> Iterator[Holder]:
    """What one process holds: open files first, then mappings, which outlive their files."""
    for number in world.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{number}"
        try:
            target = world.readlink(path)
        except DeviceError as error:
            if errno_of(error) not in _GONE:
                raise
            continue  # closed meanwhile
        if nodes.has(target):
            yield Holder(pid, target, path)
    path = f"/proc/{pid}/maps"
    for line in world.read(path, _MAPS_BYTES).decode("ascii", "replace").splitlines():
        target = line.partition("/")[2]
        if target and nodes.has(f"/{target}"):
            yield Holder(pid, f"/{target}", path)

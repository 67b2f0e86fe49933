"""Which processes hold a function: its nodes, the nodes its driver shares, its BARs.

Source: proc(5), /proc/PID/fd and /proc/PID/maps; Linux Documentation/gpu/drm-uapi.rst.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import Denied, DeviceError
from drivers.base.kernel_driver import KernelDriver
from drivers.base.oserrors import errno_of
from drivers.kinds import kernel_drivers
from drivers.pci.functions import PciFunction
from drivers.pci.strict import device_number, linked_name, names_in

_DRIVERS = {driver.name: driver for driver in kernel_drivers()}
_UNKNOWN = KernelDriver("")
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
    numbers: frozenset[int]
    """Device numbers: a node with one of them may be anywhere, under any name."""

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
    nodes = dict(_nodes(world, function))
    files = list(nodes.values())
    paths: set[str] = set()
    for name in names_in(world, f"{folder}/vfio-dev"):
        paths.add(f"/dev/vfio/devices/{name}")
        files.append(f"{folder}/vfio-dev/{name}/dev")
    group = linked_name(world, f"{folder}/iommu_group")
    if function.driver == "vfio-pci" and group:
        paths |= {f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}"}
        files.append(f"/sys/class/vfio/{group}/dev")
    numbers = frozenset(filter(None, (device_number(world, file) for file in files)))
    numbered = _DRIVERS.get(function.driver, _UNKNOWN).numbered
    return Nodes(frozenset(nodes), frozenset(paths), function.address, numbered, numbers)


def _nodes(world: World, function: PciFunction) -> Iterator[tuple[str, str]]:
    """Names of nodes below /dev, and the files of sysfs that have their device numbers."""
    folder = function.folder
    for parent in (f"{folder}/drm", f"{folder}/graphics"):
        for name in names_in(world, parent):
            yield name, f"{parent}/{name}/dev"
    for name in names_in(world, folder):
        if name.startswith("i2c-"):
            yield name, f"{folder}/{name}/i2c-dev/{name}/dev"
    for card in names_in(world, f"{folder}/drm"):
        for connector in names_in(world, f"{folder}/drm/{card}"):
            if connector.startswith(f"{card}-"):
                inside = f"{folder}/drm/{card}/{connector}"
                channels = [one for one in names_in(world, inside) if one.startswith("drm_dp_aux")]
                yield from ((name, f"{inside}/{name}/dev") for name in channels)
    for name in _DRIVERS.get(function.driver, _UNKNOWN).shared:
        yield name, f"/sys/class/{name}/{name}/dev"


def holders(world: World, nodes: Nodes) -> tuple[list[Holder], list[int]]:
    """Processes that hold any of the nodes, and processes that this user may not inspect.

    Process 1 is there in any case: where it is not listed, those of other users are not either.
    """
    found: list[Holder] = []
    entries = names_in(world, "/proc")
    unseen = [] if "1" in entries else [1]
    for entry in entries:
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
        elif nodes.numbers and target.startswith("/") and _is_node(world, path, nodes):
            yield Holder(pid, f"{target}, which is a node of it", path)
    path = f"/proc/{pid}/maps"
    for line in world.read(path, _MAPS_BYTES).decode("ascii", "replace").splitlines():
        target = line.partition("/")[2]
        if target and nodes.has(f"/{target}"):
            yield Holder(pid, f"/{target}", path)


def _is_node(world: World, path: str, nodes: Nodes) -> bool:
    """Whether an open file is one of the nodes, made anywhere (mknod, a container)."""
    try:
        return world.device_number(path) in nodes.numbers
    except DeviceError as error:
        if errno_of(error) not in _GONE:
            raise
        return False  # closed meanwhile

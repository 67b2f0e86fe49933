"""Which processes use a GPU, as far as this user may see: names, open nodes, memory.

A process of another user shows its name, and nothing that it holds: it is counted as unseen.
Source: proc(5), /proc/PID/{comm,fd,fdinfo}; Linux Documentation/gpu/drm-usage-stats.rst
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.machine.text import entries, fields, first_line, read_text

_DRI: Final = "/dev/dri/"
_MEMORY: Final = ("drm-memory-vram", "drm-total-vram", "drm-resident-memory", "drm-total-memory")
"""Names of the same: amdgpu's, and what msm and other drivers print. The first that is there."""
_SIZE: Final = re.compile(r"([0-9]{1,18})(?: (KiB|MiB|kB))?")
_UNITS: Final = {None: 0, "KiB": 10, "kB": 10, "MiB": 20}
_PID: Final = re.compile(r"[1-9][0-9]{0,9}")
UNSEEN: Final = "processes of other users are not visible here: root sees all"


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that uses a GPU."""

    pid: int
    name: str
    """"" where /proc does not show it, as of another PID namespace."""
    memory_bytes: int | None = None
    """What the kernel counts for it; None where it counts nothing."""

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return {"pid": self.pid, "name": self.name or None, "memory_bytes": self.memory_bytes}


@dataclass(slots=True)
class Users:
    """Processes by GPU, and how many processes could not be inspected."""

    by_gpu: dict[str, list[GpuProcess]] = field(default_factory=dict)
    unseen: int = 0

    def of(self, gpu: str) -> list[GpuProcess]:
        """Processes of one GPU, in the order of their process ids."""
        return sorted(self.by_gpu.get(gpu, ()), key=lambda one: one.pid)


def process_name(world: World, pid: int) -> str:
    """The command's name, at most 15 characters; "" where there is no such process."""
    try:
        return first_line(world, f"/proc/{pid}/comm")
    except DeviceError:
        return ""


def pids(world: World, folder: str = "/proc") -> list[int]:
    """Numbers of processes that a folder lists. Raises: what listing it gives."""
    return sorted(int(name) for name in entries(world, folder) if _PID.fullmatch(name))


def _inspected(world: World, users: Users) -> list[int]:
    """Processes that /proc lists; where it lists none, there is one that is not seen."""
    try:
        found = pids(world)
    except DeviceError:
        found = []
    users.unseen += not found
    return found


def open_files(world: World, pid: int) -> Iterator[tuple[str, str]]:
    """(number, what it leads to) of a process's open files. Raises: Denied and others."""
    for number in world.listdir(f"/proc/{pid}/fd"):
        try:
            target = world.readlink(f"/proc/{pid}/fd/{number}")
        except DeviceError:  # closed meanwhile
            continue
        yield number, target


def holders(world: World, nodes: Mapping[str, str]) -> Users:
    """Processes that have a node open; `nodes` is a path -> the GPU it belongs to."""
    users = Users()
    for pid in _inspected(world, users):
        try:
            held = {nodes[target] for _, target in open_files(world, pid) if target in nodes}
        except DeviceError:
            users.unseen += 1
            continue
        for gpu in held:
            users.by_gpu.setdefault(gpu, []).append(GpuProcess(pid, process_name(world, pid)))
    return users


def drm_users(world: World, gpus: Iterable[str]) -> Users:
    """Processes that have a DRM node of these PCI addresses open, with their memory there."""
    users, wanted = Users(), set(gpus)
    for pid in _inspected(world, users):
        try:
            sizes = _clients(world, pid)
        except DeviceError:
            users.unseen += 1
            continue
        for gpu in wanted & sizes.keys():
            process = GpuProcess(pid, process_name(world, pid), sizes[gpu])
            users.by_gpu.setdefault(gpu, []).append(process)
    return users


def _clients(world: World, pid: int) -> dict[str, int | None]:
    """PCI address -> bytes of one process; descriptors of one client count once."""
    found: dict[tuple[str, str], int | None] = {}
    for number, target in open_files(world, pid):
        if not target.startswith(_DRI):
            continue
        try:
            shown = dict(fields(read_text(world, f"/proc/{pid}/fdinfo/{number}")))
        except DeviceError:  # closed meanwhile, or a driver without statistics
            continue
        if "drm-pdev" in shown:
            key = shown["drm-pdev"], shown.get("drm-client-id", number)
            found[key] = _memory(shown)
    sums: dict[str, int | None] = {}
    for (address, _), size in found.items():
        before = sums.get(address)
        sums[address] = before if size is None else (before or 0) + size
    return sums


def _memory(shown: Mapping[str, str]) -> int | None:
    for name in _MEMORY:
        match = _SIZE.fullmatch(shown.get(name, ""))
        if match is not None:
            return int(match[1]) << _UNITS[match[2]]
    return None

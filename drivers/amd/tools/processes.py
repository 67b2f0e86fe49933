"""Which processes use each AMD GPU, and how much of its memory: from KFD, and from DRM nodes.

KFD lists every compute process to every user, with its VRAM on each GPU; DRM's statistics are those
of processes that this user may inspect. Where both count, the larger number is shown: since Linux
6.x the statistics of a render node that KFD was given hold KFD's memory, too.

Source: Linux 6.12, amdkfd/kfd_process.c kfd_procfs_add_sysfs_files() (proc/PID/vram_GPUID, bytes);
amdgpu/amdgpu_fdinfo.c
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.kfd.properties import number_file
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.machine.processes import GpuProcess, Users, drm_users, pids, process_name
from drivers.machine.text import entries

PROCESSES: Final = "/sys/class/kfd/kfd/proc"
_VRAM: Final = re.compile(r"vram_([0-9]{1,10})")
_BITS: Final = 64


def gpu_users(world: World, addresses: Sequence[str], nodes: Sequence[GpuNode]) -> Users:
    """Processes of the GPUs at these PCI addresses; `nodes` are KFD's, partitions among them."""
    users = drm_users(world, addresses)
    at = {node.gpu_id: f"{node.pci_address[:-1]}0" for node in nodes}
    at |= {node.gpu_id: node.pci_address for node in nodes if node.pci_address in addresses}
    try:
        listed = pids(world, PROCESSES)
    except DeviceError:
        return users  # without KFD's list DRM's is all there is
    for pid in listed:
        for address, nbytes in _kfd_bytes(world, pid, at).items():
            _add(users, address, GpuProcess(pid, process_name(world, pid), nbytes))
    return users


def _kfd_bytes(world: World, pid: int, at: Mapping[int, str]) -> dict[str, int]:
    """PCI address -> bytes of VRAM of one process; GPUs on which it has none are left out."""
    found: dict[str, int] = {}
    try:
        names = entries(world, f"{PROCESSES}/{pid}")
    except DeviceError:  # it ended meanwhile
        return found
    for name in names:
        match = _VRAM.fullmatch(name)
        address = at.get(int(match[1])) if match is not None else None
        if address is None:
            continue
        try:
            nbytes = number_file(world, f"{PROCESSES}/{pid}/{name}", _BITS)
        except DeviceError:
            continue
        if nbytes:
            found[address] = found.get(address, 0) + nbytes
    return found


def _add(users: Users, address: str, process: GpuProcess) -> None:
    """A process of KFD's list: in place of the same one of DRM's, with the larger number."""
    others = users.by_gpu.setdefault(address, [])
    same = next((one for one in others if one.pid == process.pid), None)
    if same is None:
        others.append(process)
    elif (same.memory_bytes or 0) < (process.memory_bytes or 0):
        others[others.index(same)] = process

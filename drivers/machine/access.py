"""Whether a device node can be opened, which is tried, and if not, why and what to do about it.

access(2) knows owner and mode alone: a node without a driver, a device cgroup or a file system that
is mounted nodev are seen by open(2). The probe and the doctor open a node and close it again:

* /dev/kfd: makes a process object of KFD's, which ends with this process, and starts no GPU.
  # src: Linux drivers/gpu/drm/amd/amdkfd/kfd_chardev.c, kfd_open (kfd_create_process), kfd_release
* /dev/dri/renderD*: makes and frees an address space. It wakes a GPU that sleeps, so that one is
  not opened. # src: amdgpu_kms.c, amdgpu_driver_open_kms (pm_runtime_get_sync)
* /dev/nvidiactl, /dev/nvidia-uvm, /dev/vfio/vfio: no GPU is behind them.

Where the first opening starts the GPU, mode and owner have to do: `_starts`. Choosing the default
device opens nothing.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from drivers.base.contracts import World
from drivers.base.errors import Denied, DeviceError
from drivers.machine.system import current_user, group_names
from drivers.machine.text import first_line, link_name

_ROOT: Final = "root"
_READ_WRITE: Final = os.R_OK | os.W_OK
# src: open-gpu-kernel-modules kernel-open/nvidia/nv.c, nv_open_device; downstream kgsl.c,
# kgsl_open_device (first_open); Linux drivers/gpu/drm/msm/msm_drv.c, msm_open (load_gpu)
_STARTS: Final = re.compile(r"/dev/(nvidia\d+|kgsl-.*)").fullmatch
_STARTING_DRIVERS: Final = ("msm",)


class Opened(NamedTuple):
    """Whether this user can open a node, else why not and what to do."""

    ok: bool
    reason: str
    advice: str = ""


def opened(world: World, path: str) -> Opened:
    """Try a node that is there: open(2) for reading and writing, and close(2)."""
    if why := _starts(world, path):
        if world.access(path, _READ_WRITE):
            return Opened(True, f"{path} may be opened by this user (not tried: {why})")
        return Opened(False, *denied(world, path))
    try:
        world.close(world.open(path, os.O_RDWR))
    except Denied as error:
        if world.access(path, _READ_WRITE):
            return Opened(False, error.message, error.hint)
        return Opened(False, *denied(world, path))
    except DeviceError as error:
        return Opened(False, error.message, error.hint)
    return Opened(True, f"{path} can be opened")


def _starts(world: World, path: str) -> str:
    """Why a node is not opened for a diagnostic; "" where that starts and wakes nothing."""
    if _STARTS(path):
        return "that would start the GPU"
    device = f"/sys/class/drm/{path.rpartition('/')[2]}/device"
    if not path.startswith("/dev/dri/"):
        return ""
    if link_name(world, f"{device}/driver").startswith(_STARTING_DRIVERS):
        return "that would start the GPU"
    asleep = first_line(world, f"{device}/power/runtime_status") in ("suspended", "suspending")
    return "that would wake the GPU" if asleep else ""


def denied(world: World, path: str) -> tuple[str, str]:
    """Why this user may not open a node, and what to do: its group, by number and name."""
    reason = f"{path} may not be opened by this user"
    try:
        user, names = current_user(world), group_names(world)
        number = str(world.owning_group(path))
    except DeviceError:
        return reason, "add this user to the groups render and video, then log in again"
    name = names.get(number, "")
    group = f"its group is {number}" + (f" ({name})" if name else ", which has no name here")
    if name in user.groups or number in user.groups:
        return reason, f"{group}, and the user is in it: see the node's mode with `ls -l {path}`"
    if not name or name == _ROOT:
        return reason, (
            f"{group}: in a container, `--group-add {number}`, the node's number outside; "
            "else install the rules that give it to the group render, then `udevadm trigger`"
        )
    return reason, f"{group}, and the user is not in it: `usermod -aG {name} USER`, log in again"

"""What can be known of this machine's AMD GPUs without opening anything."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from drivers.amd.chips import Chip, chip_of
from drivers.amd.cwsr import SaveArea, save_area
from drivers.amd.discovery import IpBlock, check_chip, read_ip_blocks
from drivers.amd.nodes import GpuNode
from drivers.amd.topology import read_topology
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, NotFound
from drivers.machine.system import current_user
from drivers.machine.text import hex_number

KFD_PATH = "/dev/kfd"
FIRMWARES = ("me", "pfp", "ce", "rlc", "mec", "mec2", "sdma", "sdma2", "mes", "mes_kiq", "imu",
             "smc", "sos", "vcn")  # fmt: skip
"""Those amdgpu shows as fw_version/NAME_fw_version. # src: amdgpu_ucode.c FW_VERSION_ATTR"""
_GROUPS = ("render", "video")


@dataclass(frozen=True, slots=True)
class Access:
    """Whether this user may open a device node, else why not and what to do."""

    path: str
    ok: bool
    reason: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: what KFD tells of it, and what stands in the way."""

    node: GpuNode
    render: Access
    chip: Chip | None = None
    area: SaveArea | None = None
    blocks: tuple[IpBlock, ...] = ()
    firmware: dict[str, int] = field(default_factory=dict)
    problems: tuple[DeviceError, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether the chip is known and nothing contradicts it."""
        return self.chip is not None and not self.problems


@dataclass(frozen=True, slots=True)
class Look:
    """The whole machine. `problem` is why no topology could be read."""

    kfd: Access
    gpus: tuple[Gpu, ...] = ()
    hidden: tuple[int, ...] = ()
    problem: DeviceError | None = None


def access(world: World, path: str) -> Access:
    """May this user open `path` for reading and writing?"""
    if not world.exists(path):
        return Access(
            path, False, f"{path} does not exist",
            "`modprobe amdgpu`; in a container, start it with --device=/dev/kfd --device=/dev/dri",
        )  # fmt: skip
    if world.access(path, os.R_OK | os.W_OK):
        return Access(path, True, f"{path} can be opened")
    return Access(path, False, f"{path} may not be opened by this user", _denied_advice(world))


def _denied_advice(world: World) -> str:
    try:
        user = current_user(world)
    except DeviceError:
        return "add this user to the groups render and video, then log in again"
    missing = [group for group in _GROUPS if group not in user.groups]
    if missing:
        shown = " and ".join(missing)
        return f"this user is not in {shown}: `usermod -aG {','.join(missing)} USER`, log in again"
    return "the user is in render and video: see the owner and mode of the node with `ls -l`"


def firmware(world: World, node: GpuNode) -> dict[str, int]:
    """Versions of the firmware that runs on a GPU; what amdgpu does not show is left out."""
    versions = {"mec": node.mec_firmware, "sdma": node.sdma_firmware}
    folder = f"/sys/class/drm/renderD{node.render_minor}/device/fw_version"
    for name in FIRMWARES:
        try:
            versions[name] = hex_number(world, f"{folder}/{name}_fw_version", 32)
        except NotFound:
            continue
    return {name: version for name, version in versions.items() if version}


def look_at(world: World, node: GpuNode) -> Gpu:
    """Everything about one GPU; each thing that cannot be read is a problem of its own."""
    problems: list[DeviceError] = []
    chip, area = None, None
    blocks: tuple[IpBlock, ...] = ()
    versions: dict[str, int] = {}
    try:
        chip = chip_of(node.gfx_target_version)
        area = save_area(chip, node)
    except DeviceError as error:
        problems.append(error)
    try:
        blocks = read_ip_blocks(world, node)
        if chip is not None:
            check_chip(chip, blocks)
    except DeviceError as error:
        problems.append(error)
    try:
        versions = firmware(world, node)
    except DeviceError as error:
        problems.append(error)
    render = access(world, node.render_path)
    return Gpu(node, render, chip, area, blocks, versions, tuple(problems))


def look(world: World) -> Look:
    """The machine's GPUs as KFD knows them. Opens and changes nothing."""
    kfd = access(world, KFD_PATH)
    try:
        topology = read_topology(world)
    except DeviceError as error:
        return Look(kfd, problem=error)
    return Look(kfd, tuple(look_at(world, node) for node in topology.gpus), topology.hidden)

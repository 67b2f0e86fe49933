"""What can be known of this machine's AMD GPUs without opening anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from drivers.amd.chips import Chip, chip_of
from drivers.amd.kfd.cwsr import SaveArea, save_area
from drivers.amd.kfd.discovery import CHECKED, HwId, IpBlock, Tables, check_chip, read_ip_blocks
from drivers.amd.kfd.nodes import BrokenNode, GpuNode, Topology
from drivers.amd.kfd.topology import read_topology
from drivers.amd.kfd.unified import with_machine_memory
from drivers.amd.kfd.visible import select
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, NotFound
from drivers.choice import VisibleList
from drivers.machine.access import denied, opened
from drivers.machine.buses import AMD, pci_listing
from drivers.machine.text import hex_number

KFD_PATH = "/dev/kfd"
FIRMWARES = ("me", "pfp", "ce", "rlc", "mec", "mec2", "sdma", "sdma2", "mes", "mes_kiq", "imu",
             "smc", "sos", "vcn")  # fmt: skip
"""Those amdgpu shows as fw_version/NAME_fw_version. # src: amdgpu_ucode.c FW_VERSION_ATTR"""


@dataclass(frozen=True, slots=True)
class Access:
    """Whether this user may open a device node, else why not and what to do."""

    path: str
    ok: bool
    reason: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: what KFD reports of it, and what prevents its use."""

    node: GpuNode
    render: Access
    chip: Chip | None = None
    area: SaveArea | None = None
    blocks: tuple[IpBlock, ...] = ()
    firmware: dict[str, int] = field(default_factory=dict)
    problems: tuple[DeviceError, ...] = ()
    notes: tuple[DeviceError, ...] = ()
    """Files that inform alone and could not be read: what they say is not known, no more."""
    masked: str = ""
    """Why it is not left to this process, if a variable of the environment says so."""

    @property
    def supported(self) -> bool:
        """Whether the chip is known and nothing contradicts it."""
        return self.chip is not None and not self.problems

    @property
    def numbered(self) -> bool:
        """Whether it is one of AMD:0, AMD:1, ...: this process may use and open it, too."""
        return self.supported and self.render.ok and not self.masked


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """An AMD GPU on PCI that KFD does not manage, and why that may be."""

    address: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class Look:
    """The whole machine. `problem` is why no topology could be read."""

    kfd: Access
    gpus: tuple[Gpu, ...] = ()
    """Those left to this process first, in the order that the environment gives them."""
    hidden: tuple[int, ...] = ()
    unmanaged: tuple[Unmanaged, ...] = ()
    problem: DeviceError | None = None
    broken: tuple[BrokenNode, ...] = ()
    """Nodes of KFD that are passed over, each with its reason."""

    def names(self) -> list[str]:
        """AMD:0, AMD:1, ... for those that can be opened, in their order; "-" for the others."""
        number, given = 0, []
        for gpu in self.gpus:
            given.append(f"AMD:{number}" if gpu.numbered else "-")
            number += gpu.numbered
        return given


def access(world: World, path: str, *, tried: bool = False) -> Access:
    """May this user open `path` for reading and writing? `tried`: open it and close it again."""
    if not world.exists(path):
        return Access(
            path, False, f"{path} does not exist",
            "`modprobe amdgpu`; in a container, start it with --device=/dev/kfd --device=/dev/dri",
        )  # fmt: skip
    if tried:
        return Access(path, *opened(world, path))
    if world.access(path, os.R_OK | os.W_OK):
        return Access(path, True, f"{path} may be opened by this user")
    return Access(path, False, *denied(world, path))


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


def look_at(world: World, node: GpuNode, tables: Tables | None = None) -> Gpu:
    """Everything about one GPU. What KFD does not need is a note where it cannot be read.

    With `tables`, only what decides whether it can be used: no firmware, two kinds of blocks.
    """
    problems: list[DeviceError] = []
    notes: list[DeviceError] = [*node.lacks]
    chip, area = None, None
    blocks: tuple[IpBlock, ...] = ()
    versions: dict[str, int] = {}
    try:
        chip = chip_of(node.gfx_target_version)
        area = save_area(chip, node)
    except DeviceError as error:
        problems.append(error)
    try:
        blocks = read_ip_blocks(world, node, HwId if tables is None else CHECKED, tables)
    except DeviceError as error:
        notes.append(error)
    else:
        problems += _contradiction(chip, blocks)
    try:
        versions = firmware(world, node) if tables is None else {}
    except DeviceError as error:
        notes.append(error)
    try:
        node = node if chip is None else with_machine_memory(world, chip, node)
    except DeviceError as error:
        notes.append(error)
    render = access(world, node.render_path, tried=tables is None)
    return Gpu(node, render, chip, area, blocks, versions, tuple(problems), tuple(notes))


def _contradiction(chip: Chip | None, blocks: tuple[IpBlock, ...]) -> list[DeviceError]:
    try:
        if chip is not None:
            check_chip(chip, blocks)
    except DeviceError as error:
        return [error]
    return []


def unmanaged(
    world: World, managed: frozenset[str], some_hidden: bool = False
) -> tuple[Unmanaged, ...]:
    """AMD's GPUs on PCI that are not among the managed addresses.

    With hidden or broken nodes, amdgpu's own are left out: any may be one of those nodes.
    """
    gpus, unread = pci_listing(world)
    found = [Unmanaged(one.address, one.reason, one.advice) for one in unread]
    for gpu in gpus:
        if gpu.vendor != AMD or gpu.address in managed:
            continue
        if some_hidden and gpu.driver == "amdgpu":
            continue
        if gpu.driver == "amdgpu":
            advice = "see `dmesg` for lines with kfd: PCIe atomics may be missing in its slot"
        elif gpu.driver:
            advice = f"give it back to amdgpu when {gpu.driver} no longer needs it"
        else:
            advice = "`modprobe amdgpu`"
        found.append(Unmanaged(gpu.address, f"{gpu}; KFD does not manage it", advice))
    return tuple(found)


def _whole(node: GpuNode) -> str:
    """The PCI function of the GPU that a node is, or is a partition of."""
    return node.pci_address[:-1] + "0"


def look(world: World, visible: Sequence[VisibleList] = ()) -> Look:
    """The machine's GPUs as KFD knows them, those that are `visible` first. Changes nothing."""
    kfd = access(world, KFD_PATH, tried=True)
    try:
        topology = read_topology(world)
    except DeviceError as error:
        return Look(kfd, unmanaged=_others(world, Topology(0, (), ())), problem=error)
    gpus = tuple(
        replace(look_at(world, node), masked=masked) for node, masked in _listed(topology, visible)
    )
    others = _others(world, topology)
    return Look(kfd, gpus, topology.hidden, others, broken=topology.broken)


def _listed(topology: Topology, visible: Sequence[VisibleList]) -> Iterator[tuple[GpuNode, str]]:
    """GPUs in the order that the environment gives them, and why one is not left to this process.

    Numbers in those lists count GPUs that are passed over, too.
    """
    places = topology.places
    ids = [node.unique_id if isinstance(node, GpuNode) else 0 for node in places]
    shown, masked = select(ids, visible)
    for at in [*shown, *sorted(masked)]:
        node = places[at]
        if isinstance(node, GpuNode):
            yield node, masked.get(at, "")


def usable(world: World, topology: Topology, visible: Sequence[VisibleList] = ()) -> Iterator[Gpu]:
    """GPUs of a topology, in order, with what opening needs alone, each when it is asked for."""
    tables: Tables = {}
    for node, masked in _listed(topology, visible):
        yield replace(look_at(world, node, tables), masked=masked)


def look_briefly(world: World, visible: Sequence[VisibleList] = ()) -> Look:
    """`look` without links, firmware and GPUs that KFD does not manage: what choosing needs."""
    kfd = access(world, KFD_PATH)
    try:
        topology = read_topology(world, links=False)
    except DeviceError as error:
        return Look(kfd, problem=error)
    gpus = tuple(usable(world, topology, visible))
    return Look(kfd, gpus, topology.hidden, broken=topology.broken)


def _others(world: World, topology: Topology) -> tuple[Unmanaged, ...]:
    nodes = topology.gpus
    managed = {node.pci_address for node in nodes} | {_whole(node) for node in nodes}
    unnamed = bool(topology.hidden) or any(node.gpu_id for node in topology.broken)
    try:
        return unmanaged(world, frozenset(managed), unnamed)
    except DeviceError as error:
        return (Unmanaged("", error.message, error.hint or "see `python -m drivers.doctor`"),)

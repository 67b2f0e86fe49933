"""The rules of claiming: each reads one thing in sysfs or /proc, and refuses with evidence.

A file that is not there is an answer; a file that cannot be read is an error, never an answer.
Source: Linux Documentation/ABI/testing/sysfs-bus-pci, sysfs-class-drm, sysfs-kernel-iommu_groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from drivers.base.contracts import World
from drivers.base.errors import NotFound
from drivers.claim.holders import holders, nodes_of
from drivers.claim.refusal import Reason, Refusal
from drivers.machine.text import hex_number
from drivers.pci.functions import BRIDGE, GROUPS, ROOT, PciFunction, group_members
from drivers.pci.strict import linked_name, names_in, number_or, proc_text, text_or_none

Rule: TypeAlias = Callable[[World, PciFunction], Iterator[Refusal]]
Known: TypeAlias = Callable[[PciFunction], bool]

_SHARED_GROUP = frozenset({"", "vfio-pci", "pci-stub"})
_BRIDGE_DRIVERS = _SHARED_GROUP | {"pcieport"}
"""Drivers that do no DMA of their own beside a user's device.

# src: drivers/pci/pcie/portdrv.c, pci-stub.c, drivers/vfio/pci/vfio_pci.c: driver_managed_dma
"""
_CLASS_BITS, _BASE_CLASS_SHIFT = 24, 16
_EXCLUSIVE = frozenset({"", "vfio-pci"})
"""Without a driver there are no nodes, and the kernel opens a device of VFIO once."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch
_FIRMWARE_NAMES = frozenset({"BOOTFB", "efifb", "simplefb", "vesafb", "simpledrm"})
"""Names under which a firmware's framebuffer owns memory.

# src: drivers/firmware/sysfb_simplefb.c; drivers/video/fbdev/{efifb,simplefb,vesafb}.c;
# src: drivers/gpu/drm/tiny/simpledrm.c
"""
_MIG = "/proc/driver/nvidia/capabilities"


def boot_display(world: World, function: PciFunction) -> Iterator[Refusal]:
    """The firmware put the boot messages on it."""
    if function.boot_vga:
        yield Refusal(
            Reason.BOOT_DISPLAY,
            "the machine booted with its display on this GPU",
            f"{function.folder}/boot_vga is 1",
            "use another GPU, or make another one the first display in the firmware's setup",
        )


def display(world: World, function: PciFunction) -> Iterator[Refusal]:
    """A connector is driven, and is not known to be empty."""
    for card in names_in(world, f"{function.folder}/drm"):
        for name in names_in(world, f"{function.folder}/drm/{card}"):
            if not name.startswith(f"{card}-"):
                continue
            folder = f"{function.folder}/drm/{card}/{name}"
            status = text_or_none(world, f"{folder}/status")
            enabled = text_or_none(world, f"{folder}/enabled")
            if status not in (None, "disconnected") and enabled not in (None, "disabled"):
                yield Refusal(
                    Reason.DISPLAY,
                    f"{name} is {status} and {enabled}",
                    f"{folder}/enabled",
                    "plug the display into another GPU, or end the desktop session on it",
                )


def console(world: World, function: PciFunction) -> Iterator[Refusal]:
    """Text consoles are drawn on it."""
    framebuffers = names_in(world, f"{function.folder}/graphics")
    if not framebuffers:
        return
    root = "/sys/class/vtconsole"
    for name in names_in(world, root):
        shown = text_or_none(world, f"{root}/{name}/name") or ""
        if "frame buffer" in shown and number_or(world, f"{root}/{name}/bind", 0):
            yield Refusal(
                Reason.CONSOLE,
                f"the text console is drawn on a framebuffer, and {framebuffers[0]} is this GPU's",
                f"{root}/{name}/bind is 1",
                f"as root: echo 0 > {root}/{name}/bind",
            )


def firmware_framebuffer(world: World, function: PciFunction) -> Iterator[Refusal]:
    """A framebuffer of the firmware lies in one of its BARs.

    # src: kernel/resource.c r_show(): two spaces for each level, then "start-end : name"
    """
    inside: int | None = None
    for line in proc_text(world, "/proc/iomem").splitlines():
        depth = len(line) - len(line.lstrip(" "))
        name = line.partition(" : ")[2].strip()
        if inside is not None and depth <= inside:
            inside = None
        if inside is None and name == function.address:
            inside = depth
        elif inside is not None and name in _FIRMWARE_NAMES:
            yield Refusal(
                Reason.FIRMWARE_FRAMEBUFFER,
                f"{name} draws into its memory",
                f"/proc/iomem: {line.strip()}",
                "use another GPU: this one has the display of the boot",
            )


def held(world: World, function: PciFunction) -> Iterator[Refusal]:
    """A process has one of its nodes, or one that its driver shares among GPUs."""
    nodes = nodes_of(world, function)
    found, unseen = holders(world, nodes)
    for holder in found:
        name = (text_or_none(world, f"/proc/{holder.pid}/comm") or "?")[:32]
        yield Refusal(
            Reason.HELD,
            f"process {holder.pid} ({name}) has {holder.target}",
            holder.evidence,
            f"end process {holder.pid} ({name})",
            holder.pid,
        )
    if unseen and function.driver not in _EXCLUSIVE:
        text, evidence = f"this user may not see what {len(unseen)} processes hold", "/fd"
        if not world.exists(f"/proc/{unseen[0]}"):
            text, evidence = "processes of other users are hidden (hidepid)", " is not there"
        yield Refusal(
            Reason.UNSEEN,
            text,
            f"/proc/{unseen[0]}{evidence}",
            "bind the GPU to vfio-pci beforehand, as root, or run this as root",
        )


def group(world: World, function: PciFunction) -> Iterator[Refusal]:
    """Another function of its slot, or of its IOMMU group, has a driver, used or not.

    A reset of the GPU resets its slot's functions under their drivers. amdgpu suspends the card's
    sound first and holds it suspended; only a kernel driver can. VFIO refuses, as we do.
    # src: amdgpu_device.c amdgpu_device_suspend_display_audio(); vfio_pci_core.c
    # src: vfio_pci_dev_set_hot_reset()
    """
    slot = function.address.rpartition(".")[0] + "."
    beside = {n: f"{ROOT}/{n}" for n in names_in(world, ROOT) if n.startswith(slot)}
    members = {
        name: f"{GROUPS}/{function.iommu_group}/devices/{name}"
        for name in group_members(world, function.iommu_group)
    }
    for name, folder in {**beside, **members}.items():
        if name == function.address:
            continue
        driver = linked_name(world, f"{folder}/driver")
        if driver not in (_BRIDGE_DRIVERS if _is_bridge(world, folder) else _SHARED_GROUP):
            how = "isolated only together with it" if name in members else "reset together with it"
            yield Refusal(
                Reason.GROUP,
                f"{name} is {how}, and {driver} drives it",
                f"{folder}/driver",
                f"if nothing needs it, as root: echo {name} > /sys/bus/pci/drivers/{driver}/unbind",
            )


def _is_bridge(world: World, folder: str) -> bool:
    """Whether a member of a group is a PCI bridge; a platform device has no class."""
    try:
        return hex_number(world, f"{folder}/class", _CLASS_BITS) >> _BASE_CLASS_SHIFT == BRIDGE
    except NotFound:
        return False


def virtual(world: World, function: PciFunction) -> Iterator[Refusal]:
    """Somebody was given a part of it, or it is itself a part."""
    if function.virtual_functions:
        yield Refusal(
            Reason.VIRTUAL_FUNCTIONS,
            f"{function.virtual_functions} virtual functions are switched on",
            f"{function.folder}/sriov_numvfs",
            f"end their users; then as root: echo 0 > {function.folder}/sriov_numvfs",
        )
    if function.physical_function:
        yield Refusal(
            Reason.IS_VIRTUAL,
            f"it is a virtual function of {function.physical_function}, which owns the hardware",
            f"{function.folder}/physfn",
            "use the physical function",
        )


def partitioned(world: World, function: PciFunction) -> Iterator[Refusal]:
    """Mediated devices or MIG instances are made of it."""
    for name in names_in(world, function.folder):
        if _UUID(name):
            yield Refusal(
                Reason.PARTITIONED,
                f"the mediated device {name} is made of it",
                f"{function.folder}/{name}",
                f"as root: echo 1 > {function.folder}/{name}/remove",
            )
    if function.driver != "nvidia":
        return
    for gpu in names_in(world, _MIG):
        instances = [n for n in names_in(world, f"{_MIG}/{gpu}/mig") if n.startswith("gi")]
        if instances:
            yield Refusal(
                Reason.PARTITIONED,
                f"{len(instances)} MIG instances exist on {gpu}",
                f"{_MIG}/{gpu}/mig/{instances[0]}",
                "as root: nvidia-smi mig -dci && nvidia-smi mig -dgi",
            )


RULES: tuple[Rule, ...] = (
    boot_display, display, console, firmware_framebuffer, virtual, partitioned, group, held,
)  # fmt: skip
"""Every rule; `held` is the last one, so that little happens between it and the first step."""


def refusals(world: World, function: PciFunction, known: Known) -> list[Refusal]:
    """Every reason not to take `function`, [] when it may be taken. Raises: DeviceError."""
    found: list[Refusal] = []
    if not function.is_gpu:
        text = f"its class is {function.class_code:06x}"
        found.append(
            Refusal(
                Reason.NOT_A_GPU, text, f"{function.folder}/class", "name a GPU: see `lspci -D`"
            )
        )
    if not known(function):
        text = f"{function.vendor:04x}:{function.device:04x} is not among the chips of this driver"
        found.append(
            Refusal(Reason.UNKNOWN_CHIP, text, f"{function.folder}/device", "use its kernel driver")
        )
    for rule in RULES:
        found += rule(world, function)
    return found

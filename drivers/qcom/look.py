"""What can be known of this machine's Adreno without opening anything: nodes, rights, readings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.machine.access import opened
from drivers.machine.buses import render_nodes
from drivers.machine.sysfs_files import SysfsFiles
from drivers.machine.text import MAX_ENTRIES, entries
from drivers.qcom.kgsl.iface import PATH as KGSL_NODE
from drivers.qcom.msm.iface import DRIVERS
from drivers.qcom.readings import KGSL, Readings, kgsl_readings, msm_readings

DRI: Final = "/dev/dri"
SELINUX: Final = "/sys/fs/selinux"
FIRMWARE: Final = "/lib/firmware/qcom"
ANDROID: Final = "/system/build.prop"
_SELINUX: Final = "SELinux decides, too: the vendor's policy names who may use it (try `adb shell`)"
KINDS: Final = {
    "the command processor's code (*_sqe.fw)": ("_sqe.fw",),
    "the power controller's code (*_gmu.bin)": ("_gmu.bin", "_rgmu.bin"),
    "the machine's signed zap shader (*zap.m*, qcdxkmsuc*.mbn)": ("zap.m", "qcdxkms"),
}
"""What msm loads, and a part of the names. # src: Linux, a6xx_catalog.c; A610 has no controller"""
_LEVELS: Final = 4
"""Of folders: the zap shaders of laptops lie below those of their makers."""


@dataclass(frozen=True, slots=True)
class Node:
    """One way to the GPU, and whether this user may take it."""

    way: str
    path: str
    title: str
    ok: bool
    reason: str
    advice: str = ""
    readings: Readings = field(default_factory=Readings)


@dataclass(frozen=True, slots=True)
class Look:
    """Everything that was seen."""

    nodes: tuple[Node, ...]
    android: bool
    enforcing: bool
    lacks: tuple[str, ...]
    """Kinds of firmware of which the folder that msm loads from has no file."""


def look(world: World) -> Look:
    """Read sysfs and the nodes' rights. Opens no device."""
    android = world.exists(ANDROID)
    enforcing = SysfsFiles(world, SELINUX).text("enforce") == "1"
    found: list[Node] = []
    if world.exists(KGSL_NODE):
        title = SysfsFiles(world, KGSL).text("gpu_model") or "Adreno"
        node = _node(world, "KGSL", KGSL_NODE, title, android and enforcing)
        found.append(replace(node, readings=kgsl_readings(world)))
    try:
        nodes = render_nodes(world)
    except DeviceError as error:
        found.append(Node("MSM", DRI, "nodes of msm", False, error.message, error.hint))
        nodes = {}
    for path, name in nodes.items():
        if name.startswith(DRIVERS):
            node = _node(world, "MSM", path, f"Adreno under {name}", False)
            found.append(replace(node, readings=msm_readings(world)))
    names = _files(world) if any(node.way == "MSM" for node in found) else []
    lacks = [kind for kind, parts in KINDS.items()
             if not any(part in name for name in names for part in parts)]  # fmt: skip
    return Look(tuple(found), android, enforcing, tuple(lacks))


def _files(world: World) -> list[str]:
    """Names of firmware, and of their folders, which have no dot in them."""
    names: list[str] = []
    folders = [FIRMWARE]
    for _ in range(_LEVELS):
        below: list[str] = []
        for folder in folders[:MAX_ENTRIES]:
            for name in _names(world, folder):
                names.append(name)
                below += [] if "." in name else [f"{folder}/{name}"]
        folders = below
    return names


def _names(world: World, folder: str) -> list[str]:
    """Names in a folder; [] where it cannot be listed."""
    try:
        return entries(world, folder)
    except DeviceError:
        return []


def _node(world: World, way: str, path: str, title: str, selinux: bool) -> Node:
    ok, reason, advice = opened(world, path)
    if ok:
        return Node(way, path, title, True, reason)
    return Node(way, path, title, False, reason, _SELINUX if selinux else advice)


def firmware_advice(found: Look) -> str:
    """What msm needs and the folder lacks; "" where there is no reason to say so."""
    msm = any(node.way == "MSM" for node in found.nodes)
    return f"{FIRMWARE} lacks {', '.join(found.lacks)}" if msm and found.lacks else ""

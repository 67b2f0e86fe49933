"""The doctor's checks. Each reads a few small files and yields lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from drivers.base.contracts import World
from drivers.base.errors import MalformedInput
from drivers.base.kernel_driver import KernelDriver
from drivers.choice import choose
from drivers.default import OTHERS, explain
from drivers.doctor import MISSING, OK, WARN, Check, Line
from drivers.doctor.compilers import compilers
from drivers.kinds import BEST_FIRST, kernel_drivers, named
from drivers.machine.access import opened
from drivers.machine.buses import pci_listing, render_nodes, usb_listing
from drivers.machine.presence import present
from drivers.machine.surroundings import surroundings
from drivers.machine.system import current_user, group_names, memlock_bytes
from drivers.machine.text import entries, fields, first_line, read_text, try_text
from drivers.usb.asm24.enclosures import enclosures
from drivers.usb.asm24.usb4 import usb4_enclosures

Lines = Iterator[Line]
_GROUPS = {
    "render": "/dev/dri/renderD* and /dev/kfd",
    "video": "/dev/dri/card* and some /dev/nvidia*",
    "plugdev": "USB enclosures",
}
_FIRMWARE = ("/lib/firmware", "/usr/lib/firmware")
_BARE_NODE, _BARE_MODULE = "/dev/vfio/vfio", "vfio_pci"
"""Of any GPU on PCI that is driven without its kernel driver."""
_PINNED_BYTES = 1 << 30
_MIB = 1 << 20


def here_of(world: World) -> list[KernelDriver]:
    """Kernel drivers of which something is in this machine: the others get no rows."""
    return [driver for driver in kernel_drivers() if present(world, driver)]


def nodes(world: World, environ: Mapping[str, str]) -> Lines:
    """Device nodes, and whether this user may open them."""
    here = here_of(world)
    advice = {path: hint for driver in here for path, hint in driver.nodes.items()}
    found_on_pci = bool(pci_listing(world)[0])
    if found_on_pci:
        advice[_BARE_NODE] = "GPUs without a kernel driver: `modprobe vfio-pci`"
    for path, driver in render_nodes(world).items():
        advice[path] = f"GPU of the kernel driver {driver or '?'}"
    for path, hint in advice.items():
        if not world.exists(path):
            yield Line("nodes", MISSING, f"{path} does not exist", hint)
        else:
            found = opened(world, path)
            yield Line("nodes", OK if found.ok else WARN, found.reason, found.advice)
    if (here or found_on_pci) and not any(path.startswith("/dev/dri/") for path in advice):
        hint = "the kernel driver of the GPU makes it"
        yield Line("nodes", MISSING, "/dev/dri/renderD* does not exist", hint)


def groups(world: World, environ: Mapping[str, str]) -> Lines:
    """Groups that own device nodes."""
    user = current_user(world)
    if user.uid == 0:
        yield Line("groups", WARN, "this is root", "no root is needed: use an ordinary user")
        return
    known = set(group_names(world).values())
    for name, owns in _GROUPS.items():
        if name in user.groups:
            yield Line("groups", OK, f"this user is in {name}")
        elif name in known:
            advice = f"for {owns}: `usermod -aG {name}` for this user, then log in again"
            yield Line("groups", WARN, f"this user is not in {name}", advice)
        else:
            yield Line("groups", MISSING, f"there is no group {name}", f"it would own {owns}")


def iommu(world: World, environ: Mapping[str, str]) -> Lines:
    """The IOMMU, without which a GPU may write anywhere in memory."""
    count = len(entries(world, "/sys/kernel/iommu_groups"))
    units = entries(world, "/sys/class/iommu")
    if count:
        shown = ", ".join(units[:4]) or "no unit listed"
        yield Line("iommu", OK, f"{count} IOMMU groups ({shown})")
    elif pci_listing(world)[0]:
        advice = "for PCI and VFIO: switch the IOMMU (VT-d) on in the firmware setup"
        yield Line("iommu", MISSING, "no IOMMU groups: no DMA to host memory over PCI", advice)


def gpus(world: World, environ: Mapping[str, str]) -> Lines:
    """GPUs on PCI and the kernel driver that holds each."""
    found, unread = pci_listing(world)
    for one in unread:
        yield Line("gpus", WARN, one.reason, one.advice)
    for gpu in found:
        text = str(gpu) + (", the boot display" if gpu.boot_vga else "")
        text += ", in an enclosure on USB4 or Thunderbolt" if gpu.removable else ""
        group = f"IOMMU group {gpu.iommu_group}" if gpu.iommu_group else "no IOMMU group"
        state, advice = (OK, "") if gpu.driver else (WARN, "load its driver, or use it through PCI")
        yield Line("gpus", state, f"{text}, {group}", advice)
    here = here_of(world)
    absent = [kind.title for kind in BEST_FIRST if kind.kernel and kind.kernel not in here]
    if absent:
        text = (
            f"{', '.join(absent)}: nothing here"
            if found
            else (f"no GPU on PCI; {', '.join(absent)}: nothing here")
        )
        yield Line("gpus", MISSING, text, "" if found else "the CPU device works without one")
    for kind in BEST_FIRST:
        if kind.doctor:
            yield from named(kind.doctor)(world, environ)


def usb(world: World, environ: Mapping[str, str]) -> Lines:
    """Enclosures on USB: firmware of each, and whether this user may open it; those on USB4."""
    found, tunnels = enclosures(world), usb4_enclosures(world)
    for one in found:
        if one.usable:
            yield Line("usb", OK, f"{one}: {one.firmware}")
        else:
            yield Line("usb", WARN, f"{one}: {one.reason}", one.advice)
    for tunnel in tunnels:
        yield Line("usb", WARN, f"{tunnel}: {tunnel.reason}", tunnel.advice)
    for other in usb_listing(world)[1]:
        yield Line("usb", WARN, f"USB device {other.reason}", other.advice)
    if not (found or tunnels):
        advice = "only for a GPU in one: docs/usb.md"
        yield Line("usb", MISSING, "no enclosure with an ASM2464PD on USB", advice)


def modules(world: World, environ: Mapping[str, str]) -> Lines:
    """Kernel modules, loaded or built in, of GPUs that are here."""
    names = [name for driver in here_of(world) for name in (driver.name, *driver.modules)]
    names += [_BARE_MODULE] if pci_listing(world)[0] else []
    for name in names:
        if world.exists(f"/sys/module/{name}"):
            version = first_line(world, f"/sys/module/{name}/version")
            yield Line("modules", OK, f"{name} {version}".strip() + " is loaded")
        else:
            yield Line(
                "modules",
                MISSING,
                f"{name} is not loaded",
                f"only for its own GPUs: `modprobe {name}`",
            )


def huge_pages(world: World, environ: Mapping[str, str]) -> Lines:
    """Transparent huge pages, which large buffers ask for, and reserved ones."""
    text = try_text(world, "/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w{1,16})\]", text)
    if chosen and chosen[1] in ("always", "madvise"):
        yield Line("huge pages", OK, f"transparent huge pages: {chosen[1]}")
    else:
        advice = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)"
        state = chosen[1] if chosen else "not in this kernel"
        yield Line("huge pages", WARN, f"transparent huge pages: {state}", advice)
    reserved = dict(fields(read_text(world, "/proc/meminfo"))).get("HugePages_Total", "")
    if not re.fullmatch(r"\d{1,15}", reserved):
        raise MalformedInput("/proc/meminfo has no number HugePages_Total")
    yield Line("huge pages", OK, f"{int(reserved)} reserved huge pages; none are needed")


def memlock(world: World, environ: Mapping[str, str]) -> Lines:
    """How much memory a driver may pin for DMA."""
    limit = memlock_bytes(world)
    if limit is None:
        yield Line("memlock", OK, "no limit on pinned memory")
    elif limit >= _PINNED_BYTES:
        yield Line("memlock", OK, f"{limit // _MIB} MiB may be pinned")
    elif not pci_listing(world)[0]:
        yield Line("memlock", OK, f"{limit // _MIB} MiB may be pinned; without a GPU none is")
    else:
        advice = "for DMA without a kernel driver: raise memlock in /etc/security/limits.conf"
        yield Line("memlock", WARN, f"only {limit // _MIB} MiB may be pinned", advice)


def firmware(world: World, environ: Mapping[str, str]) -> Lines:
    """Firmware files, which GPUs without a kernel driver need."""
    for family in filter(None, (driver.firmware for driver in here_of(world))):
        paths = [f"{root}/{family}" for root in _FIRMWARE if world.exists(f"{root}/{family}")]
        if paths:
            yield Line("firmware", OK, f"{paths[0]}: {len(entries(world, paths[0]))} entries")
        else:
            advice = "only GPUs driven without a kernel driver need it: install linux-firmware"
            yield Line("firmware", MISSING, f"no {family} directory in {_FIRMWARE[0]}", advice)
    chosen = choose(environ).firmware_dir
    if chosen is not None and not world.exists(chosen):
        text = f"UNBOUND_FIRMWARE={chosen} does not exist"
        yield Line("firmware", WARN, text, "unset it, or make the directory")


def settings(world: World, environ: Mapping[str, str]) -> Lines:
    """Which device is the default and why, and where kernels are cached."""
    cache = choose(environ).cache_dir
    default = explain(world, environ)
    reasons = f"; not {default.reasons}" if default.passed else ""
    yield Line("settings", OK, f"device: {default.name}, {default.why}; {OTHERS}{reasons}")
    if cache is None:
        yield Line("settings", WARN, "no cache: HOME is not set", "set UNBOUND_CACHE")
        return
    existing = next((path for path in _upwards(cache) if world.exists(path)), cache)
    if world.access(existing, os.W_OK):
        yield Line("settings", OK, f"kernels are cached in {cache}")
    else:
        yield Line("settings", WARN, f"{existing} may not be written", "set UNBOUND_CACHE")


def _upwards(path: str) -> Iterator[str]:
    """An absolute path, its parent, ... up to the root."""
    for end in range(len(path), 1, -1):
        if end == len(path) or path[end] == "/":
            yield path[:end]
    yield "/"


def kernel(world: World, environ: Mapping[str, str]) -> Lines:
    """The kernel's version, and whether sysfs is there."""
    release = first_line(world, "/proc/sys/kernel/osrelease")
    yield Line("kernel", OK, f"Linux {release or 'of an unknown version'}")
    around = surroundings(world)
    if around is not None:
        yield Line("kernel", WARN, around.name, around.works)
    if not entries(world, "/sys/class"):
        yield Line("kernel", WARN, "/sys is not mounted", "GPUs are found through it: mount sysfs")


CHECKS: dict[str, Check] = {
    "kernel": kernel,
    "gpus": gpus,
    "usb": usb,
    "modules": modules,
    "nodes": nodes,
    "compilers": compilers,
    "groups": groups,
    "iommu": iommu,
    "huge pages": huge_pages,
    "memlock": memlock,
    "firmware": firmware,
    "settings": settings,
}
"""Every topic, in the order of the report."""

"""What can be known of this machine's NVIDIA GPUs without opening anything.

# src: NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c: /proc/driver/nvidia/version,
# src: gpus/ADDRESS/information
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput, Unsupported
from drivers.choice import VisibleList, visible_lists
from drivers.machine.access import opened
from drivers.machine.buses import NVIDIA, PciGpu, Unread, pci_listing
from drivers.machine.text import entries, fields, first_line, try_text
from drivers.nv.nvk.abi import abi_of
from drivers.nv.nvk.cards import PROC, uuid_of
from drivers.nv.nvk.visible import CONTAINER, given, shown, wants_uuids
from drivers.nv.tools.facts import link, named

CONTROL: Final = "/dev/nvidiactl"
UVM: Final = "/dev/nvidia-uvm"
DRIVER: Final = "nvidia"
_MODULE_VERSION: Final = "/sys/module/nvidia/version"
_VERSION: Final = re.compile(r"\b(\d+\.\d+(?:\.\d+)?)\b")
_MOST_MINOR: Final = 254
"""255 is the control node. # src: kernel-open/common/inc/nv-chardev-numbers.h"""
_ADVICE: Final = {
    CONTROL: "`modprobe nvidia`; in a container, start it with --gpus all, or with the nodes",
    UVM: "`modprobe nvidia-uvm`, then `nvidia-modprobe -c 0 -u` makes the node",
}
UNHIDE: Final = "list it there, or unset the variable, where this process may use it"
_HIDDEN: Final = "hidden from this process: "
_NODE_ADVICE: Final = "`nvidia-modprobe -c {minor}` makes it; in a container, name it at the start"


@dataclass(frozen=True, slots=True)
class Access:
    """Whether this user may open a device node, else why not and what to do."""

    path: str
    ok: bool
    reason: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that NVIDIA's kernel driver has."""

    address: str
    product: str
    minor: int
    device: int
    """PCI device id; 0 where sysfs does not show it."""
    node: Access
    facts: Mapping[str, str] = field(default_factory=dict)
    """What its kernel driver and the bus say of it, by name."""
    number: int | None = None
    """The N of NV:N; None for one whose node does not open, or that is hidden."""
    hidden: str = ""
    """Which variable hides it from this process."""


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """An NVIDIA GPU on PCI that its kernel driver does not have, and why that may be."""

    address: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class Look:
    """The whole machine. `problem` is why the kernel driver cannot be used."""

    control: Access
    uvm: Access
    version: str
    """Of the kernel driver; "" where it is not loaded."""
    title: str
    """Its first line about itself: open modules, or the other ones."""
    gpus: tuple[Gpu, ...] = ()
    """By their PCI addresses."""
    unmanaged: tuple[Unmanaged, ...] = ()
    problem: DeviceError | None = None
    note: str = ""
    """What its version is warned of."""

    @property
    def ready(self) -> bool:
        """Whether a GPU whose node can be opened can be used."""
        return self.control.ok and self.uvm.ok and self.problem is None and bool(self.version)

    def state(self, gpu: Gpu) -> str:
        """ "usable", or "not usable"."""
        return "usable" if self.ready and gpu.number is not None else "not usable"


def access(world: World, path: str, advice: str) -> Access:
    """May this user open `path` for reading and writing?"""
    if not world.exists(path):
        return Access(path, False, f"{path} does not exist", advice)
    return Access(path, *opened(world, path))


def versions(world: World) -> tuple[str, str]:
    """(version, title) of the loaded kernel driver; ("", "") without one."""
    title = first_line(world, f"{PROC}/version")
    found = _VERSION.search(title)
    text = first_line(world, _MODULE_VERSION) or (found[1] if found else "")
    return text, title


def judged(version: str) -> tuple[DeviceError | None, str]:
    """(why this version cannot be used, what to be warned of) of a kernel driver."""
    if not version:
        return None, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            abi_of(version)
        except (Unsupported, MalformedInput) as error:
            return error, ""
    return None, str(caught[0].message) if caught else ""


def _gpu(world: World, address: str, on_bus: dict[str, PciGpu]) -> Gpu:
    """One of the kernel driver's. Raises: MalformedInput for a minor that is none."""
    path = f"{PROC}/gpus/{address}/information"
    known = dict(fields(try_text(world, path)))
    minor = known.get("Device Minor", "")
    if not (minor.isascii() and minor.isdigit()) or int(minor) > _MOST_MINOR:
        raise MalformedInput(f"{path}: Device Minor is {minor!r:.40}", hint="see dmesg")
    node = access(world, f"/dev/nvidia{int(minor)}", _NODE_ADVICE.format(minor=int(minor)))
    seen = on_bus.get(address.lower())
    facts, width = named(known), link(world, address)
    facts |= {"link": width} if width else {}
    device = seen.device if seen else 0
    return Gpu(address, known.get("Model", ""), int(minor), device, node, facts)


def _unmanaged(gpu: PciGpu, managed: bool) -> Unmanaged | None:
    if managed or gpu.vendor != NVIDIA:
        return None
    if gpu.driver == "nouveau":
        advice = "nouveau keeps it: install NVIDIA's driver, which turns nouveau off, and reboot"
    elif gpu.driver == DRIVER:
        advice = "see `dmesg` for lines of NVRM: the kernel driver did not start it"
    elif gpu.driver:
        advice = f"give it back to {DRIVER} when {gpu.driver} no longer needs it"
    else:
        advice = "`modprobe nvidia`"
    return Unmanaged(gpu.address, f"{gpu}; NVIDIA's kernel driver does not have it", advice)


def look(world: World, visible: Sequence[VisibleList] = ()) -> Look:
    """The machine's GPUs as NVIDIA's kernel driver has them. Changes nothing.

    A GPU that cannot be read is among the unmanaged ones with its reason, and hides no other.
    """
    version, title = versions(world)
    problem, note = judged(version)
    gpus: list[Gpu] = []
    passed: dict[str, Unmanaged] = {}
    try:
        bus, unread = pci_listing(world)
        names = entries(world, f"{PROC}/gpus")
    except DeviceError as error:
        bus, unread, names, problem = [], [], [], problem or error
    on_bus = {gpu.address.lower(): gpu for gpu in bus}
    for name in names:
        try:
            gpus.append(_gpu(world, name, on_bus))
        except DeviceError as error:
            passed[name] = _passed(name, error)
    gpus, twins = _apart(gpus)
    passed |= {one.address: one for one in twins}
    managed = {name.lower() for name in names}
    missing = (_unmanaged(gpu, at in managed) for at, gpu in on_bus.items())
    others = [*passed.values(), *(one for one in missing if one is not None)]
    others += [Unmanaged(one.address, one.reason, one.advice) for one in unread]
    hosts = managed | {at for at, gpu in on_bus.items() if gpu.driver == DRIVER}
    return Look(
        access(world, CONTROL, _ADVICE[CONTROL]), access(world, UVM, _ADVICE[UVM]), version, title,
        tuple(_numbered(world, gpus, list(passed), sorted(hosts), visible)), tuple(others),
        problem, note,
    )  # fmt: skip


def _numbered(
    world: World, gpus: Sequence[Gpu], passed: Sequence[str], hosts: Sequence[str],
    visible: Sequence[VisibleList],
) -> list[Gpu]:  # fmt: skip
    """Every GPU with its number, as `drivers.nv.nvk.cards` counts when it opens them.

    One that cannot be read is taken to open. `hosts` are the addresses of all GPUs of the machine,
    those too whose files a container does not have.
    """
    by_uuid = wants_uuids(visible)

    def uuids(of: Sequence[str]) -> list[str]:
        return [uuid_of(world, address) if by_uuid else "" for address in of]

    mine = {hosts[place] for place in given(uuids(hosts), visible)}
    open_now = {gpu.address.lower() for gpu in gpus if gpu.node.ok}
    there = sorted(mine & (open_now | {address.lower() for address in passed}))
    places, why = shown(uuids(there), visible)
    numbers = {there[place]: number for number, place in enumerate(places)}
    made = []
    for gpu in sorted(gpus, key=lambda one: one.address.lower()):
        at = gpu.address.lower()
        reason = why if at in mine else f"{CONTAINER} does not list it"
        hides = gpu.node.ok and at not in numbers
        made.append(replace(gpu, number=numbers.get(at), hidden=_HIDDEN + reason if hides else ""))
    return made


def numbers(world: World, environ: Mapping[str, str]) -> list[int]:
    """Numbers of `NV:N` that this user may open."""
    found = look(world, visible_lists(environ, "NV"))
    return sorted(gpu.number for gpu in found.gpus if found.ready and gpu.number is not None)


def _passed(address: str, error: DeviceError) -> Unmanaged:
    one = Unread(address, error)
    return Unmanaged(address, one.reason, one.advice)


def _apart(gpus: list[Gpu]) -> tuple[list[Gpu], list[Unmanaged]]:
    """GPUs with a minor of their own, and those that share one: its node leads to one of them."""
    count = Counter(gpu.minor for gpu in gpus)
    twins = [
        _passed(gpu.address, MalformedInput(f"GPUs share minor {gpu.minor}", hint="see dmesg"))
        for gpu in gpus
        if count[gpu.minor] > 1
    ]
    return [gpu for gpu in gpus if count[gpu.minor] == 1], twins

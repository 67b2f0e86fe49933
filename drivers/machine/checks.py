"""What a check of a way to a device is given and reports; `drivers.kinds` lists the checks.

Nothing is claimed or changed by one. Libraries of vendors are asked in a process of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from drivers.base.answers import Answers, Ask, gathered
from drivers.base.contracts import World
from drivers.kinds import named
from drivers.machine.access import opened
from drivers.machine.buses import PciGpu, UsbDevice, pci_gpus, render_nodes, usb_devices

Trial: TypeAlias = Callable[[str, Sequence[tuple[str, str]]], Mapping[int, tuple[str, str]]]
"""(kind, (title, library) of each device) -> number of a device -> (why no kernel could be built
and run on it, what to do); ("", "") where one was. A number that is not in it was not tried."""
Packages: TypeAlias = Callable[[str], str | None]
"""Version of an installed Python package, None when it is not installed."""


@dataclass(frozen=True, slots=True)
class Result:
    """One way to reach one kind of device."""

    kind: str
    iface: str
    ready: bool
    """The machine has all that is needed; `usable` also asks for a written driver."""
    reason: str
    """What was found, or exactly what is missing."""
    advice: str = ""
    """What to do about it."""
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Machine:
    """What the checks look at. A property raises MalformedInput when sysfs is not as expected."""

    world: World
    environ: Mapping[str, str]
    packages: Packages
    ask: Ask | None = None
    """Runs surveys of vendors' libraries in another process; None: in this one, for made-up
    worlds."""
    trial: Trial | None = None
    """Builds and runs a kernel on devices behind libraries; None: they are not tried."""

    def asked(self, survey: str) -> Answers:
        """What a survey ("module:function") finds. Raises: DeviceError."""
        if self.ask is not None:
            return self.ask(survey, {})
        return gathered(named(survey)(self.world, {"skip": [], "lost": []}))

    @property
    def gpus(self) -> list[PciGpu]:
        """GPUs on PCI."""
        return pci_gpus(self.world)

    @property
    def usb(self) -> list[UsbDevice]:
        """Devices on USB."""
        return usb_devices(self.world)

    @property
    def nodes(self) -> dict[str, str]:
        """/dev/dri/renderD* and the kernel driver behind each."""
        return render_nodes(self.world)


def device_node(
    machine: Machine, kind: str, iface: str, path: str, missing: str, advice: str
) -> Result:
    """A device node that must exist and can be opened for reading and writing."""
    world = machine.world
    if not world.exists(path):
        return Result(kind, iface, False, f"{path} does not exist: {missing}", advice)
    found = opened(world, path)
    return Result(kind, iface, *found)


def module_missing(machine: Machine, vendor: int, name: str, module: str) -> tuple[str, str]:
    """Why a kernel driver's node is not there, as far as the GPUs on PCI tell."""
    gpus = [str(gpu) for gpu in machine.gpus if gpu.vendor == vendor]
    if gpus:
        return f"{'; '.join(gpus)}", f"`modprobe {module}`, and see `dmesg` for its messages"
    missing = f"the {module} kernel module is not loaded, or there is no {name} GPU"
    return missing, f"see `lspci -d {vendor:04x}:`; with a GPU there: `modprobe {module}`"

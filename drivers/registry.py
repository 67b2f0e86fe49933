"""The kinds of device, one line each, and `open_device`, which makes a Device of one.

Adding a device kind is one entry here and one file or folder beside this one. Whether it may be the
default device is said in `drivers.default`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from drivers.base import forks
from drivers.base.contracts import Device, Firmware, World
from drivers.base.errors import NotFound, Unsupported
from drivers.base.offer import Offer, Passed
from drivers.choice import KINDS, Choice, choose, split_name, visible_amd

Factory: TypeAlias = Callable[[World, Choice, "Firmware | None"], Device]
Offers: TypeAlias = Callable[[World, Mapping[str, str]], "Iterable[Offer | Passed]"]
"""Of a machine and an environment."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of device: what it is, what it needs, and how it is opened."""

    name: str
    title: str
    needs: str
    """What the machine must have."""
    factory: Factory | None = None
    """None: no driver is written yet."""
    ifaces: tuple[str, ...] = ("",)
    """The interfaces that the driver speaks, where there are several."""
    offers: Mapping[str, Offers] = field(default_factory=dict)
    """By interface: what may be the default device, for `drivers.default`."""


def _cpu(world: World, choice: Choice, firmware: Firmware | None) -> Device:
    from drivers.cpu import open_cpu

    if choice.index:
        raise NotFound(f"there is no CPU:{choice.index}", hint="All processors are CPU:0")
    return open_cpu(world, choice, firmware)


def _amd(world: World, choice: Choice, firmware: Firmware | None) -> Device:
    from drivers.amd.opening import open_amd

    return open_amd(world, choice)


def _kfd_offers(world: World, environ: Mapping[str, str]) -> Iterable[Offer | Passed]:
    from drivers.amd.kfd.offers import kfd_offers

    return kfd_offers(world, visible_amd(environ))


@functools.cache
def this_machine() -> World:
    """The machine this process runs on: one world, since the kernel's GPU interfaces know one."""
    from drivers.world.linux import LinuxWorld

    return LinuxWorld()


KINDS_BY_NAME: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("CPU", "the processor itself", "x86-64 or AArch64", _cpu),
        Kind(
            "AMD",
            "AMD GPU",
            "/dev/kfd of the amdgpu kernel module, or a PCI GPU that is free",
            _amd,
            ("KFD", "PCI"),
            {"KFD": _kfd_offers},
        ),
        Kind("NV", "NVIDIA GPU", "/dev/nvidiactl (NVIDIA's open modules), or an unbound PCI GPU"),
        Kind("QCOM", "Qualcomm Adreno GPU", "/dev/kgsl-3d0, or msm on /dev/dri/renderD*"),
        Kind("CUDA", "NVIDIA GPU through CUDA", "libcuda.so.1 of NVIDIA's driver"),
        Kind("CL", "any GPU through OpenCL", "libOpenCL.so.1 and a vendor file in OpenCL/vendors"),
        Kind("METAL", "Apple GPU", "macOS on Apple silicon"),
        Kind("WEBGPU", "any GPU through WebGPU", "a WebGPU library (Dawn or wgpu-native)"),
    )
}


class PlayTrace(Protocol):
    """Plays the register trace in a file to a software GPU of a chip."""

    def __call__(
        self, path: str, chip: str, *, vram_bytes: int, any_firmware: bool
    ) -> tuple[int, list[str]]:
        """(accesses done, differences in words). Raises: DeviceError, ValueError."""


def _amd_trace() -> PlayTrace:
    from drivers.amd.pci.trace_player import play_file

    return play_file


TRACES: dict[str, Callable[[], PlayTrace]] = {"AMD": _amd_trace}
"""What plays the register traces of a kind of device back."""


def open_device(
    name: str,
    *,
    world: World | None = None,
    environ: Mapping[str, str] | None = None,
    firmware: Firmware | None = None,
) -> Device:
    """Open `name`: "CPU", "AMD:1".

    Raises: NotFound for an unknown name; BadChoice for a wrong environment variable; Unsupported
    for a kind that has no driver yet; and whatever the device's own opening raises.
    """
    choice = choose(os.environ if environ is None else environ, name)
    kind = KINDS_BY_NAME[split_name(name)[0]]
    if kind.factory is None:
        written = ", ".join(known for known in KINDS if KINDS_BY_NAME[known].factory)
        raise Unsupported(
            f"{kind.name} ({kind.title}): no driver is written yet; it will need {kind.needs}",
            hint=f"Use {written}; python -m drivers.probe lists every kind",
        )
    with forks.postponed():
        return kind.factory(this_machine() if world is None else world, choice, firmware)

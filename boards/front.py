"""Joins software GPUs and the product: a machine, and the product's devices opened on it.

The board stands behind the product's driver as a machine does, through a kernel driver's interface
or on the PCI bus; it shares no code with the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from boards.asked import check_options, over_pci
from boards.machine.pci.world import PciWorld
from boards.setup import Setup
from boards.vendors import Board, Powered, vendor_of
from drivers.base.contracts import Device, Machine, Region, World
from drivers.base.pci import StateStore
from drivers.base.region import MemoryRegion
from drivers.kinds import BY_NAME
from drivers.registry import open_device
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from drivers.world.linux import LinuxWorld

__all__ = [
    "Board",
    "Front",
    "OnBoard",
    "Setup",
    "check_options",
    "environ_of",
    "front_of",
    "over_pci",
    "power_on",
    "powered_on",
    "tuning_of",
    "vendor_of",
]


class OnBoard(Device, Protocol):
    """The product's device on a board's GPU; it knows the names of what it has loaded."""

    def program_names(self, *, code_va: int = 0) -> list[str]:
        """Kernels whose code is at an address."""
        ...


def tuning_of(chip: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What of a user's environment tunes the GPU's device, or records it. Raises: ValueError."""
    names = (*BY_NAME[vendor_of(chip).device].tuning, "UNBOUND_TRACE")
    return {name: environ[name] for name in names if name in environ}


def environ_of(setup: Setup) -> dict[str, str]:
    """What a user would set: the board's GPU is the default device. Raises: ValueError."""
    vendor = vendor_of(setup.chip)
    found = {**setup.tuning, "DEV": vendor.device}
    variable = f"{vendor.device}_{setup.compiler}"
    if setup.compiler in vendor.compilers and variable in BY_NAME[vendor.device].compilers:
        found[variable] = "1"
    if setup.iface not in ("", vendor.ifaces[0]):
        found[f"{vendor.device}_IFACE"] = setup.iface
    if setup.dma:
        found["UNBOUND_DMA"] = setup.dma
    if setup.trace:
        found["UNBOUND_REGISTER_TRACE"] = setup.trace
    if setup.aql is not None and vendor.aql:
        found[vendor.aql] = str(int(setup.aql))
    return found


@dataclass(frozen=True, slots=True)
class Front:
    """A process in front of a board, as the product sees it."""

    board: Board
    world: World
    state: StateStore | None
    environ: Mapping[str, str]

    def open(self, index: int = 0) -> OnBoard:
        """The product's device on a GPU of the board. Raises: DeviceError."""
        kind = vendor_of(self.board.gpus[0].chip.name).device
        name = f"{kind}:{index}"
        environ = {**self.environ, "DEV": name}
        return cast(OnBoard, open_device(name, world=self.world, environ=environ, state=self.state))


class WholeMachine(ForeignWorld):
    """The machine that a board's GPUs are in: its processor, and what /proc says, are this one's.

    So the CPU device opens on it, too.
    """

    def __init__(self, inner: Machine) -> None:
        super().__init__(inner)
        self.processor = LinuxWorld()

    def read(self, path: str, limit_bytes: int = 1 << 20) -> bytes:
        """A file of the board, else of the processor."""
        if path.startswith("/proc/") and not self.exists(path):
            return self.processor.read(path, limit_bytes)
        return super().read(path, limit_bytes)

    def protect(self, region: Region, *, write: bool, execute: bool) -> None:
        """Memory of the board's process, or a part of it that the CPU's loader cut out."""
        if isinstance(region, MemoryRegion):
            self.processor.protect(region, write=write, execute=execute)
        else:
            super().protect(region, write=write, execute=execute)


def front_of(board: Board, environ: Mapping[str, str]) -> Front:
    """A process that has started, with an environment."""
    machine: Any = board  # it has a machine's methods, but no type in common with us
    if not isinstance(board, PciWorld):
        return Front(board, WholeMachine(machine), None, environ)
    world = ForeignWorld(machine, usb=getattr(board, "usb", None))
    own: Any = board.state
    own_environ = {**environ, "UNBOUND_FIRMWARE_MANIFEST": board.firmware}
    return Front(board, world, ForeignState(own), own_environ)


def power_on(setup: Setup) -> Front:
    """A machine with the GPUs that `setup` names. Raises: ValueError."""
    return front_of(vendor_of(setup.chip).power_on(setup), environ_of(setup))


def powered_on(chip: str, vram_bytes: int, *, any_firmware: bool) -> Powered:
    """One GPU alone, for accesses that were recorded. Raises: ValueError for an unknown chip."""
    return vendor_of(chip).powered_on(chip, vram_bytes, not any_firmware)

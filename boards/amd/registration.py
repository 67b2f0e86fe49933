"""AMD's boards as `boards/vendors.py` lists them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from boards.amd.chip import chip, names
from boards.amd.cp.engines import Engines
from boards.amd.faults import FaultWatch
from boards.amd.hardware import Hardware, Options
from boards.amd.kfd import rules
from boards.amd.kfd.world import BoardWorld
from boards.amd.pci import shipped
from boards.amd.pci.firmware_set import NAMES as _PCI_NAMES
from boards.amd.pci.gpu import PciGpu, open_function
from boards.amd.pci.options import PciOptions
from boards.amd.pci.replayed import PoweredOn, powered_on
from boards.amd.pci.watched import Log
from boards.amd.pci.watched import watch as watch_accesses
from boards.amd.powering import power_on
from boards.amd.usb_machine import open_usb_board
from boards.machine.chassis import NameOf
from boards.machine.pci.function import PciFunction
from boards.machine.pci.world import PciWorld
from boards.usb.port import Enclosed

__all__ = [
    "KERNELS", "NAMES", "PCI_NAMES", "alone", "describe", "enclosure", "function", "observe",
    "power_on", "take_firmware", "watch",
]  # fmt: skip

KERNELS = {"KFD": rules.KERNELS}
"""Releases of `boards/amd/kfd/behaviour.txt`, the default first."""
NAMES, PCI_NAMES = tuple(names()), tuple(_PCI_NAMES)


def describe(name: str) -> str:
    """Chip, family, compute units, what runs there."""
    made = chip(name)
    engines = made.sdma_engines + made.sdma_xgmi_engines
    code = f"waves of {made.lanes}"
    plural = "s" * (engines != 1)
    dies = f" on {made.xccs} XCCs" if made.xccs > 1 else ""
    runs = f"PM4 and AQL{dies}, {engines} SDMA engine{plural}, {code}"
    return f"{name:<9}{made.family:<11}{made.cus:>4}  {runs}"


def function(name: str, vram_bytes: int, max_steps: int = 0) -> tuple[Hardware, PciGpu]:
    """A GPU on a bus of its own, with default strictness."""
    options = Options(engines=partial(Engines, max_steps=max_steps)) if max_steps else Options()
    hardware = Hardware([], options)
    return hardware, open_function(hardware, name, vram_bytes=vram_bytes, options=PciOptions())


def enclosure(name: str, vram_bytes: int) -> Enclosed:
    """A GPU behind a bridge on USB, with default strictness."""
    machine = open_usb_board(name, vram_bytes=vram_bytes).machine
    return Enclosed(machine.hardware, machine.bridges[0], machine.cards[0].pump)


def observe(function: PciFunction, log: Log) -> None:
    """Every register access to a log. Raises: TypeError for a function of another vendor."""
    if not isinstance(function, PciGpu):
        raise TypeError(f"{function!r} is no function of AMD's")
    watch_accesses(function, log)


def take_firmware(gpu: PciFunction, folder: Path) -> None:
    """AMD's own files instead of made-up ones. Raises: shipped.BadFile, OSError, TypeError."""
    if not isinstance(gpu, PciGpu):
        raise TypeError(f"{gpu!r} is no function of AMD's")
    gpu.options.images = shipped.load(folder, gpu.chip.name)


def alone(name: str, vram_bytes: int, firmware: bool) -> PoweredOn:
    """A function without a machine. Raises: ValueError for an unknown chip."""
    return powered_on(name, vram_bytes, firmware=firmware)


def watch(board: object, name_of: NameOf) -> FaultWatch:
    """Reports of a board's faults. Raises: TypeError for a board of another vendor."""
    if not isinstance(board, (BoardWorld, PciWorld)):
        raise TypeError(f"{board!r} is no board of AMD's")
    return FaultWatch(board, name_of)

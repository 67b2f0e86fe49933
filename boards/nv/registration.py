"""NVIDIA's boards as `boards/vendors.py` lists them: over the kernel driver alone."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from boards.machine.chassis import Facts, NameOf
from boards.machine.pci.function import PciFunction
from boards.nv.chip import CHIPS, chip
from boards.nv.hardware import NvOptions
from boards.nv.layouts import DEFAULT, VERSIONS
from boards.nv.machine import NAMES, open_nv_board
from boards.nv.world import NvWorld
from boards.setup import OVER_PCI, Setup

__all__ = [
    "KERNELS", "NAMES", "alone", "describe", "function", "observe", "power_on", "take_firmware",
    "watch",
]  # fmt: skip

KERNELS = (str(DEFAULT), *(str(one) for one in VERSIONS if one != DEFAULT))
"""Branches of the kernel driver, the default first."""
_CARD_BYTES = 1 << 30
_SM_PER_TPC = 2
_FAMILIES = {0x75: "Turing", 0x86: "Ampere", 0x89: "Ada", 0x90: "Hopper", 0xA4: "Blackwell"}
"""By the version of their code."""


def describe(name: str) -> str:
    """Chip, family, SMs, what runs there."""
    made = chip(name)
    family = _FAMILIES.get(made.sass_version, "")
    sms = made.gpcs * made.tpcs * _SM_PER_TPC
    runs = f"a GPFIFO of {made.gpfifos[-1]:04X}, QMD {made.qmd}, {made.copies} copy engines"
    return f"{name:<9}{family:<11}{sms:>4}  {runs}"


def power_on(setup: Setup) -> NvWorld:
    """The machine, and a process in front of it. Raises: ValueError for what there is not."""
    if setup.iface == OVER_PCI:
        raise _no_pci()
    options = NvOptions(vram_bytes=setup.vram_bytes or _CARD_BYTES, late=setup.late)
    if setup.kernel:
        options.driver = int(setup.kernel)
    return open_nv_board(setup.chip, gpus=setup.gpus, options=options)


def _no_pci() -> ValueError:
    return ValueError(f"boards {', '.join(CHIPS)} have no PCI function to boot: leave --iface out")


def function(name: str, vram_bytes: int, max_steps: int = 0) -> NoReturn:
    """Raises: ValueError: over PCI nothing is modelled."""
    raise _no_pci()


def observe(function: PciFunction, log: object) -> NoReturn:
    """Raises: ValueError, as `function`."""
    raise _no_pci()


def take_firmware(gpu: PciFunction, folder: Path) -> NoReturn:
    """Raises: ValueError, as `function`."""
    raise _no_pci()


def alone(name: str, vram_bytes: int, firmware: bool) -> NoReturn:
    """Raises: ValueError, as `function`."""
    raise _no_pci()


class FaultWatch:
    """Keeps a report of every channel that RM tore down."""

    def __init__(self, name_of: NameOf) -> None:
        self._name_of = name_of
        self.reports: list[str] = []
        self.notes: dict[tuple[str, int, int], str] = {}
        self._kernel = ""

    def __call__(self, name: str, facts: Facts) -> None:
        """One event of the timeline."""
        if name == "launch":
            code = int(facts["code"])
            self._kernel = " or ".join(self._name_of(code)) or f"at {code:#x}"
        elif name == "RC":
            last = f"; the last kernel was {self._kernel}" if self._kernel else ""
            what = f"channel {int(facts['channel']):#x} died of {facts['code']}"
            self.reports.append(f"{what}: {facts['why']}{last}")


def watch(board: object, name_of: NameOf) -> FaultWatch:
    """Reports of a board's faults. Raises: TypeError for a board of another vendor."""
    if not isinstance(board, NvWorld):
        raise TypeError(f"{board!r} is no board of NVIDIA's")
    return FaultWatch(name_of)

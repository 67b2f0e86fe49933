"""Qualcomm's boards as `boards/vendors.py` lists them: over KGSL and over msm."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from boards.machine.chassis import Facts, NameOf
from boards.machine.pci.function import PciFunction
from boards.qcom.chips import CHIPS, chip
from boards.qcom.hardware import KGSL, MSM, AdrenoOptions
from boards.qcom.machine import NAMES, open_qcom_board
from boards.qcom.world import QcomWorld
from boards.setup import Setup

__all__ = [
    "KERNELS", "NAMES", "alone", "describe", "function", "observe", "power_on", "take_firmware",
    "watch",
]  # fmt: skip

_DRAM_BYTES = 1 << 30
KERNELS = {
    KGSL: ("5.15", "4.9", "4.14", "4.19", "5.4", "5.10"),
    MSM: ("6.12", "5.15", "6.1", "6.6", "6.17", "7.3"),
}
"""Releases of `behaviour.txt`, the default first."""


def describe(name: str) -> str:
    """Chip, generation, SPs, memory on chip."""
    made = chip(name)
    runs = f"{made.fibers} lanes each, GMEM of {made.gmem_bytes >> 10} KiB"
    return f"{name:<9}{f'A{made.generation}xx':<11}{made.sps:>4}  {runs}"


def power_on(setup: Setup) -> QcomWorld:
    """The machine, and a process in front of it. Raises: ValueError for what there is not."""
    if setup.iface not in ("", KGSL, MSM):
        raise _no_pci()
    if setup.gpus != 1:
        raise ValueError(f"a board of {setup.chip} has one GPU, not {setup.gpus}")
    options = AdrenoOptions(
        iface=setup.iface or KGSL, dram_bytes=setup.vram_bytes or _DRAM_BYTES, late=setup.late,
        kernel=setup.kernel,
    )  # fmt: skip
    return open_qcom_board(setup.chip, options=options)


def _no_pci() -> ValueError:
    return ValueError(f"boards {', '.join(CHIPS)} have no PCI function: use --iface KGSL or MSM")


def function(name: str, vram_bytes: int, max_steps: int = 0) -> NoReturn:
    """Raises: ValueError: these GPUs are not on PCI."""
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
    """Keeps a report of every submission that the kernel ended."""

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
        elif name == "fault":
            last = f"; the last kernel was {self._kernel}" if self._kernel else ""
            self.reports.append(f"{facts['kind']}: {facts['why']}{last}")


def watch(board: object, name_of: NameOf) -> FaultWatch:
    """Reports of a board's faults. Raises: TypeError for a board of another vendor."""
    if not isinstance(board, QcomWorld):
        raise TypeError(f"{board!r} is no board of Qualcomm's")
    return FaultWatch(name_of)

"""A short life with a bare GPU (open, copy, launch, copy back, close) on a bus that fails."""

from __future__ import annotations

from typing import Any

import numpy as np

from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.machine.pci.world import PciWorld
from drivers.amd.device import AmdDevice
from drivers.world.foreign_state import ForeignState
from tests.boards.driver_harness import add, get, open_over_pci, put
from tests.support import check

GPU = "0000:03:00.0"
N = 64
VRAM_BYTES = {"gfx942": 1 << 30}
DRIVER = f"/sys/bus/pci/devices/{GPU}/driver"


def machine(chip: str, **more: Any) -> PciWorld:
    """A machine whose kernel driver has the GPU at first."""
    vram = VRAM_BYTES.get(chip, 256 << 20)
    options = MachineOptions(**{"vram_bytes": vram, "amdgpu": True, **more})
    return open_pci_board(chip, options=options)


def work(device: AmdDevice) -> None:
    """Copy in, launch, copy out; a wrong result is an error."""
    a = np.arange(N, dtype=np.float32)
    x, y = put(device, a), device.alloc(4 * N)
    device.launch(device.load(add(device.arch)), [x, x, y, N], 1)
    np.testing.assert_array_equal(get(device, y), a + a)


def life(board: PciWorld) -> None:
    """All of it, once."""
    with open_over_pci(board) as device:
        work(device)


def logged(chip: str, **more: Any) -> tuple[list[str], int]:
    """Every access to the bus that a life makes, "read", "write" or "call"; where it closes."""
    board = machine(chip, **more)
    log: list[str] = []
    board.panel.watch = lambda access, where, nbytes, value: log.append(access)
    with open_over_pci(board) as device:
        work(device)
        closing = len(log)
    check(not board.violations, f"{board.violations}")
    return log, closing


def accesses(chip: str, **more: Any) -> tuple[int, int]:
    """How many accesses to the bus a life makes, and how many of them before it closes."""
    log, closing = logged(chip, **more)
    return len(log), closing


def driver_of(board: PciWorld) -> str:
    """The kernel driver that has the GPU, "" when none has."""
    return board.readlink(DRIVER).rpartition("/")[2] if board.exists(DRIVER) else ""


def given_back(board: PciWorld) -> None:
    """Nothing is left of a life: the kernel driver has the GPU, there is no record, no leak."""
    check(driver_of(board) == "amdgpu", f"{driver_of(board) or 'nobody'} has the GPU")
    check(not any(board.baseline().values()), f"left: {board.baseline()}")
    names = ForeignState(board.state).names()
    check(not any(name.endswith(".claim") for name in names), f"records: {names}")

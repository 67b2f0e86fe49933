"""The driver's boot on a board whose firmware takes its time and whose fresh memory is poison."""

from __future__ import annotations

import pytest

from boards.amd.pci.options import PciOptions
from boards.amd.pci_machine import MachineOptions, open_pci_board
from tests.boards.driver_harness import add, open_over_pci
from tests.boards.test_driver_faults import still_works
from tests.support import check

MIB = 1 << 20


@pytest.mark.parametrize(
    ("chip", "amdgpu"),
    [("gfx1100", True), ("gfx1102", False), ("gfx1201", True), ("gfx942", True)],
)
def test_late_answers_resets_and_undefined_memory(chip: str, amdgpu: bool) -> None:
    """After amdgpu, the GPU is first reset, and away for a while."""
    slow = PciOptions(psp_s=0.03, smu_s=0.02, reset_s=0.3, poison_bytes=40 * MIB)
    options = MachineOptions(vram_bytes=512 * MIB, amdgpu=amdgpu, function=slow)
    board = open_pci_board(chip, options=options)
    with open_over_pci(board) as device:
        still_works(device, device.load(add(device.arch)))
    found = [str(violation) for violation in board.violations]
    check(found == [], f"{found[:5]}")

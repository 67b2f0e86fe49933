"""An owner of a bare GPU is killed at work: the next one's results are right, and it sees nothing.

The board's memory is made to outlive resets, as silicon's may: what is zero was zeroed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from boards.amd.machine import Options
from boards.amd.pci.vram import PciVram
from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.machine.pci.world import PciWorld
from drivers.amd.device import AmdDevice
from drivers.amd.memory import AmdBuffer
from drivers.base.errors import OutOfMemory
from tests import amd_kernels
from tests.boards.driver_harness import add, get, kernel, open_over_pci, put
from tests.boards.test_driver_over_pci import kill, stick, work
from tests.support import check

Work: TypeAlias = Callable[[PciWorld, AmdDevice], None]
N = 64
MIB = 1 << 20
VRAM_BYTES = 192 * MIB
CHUNK_BYTES = 16 * MIB
SECRET = 0x5EC2E7A5
LONG_S = 5.0
"""The next opening may take so long, by the board's clock."""
WORDS = CHUNK_BYTES // 4


@pytest.fixture(autouse=True)
def _memory_survives_resets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PciVram, "lose", lambda vram: vram.guarded.clear())


def secrets(device: AmdDevice) -> list[AmdBuffer]:
    """Memory full of the owner's data: large and small buffers, scratch."""
    held = [put(device, np.full(words, SECRET, np.uint32)) for words in (WORDS, WORDS, 1000, 10)]
    scratch = device.load(kernel(amd_kernels.scratch(), device.arch, N))
    device.launch(scratch, [device.alloc(4 * N), 3], 1)
    device.synchronize()
    return held


def parked_dispatch(board: PciWorld, device: AmdDevice) -> None:
    program, (big, *_) = device.load(add(device.arch)), secrets(device)
    device.compute_queue().wait(device.new_signal(), 1).exec(
        program, [big, big, big, N], (1, 1, 1), (N, 1, 1)
    ).submit()


def parked_copy(board: PciWorld, device: AmdDevice) -> None:
    big, other, *_ = secrets(device)
    device.copy_queue().wait(device.new_signal(), 1).copy(other, big, CHUNK_BYTES).submit()


def hung(board: PciWorld, device: AmdDevice) -> None:
    """Both engines are stuck with work; they obey nothing but a reset of the whole GPU."""
    program, (big, other, small, _) = device.load(add(device.arch)), secrets(device)
    stick(board, "PM4", for_good=True)
    stick(board, "SDMA", for_good=True)
    device.launch(program, [small, small, small, N], 1)
    device.copy_queue().copy(other, big, CHUNK_BYTES).submit()


def rung(board: PciWorld, device: AmdDevice) -> None:
    """Doorbells were rung, and nothing has run yet."""
    program, (big, other, small, _) = device.load(add(device.arch)), secrets(device)
    device.launch(program, [small, small, small, N], 1)
    device.copy_queue().copy(other, big, CHUNK_BYTES).submit()


def zeros_everywhere(device: AmdDevice) -> list[AmdBuffer]:
    """All memory there is, in large pieces and small ones."""
    held = []
    for nbytes in (CHUNK_BYTES, MIB):
        for _ in range(VRAM_BYTES // nbytes):
            try:
                held.append(device.alloc(nbytes))
            except OutOfMemory:
                break
    check(sum(one.nbytes for one in held) > VRAM_BYTES // 4, f"only {len(held)} buffers")
    check_zero(device, held)
    return held


def check_zero(device: AmdDevice, held: list[AmdBuffer]) -> None:
    for number, buffer in enumerate(held):
        found = get(device, buffer, "uint32")
        check(not found.any(), f"buffer {number}: {np.count_nonzero(found)} words are not zero")


@pytest.mark.parametrize("iommu", [True, False], ids=["IOMMU", "VRAM"])
@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize("at_work", [parked_dispatch, parked_copy, hung, rung])
def test_killed_at_work(at_work: Work, queue: str, iommu: bool) -> None:
    options = MachineOptions(
        iommu=iommu, vram_bytes=VRAM_BYTES, amdgpu=True, strictness=Options(late=at_work is rung)
    )
    board = open_pci_board("gfx1100", options=options)
    driver = f"/sys/bus/pci/devices/{board.machine.slot(0).address}/driver"
    original = board.readlink(driver)
    device = open_over_pci(board, queue)
    at_work(board, device)
    check(not board.violations, f"{[str(one) for one in board.violations[:5]]}")
    board = kill(board, device)
    board.machine.pump()  # the GPU goes on as it was, and reaches nothing of the host's
    check(
        {one.kind for one in board.violations} <= {"DMA with bus mastering off"},
        f"{[str(o) for o in board.violations]}",
    )
    board.hardware.forget_violations()
    begun_s = board.monotonic_s()
    with open_over_pci(board, queue) as device:
        check(board.monotonic_s() - begun_s < LONG_S, "the next opening took too long")
        work(device)
        held = zeros_everywhere(device)
        board.sleep(1)
        check_zero(device, held)
        for buffer in held:
            buffer.free()
        work(device)
    check(board.readlink(driver) == original, board.readlink(driver))
    check(not board.violations, f"{[str(one) for one in board.violations[:5]]}")
    check(not any(board.baseline().values()), f"{board.baseline()}")

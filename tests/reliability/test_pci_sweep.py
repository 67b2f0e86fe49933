"""Every access of a life with a bare GPU to its bus goes wrong once; then the next life works.

Goals: R4 of docs (transport sweep): open, copy in, dispatch, copy out, close. A read that fails is
told with step and register; a write that is lost may leave nothing to see. The kernel's driver has
the GPU before and after each of them.
"""

from __future__ import annotations

import os
import re

import pytest

from boards.amd.pci import smu
from boards.amd.pci_panel import Kind
from boards.amd.pci_world import PciWorld
from drivers.base.errors import DeviceError
from tests.reliability.amd_scene import let_go
from tests.reliability.pci_scene import accesses, given_back, life, machine
from tests.support import check

STRIDE = int(os.environ.get("UNBOUND_SWEEP_STRIDE", "13"))
"""Which accesses: every one, in every way, takes minutes; 1 does it."""
KINDS = (Kind.TIMEOUT, Kind.ONES, Kind.STUCK, Kind.GARBAGE)
MACHINES = {
    "IOMMU": ("gfx1100", {}),
    "no IOMMU": ("gfx1100", {"iommu": False}),
    "gfx1201": ("gfx1201", {"iommufd": False}),
    "gfx942": ("gfx942", {"iommu": False}),
}
WHERE = re.compile(
    r"[A-Z][A-Z0-9]+(_[A-Z0-9]+)+|COMMAND|VFIO|SMU|descriptor|config|base address|BAR|index|data"
)
"""What names a register, or the request that failed."""


def attempt(board: PciWorld, kind: Kind, at: int) -> DeviceError | None:
    """A life whose `at`-th access goes wrong: its error. Errors that are not ours go on."""
    board.panel.fail(kind, at=at)
    try:
        life(board)
    except DeviceError as error:
        let_go(error)
        told = f"{kind} at {at}, {board.panel.broke[-1]}: {error!r}"
        lost = board.panel.broke[-1].startswith("write")  # what comes of it is told by its victim
        check(lost or WHERE.search(str(error)), told)
        check(error.hint or error.__cause__ is not None, told)
        return error
    finally:
        board.panel.heal()
    return None


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("kind", KINDS)
def test_one_access_goes_wrong(name: str, kind: Kind) -> None:
    chip, more = MACHINES[name]
    (total, closing), failed = accesses(chip, **more), 0
    board = machine(chip, **more)
    first = 1 + KINDS.index(kind) % STRIDE
    stride = STRIDE if name == "IOMMU" else total // 100 * STRIDE
    for at in range(first, total + 1, stride):
        error = attempt(board, kind, at)
        failed += error is not None
        # a queue that cannot be asked to stop is made to stop: closing may go well all the same
        told = error is not None or kind is not Kind.TIMEOUT or at > closing
        check(told, f"a time-out at {at} was swallowed: {board.panel.broke[-1]}")
        board.hardware.forget_findings()
        life(board)
        given_back(board)
        check(not board.findings, f"{kind} at {at}, the life after it: {board.findings}")
    check(failed > 0, f"none of {total} accesses mattered")
    check(total > 600, f"a life makes {total} accesses: the sweep would stop early")


@pytest.mark.parametrize("iommu", [True, False])
def test_the_gpu_leaves_the_bus(iommu: bool) -> None:
    """Wherever it happens, an error of ours; the process ends, and nothing hangs."""
    total, _ = accesses("gfx1100", iommu=iommu)
    for at in range(3, total + 1, 5 * STRIDE):
        board = machine("gfx1100", iommu=iommu)
        board.panel.fail(Kind.GONE, at=at)
        with pytest.raises(DeviceError) as caught:
            life(board)
        let_go(caught.value)
        board.kill()


def test_a_reset_that_takes_its_answer_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is busy elsewhere looks for the answer after the registers forgot it."""
    monkeypatch.setattr(smu, "RESET_S", 0.0)
    board = machine("gfx1100")
    life(board)
    given_back(board)

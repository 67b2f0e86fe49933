"""SIGKILL at bus accesses all over a life with a bare GPU: the next life works, and gives it back.

Goals: R5 of docs. A killed process is one whose descriptors and mappings go and that does nothing
more; without VFIO the GPU goes on as it was. What the process would have done at its exit is not
done either.
"""

from __future__ import annotations

import atexit

import pytest

from boards.amd.pci_machine import another_process
from boards.machine.pci.panel import Killed, Kind
from boards.machine.pci.world import PciWorld
from drivers.claim.restoring import restore_all
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from tests.reliability.amd_scene import let_go
from tests.reliability.pci_scene import accesses, driver_of, given_back, life, machine
from tests.support import check
from tests.sweep.offset import offset, reproduced

EVERY = 20
"""Each run begins one further, so that in twenty days every access was the one."""
ALREADY = "PSP bootloader refused"
"""A bootloader that was left half way cannot be reset: it is asked again for what it has."""


@pytest.fixture(autouse=True)
def no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed runs no exit handlers."""
    monkeypatch.setattr(atexit, "register", lambda step, *more, **named: step)
    monkeypatch.setattr(atexit, "unregister", lambda step: None)


def killed(board: PciWorld, at: int) -> PciWorld:
    """A life that ends at its `at`-th access; the next process."""
    board.panel.fail(Kind.KILL, at=at)
    try:
        life(board)
    except Killed as end:
        let_go(end)
    check(board.dead, f"nobody was killed at access {at}, {reproduced()}")
    board.hardware.forget_violations()
    return another_process(board)


@pytest.mark.parametrize("name", ["gfx1100", "gfx1100 without an IOMMU", "gfx1201"])
def test_killed_at_every_20th_access(name: str) -> None:
    chip, _, bare = name.partition(" ")
    more = {"iommu": not bare, "iommufd": chip != "gfx1201"}
    total, _ = accesses(chip, **more)
    board = machine(chip, **more)
    for at in range(1 + offset() % EVERY, total + 1, EVERY):
        board = killed(board, at)
        if at // EVERY % 2:
            outcomes = restore_all(ForeignWorld(board), ForeignState(board.state))
            check(all(outcome.ok for outcome in outcomes), f"at {at}, {reproduced()}: {outcomes}")
            check(driver_of(board) == "amdgpu", f"at {at}, {reproduced()}: {outcomes}")
        life(board)
        given_back(board)
        found = [str(violation) for violation in board.violations if violation.kind != ALREADY]
        check(not found, f"at {at}, {reproduced()}, the next life: {found}")


def test_killed_again_and_again_before_it_is_given_back() -> None:
    """The record of the first owner goes from one to the next."""
    board = machine("gfx1100")
    for at in (40, 400, 700, 5, 600):
        board = killed(board, at)
        check(driver_of(board) == "vfio-pci", f"{driver_of(board)} after {at}")
    life(board)
    given_back(board)


def test_a_killed_owner_leaves_no_dma_and_no_lock() -> None:
    board = machine("gfx1100")
    board = killed(board, 700)
    slot = board.machine.slot(0)
    check(slot.domain is None and not slot.word(4) & 4, "the kernel closed its device")
    check(not slot.opened and not board.machine.kernel.owned_groups)

"""A GPU goes back to a kernel driver that does not reset it: Navi 32 without a display."""

from __future__ import annotations

import atexit

import pytest

from boards.amd.pci_machine import another_process
from boards.machine.pci.panel import Killed, Kind
from boards.machine.pci.world import PciWorld
from drivers.amd.claim_chips import known
from drivers.amd.pci import boot, opening
from drivers.amd.pci.handover import recover
from drivers.base.errors import DeviceTimeout, Unsupported
from drivers.claim.claim import claim
from drivers.claim.record import Method
from drivers.claim.restoring import restore_all
from drivers.pci.functions import PciFunction
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from tests.boards.driver_harness import open_over_pci
from tests.reliability.amd_scene import let_go
from tests.reliability.pci_scene import (
    DRIVER,
    GPU,
    accesses,
    driver_of,
    given_back,
    life,
    machine,
    work,
)
from tests.support import check

ORDER_DW = 0x1628B
"""src: mp_13_0_2_offset.h regMP1_SMN_C2PMSG_75, smu_v13_0_0_set_smu_mailbox_registers()"""
MEETS = "amdgpu meets another driver's PSP ring"


@pytest.fixture(autouse=True)
def no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed runs no exit handlers."""
    monkeypatch.setattr(atexit, "register", lambda step, *more, **named: step)
    monkeypatch.setattr(atexit, "unregister", lambda step: None)


@pytest.mark.parametrize("iommu", [True, False])
def test_amdgpu_finds_no_ring_of_ours(iommu: bool) -> None:
    board = machine("gfx1101", iommu=iommu)
    for _ in range(2):
        life(board)
        given_back(board)
    check(board.violations == [], f"{board.violations}")


def orders(chip: str, *, amdgpu: bool = True) -> int:
    """How often a life orders a mode-1 reset: one at takeover, where amdgpu had the GPU."""
    board, found = machine(chip, amdgpu=amdgpu), 0

    def count(access: str, where: str, nbytes: int, value: int) -> None:
        nonlocal found
        found += (access, where) == ("write", f"BAR 5 {4 * ORDER_DW:#x}")

    board.panel.watch = count
    life(board)
    return found


def killed(iommu: bool) -> PciWorld:
    """A machine whose owner was killed in the middle of its work; the next process."""
    total, closing = accesses("gfx1101", iommu=iommu)
    board = machine("gfx1101", iommu=iommu)
    board.panel.fail(Kind.KILL, at=closing - 1)
    with pytest.raises(Killed) as end:
        life(board)
    let_go(end.value)
    board.hardware.forget_violations()
    check(closing < total, "it never closes")
    return another_process(board)


@pytest.mark.parametrize("iommu", [True, False])
def test_a_killed_owners_gpu_is_reset_before_it_goes_back(iommu: bool) -> None:
    board = killed(iommu)
    found = restore_all(ForeignWorld(board), ForeignState(board.state), recover)
    check([one.ok for one in found] == [True], f"{found}")
    given_back(board)
    check(board.violations == [], f"{board.violations}")


def test_the_board_notices_a_gpu_that_was_not_reset() -> None:
    board = killed(iommu=True)
    found = restore_all(ForeignWorld(board), ForeignState(board.state))
    check([one.ok for one in found] == [True], f"{found}")
    check([one.kind for one in board.violations] == [MEETS], f"{board.violations}")


def never(function: PciFunction, method: Method) -> None:
    raise Unsupported("it does not fit")


def clean(board: PciWorld) -> None:
    given_back(board)
    check(board.violations == [], f"{board.violations}")


def test_a_claim_that_fails_resets_what_a_killed_owner_left() -> None:
    board = killed(iommu=True)
    world, state = ForeignWorld(board), ForeignState(board.state)
    with pytest.raises(Unsupported, match="does not fit"):
        claim(world, state, GPU, known, fits=never, recover=recover)
    clean(board)


def test_a_claim_by_another_method_resets_what_a_killed_owner_left() -> None:
    board = killed(iommu=True)
    world, state = ForeignWorld(board), ForeignState(board.state)
    claim(world, state, GPU, known, Method.BARS, recover=recover).close()
    clean(board)


def test_an_opening_that_fails_before_the_boot_resets_what_a_killed_owner_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board = killed(iommu=True)
    monkeypatch.setattr(opening, "open_session", refused)
    with pytest.raises(Unsupported, match="no session"):
        open_over_pci(board)
    clean(board)


def test_an_opening_that_fails_before_the_boot_leaves_amdgpus_own_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board, found = machine("gfx1101"), []
    board.panel.watch = lambda access, where, *_: found.append((access, where))
    monkeypatch.setattr(opening, "open_session", refused)
    with pytest.raises(Unsupported, match="no session"):
        open_over_pci(board)
    link = ("write", "config 0x74")  # ASPM off, and on again
    check(found == [link, link], f"{found}: accesses to a GPU that was not used")
    clean(board)


def refused(*given: object, **named: object) -> None:
    raise Unsupported("no session")


def test_a_gpu_whose_reset_fails_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    board = machine("gfx1101")
    device = open_over_pci(board)
    work(device)
    with monkeypatch.context() as broken:
        broken.setattr(boot, "reset", no_reset)
        with pytest.raises(DeviceTimeout, match="no answer"):
            device.close()
    check(driver_of(board) == "vfio-pci", f"{driver_of(board)} has a GPU with our state")
    device.close()
    check(driver_of(board) == "vfio-pci", "a second close hands it over")
    found = restore_all(ForeignWorld(board), ForeignState(board.state), recover)
    check([one.ok for one in found] == [True], f"{found}")
    clean(board)


def no_reset(gpu: object) -> str:
    raise DeviceTimeout("no answer to mode-1 reset", register="MP1", last=0)


def test_a_gpu_whose_owner_died_between_unbind_and_bind_is_given_back() -> None:
    """The record says VFIO, and no driver has it."""
    board = killed(iommu=True)
    world, state = ForeignWorld(board), ForeignState(board.state)
    with claim(world, state, GPU, known) as claimed:
        recover(world, claimed.record)
        claimed.leave()
    world.write(f"{DRIVER}/unbind", GPU.encode())
    check(driver_of(board) == "", driver_of(board))
    found = restore_all(world, state, recover)
    check([one.ok for one in found] == [True], f"{found}")
    clean(board)


def test_other_chips_are_left_to_amdgpus_own_reset() -> None:
    check((orders("gfx1100"), orders("gfx1101")) == (1, 2), "resets that were ordered")


def test_a_gpu_that_no_kernel_driver_had_stays_warm() -> None:
    check(orders("gfx1101", amdgpu=False) == 0, "the next life would boot cold")

"""The link of a GPU that is ours stays awake (ASPM off), and may sleep again afterwards.

src: PCI Express Base Specification 4.0, 7.5.3.7: Link Control is at 10h of the capability, ASPM
Control its bits 1:0; Linux 6.12 vfio_pci_config.c, which writes none of it.
"""

from __future__ import annotations

import atexit
import warnings

import pytest

from boards.amd.pci_machine import another_process
from boards.machine.pci.panel import Killed, Kind
from boards.machine.pci.world import PciWorld
from drivers.amd.pci.handover import recover
from drivers.claim.restoring import restore_all
from drivers.pci.functions import look_at
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from tests.boards.driver_harness import open_over_pci
from tests.boards.pci_bench import to_vfio
from tests.boards.usb_rig import UsbRig
from tests.reliability.amd_scene import let_go
from tests.reliability.pci_scene import accesses, given_back, life, machine, work
from tests.support import check

LINK_CONTROL = 0x64 + 0x10
L1, CLOCK = 2, 0x40


@pytest.fixture(autouse=True)
def no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed runs no exit handlers."""
    monkeypatch.setattr(atexit, "register", lambda step, *more, **named: step)
    monkeypatch.setattr(atexit, "unregister", lambda step: None)


def link(board: PciWorld) -> int:
    config = board.machine.slot(0).gpu.config
    return int.from_bytes(config.read(LINK_CONTROL, 2), "little")


@pytest.mark.parametrize("iommu", [True, False])
@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201"])
def test_the_link_is_awake_while_the_gpu_is_ours(chip: str, iommu: bool) -> None:
    board = machine(chip, iommu=iommu)
    check(link(board) == L1 | CLOCK, "as the firmware leaves it")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_over_pci(board) as device:
            check(link(board) == CLOCK, f"{link(board):#x}")
            work(device)
    check(link(board) == L1 | CLOCK, f"{link(board):#x} afterwards")
    given_back(board)
    check(not board.violations, f"{board.violations}")


@pytest.mark.parametrize("iommu", [True, False])
def test_a_killed_owner_s_link_is_put_back(iommu: bool) -> None:
    _, closing = accesses("gfx1100", iommu=iommu)
    board = machine("gfx1100", iommu=iommu)
    board.panel.fail(Kind.KILL, at=closing - 1)
    with pytest.raises(Killed) as end:
        life(board)
    let_go(end.value)
    board.hardware.forget_violations()
    check(link(board) == CLOCK, "it was ours")
    later = another_process(board)
    outcomes = restore_all(ForeignWorld(later), ForeignState(later.state), recover)
    check(all(one.ok for one in outcomes) and len(outcomes) == 1, f"{outcomes}")
    check(link(later) == L1 | CLOCK, f"{link(later):#x}")


@pytest.mark.parametrize("keeps", [True, False])
def test_a_reset_that_loses_it(keeps: bool) -> None:
    """What a mode-1 reset puts back to power-on is switched off again."""
    board = machine("gfx1100", iommu=False)
    gpu = board.machine.slot(0).gpu
    gpu.options.reset_keeps_config = keeps
    with open_over_pci(board):
        check(link(board) == CLOCK, f"{link(board):#x}")
    check(link(board) == L1 | CLOCK, f"{link(board):#x}")


def test_vfio_that_was_bound_before_is_warned_of() -> None:
    """The kernel writes no Link Control for us, and the record has nothing to put back."""
    board = machine("gfx1100", iommu=True)
    to_vfio(board)
    with pytest.warns(RuntimeWarning, match=r"ASPM.*setpci -s 0000:03:00.0 CAP_EXP\+10.w=0:3"):
        life(board)
    check(link(board) == L1 | CLOCK, f"{link(board):#x}")
    check(look_at(ForeignWorld(board), "0000:03:00.0").driver == "vfio-pci")
    check(not board.violations, f"{board.violations}")


def test_behind_a_usb_bridge_it_is_off() -> None:
    rig = UsbRig()
    with rig.opened():
        check(rig.gpu.config.aspm == 0, f"{rig.gpu.config.aspm}")

"""Every access of a boot to the bus goes wrong once; then the next boot on the same GPU works.

An access that is lost without an answer (a write) may leave nothing to see: then the boot succeeds.
One loss is for good on a chip without a reset of its own: a stage of the bootloader that it was
never told to load, because it takes stages in order and only once. The error says so.
"""

from __future__ import annotations

import os

import pytest

from boards.amd.pci_panel import Kind
from boards.amd.pci_world import PciWorld
from drivers.amd.firmware import FirmwareSet
from drivers.amd.pci import boot
from drivers.amd.pci.psp_bootloader import STAGES
from drivers.base.errors import DeviceError, DeviceGone, DeviceTimeout, FirmwareRejected
from tests.amd_bare import firmware, identified, open_pci_board
from tests.support import check

STRIDE = int(os.environ.get("UNBOUND_SWEEP_STRIDE", "13"))
"""Which accesses: 1 is every one, a minute alone, and far more beside other threads."""


def accesses(chip: str, *, warm: bool) -> int:
    """How many a boot makes."""
    board = open_pci_board(chip)
    files = firmware(board)
    if warm:
        with identified(board) as gpu:
            boot.start(gpu, files)
            boot.leave(gpu)
    with identified(board) as gpu:
        before = board.panel.count
        boot.start(gpu, files)
        return board.panel.count - before


def attempt(board: PciWorld, files: FirmwareSet, kind: Kind, at: int) -> DeviceError | None:
    """A boot whose `at`-th access goes wrong: its error."""
    with identified(board) as gpu:
        board.panel.fail(kind, at=at)
        try:
            boot.start(gpu, files)
        except DeviceError as error:
            named = any(error.message.startswith(f"{name}: ") for name in STEPS)
            check(named, f"{kind} at {at}: no step in {error!r}")
            if isinstance(error, DeviceTimeout):
                check(error.register and error.register in error.message, f"{error!r}")
            return error
        finally:
            board.panel.heal()
        boot.leave(gpu)
    return None


def again(board: PciWorld, files: FirmwareSet, error: DeviceError | None) -> int:
    """The next boot. Returns: 1 when it needs the machine to be powered off."""
    try:
        with identified(board) as gpu:
            boot.start(gpu, files)
            boot.leave(gpu)
    except FirmwareRejected as later:
        check("the bootloader refuses" in later.message, f"{later!r} after {error!r}")
        check("power the machine off" in later.hint, later.hint)
        return 1
    return 0


STEPS = (
    "look whose it is", "take over: mode-1 reset", "open doorbells", "memory hub", "find VRAM",
    "interrupts", "load firmware", "power management", "graphics firmware", "say who is inside",
    "graphics core", "copy engines", "one partition", "count compute units", "clocks",
)  # fmt: skip


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("kind", [Kind.ONES, Kind.STUCK, Kind.TIMEOUT])
def test_one_access_goes_wrong(kind: Kind, warm: bool) -> None:
    total, failed, lost = accesses("gfx1100", warm=warm), 0, 0
    for at in range(1, total + 1, STRIDE):
        board = open_pci_board("gfx1100")
        files = firmware(board)
        if warm:
            with identified(board) as gpu:
                boot.start(gpu, files)
                boot.leave(gpu)
        error = attempt(board, files, kind, at)
        failed += error is not None
        lost += again(board, files, error)
    check(failed > 0, f"none of {total} accesses mattered")
    bad = kind is not Kind.TIMEOUT and not warm
    check(lost <= len(STAGES) * bad, f"{lost} boots could not be repeated")


def test_the_gpu_leaves_the_bus() -> None:
    """Wherever it happens, DeviceGone says so, naming step and register; undoing ends too."""
    total = accesses("gfx1100", warm=False)
    for at in range(1, total, 5 * STRIDE):
        board = open_pci_board("gfx1100")
        files = firmware(board)
        with pytest.raises(DeviceError) as error:
            vanish(board, files, at)
        check(isinstance(error.value, DeviceGone), f"at {at}: {error.value!r}")


def vanish(board: PciWorld, files: FirmwareSet, at: int) -> None:
    """A boot during which the GPU leaves the bus."""
    with identified(board) as gpu:
        board.panel.fail(Kind.GONE, at=at)
        boot.start(gpu, files)

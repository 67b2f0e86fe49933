"""Some accesses of a boot to the bus go wrong once; then the next boot on the same GPU works.

Each run of the suite tries other accesses; UNBOUND_SWEEP_OFFSET chooses them. An access that is
lost without an answer (a write) may leave nothing to see: then the boot succeeds. One loss is for
good on a chip that is not booted: a stage of the bootloader that it never had an order to load,
because it takes stages in order and only once. The error says to power the machine off.
"""

from __future__ import annotations

import pytest

from boards.machine.pci.panel import Kind
from boards.machine.pci.world import PciWorld
from drivers.amd.firmware.assemble import FirmwareSet
from drivers.amd.pci import boot
from drivers.amd.pci.psp_bootloader import STAGES
from drivers.base.errors import DeviceError, DeviceGone, DeviceTimeout, FirmwareRejected
from tests.amd_bare import firmware, identified, open_pci_board
from tests.support import check
from tests.sweep.offset import reproduced, sample
from tests.sweep.places import CHIPS
from tests.sweep.silence import must_be_noticed
from tests.sweep.words import BOOT_STEPS, step_of, unnamed

TRIES = 6
"""Of each chip, cold and warm, in each way: about 12 s in all."""
KINDS = (Kind.TIMEOUT, Kind.ONES, Kind.STUCK)


def booted(chip: str, *, warm: bool) -> tuple[PciWorld, FirmwareSet]:
    """A machine that is not booted, or one that a boot of ours has left."""
    board = open_pci_board(chip)
    files = firmware(board)
    if warm:
        with identified(board) as gpu:
            boot.start(gpu, files)
            boot.leave(gpu)
    return board, files


def accesses(chip: str, *, warm: bool) -> int:
    """How many a boot makes."""
    board, files = booted(chip, warm=warm)
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
            judge(board, kind, at, error)
            return error
        finally:
            board.panel.heal()
        boot.leave(gpu)
    return None


def judge(board: PciWorld, kind: Kind, at: int, error: DeviceError) -> None:
    """The error names a step of the boot, and the register. Raises: AssertionError."""
    broke = board.panel.broke[-1]
    shown = f"{kind} at {at}, {broke}, {reproduced()}: {error!r}"
    check(not unnamed(board, kind, broke, error), f"{unnamed(board, kind, broke, error)}: {shown}")
    check(step_of(error.message) in BOOT_STEPS, shown)
    if isinstance(error, DeviceTimeout) and not broke.startswith("call"):
        check(error.register and error.register in error.message, shown)


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


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chip", CHIPS)
def test_one_access_goes_wrong(chip: str, kind: Kind, warm: bool) -> None:
    total, lost = accesses(chip, warm=warm), 0
    for at in sample(total, TRIES, KINDS.index(kind)):
        board, files = booted(chip, warm=warm)
        error = attempt(board, files, kind, at)
        broke = board.panel.broke[-1]
        why = "" if error else must_be_noticed(board, kind, broke, closing=warm)
        check(not why, f"{kind} at {at}, {broke}, {reproduced()}: unnoticed, {why}")
        lost += again(board, files, error)
    bad = kind is not Kind.TIMEOUT and not warm
    check(lost <= len(STAGES) * bad, f"{lost} boots could not be repeated, {reproduced()}")


@pytest.mark.parametrize("chip", CHIPS)
def test_the_gpu_leaves_the_bus(chip: str) -> None:
    """Wherever it happens, DeviceGone says so, naming step and register; undoing ends too."""
    for at in sample(accesses(chip, warm=False) - 1, TRIES):
        board, files = booted(chip, warm=False)
        with pytest.raises(DeviceGone) as error:
            vanish(board, files, at)
        broke = board.panel.broke[-1]
        missing = unnamed(board, Kind.GONE, broke, error.value)
        check(not missing, f"at {at}, {broke}, {reproduced()}: {missing}: {error.value!r}")


def vanish(board: PciWorld, files: FirmwareSet, at: int) -> None:
    """A boot during which the GPU leaves the bus."""
    with identified(board) as gpu:
        board.panel.fail(Kind.GONE, at=at)
        boot.start(gpu, files)


def test_a_bootloader_that_missed_a_stage_needs_a_power_cycle() -> None:
    """The one loss that no next boot repairs, found by its register; the error gives the remedy."""
    board, files = booted("gfx1100", warm=False)
    command = board.gpus[0].board.block("MP0").address_dw("MP0_SMN_C2PMSG_35") * 4
    stages: list[int] = []
    with identified(board) as gpu:
        first = board.panel.count
        board.panel.watch = lambda access, where, nbytes, value: (
            stages.append(board.panel.count - first)
            if (access, where) == ("write", f"BAR 5 {command:#x}")
            else None
        )
        boot.start(gpu, files)
    lost = 0
    for at in stages:
        board, files = booted("gfx1100", warm=False)
        lost += again(board, files, attempt(board, files, Kind.ONES, at))
    check(0 < lost < len(stages), f"{lost} of {len(stages)} lost stages need a power cycle")

"""Some accesses of a life with a bare GPU to its bus go wrong once; then the next life works.

Goals: R4 of docs/safety.md (transport sweep): open, copy in, dispatch, copy out, close. Each run
of the suite tries other accesses, a few on each machine; `make sweep` tries all of them. What has
to hold of a try is in tests/sweep.
"""

from __future__ import annotations

import pytest

from boards.amd.pci import smu
from boards.machine.pci.panel import Kind
from drivers.base.errors import DeviceFault, DeviceGone, Hang, NotFound
from tests.reliability.pci_scene import given_back, life, machine
from tests.share import part
from tests.support import check
from tests.sweep.attempt import Outcome, Tries
from tests.sweep.offset import reproduced, sample
from tests.sweep.places import PLACES, Place
from tests.sweep.silence import must_be_noticed
from tests.sweep.words import accessed, step_of, unnamed

TRIES = 8
"""On each machine, in each way. What sticks may take seconds, where it is polled to the end."""
GONE_TRIES = 3
KINDS = (Kind.TIMEOUT, Kind.ONES, Kind.STUCK, Kind.GARBAGE)


def tried(place: Place, kind: Kind, count: int, salt: int) -> list[Outcome]:
    """A sample of the accesses, each of which goes wrong. Raises: AssertionError."""
    plan = place.plan()
    check(len(plan.log) > 600, f"a life makes {len(plan.log)} accesses: too few")
    ats, tries = plan.ats(kind), Tries(place, plan.closing)
    found = [tries.run(kind, ats[number - 1]) for number in sample(len(ats), count, salt)]
    check(len(found) >= count, f"{len(found)} tries")
    bad = [f"{one.at}, {one.access}: {one.problem}" for one in found if one.problem]
    check(not bad, f"{place}, {kind}, {reproduced()}: " + "\n".join(bad))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_one_access_goes_wrong(place: Place, kind: Kind) -> None:
    found = tried(place, kind, part(TRIES, 3), KINDS.index(kind))
    noticed = sum(bool(one.error) for one in found)
    if kind is Kind.TIMEOUT:  # all but those for which closing waits: see tests.sweep.silence
        check(noticed >= len(found) - 2, f"{noticed} of {len(found)} time-outs were noticed")


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_gpu_leaves_the_bus(place: Place) -> None:
    """Wherever it happens, an error of ours; the process ends, and nothing hangs."""
    found = tried(place, Kind.GONE, GONE_TRIES, 0)
    check(all(one.error for one in found), f"{reproduced()}: {found}")


def test_a_reset_that_takes_its_answer_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is busy elsewhere looks for the answer after the registers forgot it."""
    monkeypatch.setattr(smu, "RESET_S", 0.0)
    board = machine("gfx1100")
    life(board)
    given_back(board)


def test_what_an_error_has_to_name() -> None:
    """The sweep's own judgement: a hint names nothing, and neither does another register."""
    board = PLACES[0].board()
    dword = board.gpus[0].board.block("GC").address_dw("CP_HQD_VMID")
    broke = f"read BAR 5 {dword * 4:#x}"
    check(accessed(board, broke) == ["CP_HQD_VMID"], f"{accessed(board, broke)}")
    step = "graphics core: "
    reported = {
        "GC.CP_HQD_VMID: ETIMEDOUT": "no step",
        step + "GC.CP_HQD_PQ_BASE: ETIMEDOUT": "not ['CP_HQD_VMID']",
        step + "the data is bad": "not ['CP_HQD_VMID']",
        step + "GC.CP_HQD_VMID: ETIMEDOUT": "",
    }
    for message, missing in reported.items():
        error = DeviceGone(message, hint="read GC.CP_HQD_VMID again")
        check(unnamed(board, Kind.TIMEOUT, broke, error) == missing, message)
    late = NotFound(step + "the index of the BAR is in its config data", hint="AMD_IFACE=PCI")
    check(unnamed(board, Kind.ONES, broke, late).startswith("no register"), f"{late}")
    hang = Hang("AMD:0 compute queue made no progress for 10 s", queue="AMD:0 compute queue")
    check(unnamed(board, Kind.ONES, broke, hang) == "", f"{hang}")
    other = DeviceFault(f"{step}unmapped read", kind="unmapped", queue="AMD:0 copy queue")
    check(unnamed(board, Kind.ONES, broke, other) == "no queue", f"{other}")
    check(step_of("undoing load firmware: MP0 is mute") == "load firmware")


def test_what_has_to_be_noticed() -> None:
    board = PLACES[0].board()
    block = board.gpus[0].board.block("GC")
    vmid, other = (
        f"write BAR 5 {block.address_dw(name) * 4:#x}" for name in ("CP_HQD_VMID", "SCRATCH_REG0")
    )
    check(must_be_noticed(board, Kind.ONES, vmid, closing=False), vmid)
    check(not must_be_noticed(board, Kind.ONES, other, closing=False), other)
    check(must_be_noticed(board, Kind.TIMEOUT, other, closing=True), other)
    active = f"read BAR 5 {block.address_dw('CP_HQD_ACTIVE') * 4:#x}"
    check(must_be_noticed(board, Kind.TIMEOUT, active, closing=False), active)
    check(not must_be_noticed(board, Kind.TIMEOUT, active, closing=True), active)
    order = f"write BAR 5 {board.gpus[0].board.block('MP1').address_dw('MP1_SMN_C2PMSG_66') * 4:#x}"
    check(must_be_noticed(board, Kind.TIMEOUT, order, closing=False), order)
    check(not must_be_noticed(board, Kind.TIMEOUT, order, closing=False, reset=True), order)

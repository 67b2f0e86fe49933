"""The scenario of the real amdgpu, without a guest: which checks a board has, whose sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from boards.vfio_user.journal import Journal
from tests.support import check
from tests.vm import amdgpu, faults
from tests.vm.accepted import Broken, unexplained
from tests.vm.amdgpu_vfio import CHECKS, Behind
from tests.vm.lab import Lab
from tests.vm.machine import Places

NOWHERE = Path("/nonexistent")


class Guest(Lab):
    """A lab whose guest does nothing."""

    def start(self, limit_s: float = 600) -> None:
        pass

    def run(self, command: str, limit_s: float = 600) -> tuple[int, str]:
        return 0, ""


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    """With a journal of a board in its folder."""
    return Guest(Places(NOWHERE, NOWHERE, NOWHERE), tmp_path)


def ran(
    guest: Guest, monkeypatch: pytest.MonkeyPatch, boards: Sequence[str], **more: Any
) -> dict[str, list[str]]:
    """The names of checks and faults, by board, in a run where all pass."""
    found: dict[str, list[str]] = {board: [] for board in boards}

    def made(self: amdgpu.Scenario, name: str, what: Callable[[], str]) -> bool:
        found[self.board].append(f"{self.rounds} rounds" if name.startswith("taken") else name)
        return True

    def faulted(self: amdgpu.Scenario, names: Sequence[str]) -> None:
        found[self.board] += names

    monkeypatch.setattr(amdgpu.Scenario, "check", made)
    monkeypatch.setattr(amdgpu.Scenario, "_faults", faulted)
    amdgpu.run(guest, boards, **more)
    return found


def test_the_first_board_has_all_checks(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(guest, monkeypatch, ("gfx1100", "gfx1102", "gfx1201"), whole=False)
    first, second, third = found.values()
    every = [name for names in faults.PROCESSES for name in names]
    check(all(name in first for name in [*every, "two processes", "3 rounds"]), f"{first}")
    check(not set(every) & set(second) and "1 rounds" in second, f"{second}")
    for names in found.values():
        for needed in ("amdgpu binds", "smoke over KFD", "unload and second load", "kernel log"):
            check(needed in names, f"{needed} is not in {names}")
    check([faults.LAST in names for names in found.values()] == [False, False, True], f"{third}")
    check("unload" in second and "unload" not in third, "Linux cannot remove it after the last")


def test_all_checks_on_all_boards(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(guest, monkeypatch, ("gfx1100", "gfx1102"), rounds=20, whole=True)
    check(all("20 rounds" in names and "read" in names for names in found.values()), f"{found}")


def test_sessions_of_our_driver_are_those_after_amdgpu_let_go(guest: Guest) -> None:
    journal = guest.folder / "gfx1100.txt"
    with journal.open("w") as out:
        kept = Journal("gfx1100", out)
        for on in (True, False, True):
            kept.interrupts(on=on)
    scenario = Behind(guest, "gfx1100", 0)
    scenario._one("killed_and_restored")
    check(scenario.own == set(), "it is killed before it has MSI on")
    scenario._one("tensor_program_over_vfio")
    check(scenario.own == {3}, f"{scenario.own}")
    scenario._one("smoke")
    check(scenario.own == {3, 6}, "of the two times that it opens the GPU")
    check(all(kind == "FAIL" for kind, _ in scenario.lines), "a guest that said nothing passed")
    check(len(scenario.lines) == 3 and set(CHECKS) >= {"seen", "dry_run"}, "its own line")


def test_nothing_is_accepted_of_our_driver() -> None:
    text = "HDP flush under way: queue 0 of SDMA0: no register was read since the flush"
    late = Broken(3, 1, text)
    check(unexplained([late], 1, "gfx1100")[0] == [], "of amdgpu")
    check(len(unexplained([late], 1, "gfx1100", {3})[0]) == 1, "of our driver")

"""Violations that `make vm` accepts of the real amdgpu: each with a reason, and no others."""

from __future__ import annotations

import pytest

from tests.support import check
from tests.vm.accepted import ACCEPTED, Broken, broken, unexplained

SPM = "write before its block is up: GC[0].RLC_SPM_MC_CNTL (0xf)"
NOWHERE = "unknown register: read of dword {} ({})"
FLUSH = "HDP flush under way: {}: no register was read since the flush"


def left(*violations: Broken, binds: int = 1) -> list[str]:
    return unexplained(violations, binds)[0]


def test_each_has_a_reason_and_a_source() -> None:
    for one in ACCEPTED:
        sourced = ".c " in one.source or one.source.startswith("measured: ")
        check(len(one.reason) > 20 and sourced, one.pattern)


@pytest.mark.parametrize(
    "text",
    [SPM.replace("RLC_SPM_MC_CNTL", "RLC_CNTL"), SPM.replace("0xf", "0x5"),
     SPM.replace("0xf", "0xf0")],
)  # fmt: skip
def test_another_register_or_value_is_not_accepted(text: str) -> None:
    check(left(Broken(0, 1, SPM)) == [], "accepted once")
    check(len(left(Broken(0, 1, text))) == 1, text)


def test_once_for_each_bind() -> None:
    check(left(Broken(0, 2, SPM), binds=2) == [], "two binds")
    check(len(left(Broken(0, 2, SPM))) == 1, "twice in one")
    check(len(left(Broken(1, 1, SPM))) == 1, "amdgpu has MSI on, so its engines are up")
    check(left(Broken(0, 1, NOWHERE.format("0xde5", "0x0"))) == [], "an early one")
    check(len(left(Broken(0, 3, NOWHERE.format("0xde5", "0x0")))) == 1, "too often")


def test_registers_that_are_not_modelled_are_listed() -> None:
    check(left(Broken(2, 7, NOWHERE.format("0x162c3", "0x1"))) == [], "a listed one")
    check(len(left(Broken(2, 1, NOWHERE.format("0x162c4", "0x1")))) == 1, "another")


@pytest.mark.parametrize(
    "text", [FLUSH.format("queue 0 of SDMA0"), "unknown register: read of dword 0x162c3 (0x0)"]
)
def test_nothing_is_accepted_while_no_kernel_driver_has_the_gpu(text: str) -> None:
    check(len(left(Broken(0, 1, text))) == 1, text)


def test_readers_of_a_flush_that_is_under_way_are_named() -> None:
    known = ["GCHUB, invalidation by engine 17", "queue 0 of SDMA0", "queue 1.0.2 of GC[0]",
             "graphics queue at doorbell 278"]  # fmt: skip
    check(left(*(Broken(1, 9, FLUSH.format(who)) for who in known)) == [], "known readers")
    for who in ("PSP bootloader", "PSP ring", "queue 1.0.2 of GC[0], its MQD"):
        check(len(left(Broken(1, 1, FLUSH.format(who)))) == 1, who)


def test_a_boards_log_is_read_by_session() -> None:
    lines = [f"broken in session 2: 3 x {SPM}", "sessions with MSI: 2", f"violation: {SPM}",
             "violation: another: one"]  # fmt: skip
    found, sessions = broken(lines)
    check(found == [Broken(2, 3, SPM), Broken(0, 1, "another: one")], f"{found}")
    check(sessions == 2, f"{sessions}")

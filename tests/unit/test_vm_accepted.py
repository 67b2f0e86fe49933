"""Violations that `make vm` accepts of the real amdgpu: each with a reason, and no others."""

from __future__ import annotations

from tests.support import check
from tests.vm.accepted import ACCEPTED, unexplained


def test_each_has_a_reason_and_a_source() -> None:
    for one in ACCEPTED:
        check(len(one.reason) > 20 and ".c " in one.source, one.pattern)


def test_another_register_of_the_same_kind_is_not_accepted() -> None:
    known = "write before its block is up: GC[0].RLC_SPM_MC_CNTL (0xf)"
    other = "write before its block is up: GC[0].RLC_CNTL (0x1)"
    left, used = unexplained([known, other, known])
    check(left == [other], f"{left}")
    check(len(used) == 1, f"{used}")

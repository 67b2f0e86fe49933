"""Our boots beside amdgpu's on the same boards: a difference without a committed reason fails.

amdgpu's boots were recorded in `make vm`'s guest (tests/vm/boots.py); ours are made here.
"""

import pytest

from boards.compare_reasons import Difference
from tests.support import check
from tests.vm import boots
from tests.witness import own_boot


@pytest.mark.parametrize("chip", boots.CHIPS)
def test_every_difference_to_amdgpu_has_a_reason(chip: str) -> None:
    ours, theirs = own_boot.boot(chip, boots.VRAM_BYTES), boots.recorded(chip)
    comparison, reasons = boots.against(ours, theirs)
    new = reasons.new(comparison.differences)
    check(not new, f"without a reason: {[str(one) for one in new]}")
    stale = [reason.names for reason in reasons.stale()]
    check(not stale, f"reasons for nothing: {stale}")
    check(comparison.equal > 150, f"only {comparison.equal} registers are alike")


def test_a_changed_value_of_our_boot_is_a_new_difference() -> None:
    ours, theirs = own_boot.boot("gfx1100", boots.VRAM_BYTES), boots.recorded("gfx1100")
    for name in (  # alike, or with a reason for another pair of values
        "GC[0].GCVM_L2_CNTL3", "GC[0].GCVM_L2_CNTL", "GC[0].GCVM_CONTEXT8_CNTL",
        "GC[0].GCVM_CONTEXT0_CNTL", "GC[0].GCVM_CONTEXT9_CNTL", "MMHUB[0].MMVM_CONTEXT0_CNTL",
        "MMHUB[0].MMVM_CONTEXT15_CNTL",
    ):  # fmt: skip
        before = ours.last[name]
        ours.last[name] ^= 1 << 30
        comparison, reasons = boots.against(ours, theirs)
        pair = (ours.last[name], theirs.last[name])
        check(reasons.new(comparison.differences) == [Difference("value", name, pair)], name)
        ours.last[name] = before


@pytest.mark.parametrize(
    "name",
    [
        "GC[0].GCVM_CONTEXT8_PAGE_TABLE_START_ADDR_LO32",
        "GC[0].GCVM_CONTEXT8_PAGE_TABLE_END_ADDR_HI32",
        "MMHUB[0].MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32",
        "GC[0].CP_ME1_PIPE0_INT_CNTL",
    ],
)
def test_a_register_that_our_boot_leaves_out_is_a_new_difference(name: str) -> None:
    ours, theirs = own_boot.boot("gfx1100", boots.VRAM_BYTES), boots.recorded("gfx1100")
    del ours.last[name]
    comparison, reasons = boots.against(ours, theirs)
    check(reasons.new(comparison.differences) == [Difference("second", name)], name)


def test_another_register_of_the_scheduler_is_a_new_difference() -> None:
    ours, theirs = own_boot.boot("gfx1100", boots.VRAM_BYTES), boots.recorded("gfx1100")
    name = "GC[0].CP_MES_INTERRUPT"
    theirs.last[name] = 1
    comparison, reasons = boots.against(ours, theirs)
    check(reasons.new(comparison.differences) == [Difference("second", name)], name)


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1101", "gfx1102"])
def test_cp_debug_is_written_where_linux_writes_it(chip: str) -> None:
    """src: gfxhub_v3_0.c gfxhub_v3_0_set_fault_enable_default(); gfxhub_v3_0_3.c has no such"""
    written = "GC[0].CP_DEBUG" in own_boot.boot(chip, boots.VRAM_BYTES).last
    check(written == (chip != "gfx1101"), f"{chip}: {written}")

"""Our boots beside tinygrad's on the same boards: a difference without a committed reason fails.

tinygrad's boots were recorded by `make witness-tinygrad ARGS=--record`; ours are made here.
"""

import pytest

from boards.compare_reasons import Difference
from tests.support import check
from tests.witness import own_boot, tinygrad_boots


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201", "gfx942"])
def test_every_difference_to_tinygrad_has_a_reason(chip: str) -> None:
    ours, theirs = own_boot.boot(chip), tinygrad_boots.recorded(chip)
    comparison, reasons = tinygrad_boots.against(ours, theirs)
    new = reasons.new(comparison.differences)
    check(not new, f"without a reason: {[str(one) for one in new]}")
    stale = [reason.names for reason in reasons.stale()]
    check(not stale, f"reasons for nothing: {stale}")
    check(comparison.equal > 200, f"only {comparison.equal} registers are alike")


def test_a_changed_value_of_our_boot_is_a_new_difference() -> None:
    ours, theirs = own_boot.boot("gfx1100"), tinygrad_boots.recorded("gfx1100")
    for name in ("GC[0].GCVM_L2_CNTL3", "GC[0].GCVM_L2_CNTL"):  # one alike, one with a reason
        before = ours.last[name]
        ours.last[name] ^= 1 << 30
        comparison, reasons = tinygrad_boots.against(ours, theirs)
        pair = (ours.last[name], theirs.last[name])
        check(reasons.new(comparison.differences) == [Difference("value", name, pair)], name)
        ours.last[name] = before
    ours.phases.insert(0, ours.phases.pop())
    comparison, reasons = tinygrad_boots.against(ours, theirs)
    want = [Difference("order", ours.phases[0])]
    check(reasons.new(comparison.differences) == want, f"{comparison.differences}")

"""ACQUIRE_MEM with a range: what it drops, and what it is not taken to drop."""

from __future__ import annotations

import pytest

from tests.boards.engine_harness import Rig, chip
from tests.support import check


def test_a_range_invalidates_the_caches_that_do_not_follow_it() -> None:
    """ROCr 6.4 names its code's range, and asks for all of GLI: amd_gpu_agent.cpp

    src: nvd.h GLI_INV 1: ALL; GLK and GLV have no field that says what a range means to them.
    """
    r = Rig()
    r.create("pm4", 1)
    r.submit([0xC0065800, 0, 0x60, 0, 0x7F1234, 0, 0, 0x4381])
    check(not r.host.faults and r.engines.idle(1), str(r.host.faults))
    check(("acquire", "code of queue 1") in r.log)
    check(("acquire", "waves of queue 1") not in r.log, "not relied on")


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx950"])
def test_a_range_on_gfx9_is_taken_as_whole_caches(name: str) -> None:
    """ROCr 7.2 on loaded code. Hardware may drop more than a range; CP_COHER_CNTL has no range bit.

    src: soc15d.h PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_*: TC_ACTION 23, KCACHE 27, ICACHE 29, TCL1 22
    """
    r = Rig(chip(name, "gfx9", (4, 4, 2)))
    r.create("pm4", 1)
    r.submit([0xC0055800, 0x28C40000, 0x90, 0, 0x60AE1B00, 0x7F, 0])
    check(not r.host.faults and r.engines.idle(1), str(r.host.faults))
    check(("acquire", "code of queue 1") in r.log, str(r.log))
    check(("acquire", "waves of queue 1") in r.log, str(r.log))
    check(not r.host.violations, str(r.host.violations))
    r.submit([0xC0055800, 0x20000000, 0x1000, 0, 0, 0, 0xA])
    code, waves = (r.log.count(("acquire", f"{what} of queue 1")) for what in ("code", "waves"))
    check((code, waves) == (2, 1), str(r.log))

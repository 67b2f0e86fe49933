"""ACQUIRE_MEM with a range: what it drops, and what it is not taken to drop."""

from __future__ import annotations

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


def test_gfx9_has_no_range() -> None:
    r = Rig(chip("gfx942", "gfx9", (4, 4, 2), xccs=8))
    r.create("pm4", 1)
    r.submit([0xC0055800, 0x28C40000, 0x1000, 0, 0, 0, 0xA])
    check(r.fault().kind == "unsupported", str(r.fault()))

"""Dispatches of the board's PM4 processor: kernels of LLVM, registers by the gc headers."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.wave.types import WaveFault
from tests.boards.engine_harness import Rig, chip
from tests.boards.engine_kernels import SCRATCH, Work, ids
from tests.support import check


def rig(**options) -> Rig:
    made = Rig(**options)
    made.create("pm4")
    return made


def test_dispatch_direct() -> None:
    r = rig()
    work = Work(r, "ids")
    r.submit(work.pm4((3, 1, 1)))
    check(not r.host.faults, str(r.host.faults))
    np.testing.assert_array_equal(work.out[:96], ids(3, 32))
    check(not work.out[96:].any() and not r.host.violations)
    facts = next(facts for name, facts in r.host.events if name == "dispatch")
    check(facts["groups"] == 3 and facts["waves"] == 3 and facts["begin"] < facts["end"])


def test_registers_stay_between_dispatches() -> None:
    r = rig()
    work = Work(r, "ids")
    r.submit(work.pm4((1, 1, 1)))
    work.out[:] = 0
    r.submit([0xC0031500, 2, 1, 1, 0x8005])
    np.testing.assert_array_equal(work.out[:64], ids(2, 32))


def test_dispatch_indirect() -> None:
    r = rig()
    work = Work(r, "ids")
    r.put_words(0x80, [2, 1, 1])
    # src: gcc on nvd.h PACKET3(PACKET3_DISPATCH_INDIRECT, 2)
    r.submit([*work.pm4((1, 1, 1))[:-5], 0xC0021600, 0x10000080, 0x7F, 0x8005])
    np.testing.assert_array_equal(work.out[:64], ids(2, 32))


def test_dimensions_in_work_items_with_a_partial_group() -> None:
    r = rig()
    work = Work(r, "ids")
    # USE_THREAD_DIMENSIONS (bit 5) and PARTIAL_TG_EN (bit 1): 40 work-items in groups of 32
    r.submit(work.pm4((40, 1, 1), 0x8027))
    check(not r.host.faults, str(r.host.faults))
    np.testing.assert_array_equal(work.out[:40], ids(2, 32)[:40])
    check(not work.out[40:].any())
    r.submit([0xC0031500, 40, 1, 1, 0x8025])
    check("PARTIAL_TG_EN" in str(r.fault()))


def test_partial_group_by_registers() -> None:
    r = rig()
    work = Work(r, "ids")
    # NUM_THREAD_X: 32 in a whole group [15:0], 8 in the last one [31:16]
    r.submit(work.pm4((2, 1, 1), 0x8007, start=(0x204, [0, 0, 0, 32 | 8 << 16, 1, 1, 0, 0])))
    check(not r.host.faults, str(r.host.faults))
    np.testing.assert_array_equal(work.out[:40], ids(2, 32)[:40])
    check(not work.out[40:].any())


def test_lds_size_comes_from_rsrc2() -> None:
    r = rig()
    work = Work(r, "mirror")
    r.submit(work.pm4((2, 1, 1)))
    np.testing.assert_array_equal(work.out[:64], np.tile(np.arange(32)[::-1], 2))
    r.submit(work.pm4((1, 1, 1), rsrc=(0x212, [work.rsrc1, work.rsrc2])))
    check(isinstance(r.fault(), WaveFault) and r.fault().kind == "out of range")


def test_scratch() -> None:
    r = rig()
    work = Work(r, "scratch")
    backing = np.full(1 << 20, 0xCD, np.uint8)
    r.memory.place(SCRATCH, backing)
    units = -(-work.private * 32 // 256)
    # gfx11 COMPUTE_TMPRING_SIZE: waves of each of 6 shader engines, 256-byte units from bit 12
    r.submit(work.pm4((3, 1, 1), tmpring=(0x218, [4 | units << 12])))
    check(not r.host.faults, str(r.host.faults))
    item = np.arange(32)
    expected = (item + 3) % 8 * 10 + item
    np.testing.assert_array_equal(work.out[:96], np.tile(expected, 3))
    check((backing != 0xCD).any() and (backing[24 * units * 256 :] == 0xCD).all())


def test_scratch_counts_waves_of_each_shader_engine() -> None:
    r = rig()
    work = Work(r, "scratch", block=64)  # two waves a workgroup, and room for one on each engine
    r.memory.place(SCRATCH, np.zeros(1 << 20, np.uint8))
    units = -(-work.private * 32 // 256)
    r.submit(work.pm4((1, 1, 1), tmpring=(0x218, [1 | units << 12])))
    check(not r.host.faults, str(r.host.faults))
    check((work.out[:64] != 0).all())


def test_a_kernel_s_fault_stops_its_queue_and_no_other() -> None:
    r = rig()
    r.create("pm4", 2)
    r.submit([*Work(r, "fault").pm4((1, 1, 1)), 0xC0033700, 0x00100500, 0x10000040, 0x7F, 1])
    fault = r.fault()
    check(isinstance(fault, WaveFault) and fault.access == "write" and fault.va == 93458488360960)
    check(r.word(0x40) == 0 and not r.engines.idle(1))
    r.submit([0xC0033700, 0x00100500, 0x10000040, 0x7F, 2], 2)
    check(r.word(0x40) == 2)


@pytest.mark.parametrize("written_back", [True, False])
def test_an_interrupt_before_the_caches_are_written_back_is_found(written_back: bool) -> None:
    r = rig()
    # src: nvd.h RELEASE_MEM: event 0x14 of index 5, GL2_WB 21; INT_SEL 2 with 64 bits of data
    release = [0xC0064900, 0x514 | written_back << 21, 0x42000000, 0x10000040, 0x7F, 9, 0, 0x2A]
    r.submit(Work(r, "ids").pm4((1, 1, 1)) + release)
    check(r.host.interrupts == [0x2A] and not r.host.faults)
    kinds = [kind for kind, _ in r.host.violations]
    check(kinds == ([] if written_back else ["unreleased"]), str(kinds))


def test_registers_that_no_dispatch_can_have() -> None:
    def fault(words: list[int]) -> str:
        r = Rig()
        r.create("pm4")
        r.put_words(0x400, words)
        r.submit([0xC0023F00, 0x10000400, 0x7F, 0x00800000 | len(words)])
        return r.fault().kind

    work = Work(rig(), "scratch")
    started = (0x204, [1, 0, 0, 32, 1, 1, 0, 0])
    check(fault(work.pm4((1, 1, 1), 0x8001, start=started)) == "unsupported", "no FORCE_START")
    check(fault(work.pm4((1, 1, 1), pgm=(0x20C, [0, 1 << 8]))) == "reserved bits")
    no_waves = (0x218, [0 | 16 << 12])
    check(fault(work.pm4((1, 1, 1), tmpring=no_waves)) == "invalid dispatch", "room for no wave")


def test_a_launch_behind_the_host_s_back_is_found() -> None:
    """Kernel arguments are rewritten in place: the scalar cache may hold the old ones."""
    r = rig()
    work = Work(r, "ids")
    r.submit(work.pm4((1, 1, 1)))
    check(not r.host.violations, "nothing was cached before")
    # src: nvd.h ACQUIRE_MEM with GLK_INV, GLV_INV, GL1_INV
    r.submit([0xC0065800, 0, 0xFFFFFFFF, 0xFF, 0, 0, 0xA, 0x380, *work.pm4((1, 1, 1))])
    check(not r.host.violations)
    r.submit(work.pm4((1, 1, 1)))
    check([kind for kind, _ in r.host.violations] == ["no acquire"])


def test_an_endless_kernel_hangs_quietly() -> None:
    r = rig(max_steps=5000)
    r.submit(Work(r, "endless").pm4((1, 1, 1)))
    check(r.engines.hung == {1} and not r.host.faults and not r.engines.idle(1))
    check(not r.engines.pump())
    r.engines.destroy(1)
    check(not r.engines.hung)


@pytest.mark.parametrize(
    ("missing", "named"),
    [("pgm", "PGM_LO"), ("rsrc", "PGM_RSRC1"), ("rsrc3", "PGM_RSRC3"), ("user", "USER_DATA_0"),
     ("start", "NUM_THREAD_X"), ("limits", "RESOURCE_LIMITS")],
)  # fmt: skip
def test_incomplete_registers(missing: str, named: str) -> None:
    r = rig()
    r.submit(Work(r, "ids").pm4((1, 1, 1), **{missing: None}))
    check(r.fault().kind == "incomplete registers" and named in str(r.fault()), str(r.fault()))


def test_scratch_registers_are_needed_when_the_kernel_has_some() -> None:
    r = rig()
    r.submit(Work(r, "scratch").pm4((1, 1, 1), scratch=None))
    check("SCRATCH_BASE_LO" in str(r.fault()))


@pytest.mark.parametrize(
    ("initiator", "kind"),
    [(0x8004, "reserved value"), (0xA005, "reserved bits"), (0x1005, "reserved bits")],
)
def test_initiator(initiator: int, kind: str) -> None:
    r = rig()
    r.submit(Work(r, "ids").pm4((1, 1, 1), initiator))
    check(r.fault().kind == kind)


def test_workgroup_limits() -> None:
    r = rig()
    big = (0x204, [0, 0, 0, 1024, 2, 1, 0, 0])
    r.submit(Work(r, "ids").pm4((1, 1, 1), start=big))
    check(r.fault().kind == "invalid dispatch")
    r = rig()
    work = Work(r, "ids")
    r.submit(work.pm4((1, 1, 1), rsrc=(0x212, [work.rsrc1, work.rsrc2 | 129 << 15])))
    check("LDS" in str(r.fault()))


def test_empty_dispatch_is_found() -> None:
    r = rig()
    r.submit(Work(r, "ids").pm4((0, 1, 1)))
    check([kind for kind, _ in r.host.violations] == ["empty dispatch"] and not r.host.faults)


def test_a_chip_without_an_executor_says_so() -> None:
    r = Rig(chip("gfx1299", "gfx11"))
    r.create("pm4")
    r.submit(Work(r, "ids").pm4((1, 1, 1)))
    check(r.fault().kind == "unsupported" and "gfx1299" in str(r.fault()))

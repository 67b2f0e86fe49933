"""The memory of private data, and the buffer resource through which gfx10 reaches it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drivers.amd.chips import CHIPS
from drivers.amd.scratch import ScratchMemory
from tests.support import check

GIB = 1 << 30
NAVI_21 = {"cus_per_xcc": 80, "scratch_slots_per_cu": 32, "num_xcc": 1, "engines_per_xcc": 4}
"""# src: topology of a gfx1030, as tests/amd_trees.py has it"""


class Iface:
    """Gives addresses, and remembers how many bytes were wanted."""

    def __init__(self) -> None:
        self.node, self.chip = SimpleNamespace(**NAVI_21), CHIPS[100300]
        self.wanted = 0

    def allocate(self, nbytes: int, use: object, name: str) -> Any:
        self.wanted = nbytes
        return SimpleNamespace(gpu_va=0x7F00_0000_0000, free=lambda: None)


@pytest.mark.parametrize(("lane_bytes", "nbytes", "records"), [
    (1024, 2560 * 64 * 1024, 2560 * 64 * 1024), (32768, 4 * GIB, 0xFFFF_FFFF),
])  # fmt: skip
def test_num_records_has_32_bits(lane_bytes: int, nbytes: int, records: int) -> None:
    """src: ROCR registers.h SQ_BUF_RSRC_WORD2 is NUM_RECORDS, all of it; RDNA2 ISA, OOB_SELECT 2 of
    a buffer resource: out of range where NUM_RECORDS is 0. tinygrad writes all ones"""
    iface: Any = Iface()
    scratch = ScratchMemory(iface)
    scratch.grow(lane_bytes)
    check(iface.wanted == nbytes, f"{iface.wanted:#x} bytes")
    check(scratch.now.descriptor[2] == records, f"{scratch.now.descriptor[2]:#x}")


@pytest.mark.parametrize(("xccs", "nbytes"), [(1, 38 * 32 * 64 * 1024), (8, 304 * 32 * 64 * 1024)])
def test_memory_is_for_the_xccs_that_run_a_kernel(xccs: int, nbytes: int) -> None:
    """One XCC processes a PM4 queue of an MI300X. # src: Linux 3c8bdb51be0e"""
    iface: Any = Iface()
    iface.chip = CHIPS[90402]
    iface.node = SimpleNamespace(
        cus_per_xcc=38, scratch_slots_per_cu=32, num_xcc=8, engines_per_xcc=4
    )
    ScratchMemory(iface, xccs).grow(1024)
    check(iface.wanted == nbytes, f"{iface.wanted:#x} bytes")

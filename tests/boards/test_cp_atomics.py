"""ATOMIC_MEM on the board: what each operation leaves in memory."""

from __future__ import annotations

import pytest

from tests.boards.engine_harness import Rig
from tests.support import check

MINUS_1 = 0xFFFFFFFF
# src: soc21_enum.h GL2_OP_ATOMIC_*_RTN_32: operation, memory, data, memory after (RDNA3 ISA)
ATOMICS = [
    (7, 3, 9, 9), (15, MINUS_1, 2, 1), (16, 1, 2, MINUS_1), (17, MINUS_1, 1, MINUS_1),
    (17, 1, MINUS_1, MINUS_1), (18, MINUS_1, 1, 1), (19, MINUS_1, 1, 1), (20, MINUS_1, 1, MINUS_1),
    (21, 12, 10, 8), (22, 12, 10, 14), (23, 12, 10, 6), (24, 4, 5, 5), (24, 5, 5, 0), (24, 9, 5, 0),
    (25, 3, 5, 2), (25, 0, 5, 5), (25, 9, 5, 5), (8, 3, 9, 9), (8, 4, 9, 4),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "old", "data", "new"), ATOMICS)
def test_atomics_of_32_bits(operation: int, old: int, data: int, new: int) -> None:
    r = Rig()
    r.create("pm4")
    r.put_words(0x40, [old, 0x77])
    r.submit([0xC0071E00, operation, 0x10000040, 0x7F, data, 0x55, 3, 0, 0])
    check((r.word(0x40), r.word(0x44)) == (new, 0x77), hex(r.word(0x40)))


def test_an_atomic_that_loops_waits_for_its_comparison() -> None:
    r = Rig()
    r.create("pm4")
    # command 1: loop until memory equals the comparison
    r.submit([0xC0071E00, 0x12F, 0x10000040, 0x7F, 5, 0, 3, 0, 0])
    check(r.engines.waiting(1) and r.word(0x40) == 0)
    r.put_words(0x40, [3])
    check(r.engines.pump() and r.word(0x40) == 8)

"""Long launches in pieces, each so short that no kernel driver takes it for a hang.

The compiler counts slots of a lane (`AdrenoCode.lane_slots`): issue slots with loops' turns, and
for each word of memory as many slots as a slow memory takes. Nothing is timed: `LANE_SLOTS_HZ` is
of half the width and less than half the clock of any of these chips, so that the counted time is an
upper bound for code that is not stopped by more than memory's rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from queues.qcom.chips import Chip
from queues.qcom.kernel_code import NO_BASE, AdrenoCode

Grid: TypeAlias = tuple[int, int, int]
Piece: TypeAlias = tuple[int, Grid]
"""(number of the first workgroup, workgroups)."""
LANE_SLOTS_HZ: Final = 128 * 250_000_000
"""Of one shader processor. A630: 256 lanes, 710 MHz. # src: Mesa 25.0.7 freedreno_devices.py; the
clocks are those of Linux 6.12, arch/arm64/boot/dts/qcom, the lowest 165 to 305 MHz; both kernel
drivers raise them while there is work"""
MEMORY_WORD_SLOTS: Final = 16
"""Of a word of global or private memory."""
NO_LIMIT: Final = 1 << 62


def budget_slots(chip: Chip, budget_s: float) -> int:
    """Slots of all lanes together that take no longer."""
    return int(budget_s * LANE_SLOTS_HZ) * chip.sp_cores


def most_groups(chip: Chip, code: AdrenoCode, lanes: int, budget_s: float) -> int:
    """How many workgroups of so many lanes one launch may have, at least one."""
    if not code.lane_slots or code.base_word == NO_BASE:
        return NO_LIMIT
    return max(budget_slots(chip, budget_s) // (code.lane_slots * lanes), 1)


def pieces(grid: Grid, most: int) -> Iterator[Piece]:
    """All workgroups of a grid, at most so many at a time, and rows of x that are whole or cut.

    The code reads the number of its row alone: y and z only say how often a row runs.
    """
    nx, ny, nz = grid
    wide = min(nx, most)
    high = min(ny, max(most // wide, 1)) if wide == nx else 1
    deep = min(nz, max(most // (wide * high), 1)) if wide == nx and high == ny else 1
    for z in range(0, nz, deep):
        for y in range(0, ny, high):
            for x in range(0, nx, wide):
                yield x, (min(wide, nx - x), min(high, ny - y), min(deep, nz - z))

"""DPP on the executor against a lane-by-lane model: every control, the masks, both bounds."""

from __future__ import annotations

import random

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.gfx11 import GFX11
from boards.amd.wave import bind
from boards.amd.wave_state import EXEC, Waves
from tests.boards.wave_harness import FlatMemory

_LANES, _DPP16, _OLD = 32, 250, 7
_MOV = 0x7E000200  # v_mov_b32_e32 v0, src0


def _source(control: int, lane: int) -> int | None:
    """The lane that DPP reads, or None outside the row."""
    row, column, n = lane & ~15, lane & 15, control & 15
    if control < 0x100:
        return (lane & ~3) + (control >> 2 * (lane & 3) & 3)
    if control == 0x140:
        return row + 15 - column
    if control == 0x141:
        return (lane & ~7) + 7 - (lane & 7)
    base = control & ~15
    if base == 0x100:
        return row + column + n if column + n < 16 else None
    if base == 0x110:
        return row + column - n if column >= n else None
    if base == 0x120:
        return row + (column - n) % 16
    return row + n if base == 0x150 else row + (column ^ n)


_CONTROLS = [0x1B, 0xB1, 0x4E, 0x00, *range(0x101, 0x110), *range(0x111, 0x120),
             *range(0x121, 0x130), 0x140, 0x141, *range(0x150, 0x170)]  # fmt: skip


@pytest.mark.parametrize("bound", [0, 1])
@pytest.mark.parametrize("fetch_inactive", [0, 1])
def test_dpp_reads_and_writes_the_lanes_it_should(bound: int, fetch_inactive: int) -> None:
    rnd = random.Random(1)
    for control in _CONTROLS:
        rows, banks, active = rnd.choice([15, 5]), rnd.choice([15, 9]), rnd.getrandbits(_LANES)
        extra = 1 | control << 8 | fetch_inactive << 18 | bound << 19 | banks << 24 | rows << 28
        w = Waves(1, _LANES, 8, 0, 1)
        w.sgpr[EXEC] = np.uint32(active)
        w.set_mode(np.array([0xF0], np.uint32))
        w.select(np.arange(1))
        values = np.random.default_rng(control).integers(100, 1 << 30, _LANES).astype(np.uint32)
        w.vgpr[0], w.vgpr[1] = _OLD, values
        run = bind(decode(GFX11, [_MOV | _DPP16, extra, 0], 0), FlatMemory())
        if run is None:
            raise AssertionError("v_mov_b32_dpp has no meaning")
        run(w)
        expected = np.full(_LANES, _OLD, np.uint32)
        for lane in range(_LANES):
            source = _source(control, lane)
            reaches = source is not None and (fetch_inactive or active >> source & 1)
            enabled = active >> lane & 1 and rows >> lane // 16 & 1 and banks >> lane % 16 // 4 & 1
            if enabled and reaches:
                expected[lane] = values[source]
            elif enabled and bound:
                expected[lane] = 0
        np.testing.assert_array_equal(w.vgpr[0][0], expected, f"control {control:#x}")

"""DPP on the executor against a lane-by-lane model: every control, the masks, both bounds."""

from __future__ import annotations

import random

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.gfx11 import GFX11
from boards.amd.wave.execute import bind
from boards.amd.wave.state import EXEC, Waves

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
        run = bind(decode(GFX11, [_MOV | _DPP16, extra, 0], 0))
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


_MIX, _DOT4 = 0xCC200000, 0xCC160000  # v_fma_mix_f32, v_dot4_i32_iu8 of gfx11
_ROW_SHR_1, _VGPR = 0x111, 256


def _packed(words: list[int], bound: int) -> Waves:
    """Run a VOP3P instruction v0 = op(v1 through row_shr:1, v2, v3) with lanes 4..7 off."""
    extra = 1 | _ROW_SHR_1 << 8 | bound << 19 | 0xFF << 24
    w = Waves(1, _LANES, 8, 0, 1)
    w.sgpr[EXEC] = np.uint32(0xFFFFFF0F)
    w.set_mode(np.array([0xF0], np.uint32))
    w.select(np.arange(1))
    lane = np.arange(_LANES, dtype=np.uint32)
    floats = (lane.astype(np.float32) + 1).view(np.uint32)
    mixed = words[0] == _MIX
    w.vgpr[0], w.vgpr[1] = _OLD, floats if mixed else lane | lane << 16
    w.vgpr[2] = np.float32(10).view(np.uint32) if mixed else 0x00020003
    w.vgpr[3] = np.float32(0.5).view(np.uint32) if mixed else 1000
    second = _DPP16 | (_VGPR + 2) << 9 | (_VGPR + 3) << 18 | words[1]
    run = bind(decode(GFX11, [words[0], second, extra], 0))
    if run is None:
        raise AssertionError("no meaning")
    run(w)
    return w


@pytest.mark.parametrize("bound", [0, 1])
def test_packed_instructions_permute_source_0(bound: int) -> None:
    lane = np.arange(_LANES)
    before = np.where(lane % 16 == 0, -1, lane - 1)
    reaches = (before >= 0) & ~((before >= 4) & (before < 8))
    active = ~((lane >= 4) & (lane < 8))
    mixed = _packed([_MIX, 0], bound).vgpr[0][0].view(np.float32)
    dot = _packed([_DOT4 | 1 << 14, 3 << 27], bound).vgpr[0][0]
    for found, sums, empty in (
        (mixed, 10.0 * (before + 1) + 0.5, 0.5),
        (dot, 5 * before + 1000, 1000),
    ):
        old = np.array(_OLD, np.uint32).view(found.dtype)
        expected = np.where(reaches, sums, empty if bound else old).astype(found.dtype)
        np.testing.assert_array_equal(found, np.where(active, expected, old))

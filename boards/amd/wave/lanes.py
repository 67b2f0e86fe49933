"""Lane permutations: DPP, permlane, swizzle."""

from __future__ import annotations

import numpy as np

from boards.amd.isa.decode import Dpp
from boards.amd.wave.operands import UnsupportedOperand
from boards.machine.arrays import Array

_ROW = 16
_WAVE_SHL, _WAVE_ROL, _WAVE_SHR, _WAVE_ROR = 0x130, 0x134, 0x138, 0x13C
_BROADCAST_15, _BROADCAST_31 = 0x142, 0x143
_ROTATE, _FFT = 0xC000, 0xE000
_QUAD_END, _MIRROR, _HALF_MIRROR = 0x100, 0x140, 0x141


def dpp_sources(dpp: Dpp, lanes: int) -> tuple[Array, Array]:
    """For each lane the lane it reads, and whether that lies inside its row."""
    lane = np.arange(lanes)
    if dpp.lanes:
        return (lane & ~7) + np.array(dpp.lanes)[lane & 7], np.ones(lanes, np.bool_)
    control, amount = dpp.control, dpp.control & 0xF
    row, column = lane & ~(_ROW - 1), lane & (_ROW - 1)
    valid = np.ones(lanes, np.bool_)
    # src: RDNA3 ISA 15.3.7, DPP_CTRL.
    if control < _QUAD_END:
        picks = np.array([control >> 2 * i & 3 for i in range(4)])
        return (lane & ~3) + picks[lane & 3], valid
    base = control & ~0xF
    if control == _MIRROR:
        return row + (_ROW - 1 - column), valid
    if control == _HALF_MIRROR:
        return (lane & ~7) + (7 - (lane & 7)), valid
    if base == 0x100:
        source = column + amount
        return row + np.minimum(source, _ROW - 1), source < _ROW
    if base == 0x110:
        source = column - amount
        return row + np.maximum(source, 0), source >= 0
    if base == 0x120:
        return row + (column - amount) % _ROW, valid
    if base == 0x150:
        return row + amount, valid
    if base == 0x160:
        return row + (column ^ amount), valid
    return _wave_sources(control, lanes)


def _wave_sources(control: int, lanes: int) -> tuple[Array, Array]:
    """gfx9's permutations over the whole wave."""
    # src: CDNA3 ISA 13.3.10, DPP_CTRL: wave_shl 0x130, wave_rol 0x134, wave_shr 0x138, wave_ror
    # 0x13c, row_bcast15 0x142 (a row's last lane to the next row), row_bcast31 0x143.
    lane = np.arange(lanes)
    if control in (_WAVE_SHL, _WAVE_ROL):
        return (lane + 1) % lanes, (control == _WAVE_ROL) | (lane < lanes - 1)
    if control in (_WAVE_SHR, _WAVE_ROR):
        return (lane - 1) % lanes, (control == _WAVE_ROR) | (lane > 0)
    if control in (_BROADCAST_15, _BROADCAST_31):
        unit = _ROW if control == _BROADCAST_15 else 2 * _ROW
        return np.maximum(lane // unit * unit - 1, 0), lane >= unit
    raise UnsupportedOperand(f"DPP control {control:#x}")


def dpp_enabled(dpp: Dpp, lanes: int) -> Array:
    """Lanes whose row and bank the masks enable."""
    lane = np.arange(lanes)
    if dpp.lanes:
        return np.ones(lanes, np.bool_)
    row_on = dpp.row_mask >> (lane // _ROW & 3) & 1
    bank_on = dpp.bank_mask >> (lane % _ROW // 4) & 1
    enabled: Array = (row_on & bank_on).astype(np.bool_)
    return enabled


def swizzle_sources(offset: int, lanes: int) -> Array:
    """For each lane the lane that ds_swizzle_b32 reads."""
    # src: RDNA3 ISA 12.13.1 (DS_SWIZZLE_B32): quad permutation, rotation, or and/or/xor masks.
    lane = np.arange(lanes)
    if offset >> 15:
        if offset >= _FFT:
            raise UnsupportedOperand(f"ds_swizzle_b32 as an FFT, offset {offset:#x}")
        if offset >= _ROTATE:
            amount, mask = offset >> 5 & 31, offset & 31
            step = -amount if offset >> 10 & 1 else amount
            inner = (lane & mask) | ((lane + step) & ~mask & 31)
            return (lane & ~31) + inner
        picks = np.array([offset >> 2 * i & 3 for i in range(4)])
        answer: Array = (lane & ~3) + picks[lane & 3]
        return answer
    keep, force, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return (lane & ~31) + (((lane & 31 & keep) | force) ^ flip)


def permlane_sources(low: Array, high: Array, lanes: int, *, cross: bool) -> Array:
    """permlane16 and permlanex16: (n, lanes) source lanes from the two selector dwords (n,)."""
    column = np.arange(_ROW)
    shifts = (column % 8 * 4).astype(np.uint32)
    words = np.where(column[None, :] < 8, low[:, None], high[:, None])
    picks = (words >> shifts & np.uint32(15)).astype(np.int64)
    lane = np.arange(lanes)
    rows = lane & ~(_ROW - 1)
    if cross:
        rows = rows ^ _ROW
    return np.asarray(rows[None, :] + picks[:, lane % _ROW])

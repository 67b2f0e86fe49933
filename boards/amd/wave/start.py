"""What registers hold when a wave starts: the launch descriptor turned into state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from boards.amd.isa.decode import Family
from boards.amd.wave.buffer import with_index_stride
from boards.amd.wave.state import EXEC, Waves, pack_bits
from boards.amd.wave.types import Dispatch
from boards.machine.arrays import Array

# src: COMPUTE_PGM_RSRC1, COMPUTE_PGM_RSRC2 (gc_11_0_0_sh_mask.h): fields used here.
_VGPRS, _FLOAT_MODE, _DX10_CLAMP, _IEEE = (0, 6), (12, 8), (21, 1), (23, 1)
_ACCUM_OFFSET = (0, 6)
_GROUP_ID_BITS, _ITEM_BITS, _USER_SGPR_COUNT = (7, 8, 9), 10, (1, 5)
_ITEM_DIMENSIONS, _GROUP_SIZE_BIT = (11, 2), 10
# src: LLVM AMDGPUUsage, "Architected SGPRs": ttmp9 is x, ttmp7 is y and z.
_TTMP_X, _TTMP_YZ = 108 + 9, 108 + 7
# src: the same, and what llvm.amdgcn.wave.id compiles to: bits 29:25 of ttmp8.
_TTMP_WAVE, _WAVE_SHIFT = 108 + 8, 25
_USER_SGPRS_MAX = 16
# src: AMDGPUUsage, kernel_code_properties: name, bit, dwords, in the order of the registers.
_USER_SGPRS = (
    ("private_segment_buffer", 0, 4), ("dispatch_ptr", 1, 2), ("queue_ptr", 2, 2),
    ("kernarg", 3, 2), ("dispatch_id", 4, 2), ("flat_scratch", 5, 2), ("private_size", 6, 1),
)  # fmt: skip
_WAVE32 = 10
_DESCRIPTOR_BYTES = 64


def _field(value: int, bits: tuple[int, int]) -> int:
    return value >> bits[0] & (1 << bits[1]) - 1


def register_counts(dispatch: Dispatch, family: Family) -> tuple[int, int]:
    """Vector and accumulation registers that the kernel asked for."""
    total = (_field(dispatch.rsrc1, _VGPRS) + 1) * family.vgpr_granule[dispatch.lanes]
    if not family.accumulators:
        return total, 0
    # src: LLVM AMDGPUUsage, compute_pgm_rsrc3 of gfx90a: ACCUM_OFFSET counts fours, less one.
    vectors = min(4 * (_field(dispatch.rsrc3, _ACCUM_OFFSET) + 1), total)
    return vectors, total - vectors


def waves_per_group(dispatch: Dispatch) -> int:
    """Waves of one workgroup."""
    x, y, z = dispatch.workgroup
    return -(-(x * y * z) // dispatch.lanes)


def from_descriptor(
    descriptor: bytes,
    descriptor_va: int,
    groups: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    pointers: dict[str, int],
    *,
    lds_bytes: int = 0,
) -> Dispatch:
    """A launch from a 64-byte kernel descriptor, as the AQL packet processor makes it.

    `pointers` gives the user registers that the kernel may ask for: "kernarg", "dispatch_ptr",
    "queue_ptr", "dispatch_id", "private_size"; and before gfx11 "private_segment_buffer" (see
    `wave_buffer.scratch_resource`) and "flat_scratch", the address of all scratch memory.
    Raises: ValueError.
    """
    if len(descriptor) < _DESCRIPTOR_BYTES:
        raise ValueError(f"a kernel descriptor has 64 bytes, not {len(descriptor)}")
    words = [int.from_bytes(descriptor[i : i + 4], "little") for i in range(0, 64, 4)]
    entry = descriptor_va + int.from_bytes(descriptor[16:24], "little", signed=True)
    properties = words[14] & 0xFFFF
    lanes = 32 if properties >> _WAVE32 & 1 else 64
    registers: list[int] = []
    for name, bit, dwords in _USER_SGPRS:
        if properties >> bit & 1:
            value = pointers.get(name, 0)
            if name == "private_segment_buffer":
                value = with_index_stride(value, lanes)
            registers.extend(value >> 32 * i & 0xFFFFFFFF for i in range(dwords))
    return Dispatch(
        entry=entry & (1 << 64) - 1, groups=groups, workgroup=workgroup, rsrc1=words[12],
        rsrc2=words[13], rsrc3=words[11], user_sgprs=tuple(registers), lanes=lanes,
        lds_bytes=max(lds_bytes, words[0]),
    )  # fmt: skip


def fit_scratch(dispatch: Dispatch, va: int, lane_bytes: int, waves: int) -> Dispatch:
    """The launch with scratch memory for `waves` waves of `lane_bytes` a lane."""
    return replace(
        dispatch,
        scratch_va=va,
        scratch_wave_bytes=lane_bytes * dispatch.lanes,
        scratch_waves=waves,
    )


def start(
    w: Waves, dispatch: Dispatch, first_group: int, family: Family
) -> tuple[tuple[int, ...], int]:
    """Fill the registers of waves that start; (scalar registers filled, vector registers)."""
    per_group = w.waves_per_group
    groups = first_group + np.arange(w.count) // per_group
    gx, gy, _ = dispatch.groups
    ids = (groups % gx, groups // gx % gy, groups // (gx * gy))
    for number, register in enumerate(dispatch.user_sgprs[:_USER_SGPRS_MAX]):
        w.sgpr[number] = np.uint32(register)
    at = _field(dispatch.rsrc2, _USER_SGPR_COUNT)
    filled = list(range(min(at, len(dispatch.user_sgprs))))
    filled += _group_ids(w, dispatch, ids, family, at)
    w.mode[:] = _mode(dispatch.rsrc1)
    w.set_mode(w.mode[w.sel])
    vectors = _items(w, dispatch, ids, family)
    w.shared_base, w.private_base = dispatch.shared_base, dispatch.private_base
    w.scratch_va, w.scratch_wave_bytes = dispatch.scratch_va, dispatch.scratch_wave_bytes
    w.first_wave = first_group * per_group
    w.privileged = dispatch.privileged
    if dispatch.privileged is not None:
        for register, value in dispatch.privileged.registers.items():
            w.sgpr[register] = np.uint32(value)
            filled.append(register)
    return tuple(filled), vectors


def _group_ids(
    w: Waves, dispatch: Dispatch, ids: tuple[Array, Array, Array], family: Family, at: int
) -> list[int]:
    """The workgroup's numbers where the family puts them; the registers filled."""
    x, y, z = (np.asarray(value).astype(np.uint32) for value in ids)
    if family.group_ids_in_ttmp:
        w.sgpr[_TTMP_X], w.sgpr[_TTMP_YZ] = x, y | z << np.uint32(16)
        wave = np.arange(w.count) % w.waves_per_group
        w.sgpr[_TTMP_WAVE] = wave.astype(np.uint32) << np.uint32(_WAVE_SHIFT)
        return [_TTMP_X, _TTMP_YZ, _TTMP_WAVE]
    filled: list[int] = []
    for bit, value in zip(_GROUP_ID_BITS, (x, y, z), strict=True):
        if dispatch.rsrc2 >> bit & 1:
            w.sgpr[at + len(filled)] = value
            filled.append(at + len(filled))
    if family.own_scratch and dispatch.rsrc2 & 1:
        # src: AMDGPUUsage, "Initial Kernel Execution State": the wave's offset in scratch comes
        # after the workgroup's numbers and, if asked for, its size.
        last = at + len(filled) + (dispatch.rsrc2 >> _GROUP_SIZE_BIT & 1)
        w.sgpr[last] = np.arange(w.count) * dispatch.scratch_wave_bytes
        filled.append(last)
    return filled


def _mode(rsrc1: int) -> int:
    return _field(rsrc1, _FLOAT_MODE) | _field(rsrc1, _DX10_CLAMP) << 8 | _field(rsrc1, _IEEE) << 9


def _items(w: Waves, dispatch: Dispatch, ids: tuple[Array, Array, Array], family: Family) -> int:
    """The work-items' numbers, and EXEC for the lanes that exist; vector registers filled."""
    x, y, z = dispatch.workgroup
    wave = np.arange(w.count) % w.waves_per_group
    item = wave[:, None] * w.lanes + np.arange(w.lanes)
    local = (item % x, item // x % y, item // (x * y))
    inside = item < x * y * z
    if dispatch.items is not None:
        for axis in range(3):
            position = ids[axis][:, None] * dispatch.workgroup[axis] + local[axis]
            inside = inside & (position < dispatch.items[axis])
    words = pack_bits(inside)
    for i in range(words.shape[1]):
        w.put_scalar(EXEC + i, words[:, i])
    if family.packed_items:
        packed = local[0] | local[1] << _ITEM_BITS | local[2] << 2 * _ITEM_BITS
        w.vgpr[0] = packed.astype(np.uint32)
        return 1
    filled = _field(dispatch.rsrc2, _ITEM_DIMENSIONS) + 1
    for axis in range(min(filled, 3)):
        w.vgpr[axis] = local[axis].astype(np.uint32)
    return filled

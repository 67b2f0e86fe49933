"""Private memory of all the waves that run at a time, grown when a kernel needs more.

Source: ROCR-Runtime amd_aql_queue.cpp FillBufRsrcWord*(), FillComputeTmpRingSize*().
"""

from __future__ import annotations

from typing import Final

from drivers.amd.bo import Bo, Gpu, Use, allocate
from drivers.amd.chips import Chip
from drivers.amd.nodes import GpuNode
from drivers.base.errors import Unsupported
from queues.amd_launch import Scratch
from queues.amd_registers import REGISTERS
from queues.pm4 import CHIPS

LANES: Final = 64
"""Memory is sized for waves of 64 lanes, which hold two of 32."""
MOST_BYTES: Final = 4 << 30
"""Of all waves together; with more private memory a lane, fewer waves run at a time."""
MOST_WAVES: Final = (1 << 12) - 1
"""COMPUTE_TMPRING_SIZE.WAVES has 12 bits."""
_SWIZZLE: Final = 1 << 31
"""SQ_BUF_RSRC_WORD1.SWIZZLE_ENABLE. # src: ROCR core/inc/registers.h"""
_XYZW: Final = 4 | 5 << 3 | 6 << 6 | 7 << 9
_FORMAT_32_UINT: Final = 0x14 << 12
_INDEX_STRIDE_SHIFT: Final = 21
_STRIDES: Final = {32: 2, 64: 3}
_ADD_TID: Final = 1 << 23
_RESOURCE_LEVEL: Final = 1 << 24
_NO_BOUNDS: Final = 2 << 28
"""# src: SQ_BUF_RSRC_WORD3_GFX10: DST_SEL, FORMAT, INDEX_STRIDE, ADD_TID_ENABLE, OOB_SELECT"""


class ScratchMemory:
    """The scratch of one device: `now` is what launches use; `lane_bytes` how much a lane has."""

    def __init__(self, gpu: Gpu, chip: Chip, node: GpuNode) -> None:
        self._gpu, self._chip, self._node = gpu, chip, node
        self._bo: Bo | None = None
        self.lane_bytes = 0
        self.now = Scratch()

    def grow(self, lane_bytes: int) -> Bo | None:
        """Room for `lane_bytes` a lane; the old memory, which the caller frees when it is idle.

        Raises: Unsupported, OutOfMemory.
        """
        family, node = self._chip.family, self._node
        unit = family.scratch_unit_bytes
        units = -(-lane_bytes * LANES // unit)
        if units >> family.wavesize_bits:
            raise Unsupported(
                f"{lane_bytes} bytes of private memory a lane; {self._chip.name} has "
                f"{((1 << family.wavesize_bits) - 1) * unit // LANES}",
                hint="use less private memory in the kernel",
            )
        engines = node.engines_per_xcc
        waves = node.cus_per_xcc * node.scratch_slots_per_cu
        most = MOST_BYTES // node.num_xcc // (units * unit)
        waves = min(waves, most, MOST_WAVES * (engines if family.waves_per_engine else 1))
        waves = max(waves // engines, 1) * engines
        xcc_bytes = waves * units * unit
        bo = allocate(self._gpu, xcc_bytes * node.num_xcc, Use.DEVICE, "scratch")
        old, self._bo = self._bo, bo
        self.lane_bytes = units * unit // LANES
        tmpring = REGISTERS[CHIPS[self._chip.name].name].encode(
            "COMPUTE_TMPRING_SIZE",
            waves=waves // engines if family.waves_per_engine else waves,
            wavesize=units,
        )
        self.now = Scratch(bo.gpu_va, xcc_bytes, tmpring, self._descriptor(bo.gpu_va))
        return old

    def _descriptor(self, va: int) -> tuple[int, int, int, int]:
        stride = _STRIDES[self._chip.family.wave_lanes] << _INDEX_STRIDE_SHIFT
        last = _XYZW | _FORMAT_32_UINT | stride | _ADD_TID | _RESOURCE_LEVEL | _NO_BOUNDS
        return va & 0xFFFFFFFF, va >> 32 | _SWIZZLE, 0xFFFFFFFF, last

    def close(self) -> None:
        """Free it; nothing runs."""
        bo, self._bo = self._bo, None
        if bo is not None:
            bo.free()

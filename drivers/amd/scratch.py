"""Private memory of all the waves that run at a time, grown when a kernel needs more.

Source: ROCR-Runtime amd_aql_queue.cpp FillBufRsrcWord*(), FillComputeTmpRingSize*().
"""

from __future__ import annotations

from typing import Final

from drivers.amd.chips import Chip
from drivers.amd.iface import Iface
from drivers.base.errors import OutOfMemory, Unsupported
from drivers.gpu.iface import Memory, Use
from queues.amd.pm4 import flavour_of
from queues.amd.pm4_launch import Scratch
from queues.amd.registers import REGISTERS

LANES: Final = 64
"""Memory is sized for waves of 64 lanes, which hold two of 32."""
MOST_BYTES: Final = 4 << 30
"""Of all waves together; with more private memory per lane, fewer waves run at a time."""
MOST_WAVES: Final = (1 << 12) - 1
"""COMPUTE_TMPRING_SIZE.WAVES has 12 bits."""
_LOW: Final = (1 << 32) - 1
_XYZW: Final = 4 | 5 << 3 | 6 << 6 | 7 << 9
_ADD_TID: Final = 1 << 23
_INDEX_STRIDE_SHIFT: Final = 21
_STRIDES: Final = {32: 2, 64: 3}
_FORMAT_32_UINT, _NO_BOUNDS = 0x14 << 12, 2 << 28
_GFX10: Final = _XYZW | _FORMAT_32_UINT | _ADD_TID | _NO_BOUNDS
_RESOURCE_LEVEL: Final = 1 << 24
_GFX9: Final = _XYZW | 4 << 12 | 4 << 15 | 1 << 19 | _ADD_TID
"""NUM_FORMAT uint, DATA_FORMAT 32, ELEMENT_SIZE 4."""
_RESOURCES: Final = {
    "gfx9": (1 << 31, _GFX9),
    "gfx10": (1 << 31, _GFX10 | _RESOURCE_LEVEL),
    "gfx11": (1 << 30, _GFX10),
    "gfx12": (1 << 30, _GFX10),
}
"""(SWIZZLE_ENABLE of word 1, word 3) of each family."""


class ScratchMemory:
    """The scratch of one device: `now` is what launches use; `lane_bytes` how much a lane has."""

    def __init__(self, iface: Iface, xccs: int = 1) -> None:
        """`xccs`: how many of the GPU's XCCs run a kernel; of a PM4 queue it is one."""
        self._iface, self._node, self._xccs = iface, iface.node, xccs
        self._chip: Chip = iface.chip
        self._bo: Memory | None = None
        self.lane_bytes = 0
        self.now = Scratch()

    def grow(self, lane_bytes: int) -> Memory | None:
        """Room for `lane_bytes` a lane; the old memory, which the caller frees when it is idle.

        Where memory is short, fewer waves run at a time. Raises: Unsupported, OutOfMemory.
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
        each, bo = self._allocate(units * unit)
        old, self._bo = self._bo, bo
        self.lane_bytes = units * unit // LANES
        engines = node.engines_per_xcc
        waves = each if family.waves_per_engine else each * engines
        tmpring = REGISTERS[flavour_of(self._chip.name).name].encode(
            "COMPUTE_TMPRING_SIZE", waves=waves, wavesize=units
        )
        xcc_bytes = each * engines * units * unit
        self.now = Scratch(bo.gpu_va, xcc_bytes, tmpring, self._descriptor(bo.gpu_va, xcc_bytes))
        return old

    def _allocate(self, wave_bytes: int) -> tuple[int, Memory]:
        """Memory for all concurrent waves, or as many as fit: (waves of one engine, the memory)."""
        node, family = self._node, self._chip.family
        engines = node.engines_per_xcc
        waves = min(
            node.cus_per_xcc * node.scratch_slots_per_cu,
            MOST_BYTES // self._xccs // wave_bytes,
            MOST_WAVES * (engines if family.waves_per_engine else 1),
        )
        each = max(waves // engines, 1)
        for _ in range(each.bit_length() - 1):
            try:
                return each, self._memory(each * engines * wave_bytes)
            except OutOfMemory:
                each //= 2
        return each, self._memory(each * engines * wave_bytes)

    def _memory(self, xcc_bytes: int) -> Memory:
        return self._iface.allocate(xcc_bytes * self._xccs, Use.DEVICE, "scratch")

    def _descriptor(self, va: int, xcc_bytes: int) -> tuple[int, int, int, int]:
        """The buffer resource of all of one XCC's scratch; it is read where it is not architected.

        # src: ROCR core/inc/registers.h SQ_BUF_RSRC_WORD1, WORD3 and their _GFX10, _GFX11 forms
        """
        swizzle, last = _RESOURCES[flavour_of(self._chip.name).name]
        stride = _STRIDES[self._chip.family.wave_lanes] << _INDEX_STRIDE_SHIFT
        # NUM_RECORDS has 32 bits, and with 0 of them every access is out of bounds
        return va & _LOW, va >> 32 | swizzle, min(xcc_bytes, _LOW), last | stride

    def close(self) -> None:
        """Free it; the queues are idle."""
        bo, self._bo = self._bo, None
        if bo is not None:
            bo.free()

"""Private memory of lanes (spills, arrays, call frames): one area for all, which grows.

# src: how large: tinygrad ops_nv.py _ensure_has_local_memory; Mesa nvk_queue.c slm area
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drivers.base.undo import run_all
from drivers.gpu.iface import GpuIface, Memory, Use
from drivers.nv.nvk.facts import GpuFacts
from queues.nv import words as nv_words
from queues.nv.generations import WARP_LANES
from queues.nv.words import Target

WARP_ALIGN: Final = 0x200
TPC_ALIGN: Final = 0x8000
TOTAL_ALIGN: Final = 0x20000
MAX_SMS: Final = 0x1FF
"""MAX_SM_COUNT 8:0."""


def _up(value: int, to: int) -> int:
    return -(-value // to) * to


class Area(NamedTuple):
    """Private memory for lanes of this size."""

    memory: Memory
    lane_bytes: int
    tpc_bytes: int

    def words(self, target: Target) -> list[int]:
        """Methods that tell a compute channel where it is."""
        va, nbytes = self.memory.gpu_va, self.tpc_bytes
        return nv_words.local_memory(target, va=va, tpc_bytes=nbytes, sms=MAX_SMS)


class LocalMemory:
    """The area of one device; none before a kernel needs it."""

    def __init__(self, iface: GpuIface, facts: GpuFacts) -> None:
        self._iface, self._facts = iface, facts
        self.area: Area | None = None
        """What the compute channel uses."""
        self._left: list[Memory] = []
        """Areas that it used before; kernels that still run may be in them."""

    @property
    def lane_bytes(self) -> int:
        """What it is large enough for."""
        return self.area.lane_bytes if self.area is not None else 0

    def make(self, lane_bytes: int) -> Area:
        """Another area, which no channel uses yet. Raises: OutOfMemory."""
        facts = self._facts
        warp = _up(lane_bytes * WARP_LANES, WARP_ALIGN)
        tpc = _up(warp * facts.warps_per_sm * facts.sms_per_tpc, TPC_ALIGN)
        made = self._iface.allocate(_up(tpc * facts.tpcs, TOTAL_ALIGN), Use.DEVICE, "local memory")
        return Area(made, lane_bytes, tpc)

    def adopt(self, area: Area) -> None:
        """The compute channel uses `area` from its next work on."""
        old, self.area = self.area, area
        if old is not None:
            self._left.append(old.memory)

    def free_left(self) -> None:
        """Free areas that were used before: nothing runs any more that began with them."""
        left, self._left = self._left, []
        run_all([memory.free for memory in left])

    def words(self, target: Target) -> list[int]:
        """Methods that tell a compute channel where it is; none while there is none."""
        return self.area.words(target) if self.area is not None else []

    def close(self) -> None:
        """Free everything."""
        area, self.area = self.area, None
        if area is not None:
            self._left.append(area.memory)
        self.free_left()

"""Private memory of lanes (spills, arrays): areas that grow; a program keeps the one it found.

# src: how large: Mesa tu_shader.cc tu_setup_pvtmem()
"""

from __future__ import annotations

from threading import RLock

from drivers.base import forks
from drivers.base.undo import run_all
from drivers.gpu.iface import GpuIface, Memory, Use
from queues.qcom.chips import Chip
from queues.qcom.launch import PRIVATE_ALIGN, PRIVATE_UNIT, Private


class PrivateMemory:
    """The areas of one device: each at least twice as large as the one before."""

    def __init__(self, iface: GpuIface, chip: Chip) -> None:
        self._iface, self._chip = iface, chip
        self._areas: list[tuple[Private, Memory]] = []
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self._lock = RLock()

    def at_least(self, lane_bytes: int) -> Private | None:
        """An area for lanes that need so much; None for none. Raises: OutOfMemory."""
        if not lane_bytes:
            return None
        with self._lock:
            if self._areas and self._areas[-1][0].lane_bytes >= lane_bytes:
                return self._areas[-1][0]
            size = 1 << (max(lane_bytes, PRIVATE_UNIT) - 1).bit_length()
            per_sp = -(-size * self._chip.fibers_per_sp // PRIVATE_ALIGN) * PRIVATE_ALIGN
            nbytes = per_sp * self._chip.sp_cores
            memory = self._iface.allocate(nbytes, Use.DEVICE, "private memory")
            made = Private(va=memory.gpu_va, lane_bytes=size, sp_bytes=per_sp)
            self._areas.append((made, memory))
            return made

    def close(self) -> None:
        """Free everything."""
        areas, self._areas = self._areas, []
        run_all([memory.free for _, memory in areas])

"""What the host stored to its copies of VRAM reaches the GPU, in as few round trips as can be."""

from __future__ import annotations

from drivers.amd.pci.mmio import MEMSIZE
from drivers.amd.pci.nbio import REMAP_BYTES
from drivers.bare.bus import DWORD_BYTES
from drivers.bare.mirror import Mirrors
from drivers.base.errors import during
from drivers.usb.asm24.bar_region import BarRegion


class Prompt:
    """In place of `gpu.flush_writes`: everything is queued, and goes out with the doorbell."""

    def __init__(self, mirrors: Mirrors, registers: BarRegion) -> None:
        self._mirrors, self._registers = mirrors, registers

    def flush_writes(self) -> None:
        """Push the mirrors, then flush the HDP; a read of the size of VRAM posts that.

        Its value is dropped, and the host does not wait for it: see `Bridge.post`. No other
        thread's doorbell comes between the flush and the read.
        # src: hdp_v6_0.c, hdp_v7_0.c *_flush_hdp(): the register that is read back
        """
        with during("flush writes"), self._mirrors.lock:
            self._mirrors.push()
            self._registers.write32(REMAP_BYTES, 0)
            self._registers.post(MEMSIZE.dword * DWORD_BYTES)

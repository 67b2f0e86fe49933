"""HDP: the host's way to VRAM through the BAR. Flushed by `BareGpu.flush_writes`.

Source: Linux 6.12, hdp_v4_0.c (hdp_v4_0_init_registers()); hdp_v6_0.c and hdp_v7_0.c set nothing up
"""

from __future__ import annotations

from typing import Final

from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId

_HDP4: Final = 4
_FLUSH_INVALIDATE_CACHE: Final = 1 << 0
"""Of HDP_MISC_CNTL: a flush also drops what HDP read. amdgpu sets it on 4.4.2, too, whose header
does not name the bit. # src: hdp_4_0_sh_mask.h"""
_BASE_SHIFT, _BASE_HIGH_SHIFT = 8, 40
_WORD_MASK: Final = 0xFFFF_FFFF


def up(gpu: BareGpu) -> None:
    """Where VRAM begins, and what a flush does. Once `mc_base` is known; the caller flushes."""
    if gpu.ips.version(HwId.HDP)[0] != _HDP4:
        return
    block = gpu.block(HwId.HDP)
    control = block.read("HDP_MISC_CNTL")
    block.write("HDP_MISC_CNTL", control | _FLUSH_INVALIDATE_CACHE)
    block.write("HDP_NONSURFACE_BASE", gpu.mc_base >> _BASE_SHIFT & _WORD_MASK)
    block.write("HDP_NONSURFACE_BASE_HI", gpu.mc_base >> _BASE_HIGH_SHIFT)

"""What memory of a bare GPU is allocated for, and the least rights that each use needs.

| use             | where                                       | rights        | caches |
|-----------------|---------------------------------------------|---------------|--------|
| DEVICE          | VRAM                                        | read, write   | yes    |
| CONSTANT        | VRAM                                        | read          | yes    |
| CODE            | VRAM, written by the host through the BAR   | read, execute | yes    |
| SHARED, PACKETS | the host's behind an IOMMU, else VRAM (BAR) | read, write   | no     |

What the host writes to VRAM is flushed (HDP), what it reads there is not: the HDPs of these chips
keep nothing that was read.
# src: hdp_v4_0_invalidate_hdp() leaves 4.4.2 out; hdp_v6_0.c, hdp_v7_0.c have none
"""

from __future__ import annotations

from typing import Final

from drivers.bare.memory import SHARED, Purpose
from drivers.bare.page_format import Rights
from drivers.gpu.iface import Use

PURPOSES: Final = {
    Use.DEVICE: Purpose(
        Rights(writable=True, executable=False, uncached=False), engine_zeroes=True
    ),
    Use.CONSTANT: Purpose(Rights(writable=False, executable=False, uncached=False)),
    Use.CODE: Purpose(Rights(writable=False, executable=True, uncached=False), host_writes=True),
    Use.SHARED: SHARED,
    Use.PACKETS: SHARED,
}

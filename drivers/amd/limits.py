"""What an AMD GPU can do, for compilers and for checks of launches."""

from __future__ import annotations

from typing import Final

from drivers.amd.arguments import MAX_GRID
from drivers.amd.chips import MAX_WORKGROUP_LANES, Chip
from drivers.amd.kfd.nodes import GpuNode
from drivers.amd.signal import MAX_VALUE
from drivers.base.contracts import Limits

HANG_S: Final = 60.0
"""How long one kernel may take before its queue counts as hung, where AMD_HANG_S does not say.

As long as amdgpu gives its own compute jobs. # src: amdgpu_drv.c lockup_timeout, "for compute"
"""
VECTOR_BYTES: Final = 16
"""Most bytes that one lane loads at once."""
_DTYPES: Final = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
) | {"bool", "float16", "bfloat16", "float32", "float64"}


def limits_of(chip: Chip, node: GpuNode) -> Limits:
    """Those of a chip in a machine."""
    return Limits(
        dtypes=_DTYPES,
        memory_bytes=node.memory_bytes,
        threads=node.cus,
        vector_bytes=VECTOR_BYTES,
        max_grid=(MAX_GRID, MAX_GRID, MAX_GRID),
        max_block=MAX_WORKGROUP_LANES,
        shared_bytes=chip.lds_bytes,
        wave_lanes=chip.family.wave_lanes,
        signal_bits=MAX_VALUE.bit_length(),
    )

"""What an Adreno can do, for compilers and for checks of launches."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import Limits
from drivers.qcom.signal import SIGNAL_BITS
from queues.qcom.chips import MAX_BLOCK, MAX_GRID, Chip

VECTOR_BYTES: Final = 16
"""Most bytes that one lane loads at once: four components."""
WAVE_LANES: Final = 64
"""Of kernels that are compiled here."""
_DTYPES: Final = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
) | {"bool", "float16", "bfloat16", "float32"}


def limits_of(chip: Chip, memory_bytes: int, features: frozenset[str] = frozenset()) -> Limits:
    """Those of a chip in a machine; features: what kernels may do."""
    return Limits(
        dtypes=_DTYPES,
        memory_bytes=memory_bytes,
        threads=chip.sp_cores,
        vector_bytes=VECTOR_BYTES,
        max_grid=MAX_GRID,
        max_block=MAX_BLOCK,
        shared_bytes=chip.shared_bytes,
        wave_lanes=WAVE_LANES,
        signal_bits=SIGNAL_BITS,
        features=features,
    )

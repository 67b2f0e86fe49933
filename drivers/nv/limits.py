"""What an NVIDIA GPU can do, for compilers and for checks of launches."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import Limits
from drivers.nv.nvk.facts import GpuFacts
from drivers.nv.signal import SIGNAL_BITS
from queues.nv.generations import MAX_BLOCK, WARP_LANES, Generation
from queues.nv.launch import MAX_GRID

VECTOR_BYTES: Final = 16
"""Most bytes that one lane loads at once."""
_DTYPES: Final = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
) | {"bool", "float16", "bfloat16", "float32", "float64"}


ROUNDED: Final = "tf32"
"""The feature that lets compilers round the factors of float32 products."""


def limits_of(generation: Generation, facts: GpuFacts, *, rounds: bool = False) -> Limits:
    """Those of a GPU in a machine; `rounds`: products of float32 may be of tf32."""
    return Limits(
        dtypes=_DTYPES,
        memory_bytes=facts.memory_bytes,
        threads=facts.sms,
        vector_bytes=VECTOR_BYTES,
        max_grid=MAX_GRID,
        max_block=MAX_BLOCK,
        shared_bytes=generation.max_shared_bytes - generation.reserved_shared_bytes,
        wave_lanes=WARP_LANES,
        signal_bits=SIGNAL_BITS,
        features=frozenset({ROUNDED} if rounds else ()),
    )

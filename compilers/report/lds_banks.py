"""Bank conflicts of local memory: how many passes one instruction of a wave takes.

32 banks of 4 bytes answer once a pass. Lanes of a pass that want different dwords of one bank wait
for each other; lanes that want the same dword do not. Which lanes go together depends on the width:
# src: ROCm documentation, composable_kernel, "Understanding AMD GPU LDS and Bank Conflicts": of
# CDNA3's ds_write_b128 lanes 0..7, 8..15 and so on; of ds_read_b128 lanes 0..3 with 20..23, 4..7
# with 16..19, 8..11 with 28..31, 12..15 with 24..27, and the same 32 lanes on.
No document has them for RDNA, nor for 8 bytes: neighbouring lanes are assumed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

BANKS: Final = 32
DWORD_BYTES: Final = 4
PASS_BYTES: Final = BANKS * DWORD_BYTES
_CROSSED: Final = tuple(
    tuple(range(half + low, half + low + 4)) + tuple(range(half + high, half + high + 4))
    for half in (0, 32)
    for low, high in ((0, 20), (4, 16), (8, 28), (12, 24))
)
_WIDE_BYTES: Final = 16
_WIDE_WAVE: Final = 64


def together(nbytes: int, lanes: int, *, write: bool) -> Sequence[Sequence[int]]:
    """The lanes that are served together, for accesses of `nbytes` a lane in waves of `lanes`."""
    if nbytes == _WIDE_BYTES and lanes == _WIDE_WAVE and not write:
        return _CROSSED
    each = min(PASS_BYTES // max(nbytes, DWORD_BYTES), lanes)
    return [range(first, first + each) for first in range(0, lanes, each)]


def passes(addresses: npt.NDArray[np.int64], nbytes: int, *, write: bool) -> int:
    """Passes of one instruction; `addresses`: bytes, one a lane, negative where a lane is off."""
    total = 0
    offsets = np.arange(max(nbytes // DWORD_BYTES, 1))
    for group in together(nbytes, len(addresses), write=write):
        on = addresses[list(group)]
        on = on[on >= 0]
        dwords = np.unique((on // DWORD_BYTES)[:, None] + offsets)
        total += int(np.bincount(dwords % BANKS, minlength=BANKS).max()) if len(on) else 0
    return total

"""CUDA kernels of many kinds and what numpy says that they leave: for the executor of SASS.

`python -m tests.boards.nv_corpus` runs all of them; tests run a part.
"""

from __future__ import annotations

import re
from typing import Final

from tests.boards.nv_corpus import (
    atomics,
    copies,
    matrices,
    numbers,
    scans,
    sorts,
    stencils,
    warps,
    whole,
)
from tests.boards.nv_corpus.kernel import Kernel

ARCHES: Final = ("sm_75", "sm_86", "sm_90a", "sm_120")
KERNELS: Final[tuple[Kernel, ...]] = tuple(
    kernel
    for part in (scans, sorts, stencils, atomics, warps, whole, numbers, matrices, copies)
    for kernel in part.KERNELS
)


def sm_of(arch: str) -> int:
    """90 of sm_90a."""
    return int(re.sub(r"\D", "", arch))

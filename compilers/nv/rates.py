"""Rates of NVIDIA's matrix units, as data: for counting, never measured here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

PARTITIONS: Final = 4
"""Parts of a multiprocessor, each with a matrix unit. # src: NVIDIA's white papers of Turing to
Hopper, "Streaming Multiprocessor" """
# src: white papers: peak of dense products by multiprocessors and boost clock. float16 with float32
# sums: RTX 2080 Ti 53.8 TFLOPS, A100 312, RTX 3080 59.5, RTX 4090 165.2, H100 SXM 989 (which only
# wgmma reaches), RTX 5090 209.5; int8: A100 624 TOPS, RTX 3080 238, RTX 4090 660.6, H100 1979,
# RTX 5090 838; tf32: half of float16. Products and sums of a multiprocessor a clock:
PRODUCTS: Final[Mapping[int, int]] = {75: 256, 80: 1024, 86: 256, 89: 256, 90: 2048, 120: 256}
"""Compute capability -> the above, of halves; others are not known."""
OF_BYTES: Final[Mapping[int, int]] = {80: 2048, 86: 1024, 89: 1024, 90: 4096, 120: 1024}
_NAME: Final = re.compile(r"\b([HI])(G?)MMA\.(?:(\d+)x(\d+)x(\d+)|16(8)(\d+))(\S*)")
_ROWS: Final = 16
"""Of a warp's instruction."""


def is_matrix(text: str) -> bool:
    """Whether it is a matrix instruction."""
    return _NAME.search(text) is not None


def matrix_clocks(text: str, sm: int) -> float | None:
    """Least clocks that an instruction keeps its partition's matrix unit; 0 for another one.

    An instruction of a warpgroup is spread over all partitions. None: the rate of the architecture
    is not known.
    """
    found = _NAME.search(text)
    if found is None:
        return 0.0
    kind, group, *sizes, columns, depth, more = found.groups()
    whole = float((OF_BYTES if kind == "I" else PRODUCTS).get(sm, 0))
    if ".TF32" in more:
        whole /= 2
    if not whole:
        return None
    if group:
        rows, columns, depth = sizes
        return int(rows) * int(columns) * int(depth) / whole
    return _ROWS * int(columns) * int(depth) * PARTITIONS / whole

"""Rates of NVIDIA's matrix units, as data: for counting, never measured here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PARTITIONS: Final = 4
"""Parts of a multiprocessor, each with a matrix unit. # src: NVIDIA's white papers of Turing to
Hopper, "Streaming Multiprocessor" """
# src: white papers: peak of dense float16 with float32 sums, by multiprocessors and boost clock:
# RTX 2080 Ti 53.8 TFLOPS, A100 312, RTX 3080 59.5, RTX 4090 165.2, H100 SXM 989 (which only wgmma
# reaches), RTX 5090 209.5. Products and sums of a multiprocessor a clock:
PRODUCTS: Final[Mapping[int, int]] = {75: 256, 80: 1024, 86: 256, 89: 256, 90: 2048, 120: 256}
"""Compute capability -> the above; others are not known."""
_HMMA: Final = {"HMMA.1688.": 16 * 8 * 8, "HMMA.16816.": 16 * 8 * 16}
"""Instruction -> its products."""


def matrix_clocks(text: str, sm: int) -> float | None:
    """Least clocks that an instruction keeps its partition's matrix unit; 0 for another one.

    None: the rate of the architecture is not known.
    """
    for name, products in _HMMA.items():
        if name in text:
            whole = PRODUCTS.get(sm)
            return products * PARTITIONS / whole if whole else None
    return 0.0

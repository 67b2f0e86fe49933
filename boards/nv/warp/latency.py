"""Cycles from an instruction to the first that may read its result, by the kinds of both.

src: Mesa src/nouveau/compiler/nak/sm80_instr_latencies.rs, where NVIDIA's own numbers for
Ampere and Ada are; uniform predicates: the least distance of uniform registers
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from boards.machine.arrays import Array

CLASSES: Final = {
    "alu": 0, "fma": 1, "disp64": 2, "wide": 3, "high": 4, "udp": 5, "uldc": 6, "umov": 7,
    "half": 8, "mma": 9,
}  # fmt: skip
"""Of a writer. "wide" is the low word of a wide product, its high word is "high"."""
VARIABLE: Final = ("variable", "agu")
"""Kinds whose results need a scoreboard."""
IN_ORDER: Final = {
    "shared": ("LDS", "SHFL", "STS"),
    "conversion": ("MUFU", "POPC", "FLO", "BREV", "F2I", "I2F", "FRND", "F2F"),
    "double": ("DADD", "DMUL", "DFMA", "DSETP"),
}
"""Units whose sources are read, and whose results come, in the order of their instructions."""
_TABLE = 16


def _row(**cycles: int) -> Array:
    table = np.zeros(_TABLE, np.int32)
    for name, count in cycles.items():
        table[CLASSES[name]] = count
    return table


def _vector(
    alu: int, fma: int, disp64: int, wide: int, high: int, half: int = 5, mma: int = 17
) -> Array:
    return _row(alu=alu, fma=fma, disp64=disp64, wide=wide, high=high, half=half, mma=mma)


REGISTERS: Final[Mapping[str, Array]] = {
    "alu": _vector(4, 5, 6, 3, 5),
    "fma": _vector(5, 4, 6, 2, 4),
    "product": _vector(5, 4, 6, 4, 6),
    "addend high": _vector(3, 2, 4, 2, 2, 3, 15),
    "half": _vector(5, 5, 6, 3, 5),
    "mma": _vector(7, 7, 7, 7, 7, 7, 18),
    "variable": _vector(4, 4, 4, 4, 4, 4),
    "agu": _vector(5, 5, 5, 5, 5),
    "control": _vector(4, 4, 4, 4, 4),
}
PREDICATES: Final[Mapping[str, Array]] = {
    "alu": _vector(4, 5, 5, 5, 5),
    "fma": _vector(5, 4, 5, 4, 4),
    "wide": _vector(5, 4, 5, 4, 4),
    "high": _vector(5, 4, 5, 4, 4),
    "guard": _vector(13, 13, 13, 13, 13, 13),
    "udp": _row(udp=4),
}
UNIFORMS: Final[Mapping[str, Array]] = {
    "alu": _row(udp=6, uldc=2, umov=2),
    "fma": _row(udp=6, uldc=2, umov=2),
    "wide": _row(udp=6, uldc=2, umov=2),
    "high": _row(udp=6, uldc=2, umov=2),
    "variable": _row(udp=9, uldc=2, umov=2),
    "agu": _row(udp=9, uldc=2, umov=2),
    "control": _row(udp=10, uldc=3, umov=3),
    "udp": _row(udp=4, uldc=2, umov=2),
    "umov": _row(udp=7, uldc=2, umov=2),
}

"""Cycles from an instruction to the first that may read its result, by the kinds of both.

src: Mesa src/nouveau/compiler: nak/sm75_instr_latencies.rs, nak/sm80_instr_latencies.rs (Ampere and
Ada), latencies/sm100/*_raw.csv (Blackwell), which are NVIDIA's own numbers. Hopper's are not
published: Blackwell's stand for most of them, and `python -m tests.boards.nv_distances` measures
the least distances that nvrtc 13.5 leaves on each architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from boards.machine.arrays import Array

CLASSES: Final = {
    "alu": 0, "fma": 1, "disp64": 2, "wide": 3, "high": 4, "udp": 5, "uldc": 6, "umov": 7,
    "half": 8, "mma": 9, "mma1": 10, "hfma2": 11, "double": 12, "r2ur": 13,
}  # fmt: skip
"""Of a writer. "wide" is the low word of a wide product, its high word is "high"; "mma1" takes its
operands in one pass; "hfma2" is the one of the matrix unit; "double" has no scoreboard."""
VARIABLE: Final = ("variable", "agu", "group")
"""Kinds whose results need a scoreboard."""
IN_ORDER: Final = {
    "shared": ("LDS", "LDSM", "SHFL", "STS"),
    "conversion": ("MUFU", "POPC", "FLO", "BREV", "F2I", "I2F", "FRND", "F2F", "FCHK"),
    "double": ("DADD", "DMUL", "DFMA", "DSETP"),
    "group": ("HGMMA", "IGMMA"),
    "reduction": ("REDUX",),
    "barrier": ("B2R",),
    "special": ("S2UR",),
}
"""Units whose sources are read, and whose results come, in the order of their instructions."""
_TABLE = 16
_VECTOR: Final = (
    "alu", "fma", "disp64", "wide", "high", "half", "hfma2", "double", "mma1", "mma",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Latencies:
    """Of an architecture: by the class of the reader, an array by the class of the writer."""

    registers: Mapping[str, Array]
    predicates: Mapping[str, Array]
    """Uniform ones, too: VOTEU's are of class "umov"."""
    uniforms: Mapping[str, Array]
    one_queue: bool = False
    """Whether all of memory reads its sources in order."""


def _row(cycles: tuple[int, ...], **more: int) -> Array:
    """Cycles of vector instructions, and of others by name."""
    table = np.zeros(_TABLE, np.int32)
    for name, count in (*zip(_VECTOR, cycles, strict=False), *more.items()):
        table[CLASSES[name]] = count
    return table


def _uniform(udp: int, other: int, r2ur: int) -> Array:
    return _row((), udp=udp, uldc=other, umov=other, r2ur=r2ur)


def _uniforms(r2ur: int, *, branch: tuple[int, int]) -> Mapping[str, Array]:
    coupled, decoupled = _uniform(6, 2, r2ur), _uniform(9, 2, r2ur)
    return {
        "alu": coupled, "fma": coupled, "wide": coupled, "high": coupled, "half": coupled,
        "hfma2": decoupled, "double": decoupled, "variable": decoupled, "agu": decoupled,
        "group": decoupled,
        "control": _uniform(*branch, r2ur), "udp": _uniform(4, 2, r2ur),
        "umov": _uniform(7, 2, r2ur), "uldc": _uniform(12, 5, max(2, r2ur)),
    }  # fmt: skip


_SAME = (6, 6, 6, 6, 6, 6)
_TURING = Latencies(
    registers={
        "alu": _row((4, 5, 6, 3, 5, 8, 8, 9, 10, 14)),
        "fma": _row((5, 4, 6, 2, 4, 8, 8, 9, 10, 14)),
        "product": _row((5, 4, 6, 4, 6, 8, 8, 9, 10, 14)),
        "addend low": _row((5, 4, 6, 2, 2, 8, 8, 9, 10, 14)),
        "addend high": _row((3, 2, 4, 2, 2, 6, 6, 7, 8, 12)),
        "half": _row((*_SAME, 6, 9, 10, 14)),
        "double": _row((6, 6, 6, 6, 6, 8, 8, 8, 10, 14)),
        "mma": _row((6, 6, 6, 6, 6, 8, 8, 9, 10, 14)),
        "mma1": _row((8, 8, 8, 8, 8, 8, 8, 9, 10, 14)),
        "variable": _row((6, 6, 6, 6, 6, 8, 8, 9, 10, 14)),
        "agu": _row((6, 6, 6, 6, 6, 8, 8, 9, 10, 14)),
        "control": _row((6, 6, 6, 6, 6, 8, 8, 9, 10, 14)),
    },
    predicates={
        "alu": _row((4, 5, 5, 5, 5, 8, 8, 9), udp=6, umov=1),
        "fma": _row((5, 4, 4, 4, 4, 8, 8, 9), udp=6, umov=1),
        "wide": _row((5, 4, 4, 2, 2, 8, 8, 9), udp=6, umov=1),
        "high": _row((5, 4, 4, 2, 2, 8, 8, 9), udp=6, umov=1),
        "half": _row((12, 12, 12, 12, 12, 6, 6, 15), udp=11, umov=5),
        "double": _row((12, 12, 12, 12, 12, 14, 14, 8), udp=11, umov=5),
        "guard": _row((12, 12, 12, 12, 12, 14, 14, 15), udp=11, umov=5),
        "udp": _row((), udp=4, umov=1),
    },
    uniforms=_uniforms(2, branch=(9, 2)),
)
# Halves to halves: 4; Mesa asks for 5 where one is HADD2.F32, which is not distinguished here.
_AMPERE = Latencies(
    registers={
        "alu": _row((4, 5, 6, 3, 5, 5, 10, 10, 13, 17)),
        "fma": _row((5, 4, 6, 2, 4, 5, 10, 10, 13, 17)),
        "product": _row((5, 4, 6, 4, 6, 5, 10, 10, 13, 17)),
        "addend low": _row((5, 4, 6, 2, 4, 5, 10, 10, 13, 17)),
        "addend high": _row((3, 2, 4, 2, 2, 3, 8, 8, 11, 15)),
        "half": _row((5, 5, 6, 3, 5, 4, 10, 10, 13, 17)),
        "hfma2": _row((*_SAME, 6, 6, 13, 17)),
        "double": _row((*_SAME, 6, 6, 13, 17)),
        "mma": _row((7, 7, 7, 7, 7, 7, 11, 11, 14, 18)),
        "mma1": _row((7, 7, 7, 7, 7, 7, 11, 11, 14, 18)),
        "variable": _row((4, 4, 4, 4, 4, 4, 6, 6, 11, 15)),
        "agu": _row((5, 5, 5, 5, 5, 5, 7, 7, 12, 16)),
        "control": _row((4, 4, 4, 4, 4, 4, 6, 6, 11, 15)),
    },
    predicates={
        "alu": _row((4, 5, 5, 5, 5, 5, 6, 6), udp=6, umov=1),
        "fma": _row((5, 4, 5, 4, 4, 5, 6, 6), udp=6, umov=1),
        "wide": _row((5, 4, 5, 4, 4, 5, 6, 6), udp=6, umov=1),
        "high": _row((5, 4, 5, 4, 4, 5, 6, 6), udp=6, umov=1),
        "half": _row((5, 4, 5, 4, 4, 5, 6, 6), udp=6, umov=1),
        "hfma2": _row((13, 13, 13, 13, 13, 13, 6, 6), udp=11, umov=5),
        "double": _row((13, 13, 13, 13, 13, 13, 6, 6), udp=11, umov=5),
        "control": _row((13, 13, 13, 13, 13, 13, 14, 14), udp=9, umov=2),
        "guard": _row((13, 13, 13, 13, 13, 13, 14, 14), udp=11, umov=5),
        "udp": _row((), udp=4, umov=1),
    },
    uniforms=_uniforms(1, branch=(10, 3)),
)
_BLACKWELL = Latencies(
    registers={
        "alu": _row((4, 5, 6, 3, 5, 5, 10, 10, 19, 19)),
        "fma": _row((5, 4, 6, 2, 4, 5, 10, 10, 19, 19)),
        "product": _row((5, 4, 6, 4, 6, 5, 10, 10, 19, 19)),
        "addend low": _row((5, 4, 6, 2, 4, 5, 10, 10, 19, 19)),
        "addend high": _row((3, 2, 4, 2, 2, 3, 8, 8, 19, 19)),
        "half": _row((5, 5, 6, 3, 5, 4, 10, 10, 19, 19)),
        "hfma2": _row((*_SAME, 8, 10, 19, 19)),
        "double": _row((*_SAME, 8, 8, 19, 19)),
        "mma": _row((7, 7, 7, 7, 7, 7, 11, 11, 20, 20)),
        "mma1": _row((7, 7, 7, 7, 7, 7, 11, 11, 20, 20)),
        "variable": _row((4, 4, 4, 4, 4, 4, 6, 6, 19, 19)),
        "agu": _row((5, 5, 5, 5, 5, 5, 7, 7, 19, 19)),
        "control": _row((4, 4, 4, 4, 4, 4, 6, 6, 19, 19)),
    },
    predicates={name: row for name, row in _AMPERE.predicates.items() if name != "half"},
    uniforms=_uniforms(13, branch=(10, 3)),
    one_queue=True,
)
_ONE_PASS, _ONE_PASS_TO_MATRIX = 15, 16


def _hopper_row(reader: str, table: Array) -> Array:
    row = table.copy()
    to_matrix = reader in ("mma", "mma1")
    row[CLASSES["mma1"]] = _ONE_PASS_TO_MATRIX if to_matrix else _ONE_PASS
    return row


_HOPPER = replace(
    _BLACKWELL,
    registers={name: _hopper_row(name, row) for name, row in _BLACKWELL.registers.items()},
)
"""measured: the least that nvrtc 13.5 leaves behind products of one pass on sm_90a: 15 cycles to a
store, 16 to the next product; behind others 23 and 24, more than Blackwell's"""
LATENCIES: Final[Mapping[str, Latencies]] = {
    "turing": _TURING, "ampere": _AMPERE, "hopper": _HOPPER, "blackwell": _BLACKWELL,
}  # fmt: skip

"""Opcodes that one family of architectures has, or has with another meaning than the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from boards.nv.warp import newer, turing
from boards.nv.warp.build import Action, Builder

Make = Callable[[Builder], Action]
_MINIMA: Final[dict[int, tuple[str, Make]]] = {
    0x00F: ("VIMNMX3", newer.vimnmx3), 0x036: ("VIADD", newer.viadd),
    0x046: ("VIADDMNMX", newer.viaddmnmx), 0x048: ("VIMNMX", newer.vimnmx),
}  # fmt: skip
VARIANTS: Final[Mapping[str, Mapping[int, tuple[str, Make]]]] = {
    "turing": {0x155: ("BMOV", turing.bmov)},
    "ampere": {0x035: ("HFMA2.MMA", newer.hfma2_mma)},
    "hopper": {0x035: ("HFMA2.MMA", newer.hfma2_mma), **_MINIMA},
    "blackwell": {
        0x017: ("IMNMX", newer.imnmx), 0x035: ("IADD", newer.iadd),
        0x1AC: ("LDCU", newer.ldcu), **_MINIMA,
    },
}  # fmt: skip
"""By family and nine bits of opcode."""

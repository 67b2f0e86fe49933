"""What differs from one architecture to the next, as data that instructions look up.

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs (uniform registers, orders of memory)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from boards.nv.chip import NvChip
from boards.nv.warp.latency import LATENCIES, Latencies


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture, as its code is compiled for it."""

    name: str
    family: str
    """Whose opcodes and latencies it has: turing, ampere, hopper, blackwell."""
    uniform_zero: int = 63
    """URZ."""
    fixed_doubles: bool = False
    """Whether doubles have a latency, and no scoreboard. measured: DFMA of nvrtc 13.5."""

    @property
    def latencies(self) -> Latencies:
        """In cycles."""
        return LATENCIES[self.family]


_ARCHES: Final = {
    0x75: Arch("sm_75", "turing"),
    0x80: Arch("sm_80", "ampere"),
    0x86: Arch("sm_86", "ampere"),
    0x89: Arch("sm_89", "ampere"),
    0x90: Arch("sm_90", "hopper", fixed_doubles=True),
    0xA0: Arch("sm_100", "blackwell", 255, fixed_doubles=True),
    0xA4: Arch("sm_120", "blackwell", 255),
}
"""By the version of SASS that a chip reads."""


def of_chip(chip: NvChip) -> Arch:
    """That of a chip. Raises: KeyError."""
    return _ARCHES[chip.sass_version]

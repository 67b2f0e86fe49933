"""Counts what a kernel's loop does while a software board runs it: the observer of a launch.

It shares nothing with the compiler: instructions are those that the board decoded and ran, and the
addresses are those that the lanes had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.isa.layout import Family
from boards.amd.wave_state import Waves
from boards.amd.wave_strict import Observer
from boards.amd.wave_touch import Touch
from boards.amd.wave_types import Report, Strict

READ_128_OF_64_LANES = ((0, 20), (4, 16), (8, 28), (12, 24), (32, 52), (36, 48), (40, 60), (44, 56))
"""First lanes of the two fours that a pass of CDNA3's ds_read_b128 serves.
# src: ROCm documentation, composable_kernel, "Understanding AMD GPU LDS and Bank Conflicts" """


@dataclass(slots=True)
class Tally:
    """By address of the instruction: its name, how many waves ran it, passes over the banks."""

    names: dict[int, str] = field(default_factory=dict)
    ran: Counter[int] = field(default_factory=Counter)
    passes: Counter[int] = field(default_factory=Counter)

    def make(self, w: Waves, strict: Strict, report: Report, family: Family) -> Observer:
        """The observer to launch with."""
        return _Counting(self, w, strict, report, family)

    def loop(self, turns: int, waves: int) -> list[int]:
        """The instructions that each wave ran `turns` times."""
        return sorted(pc for pc, count in self.ran.items() if count == turns * waves)


class _Counting(Observer):
    def __init__(
        self, tally: Tally, w: Waves, strict: Strict, report: Report, family: Family
    ) -> None:
        super().__init__(w, strict, report, family)
        self.tally = tally

    def before(self, w: Waves, inst: Instruction, t: Touch) -> None:
        self.tally.names[inst.pc] = inst.name
        self.tally.ran[inst.pc] += w.n
        super().before(w, inst, t)

    def lds(
        self,
        w: Waves,
        inst: Instruction,
        at: np.ndarray,
        index: np.ndarray,
        nbytes: int,
        *,
        write: bool,
    ) -> None:
        for wave in range(w.n):
            mine = index // w.lanes == wave
            lanes = dict(zip((index[mine] % w.lanes).tolist(), at[mine].tolist(), strict=True))
            groups = served_together(nbytes, w.lanes, write=write)
            self.tally.passes[inst.pc] += sum(worst_bank(lanes, group, nbytes) for group in groups)
        super().lds(w, inst, at, index, nbytes, write=write)


def served_together(nbytes: int, lanes: int, *, write: bool) -> Iterable[tuple[int, ...]]:
    """Lanes of each pass: 128 bytes of neighbours, but for 16-byte reads of 64 lanes."""
    if nbytes == 16 and lanes == 64 and not write:
        return [(*range(a, a + 4), *range(b, b + 4)) for a, b in READ_128_OF_64_LANES]
    each = 32 if nbytes <= 4 else 128 // nbytes
    return [tuple(range(first, first + each)) for first in range(0, lanes, each)]


def worst_bank(lanes: dict[int, int], group: tuple[int, ...], nbytes: int) -> int:
    """How many different dwords of the busiest of 32 banks some lanes want."""
    wanted: dict[int, set[int]] = {}
    for lane in group:
        for offset in range(0, nbytes, 4):
            if lane in lanes:
                dword = (lanes[lane] + offset) // 4
                wanted.setdefault(dword % 32, set()).add(dword)
    return max(map(len, wanted.values()), default=0)

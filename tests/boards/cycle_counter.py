"""Counts what a kernel's loop does while a software board runs it: the observer of a launch.

It shares nothing with the compiler: instructions are those that the board decoded and ran, and the
addresses are those that the lanes had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from boards.amd.isa.decode import Family, Instruction
from boards.amd.isa.text import disassemble
from boards.amd.wave.state import Waves
from boards.amd.wave.strict import Observer
from boards.amd.wave.touch import Touch
from boards.amd.wave.types import Report, Strict

READ_128_OF_64_LANES = ((0, 20), (4, 16), (8, 28), (12, 24), (32, 52), (36, 48), (40, 60), (44, 56))
"""First lanes of the two fours that a pass of CDNA3's ds_read_b128 serves.
# src: ROCm documentation, composable_kernel, "Understanding AMD GPU LDS and Bank Conflicts" """

OFF = -1
"""The address of a lane that does nothing."""


@dataclass(slots=True)
class Tally:
    """By address of the instruction: its text, how many waves ran it, passes over the banks."""

    texts: dict[int, str] = field(default_factory=dict)
    ran: Counter[int] = field(default_factory=Counter)
    passes: Counter[int] = field(default_factory=Counter)

    def make(self, w: Waves, strict: Strict, report: Report, family: Family) -> Observer:
        """The observer to launch with."""
        return _Counting(self, w, strict, report, family)

    def loop(self, waves: int) -> list[int]:
        """The instructions that each wave ran more than once."""
        return sorted(pc for pc, count in self.ran.items() if count >= 2 * waves)

    def of_a_turn(self, pc: int, waves: int) -> int:
        """Passes that an instruction of the loop takes for `waves` waves."""
        each, rest = divmod(self.passes[pc] * waves, self.ran[pc])
        if rest:
            raise AssertionError(f"{self.texts[pc]} does not take the same in every turn")
        return each


class _Counting(Observer):
    def __init__(
        self, tally: Tally, w: Waves, strict: Strict, report: Report, family: Family
    ) -> None:
        super().__init__(w, strict, report, family)
        self.tally = tally

    def before(self, w: Waves, inst: Instruction, t: Touch) -> None:
        if inst.pc not in self.tally.texts:
            self.tally.texts[inst.pc] = disassemble(inst)
        self.tally.ran[inst.pc] += w.n
        super().before(w, inst, t)

    def lds(
        self,
        w: Waves,
        inst: Instruction,
        at: np.ndarray,
        index: np.ndarray,
        nbytes: int,
        data: np.ndarray | None,
    ) -> None:
        for wave in range(w.n):
            mine = index // w.lanes == wave
            lanes = np.full(w.lanes, OFF)
            lanes[index[mine] % w.lanes] = at[mine]
            self.tally.passes[inst.pc] += passes(tuple(lanes.tolist()), nbytes, data is not None)
        super().lds(w, inst, at, index, nbytes, data)


def served_together(nbytes: int, lanes: int, *, write: bool) -> Iterable[tuple[int, ...]]:
    """Lanes of each pass: 128 bytes of neighbours, but for 16-byte reads of 64 lanes."""
    if nbytes == 16 and lanes == 64 and not write:
        return [(*range(a, a + 4), *range(b, b + 4)) for a, b in READ_128_OF_64_LANES]
    each = 32 if nbytes <= 4 else 128 // nbytes
    return [tuple(range(first, first + each)) for first in range(0, lanes, each)]


@cache
def passes(at: tuple[int, ...], nbytes: int, write: bool) -> int:
    """Passes of one wave's access: `at` is a byte address a lane, or OFF."""
    groups = served_together(nbytes, len(at), write=write)
    return sum(worst_bank([at[lane] for lane in group], nbytes) for group in groups)


def worst_bank(places: Iterable[int], nbytes: int) -> int:
    """How many different dwords of the busiest of 32 banks are wanted at once."""
    wanted: dict[int, set[int]] = {}
    for at in places:
        for offset in range(0, nbytes, 4):
            if at != OFF:
                dword = (at + offset) // 4
                wanted.setdefault(dword % 32, set()).add(dword)
    return max(map(len, wanted.values()), default=0)

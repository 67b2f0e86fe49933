"""What must have passed before an ir3 instruction may run: delay slots, (ss), (sy).

Rules and their sources, in Mesa 25.0.7, src/freedreno/ir3:
- ir3_compiler.c, delay_slots: a result of categories 1 to 3 is read by these after 3 cycles of its
  own (generation 7: 2), by all others after 6 (5); p0, a0 and a1 after 6 (5) by everyone.
- ir3_legalize.c, delay_update: 6 (5) when one of writer and reader is a half register.
- ir3_delay.c, ir3_src_read_delay: the third source of mad (generation 7: of all of category 3) is
  read 2 cycles (1) later, sources of gat and swz one after the other.
- ir3_legalize.c: results of category 4, local loads, shfl, getfiberid and shared registers wait by
  (ss); of category 5, other loads and atomics by (sy); also what would be overwritten.
- the same: what category 4 to 6 read may not be overwritten before (ss); for those whose result
  waits by (sy), before either.
- the same: only categories 1 to 3 and nop take a cycle that counts, and not those of a scalar ALU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from compilers.qcom.effects import Effects
from compilers.qcom.operands import Access

_STORES: Final = frozenset({"stg", "stg.a", "stib.b", "stp", "stl", "stlw", "stc"})


_SLOW: Final = (5, 6)
"""Categories that read their sources late."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Cycles of one generation."""

    alu: int
    other: int


DELAYS: Final = {6: Delays(3, 6), 7: Delays(2, 5)}


@dataclass(slots=True)
class State:
    """What is outstanding; cycles count from the start of a block."""

    alu_full: dict[int, int] = field(default_factory=dict)
    """By unit: when a full result of categories 1 to 3, written there last, was there."""
    alu_half: dict[int, int] = field(default_factory=dict)
    special: dict[int, int] = field(default_factory=dict)
    ss: int = 0
    """Units, a bit each: results that (ss) waits for."""
    sy: int = 0
    ss_war: int = 0
    any_war: int = 0
    """Overwritten after (ss) or (sy)."""
    ss_const: bool = False
    sy_const: bool = False
    barrier: bool = False
    """The instruction before was one."""
    predicated: bool = False
    """The instruction before was predt."""

    def _tables(self) -> tuple[dict[int, int], ...]:
        return self.alu_full, self.alu_half, self.special

    def join(self, other: State) -> None:
        """Add what is outstanding on another way to the same place."""
        for mine, theirs in zip(self._tables(), other._tables(), strict=True):
            for unit, cycle in theirs.items():
                mine[unit] = max(mine.get(unit, cycle), cycle)
        self.ss |= other.ss
        self.sy |= other.sy
        self.ss_war |= other.ss_war
        self.any_war |= other.any_war
        self.ss_const |= other.ss_const
        self.sy_const |= other.sy_const
        self.barrier |= other.barrier
        self.predicated |= other.predicated

    def copy(self) -> State:
        """An independent one."""
        made = State()
        made.join(self)
        return made

    def rebase(self, cycle: int, horizon: int) -> None:
        """Count from here on; what is long past is dropped."""
        for table in self._tables():
            late = {u: c - cycle for u, c in table.items() if c - cycle + horizon > 0}
            table.clear()
            table.update(late)

    def delay(self, op: str, has: Effects, cycle: int, generation: int) -> int:
        """Free slots that are missing before an instruction."""
        if op in ("end", "chmask"):
            return 0
        far, missing = DELAYS[generation].other, 0
        near = DELAYS[generation].alu if has.is_alu else far
        for access in has.reads:
            at = cycle + access.after
            if access.is_special:
                for unit in access.units:
                    missing = max(missing, self.special.get(unit, at - far) - at + far)
                continue
            same, other = self._ages(access)
            for unit in access.units:
                if unit in same:
                    missing = max(missing, same[unit] - at + near)
                if unit in other:
                    missing = max(missing, other[unit] - at + far)
        return missing

    def _ages(self, access: Access) -> tuple[dict[int, int], dict[int, int]]:
        if access.half:
            return self.alu_half, self.alu_full
        return self.alu_full, self.alu_half

    def needs(self, op: str, has: Effects) -> tuple[bool, bool]:
        """Whether an instruction must carry (ss) and (sy)."""
        touched = has.read_mask | has.write_mask
        needs_sy = bool(touched & self.sy) or (has.consts and self.sy_const)
        war = self.ss_war if needs_sy else self.ss_war | self.any_war
        late = bool(touched & self.ss) or bool(has.write_mask & war)
        everything = self.barrier or op == "shpe"
        needs_ss = late or (has.consts and self.ss_const) or everything or self.predicated
        return needs_ss, needs_sy or everything

    def synced(self, *, ss: bool, sy: bool) -> None:
        """An instruction with these flags ran."""
        if ss:
            self.ss = self.ss_war = 0
            self.ss_const = False
        if sy:
            self.sy = 0
            self.sy_const = False
        if ss or sy:
            self.any_war = 0

    def update(self, op: str, has: Effects, cycle: int) -> None:
        """An instruction ran; `cycle` is the one after its first."""
        self.barrier = has.kind == 7 and op not in ("lock", "unlock", "alias")
        self.predicated = op == "predt"
        for access in has.writes:
            self._written(access, has, cycle + access.after)
            if has.ss or access.is_shared:
                self.ss |= access.mask
            if has.sy:
                self.sy |= access.mask
        if op in ("stc", "stsc", "ldg.k"):
            self.ss_const = True
        if op in ("ldc.k", "ldg.k"):
            self.sy_const = True
        if (has.kind in _SLOW or has.ss) and op != "tcinv":
            if has.ss or op in _STORES:
                self.ss_war |= has.read_mask
            else:
                self.any_war |= has.read_mask

    def _written(self, access: Access, has: Effects, cycle: int) -> None:
        if access.is_special:
            self.special.update(dict.fromkeys(access.units, cycle))
            return
        mine, _ = self._ages(access)
        for unit in access.units:
            if has.is_alu and not access.is_shared:
                mine[unit] = max(mine.get(unit, cycle), cycle)
            else:
                self.alu_full.pop(unit, None)
                self.alu_half.pop(unit, None)

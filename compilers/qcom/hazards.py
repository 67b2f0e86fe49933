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

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.operand import Kind
from compilers.qcom.operands import Access, reads, writes

_LOCAL_LOADS: Final = frozenset({"ldl", "ldlv", "ldlw"})
_SS_RESULTS: Final = frozenset({"shfl", "getfiberid", "resinfo.b"})
_SY_LOADS: Final = frozenset({"ldg", "ldg.a", "ldib.b", "ldp", "ldc", "resbase"})
_BOTH: Final = frozenset({"getspid", "getwid"})
_STORES: Final = frozenset({"stg", "stg.a", "stib.b", "stp", "stl", "stlw", "stc"})


@dataclass(frozen=True, slots=True)
class Delays:
    """Cycles of one generation."""

    alu: int
    other: int


DELAYS: Final = {6: Delays(3, 6), 7: Delays(2, 5)}


def counts(insn: Insn, kind: int) -> bool:
    """Whether it fills delay slots."""
    shared = insn.dst is not None and insn.dst.is_shared
    return (kind in (1, 2, 3) and not shared) or insn.op == "nop"


def ss_result(insn: Insn, kind: int) -> bool:
    """(ss) waits for its result."""
    local = insn.op.startswith("atomic.") and insn.op.count(".") == 1
    named = insn.op in _LOCAL_LOADS or insn.op in _SS_RESULTS or insn.op in _BOTH
    shared = insn.dst is not None and insn.dst.is_shared
    return kind == 4 or named or local or shared


def sy_result(insn: Insn, kind: int) -> bool:
    """(sy) waits for its result."""
    far = insn.op.startswith(("atomic.g.", "atomic.b."))
    return kind == 5 or insn.op in _SY_LOADS or insn.op in _BOTH or far


@dataclass(slots=True)
class State:
    """What is outstanding; cycles count from the start of a block."""

    alu_full: dict[int, int] = field(default_factory=dict)
    """By unit: when a full result of categories 1 to 3, written there last, was there."""
    alu_half: dict[int, int] = field(default_factory=dict)
    special: dict[int, int] = field(default_factory=dict)
    ss: set[int] = field(default_factory=set)
    sy: set[int] = field(default_factory=set)
    ss_war: set[int] = field(default_factory=set)
    any_war: set[int] = field(default_factory=set)
    """Overwritten after (ss) or (sy)."""
    ss_const: bool = False
    sy_const: bool = False
    barrier: bool = False
    """The instruction before was one."""
    predicated: bool = False
    """The instruction before was predt."""

    def _tables(self) -> tuple[dict[int, int], ...]:
        return self.alu_full, self.alu_half, self.special

    def _sets(self) -> tuple[set[int], ...]:
        return self.ss, self.sy, self.ss_war, self.any_war

    def join(self, other: State) -> None:
        """Add what is outstanding on another way to the same place."""
        for mine, theirs in zip(self._tables(), other._tables(), strict=True):
            for unit, cycle in theirs.items():
                mine[unit] = max(mine.get(unit, cycle), cycle)
        for known, more in zip(self._sets(), other._sets(), strict=True):
            known |= more
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

    def delay(self, insn: Insn, kind: int, cycle: int, generation: int) -> int:
        """Free slots that are missing before it."""
        if insn.op in ("end", "chmask"):
            return 0
        slots, missing, alu = DELAYS[generation], 0, kind in (1, 2, 3)
        for access in reads(insn, generation):
            at = cycle + access.after
            same, other = self._ages(access)
            for unit in access.units:
                if access.is_special:
                    missing = max(
                        missing, self.special.get(unit, at - slots.other) - at + slots.other
                    )
                    continue
                near = slots.alu if alu else slots.other
                missing = max(missing, same.get(unit, at - near) - at + near)
                missing = max(missing, other.get(unit, at - slots.other) - at + slots.other)
        return missing

    def _ages(self, access: Access) -> tuple[dict[int, int], dict[int, int]]:
        both = self.alu_half, self.alu_full
        return both if access.half else both[::-1]

    def needs(self, insn: Insn, generation: int) -> tuple[bool, bool]:
        """Whether it must carry (ss) and (sy)."""
        written = _all_units(writes(insn, generation))
        touched = _all_units(reads(insn, generation)) | written
        consts = any(one.kind in (Kind.CONST, Kind.RELATIVE_CONST) for one in insn.srcs)
        needs_sy = bool(touched & self.sy) or (consts and self.sy_const)
        war = self.ss_war if needs_sy else self.ss_war | self.any_war
        needs_ss = bool(touched & self.ss) or bool(written & war) or (consts and self.ss_const)
        everything = self.barrier or insn.op == "shpe"
        return needs_ss or everything or self.predicated, needs_sy or everything

    def synced(self, *, ss: bool, sy: bool) -> None:
        """An instruction with these flags ran."""
        if ss:
            self.ss.clear()
            self.ss_war.clear()
            self.ss_const = False
        if sy:
            self.sy.clear()
            self.sy_const = False
        if ss or sy:
            self.any_war.clear()

    def update(self, insn: Insn, kind: int, cycle: int, generation: int) -> None:
        """It ran; `cycle` is the one after its first."""
        read = _all_units(reads(insn, generation))
        self.barrier = kind == 7 and insn.op not in ("lock", "unlock", "alias")
        self.predicated = insn.op == "predt"
        for access in writes(insn, generation):
            self._written(access, kind, cycle + access.after)
            if ss_result(insn, kind) or access.is_shared:
                self.ss.update(access.units)
            if sy_result(insn, kind):
                self.sy.update(access.units)
        if insn.op in ("stc", "stsc", "ldg.k"):
            self.ss_const = True
        if insn.op in ("ldc.k", "ldg.k"):
            self.sy_const = True
        slow = kind == 5 or kind == 6 or ss_result(insn, kind)
        if slow and insn.op != "tcinv":
            waits_ss = ss_result(insn, kind) or insn.op in _STORES
            (self.ss_war if waits_ss else self.any_war).update(read)

    def _written(self, access: Access, kind: int, cycle: int) -> None:
        if access.is_special:
            self.special.update(dict.fromkeys(access.units, cycle))
            return
        mine, _ = self._ages(access)
        for unit in access.units:
            if kind in (1, 2, 3) and not access.is_shared:
                mine[unit] = max(mine.get(unit, cycle), cycle)
            else:
                self.alu_full.pop(unit, None)
                self.alu_half.pop(unit, None)


def _all_units(accesses: Iterable[Access]) -> set[int]:
    return {unit for access in accesses for unit in access.units}

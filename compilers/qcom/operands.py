"""Which registers an ir3 instruction reads and writes, and when within the instruction.

Registers are counted in halves of the merged file: r1.x is units 8 and 9, hr2.x is unit 8 alone.
Shared registers, predicates and addresses have units of their own.
# src: Mesa 25.0.7, src/freedreno/ir3/ir3.h (sizes), ir3-cat5.xml, ir3-cat6.xml
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.operand import A0_X, A1_X, P0_X, SHARED, Kind, Operand
from compilers.qcom.isa.tables import form

GPR_UNITS: Final = 2 * SHARED
SHARED_BASE: Final = GPR_UNITS
ADDRESS_BASE: Final = SHARED_BASE + 2 * 32
PREDICATE_BASE: Final = ADDRESS_BASE + 2
_NOWHERE: Final = 252
"""r63.x: nothing."""
_ADDRESS_WORDS: Final = 2
_WIDE_TYPE: Final = 6
"""u64 of atomics."""


@dataclass(frozen=True, slots=True)
class Access:
    """One register read or written `after` cycles from the start of its instruction."""

    units: range
    half: bool
    after: int
    mask: int = field(init=False, compare=False)
    """A bit for each unit."""
    is_special: bool = field(init=False, compare=False)
    """A predicate or an address register."""
    is_shared: bool = field(init=False, compare=False)
    """Of the whole wave."""

    def __post_init__(self) -> None:
        first = self.units.start
        object.__setattr__(self, "mask", ((1 << len(self.units)) - 1) << first)
        object.__setattr__(self, "is_special", first >= ADDRESS_BASE)
        object.__setattr__(self, "is_shared", SHARED_BASE <= first < ADDRESS_BASE)


def units(number: int, half: bool) -> range:
    """Where a register lies; nothing for r63.x."""
    if number >= P0_X:
        start = PREDICATE_BASE + number - P0_X
        return range(0) if number >= _NOWHERE else range(start, start + 1)
    if number in (A0_X, A1_X):
        return range(ADDRESS_BASE + number - A0_X, ADDRESS_BASE + number - A0_X + 1)
    start = number if half else 2 * number
    if number >= SHARED:
        start = SHARED_BASE + (number - SHARED) * (1 if half else 2)
    return range(start, start + (1 if half else 2))


def category(insn: Insn, generation: int) -> int:
    """0 to 7. Raises: CompileError."""
    return form(insn.op, generation).category


def _steps(insn: Insn, one: Operand, count: int, *, spread: bool) -> Iterator[Access]:
    """Accesses of `count` registers from one on; spread: each a cycle later."""
    if one.kind in (Kind.RELATIVE, Kind.RELATIVE_CONST):
        yield Access(units(A0_X, False), False, 0)
        if one.kind is Kind.RELATIVE:
            yield Access(range(GPR_UNITS), one.half, insn.repeat if spread else 0)
    elif one.kind is Kind.GPR:
        for step in range(count):
            found = units(one.number + step, one.half)
            if found:
                yield Access(found, one.half, step if spread else 0)


def _texture_words(insn: Insn, place: int) -> int:
    """At most: coordinates (a line's second one is there, too), layer, reference, divisor."""
    indices = insn.fields.get("desc", 6) < 6 and place == len(insn.srcs) - 1
    if place or indices or insn.op.startswith(("brcst", "quad_shuffle", "ds")):
        return 1 if indices or not insn.flags & {"o"} else 4
    return 2 + len(insn.flags & {"3d", "a", "s", "p"})


def _in_place_words(insn: Insn) -> int:
    """Of an atomic through a descriptor: the result, and after it the operands."""
    wide = 2 if insn.fields.get("type") == _WIDE_TYPE else 1
    return wide * (3 if insn.op.endswith("cmpxchg") else 2)


def _source_words(insn: Insn, place: int, kind: int) -> int:
    """Registers that a source of a texture or memory instruction takes."""
    op, size = insn.op, insn.fields.get("size", insn.fields.get("count", 1))
    if kind == 5:
        return _texture_words(insn, place)
    wide = 2 if insn.fields.get("type") == _WIDE_TYPE and op.startswith("atomic") else 1
    if place == 0 and op.startswith(("ldg", "stg", "atomic.g.")):
        return _ADDRESS_WORDS
    if op in ("stg", "stg.a", "stl", "stp", "stlw", "stc") and place == len(insn.srcs) - 1:
        return size
    if op == "stib.b" and place == 0:
        return size
    if op.startswith("atomic.b."):
        return _in_place_words(insn) if place == 0 else insn.fields.get("d", 1) if place == 1 else 1
    if op.startswith("atomic") and place:
        return 2 * wide if op.endswith("cmpxchg") else wide
    return insn.fields.get("d", 1)


def reads(insn: Insn, generation: int) -> Iterator[Access]:
    """Every register that it reads."""
    kind = category(insn, generation)
    late = 2 if generation < 7 else 1
    for place, one in enumerate(insn.srcs):
        if kind in (5, 6):
            yield from _steps(insn, one, _source_words(insn, place, kind), spread=False)
            continue
        after = place if insn.op in ("gat", "swz") else 0
        if kind == 3 and place == 2 and (generation >= 7 or insn.op.startswith("mad")):
            after = late
        count = insn.repeat + 1 if one.repeat else 4 if insn.op == "sct" else 1
        for access in _steps(insn, one, count, spread=bool(insn.repeat)):
            yield Access(access.units, access.half, access.after + after)
    yield from _implied(insn)


def _implied(insn: Insn) -> Iterator[Access]:
    """Predicates of branches, a1.x, and a0.x of a relative destination."""
    if insn.op in ("br", "bany", "ball", "kill", "brao", "braa"):
        yield Access(units(P0_X + insn.fields.get("comp1", 0), False), False, 0)
        if insn.op in ("brao", "braa"):
            yield Access(units(P0_X + insn.fields.get("comp2", 0), False), False, 0)
    if insn.op in ("predt", "predf"):
        yield Access(units(P0_X, False), False, 0)
    if insn.fields.get("a1") or insn.op == "ldc.k":
        yield Access(units(A1_X, False), False, 0)
    if insn.dst is not None and insn.dst.kind is Kind.RELATIVE:
        yield Access(units(A0_X, False), False, 0)


def writes(insn: Insn, generation: int) -> Iterator[Access]:
    """Every register that it writes; the last cycle of a repetition where it is unknown."""
    if insn.op.startswith("atomic.b."):
        yield from _steps(insn, insn.srcs[0], _in_place_words(insn), spread=False)
        return
    if insn.dst is None:
        return
    kind = category(insn, generation)
    if kind == 5:
        mask = insn.fields.get("mask", 1)
        for component in range(4):
            if mask >> component & 1:
                found = units(insn.dst.number + component, insn.dst.half)
                yield Access(found, insn.dst.half, 0)
        return
    if kind == 6:
        size = insn.fields.get("size", insn.fields.get("count", 1))
        if insn.op.startswith("atomic"):
            size = 2 if insn.fields.get("type") == _WIDE_TYPE else 1
        if insn.op in ("resinfo.b", "resbase"):
            size = 3
        yield from _steps(insn, insn.dst, size, spread=False)
        return
    count = {"gat": 4, "movmsk": insn.fields.get("lanes", 0) + 1}.get(insn.op, insn.repeat + 1)
    yield from _steps(insn, insn.dst, count, spread=True)
    for later, one in enumerate(insn.more_dsts):
        for access in _steps(insn, one, 1, spread=False):
            yield Access(access.units, access.half, later + 1)

"""An instruction taken apart once: what it does, reads and writes, and must wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction, Operand, Space
from boards.qcom.wave import (
    across,
    alias,
    alu,
    atomics,
    bindless,
    constants,
    local,
    memory,
    moves,
    texture,
)
from boards.qcom.wave.bits import bits
from boards.qcom.wave.dispatch import Dispatch
from boards.qcom.wave.hazards import Wants
from boards.qcom.wave.operands import Use, Uses, register
from boards.qcom.wave.state import (
    A0,
    P0,
    SHARED,
    SLOTS_SHARED,
    SLOTS_SPECIAL,
    Waves,
    name_of,
    slots_of,
)

Run = Callable[[Waves], None]
_FREE_OF_TIME: Final = frozenset({"jump", "br", "braa", "brao"})
_BARRIERS: Final = frozenset({"bar", "fence"})
_MOVED: Final = {"swz": 2, "gat": 4, "sct": 4}
"""Registers that one moves."""
_PREDICATES: Final = frozenset(slot for at in range(4) for slot in slots_of(P0 + at, half=False))
_LOCAL_LOADS: Final = frozenset({"ldl", "ldlw", "ldlv"})
_STORES: Final = ("st",)
_QUIET: Final = frozenset(
    {"nop", "bar", "fence", "sleep", "icinv", "dccln", "dcinv", "dcflu", "ccinv", "lock",
     "unlock", "tcinv", "shpe", "predt", "predf", "prede"}
)  # fmt: skip
_PREDICATED: Final = frozenset({"predt", "predf"})
_BY_ONE: Final = frozenset({"br", "bany", "ball", "kill"})
_BY_TWO: Final = frozenset({"brao", "braa"})
"""Branches, by how many predicates they read."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An instruction, ready to run."""

    inst: Instruction
    run: Run
    wants: Wants
    reads: tuple[int, ...]
    """Slots that must have a value."""
    writes: tuple[int, ...]
    constants: tuple[int, ...]
    moving: tuple[Callable[[Waves], tuple[Array, bool]], ...]
    moving_writes: tuple[Callable[[Waves], tuple[Array, bool]], ...]
    flow: bool
    cycles: int
    passes: Callable[[Waves], Array] | None
    """Of sel.b and of predicates: the lanes of which the result has no value."""


def bind(inst: Instruction, dispatch: Dispatch, table: Sequence[Instruction] = ()) -> Bound:
    """`table`: aliases of a texture instruction. Raises: NotModelled."""
    uses = Uses()
    run = _run(inst, dispatch, uses)
    if table:
        run = alias.aliased(table, run, uses)
    wants = _wants(inst, dispatch, uses)
    checked, passes = _selection(inst, uses)
    slots = dict.fromkeys(slot for use in checked for slot in use.slots)
    return Bound(
        inst=inst,
        run=run,
        wants=wants,
        reads=tuple(slots),
        writes=tuple(dict.fromkeys(slot for use in uses.writes for slot in use.slots)),
        constants=tuple(dict.fromkeys(uses.constants)),
        moving=tuple(uses.moving),
        moving_writes=tuple(uses.moving_writes),
        flow=(inst.category == 0 and inst.op != "nop") or inst.op == "bar",
        cycles=_cycles(inst),
        passes=passes,
    )


def _cycles(inst: Instruction) -> int:
    """That it takes; one that moves two or four registers is as many of one.

    # src: Mesa 25.0.7, ir3_lower_parallelcopy.c (swz->repeat = 1), ir3_delay.c
    """
    return 1 + max(inst.repeat, _MOVED.get(inst.op.partition(".")[0], 1) - 1) + inst.nop


def _selection(inst: Instruction, uses: Uses) -> tuple[list[Use], Callable[[Waves], Array] | None]:
    """What must have a value, and what says where the result has none."""
    if inst.op in _BY_TWO:
        return [], None  # flow.condition() looks
    if inst.op.startswith("cmps") and _PREDICATES & {s for use in uses.writes for s in use.slots}:
        return _compared(uses)
    if not inst.op.startswith("sel.b") or inst.repeat or inst.srcs[1].space is not Space.REGISTER:
        return uses.reads, None
    one, condition, other = (_slots_of_source(operand) for operand in inst.srcs)
    operand = inst.srcs[1]
    read = register(operand.number, "u", half=operand.half)

    def passes(w: Waves) -> Array:
        taken = np.broadcast_to(read(w) != 0, (w.count, w.lanes))
        return np.where(taken, w.missing(one), w.missing(other))

    kept = set(condition) | set(slots_of(A0, half=False))
    return [use for use in uses.reads if kept & set(use.slots)], passes


def _compared(uses: Uses) -> tuple[list[Use], Callable[[Waves], Array] | None]:
    """A predicate of what has no value has none, which matters to who reads it: Mesa compares
    values of lanes that another predicate has decided on."""
    slots = tuple(slot for use in uses.reads for slot in use.slots)
    return [], (lambda w: w.missing(slots)) if slots else None


def _slots_of_source(operand: Operand) -> tuple[int, ...]:
    if operand.space is not Space.REGISTER:
        return ()
    return slots_of(operand.number, half=operand.half)


def _run(inst: Instruction, dispatch: Dispatch, uses: Uses) -> Run:
    if inst.category in (2, 3, 4):
        return alu.bind(inst, dispatch.generation, uses)
    if inst.category == 1:
        return moves.bind(inst, uses)
    if inst.category == 0 or inst.op in _QUIET:
        _predicates(inst, uses)
        return _nothing
    if inst.op in ("ldg", "ldg.a", "stg", "stg.a"):
        return memory.bind(inst, dispatch.generation, uses)
    if inst.op in ("ldl", "ldlw", "ldp", "stl", "stlw", "stp"):
        return local.bind(inst, uses)
    return _rarer(inst, dispatch, uses)


def _rarer(inst: Instruction, dispatch: Dispatch, uses: Uses) -> Run:
    if inst.op == "alias":
        alias.check(inst)
        return _nothing
    if inst.op in across.NAMES:
        return across.bind(inst, uses)
    if inst.category == 5:
        return texture.bind(inst, dispatch.generation, uses)
    if inst.op in ("stc", "stsc", "ldc.k"):
        return constants.bind(inst, uses)
    if _is_local_atomic(inst):
        return atomics.bind_local(inst, uses)
    if inst.op.startswith("atomic.g."):
        return atomics.bind_global(inst, uses)
    return bindless.bind(inst, uses)


def _nothing(w: Waves) -> None:
    """What needs no lane's values."""


def _predicates(inst: Instruction, uses: Uses) -> None:
    components = []
    if inst.op in _PREDICATED:
        components = [0]
    elif inst.op in _BY_ONE:
        components = [bits(inst.word, 53, 54)]
    elif inst.op in _BY_TWO:
        components = [bits(inst.word, 53, 54), bits(inst.word, 46, 47)]
    uses.reads += [Use(slots_of(P0 + component, half=False)) for component in components]


def _wants(inst: Instruction, dispatch: Dispatch, uses: Uses) -> Wants:
    is_alu = inst.category in (1, 2, 3)
    scalar = is_alu and _is_scalar(inst, dispatch, uses)
    counts = (is_alu and not scalar) or (inst.category == 0 and inst.op not in _FREE_OF_TIME)
    result = _result(inst, uses, scalar=scalar)
    busy = _busy(inst, result)
    return Wants(
        ss="ss" in inst.sync,
        sy="sy" in inst.sync,
        alu=is_alu,
        ends=inst.op in ("end", "chmask"),
        cycles=_cycles(inst) if counts else inst.nop,
        issues=counts,
        reads=_flat(uses.reads),
        writes=_flat(uses.writes),
        result=result,
        busy=busy,
        busy_slots=frozenset(_busy_slots(uses, scalar=scalar)) if busy else frozenset(),
        scalar=scalar,
        reads_constants=uses.reads_constants,
        writes_constants={"stc": "ss", "stsc": "ss", "ldc.k": "sy", "ldg.k": "sy"}.get(inst.op, ""),
        barrier=inst.op in _BARRIERS,
        needs_both=inst.op == "shpe",
        idle=inst.op == "nop",
    )


def _flat(uses: list[Use]) -> tuple[tuple[int, bool, int], ...]:
    return tuple(dict.fromkeys((slot, use.half, use.at) for use in uses for slot in use.slots))


def _touches_shared(uses: list[Use]) -> bool:
    return any(SLOTS_SHARED <= slot < SLOTS_SPECIAL for use in uses for slot in use.slots)


def _is_scalar(inst: Instruction, dispatch: Dispatch, uses: Uses) -> bool:
    """src: Mesa 25.0.7, ir3.c, is_scalar_alu"""
    if not dispatch.scalar_alu or inst.op == "movmsk" or not _touches_shared(uses.writes):
        return False
    if inst.op != "mov":
        return True
    return not any(_is_vector(operand) for operand in inst.srcs)


def _is_vector(operand: Operand) -> bool:
    if operand.space is Space.REGISTER:
        return operand.number < SHARED
    return operand.space is Space.RELATIVE_REGISTER


_LANES: Final = ("shfl", "getfiberid")
"""src: Mesa 25.0.7, ir3.h, is_sfu; ir3_legalize.c, legalize_block"""


def _result(inst: Instruction, uses: Uses, *, scalar: bool) -> str:
    """src: Mesa 25.0.7, ir3.h, is_ss_producer, is_sy_producer; ir3_legalize.c, legalize_block"""
    if scalar:
        return "scalar"
    if inst.category == 4 or inst.op in _LOCAL_LOADS or inst.op in _LANES:
        return "ss"
    if inst.category == 6:
        if inst.op.startswith("resinfo") or _is_local_atomic(inst):
            return "ss"
        return "sy"
    if inst.category == 5:
        return "sy"
    return "ss" if _touches_shared(uses.writes) else ""


def _is_local_atomic(inst: Instruction) -> bool:
    return inst.op.startswith("atomic.") and inst.op[7:9] not in ("b.", "g.", "s.")


def _busy(inst: Instruction, result: str) -> str:
    """src: Mesa 25.0.7, ir3.h, is_war_hazard_producer; ir3_legalize.c, legalize_block"""
    if result in ("ss", "scalar") or inst.op.startswith(_STORES):
        return "ss"
    return "either" if inst.category in (5, 6) else ""


def _busy_slots(uses: Uses, *, scalar: bool) -> list[int]:
    slots = [slot for use in uses.reads for slot in use.slots]
    if not scalar:
        return slots
    address = slots_of(A0, half=False)
    return [s for s in slots if SLOTS_SHARED <= s < SLOTS_SPECIAL or s in address]


def beyond(bound: Bound, dispatch: Dispatch) -> str:
    """A register that the dispatch has not been given, or nothing."""
    if dispatch.merged:
        limit = max(dispatch.full_registers * 8, dispatch.half_registers * 4)
    else:
        limit = dispatch.full_registers * 8
    for slot in (*bound.reads, *bound.writes):
        if limit <= slot < SLOTS_SHARED:
            return f"{name_of(slot)} of {dispatch.full_registers} full registers"
    return ""

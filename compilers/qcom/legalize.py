"""The last pass over ir3 code: (ss), (sy), (jp) and free slots, so that every operand is there.

Blocks end at labels and branches. What is outstanding where ways meet is the union of all ways, so
loops are passed until nothing changes. # src: Mesa 25.0.7, src/freedreno/ir3/ir3_legalize.c
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from compilers.qcom.effects import Known
from compilers.qcom.hazards import DELAYS, State
from compilers.qcom.isa.bits import refused
from compilers.qcom.isa.build import link
from compilers.qcom.isa.encode import encode_all
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.operands import ADDRESS_BASE, SHARED_BASE, category
from compilers.qcom.schedule import schedule

_MAX_NOP: Final = 3
"""(nopN) of categories 2 and 3."""
_MAX_REPEAT: Final = 5
"""(rptN) of a nop that Mesa writes."""
_CONDITIONAL: Final = frozenset({"br", "bany", "ball", "brao", "braa", "brac", "getone", "getlast",
                                 "shps"})  # fmt: skip
_LOCKED: Final = 7
_WITHOUT_SS: Final = (5, 6, 7)
"""Categories that a nop must carry (ss) for. # src: ir3.h, supports_ss"""
_PREDICATION_SLOTS: Final = {"predt": 5, "predf": 5, "prede": 7}
_SHARED: Final = (1 << ADDRESS_BASE) - (1 << SHARED_BASE)
"""Units of shared registers."""
_REFUSED: Final = frozenset({"call", "ret", "bkt"})


@dataclass(slots=True)
class _Block:
    """Instructions without a branch among them; the last one may be one."""

    code: list[Insn]
    label: str | None = None
    after: list[int] = field(default_factory=list)
    begin: State = field(default_factory=State)
    end: State = field(default_factory=State)
    done: list[Insn] = field(default_factory=list)


def legalize(code: Sequence[Insn], generation: int, known: Known | None = None) -> list[Insn]:
    """The same program with synchronisation and free slots; labels stay where they are.

    `known` has the effects of instructions, where some were counted before. The flags ss and sy of
    the input are kept where they are set. Raises: CompileError.
    """
    blocks = _blocks(_released(code) if generation >= _LOCKED else code)
    known = known or Known(generation)
    waiting = list(range(len(blocks)))
    while waiting:
        place = waiting.pop(0)
        block = blocks[place]
        _run(block, known)
        for later in {*block.after, place + 1} - {len(blocks)}:
            begin = blocks[later].begin
            before = begin.copy()
            if later in block.after:
                begin.join(block.end)
            _join_shared(begin, block.end)
            if begin != before and later not in waiting:
                waiting.append(later)
    found: list[Insn] = []
    for block in blocks:
        if block.label is not None:
            found.append(Insn(op="label", name=block.label))
        found += block.done
    _mark_convergence(found)
    return found


def scheduled(code: Sequence[Insn], generation: int) -> list[Insn]:
    """Scheduled and legalized. Raises: CompileError."""
    known = Known(generation)
    return legalize(schedule(code, generation, known), generation, known)


def assemble(code: Sequence[Insn], generation: int) -> bytes:
    """Scheduled, legalized, linked and encoded. Raises: CompileError."""
    return encode_all(link(scheduled(code, generation)), generation)


def _released(code: Sequence[Insn]) -> list[Insn]:
    """Generation 7: lock and unlock before the end. # src: ir3_compiler_nir.c, OPC_LOCK"""
    found: list[Insn] = []
    for insn in code:
        if insn.op == "end" and not (found and found[-1].op == "unlock"):
            found += [Insn(op="lock", flags={"sy", "ss", "jp"}), Insn(op="unlock")]
        found.append(insn)
    return found


def _blocks(code: Sequence[Insn]) -> list[_Block]:
    blocks, current = [_Block([])], False
    for insn in code:
        if insn.op in _REFUSED:
            raise refused(f"{insn.op}: calls are not followed")
        if insn.op == "label":
            blocks.append(_Block([], label=insn.name))
            current = True
            continue
        if not current and blocks[-1].code and _ends(blocks[-1].code[-1]):
            blocks.append(_Block([]))
        blocks[-1].code.append(insn)
        current = False
    places = {block.label: place for place, block in enumerate(blocks) if block.label is not None}
    for place, block in enumerate(blocks):
        last = block.code[-1] if block.code else None
        if last is not None and last.label is not None:
            if last.label not in places:
                raise refused(f"no label {last.label}")
            block.after.append(places[last.label])
        if (last is None or last.op not in ("jump", "end")) and place + 1 < len(blocks):
            block.after.append(place + 1)
    return blocks


def _ends(insn: Insn) -> bool:
    return insn.op in _CONDITIONAL or insn.op in ("jump", "end")


def _join_shared(state: State, other: State) -> None:
    """Shared registers: a wave passes both sides of a divergent branch, one after the other."""
    state.ss |= other.ss & _SHARED
    state.sy |= other.sy & _SHARED
    state.ss_war |= other.ss_war & _SHARED
    state.any_war |= other.any_war & _SHARED


def _run(block: _Block, known: Known) -> None:
    """Legalize one block from what is outstanding at its begin."""
    state, done, cycle = block.begin.copy(), list[Insn](), 0
    generation = known.generation
    for original in block.code:
        insn, has, op = _copy(original), known.of(original), original.op
        ss, sy = state.needs(op, has)
        ss, sy = ss or "ss" in insn.flags, sy or "sy" in insn.flags
        if ss and has.kind in _WITHOUT_SS and op != "lock":
            done.append(Insn(op="nop", flags={"ss"}))
            cycle, ss = cycle + 1, False
            state.synced(ss=True, sy=False)
        if ss:
            insn.flags.add("ss")
        if sy:
            insn.flags.add("sy")
        state.synced(ss=ss, sy=sy)
        missing = state.delay(op, has, cycle, generation)
        if missing:
            cycle += missing
            _free_slots(done, missing, generation)
        done.append(insn)
        cycle += has.counts
        state.update(op, has, cycle)
        if has.counts:
            cycle += insn.repeat + insn.nop
        if op == "resinfo.b":
            done.append(Insn(op="nop", flags={"ss"}))
            state.synced(ss=True, sy=False)
        cycle += _after_predication(done, insn)
    state.rebase(cycle, DELAYS[generation].other)
    block.done, block.end = done, state


def _copy(insn: Insn) -> Insn:
    """One that can be given flags, free slots and a distance."""
    return Insn(
        op=insn.op, dst=insn.dst, srcs=insn.srcs, more_dsts=insn.more_dsts,
        fields=dict(insn.fields), flags=set(insn.flags), repeat=insn.repeat, nop=insn.nop,
        label=insn.label, name=insn.name,
    )  # fmt: skip


def _after_predication(done: list[Insn], insn: Insn) -> int:
    """Cycles that some chips need. # src: ir3_legalize.c, predtf_nop_quirk, prede_nop_quirk"""
    slots = _PREDICATION_SLOTS.get(insn.op, 0)
    if slots:
        done.append(Insn(op="nop", repeat=slots - 1))
    return slots


def _free_slots(done: list[Insn], missing: int, generation: int) -> None:
    """Let this many cycles pass: in the instruction before, in a nop before, or in a new nop."""
    last = done[-1] if done else None
    if last is not None and last.repeat == 0 and category(last, generation) in (2, 3):
        taken = min(missing, _MAX_NOP - last.nop)
        last.nop += taken
        missing -= taken
    if missing and last is not None and last.op == "nop":
        taken = max(0, min(missing, _MAX_REPEAT - last.repeat))
        last.repeat += taken
        missing -= taken
    if missing:
        done.append(Insn(op="nop", repeat=missing - 1))


def _mark_convergence(code: list[Insn]) -> None:
    """(jp) where parked lanes may wait: the later of the two places after a branch.

    # src: Mesa 25.0.7, ir3_reconvergence.c; jumps forward count as if they crossed such a place
    """
    places = {insn.name: place for place, insn in enumerate(code) if insn.op == "label"}
    marked: set[int] = set()
    for place, insn in enumerate(code):
        if insn.label is None:
            continue
        target = places[insn.label]
        if target > place:
            marked.add(target)
        elif insn.op in _CONDITIONAL:
            marked.add(place + 1)
    for place in marked:
        behind = next((insn for insn in code[place:] if insn.op != "label"), None)
        if behind is not None:
            behind.flags.add("jp")

"""Which results and sources are still under way when an instruction runs: what code must wait for.

A state is what lies behind a group of lanes. It never changes: an instruction leads from one to
another, which each state remembers. Registers are slots of 16 bits (`state.slots_of`).

src: Mesa 25.0.7, src/freedreno/ir3/ir3_delay.c and ir3_legalize.c (what needs which wait),
ir3_compiler.c (delay_slots of generations 6 and 7). As there, loads, stores and jumps take no
time, and lanes that meet have all that any of them waits for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from boards.qcom.wave.state import SLOTS_SHARED, SLOTS_SPECIAL, name_of

Slots: TypeAlias = frozenset[int]
_NONE: Final[Slots] = frozenset()


@dataclass(frozen=True, slots=True)
class Delays:
    """Cycles from a result to its use."""

    alu: int
    """By the ALU, of a register of the same width."""
    other: int
    """By anything else, of another width, and of a0, a1 and p0."""


DELAYS: Final = {6: Delays(3, 6), 7: Delays(2, 5)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """An instruction, as the checks see it."""

    ss: bool = False
    sy: bool = False
    alu: bool = False
    """Categories 1 to 3."""
    ends: bool = False
    """end: it needs no delay."""
    cycles: int = 0
    """That it takes, its nops and repetitions included."""
    issues: bool = True
    """Whether it takes a cycle itself."""
    reads: tuple[tuple[int, bool, int], ...] = ()
    """Slot, whether as a half register, cycles after the issue."""
    writes: tuple[tuple[int, bool, int], ...] = ()
    result: str = ""
    """What its result needs: "ss", "sy", "scalar" or, of the ALU, "": time."""
    busy: str = ""
    """What frees its sources: "ss", or "either" where (sy) does too."""
    busy_slots: Slots = _NONE
    scalar: bool = False
    """Computed on shared registers by an ALU of their own."""
    reads_constants: bool = False
    writes_constants: str = ""
    """The wait that a later read of constants needs."""
    barrier: bool = False
    """bar, fence: what follows waits for everything."""
    needs_both: bool = False
    """shpe: waits for everything itself."""
    idle: bool = False
    """nop: it may carry the waits of what follows."""
    target: bool = False
    """A branch leads here. Mesa gives the waits after a barrier to the rest of its block, counts
    them, and drops a jump that ended it. # src: ir3_legalize.c legalize_block(), opt_jump()"""


@dataclass(frozen=True, slots=True)
class Pending:
    """What has not arrived."""

    ss: Slots = _NONE
    sy: Slots = _NONE
    scalar_full: Slots = _NONE
    """Results of the ALU of shared registers that a full register was written with."""
    scalar_half: Slots = _NONE
    busy: Slots = _NONE
    """Sources that (ss) frees."""
    busy_either: Slots = _NONE
    """Sources that (ss) or (sy) frees."""
    scalar_busy: Slots = _NONE
    scalar_busy_either: Slots = _NONE
    constants: Slots = _NONE
    """0: (ss), 1: (sy)."""
    barrier: Slots = _NONE
    """After a barrier, the waits that must come: 0 (ss), 1 (sy)."""
    ready: tuple[tuple[int, bool, int], ...] = ()
    """Slot, whether written as a half, cycles until its delay counts (0 and less: past)."""


Complaint: TypeAlias = tuple[str, str]
"""Kind and register."""


@dataclass(slots=True, eq=False)
class State:
    """What is under way, and where each instruction leads."""

    pending: Pending
    after: dict[object, tuple[State, tuple[Complaint, ...]]] = field(default_factory=dict)


class Hazards:
    """The states of one program."""

    def __init__(self, generation: int) -> None:
        self._delays = DELAYS[min(7, generation)]
        self._states: dict[Pending, State] = {}
        self.start = self._state(Pending())

    def _state(self, pending: Pending) -> State:
        found = self._states.get(pending)
        if found is None:
            found = self._states[pending] = State(pending)
        return found

    def merge(self, one: State, other: State) -> State:
        """What lanes that meet wait for."""
        if one is other:
            return one
        a, b = one.pending, other.pending
        ready = {(slot, half): left for slot, half, left in a.ready}
        for slot, half, left in b.ready:
            ready[slot, half] = max(left, ready.get((slot, half), left))
        merged = Pending(
            ss=a.ss | b.ss,
            sy=a.sy | b.sy,
            scalar_full=a.scalar_full | b.scalar_full,
            scalar_half=a.scalar_half | b.scalar_half,
            busy=a.busy | b.busy,
            busy_either=a.busy_either | b.busy_either,
            scalar_busy=a.scalar_busy | b.scalar_busy,
            scalar_busy_either=a.scalar_busy_either | b.scalar_busy_either,
            constants=a.constants | b.constants,
            barrier=a.barrier | b.barrier,
            ready=tuple(sorted((s, h, left) for (s, h), left in ready.items())),
        )
        return self._state(merged)

    def step(self, state: State, key: object, wants: Wants) -> tuple[State, tuple[Complaint, ...]]:
        """Runs an instruction; `key` stands for it. What it should have waited for."""
        found = state.after.get(key)
        if found is None:
            found = state.after[key] = self.pass_by(state, wants)
        return found

    def pass_by(self, state: State, wants: Wants) -> tuple[State, tuple[Complaint, ...]]:
        """As `step`, without remembering."""
        complaints: list[Complaint] = []
        before = state.pending
        pending = _waited(before, wants)
        if pending.barrier and wants.target:
            pending = Pending(ready=pending.ready)
        if pending.barrier and not wants.idle:
            complaints.append(("no (ss) and (sy) after a barrier", "everything"))
            pending = replace(pending, barrier=_NONE)
        if wants.needs_both and not (wants.ss and wants.sy):
            complaints.append(("no (ss) and (sy) at the end of a preamble", "everything"))
        complaints += _unarrived(pending, wants)
        complaints += self._too_early(pending, wants)
        return self._state(self._following(pending, wants)), tuple(complaints)

    def _too_early(self, pending: Pending, wants: Wants) -> list[Complaint]:
        if wants.ends or not pending.ready:
            return []
        due: dict[int, list[tuple[bool, int]]] = {}
        for slot, half, left in pending.ready:
            due.setdefault(slot, []).append((half, left))
        answer = []
        for slot, half, at in wants.reads:
            for written_half, left in due.get(slot, ()):
                same = wants.alu and half == written_half and slot < SLOTS_SPECIAL
                missing = left + (self._delays.alu if same else self._delays.other) - at
                if missing > 0:
                    answer.append((f"read {missing} cycles before its delay", name_of(slot)))
        return answer

    def _following(self, pending: Pending, wants: Wants) -> Pending:
        cycles, longest = wants.cycles, self._delays.other
        issued = int(wants.issues)
        ready = {
            (slot, half): left - cycles
            for slot, half, left in pending.ready
            if left - cycles + longest > 0
        }
        if wants.alu and not wants.result:
            for slot, half, at in wants.writes:
                if not SLOTS_SHARED <= slot < SLOTS_SPECIAL:
                    ready[slot, half] = max(issued + at - cycles, ready.get((slot, half), -longest))
        elif wants.writes:
            written = {slot for slot, _, _ in wants.writes}
            ready = {key: left for key, left in ready.items() if key[0] not in written}
        times = tuple(sorted((s, h, left) for (s, h), left in ready.items()))
        barrier = frozenset({0, 1}) if wants.barrier else pending.barrier
        return _with_results(replace(pending, ready=times, barrier=barrier), wants)


def _waited(before: Pending, wants: Wants) -> Pending:
    pending = before
    if wants.ss:
        pending = Pending(
            sy=pending.sy, constants=pending.constants - {0}, ready=pending.ready,
            barrier=pending.barrier - {0},
        )  # fmt: skip
    if wants.sy:
        pending = replace(
            pending, sy=_NONE, busy_either=_NONE, scalar_busy_either=_NONE,
            constants=pending.constants - {1}, barrier=pending.barrier - {1},
        )  # fmt: skip
    return pending


def _unarrived(pending: Pending, wants: Wants) -> list[Complaint]:
    answer: list[Complaint] = []
    for slot, half, _ in (*wants.reads, *wants.writes):
        if slot in pending.ss:
            answer.append(("used without (ss)", name_of(slot)))
        if slot in pending.sy:
            answer.append(("used without (sy)", name_of(slot)))
        late = pending.scalar_full | pending.scalar_half
        if wants.scalar:
            late = pending.scalar_full if half else pending.scalar_half
        if slot in late:
            answer.append(("used without (ss)", name_of(slot)))
    if wants.reads_constants and pending.constants:
        answer.append(("constants read without (ss) or (sy)", "c"))
    busy = pending.busy | pending.busy_either
    if not wants.scalar:
        busy |= pending.scalar_busy | pending.scalar_busy_either
    for slot, _, _ in wants.writes:
        if slot in busy:
            answer.append(("overwritten before it was read", name_of(slot)))
    return answer


def _with_results(pending: Pending, wants: Wants) -> Pending:
    written = frozenset(slot for slot, _, _ in wants.writes)
    if wants.result == "ss":
        pending = replace(pending, ss=pending.ss | written)
    elif wants.result == "sy":
        pending = replace(pending, sy=pending.sy | written)
    elif wants.result == "scalar":
        of_half = frozenset(slot for slot, half, _ in wants.writes if half)
        pending = replace(
            pending, scalar_half=pending.scalar_half | of_half,
            scalar_full=pending.scalar_full | (written - of_half),
        )  # fmt: skip
    if wants.writes_constants:
        which = 0 if wants.writes_constants == "ss" else 1
        pending = replace(pending, constants=pending.constants | {which})
    return _with_busy(pending, wants) if wants.busy else pending


def _with_busy(pending: Pending, wants: Wants) -> Pending:
    slots = wants.busy_slots
    if wants.scalar:
        if wants.busy == "ss":
            return replace(pending, scalar_busy=pending.scalar_busy | slots)
        return replace(pending, scalar_busy_either=pending.scalar_busy_either | slots)
    if wants.busy == "ss":
        return replace(pending, busy=pending.busy | slots)
    return replace(pending, busy_either=pending.busy_either | slots)

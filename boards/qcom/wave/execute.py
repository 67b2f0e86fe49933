"""Runs the waves of a dispatch, a chunk of workgroups at a time, numpy for the lanes.

All lanes of a chunk at one place run together. Those at the lowest place go first, until they get
to where others are parked.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.wave import flow
from boards.qcom.wave.bind import Bound
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.checks import check_values, with_moving
from boards.qcom.wave.dispatch import (
    MOST_INSTRUCTIONS,
    Dispatch,
    Fault,
    Memory,
    Outcome,
    PageFault,
    Violation,
)
from boards.qcom.wave.flow import Places
from boards.qcom.wave.hazards import State
from boards.qcom.wave.program import WORD_BYTES, Illegal, Program, program_of
from boards.qcom.wave.state import Waves

_CHUNK_LANES: Final = 1 << 14
_CHUNK_PRIVATE_BYTES: Final = 1 << 27
_NOWHERE: Final = 1 << 62
_NONE, _TRUE, _FALSE = range(3)
"""Modes of predication."""


class Endless(Exception):
    """More steps than a chunk may take."""


def run(dispatch: Dispatch, memory: Memory, *, most: int = MOST_INSTRUCTIONS) -> Outcome:
    """Runs all workgroups to their end, or to the first fault."""
    outcome = Outcome()
    program = program_of(dispatch)
    padded = -(-prod(dispatch.block) // dispatch.wave_lanes) * dispatch.wave_lanes
    total, step = prod(dispatch.groups), max(1, _CHUNK_LANES // max(1, padded))
    if dispatch.private_bytes:
        step = max(1, min(step, _CHUNK_PRIVATE_BYTES // (padded * dispatch.private_bytes)))
    runner = Runner(dispatch, memory, program, outcome, most)
    with np.errstate(all="ignore"):
        for first in range(0, total, step):
            if not runner.run(first, min(step, total - first)):
                break
    return outcome


class Runner:
    """One dispatch, chunk by chunk."""

    def __init__(
        self, dispatch: Dispatch, memory: Memory, program: Program, outcome: Outcome, most: int
    ) -> None:
        self._dispatch, self._memory, self._program = dispatch, memory, program
        self._outcome, self._most = outcome, most
        self._seen: set[tuple[str, int]] = set()
        self._preamble_done = False
        self._index = 0
        self._state = program.hazards.start
        self._before: State | None = None
        """What was under way where predication began, and (next) at the end of its first half."""
        self._half: State | None = None

    def run(self, first_group: int, groups: int) -> bool:
        """Some workgroups. Whether nothing stopped them."""
        self._w = Waves(self._dispatch, self._memory, first_group, groups, self._report)
        self._outcome.waves += self._w.count
        try:
            self._chunk(self._w)
        except PageFault as fault:
            self._stop("page fault", str(fault), va=fault.va, access=fault.access)
        except NotModelled as error:
            self._stop("illegal instruction", f"not modelled: {error}")
        except Illegal as error:
            self._index = error.pc // WORD_BYTES
            self._stop("illegal instruction", error.why)
        except Endless:
            self._stop("endless", f"more than {self._most} instructions")
        else:
            return True
        return False

    def _stop(self, kind: str, detail: str, *, va: int = 0, access: str = "") -> None:
        pc = self._index * WORD_BYTES
        text = self._program.text(self._index)
        self._outcome.fault = Fault(kind, pc, text, detail, va, access)

    def _report(self, kind: str, detail: str) -> None:
        key = (kind, self._index)
        if key in self._seen:
            return
        self._seen.add(key)
        w = self._w
        wave, lane = np.unravel_index(int(np.argmax(w.chosen())), (w.count, w.lanes))
        text = self._program.text(self._index)
        self._outcome.violations.append(
            Violation(
                kind, self._index * WORD_BYTES, text, detail, w.first_wave + int(wave), int(lane)
            )
        )

    # One chunk

    def _chunk(self, w: Waves) -> None:
        self._places = places = Places(self._program.hazards)
        self._predicate = np.zeros((w.count, w.lanes), np.bool_)
        self._mode = np.zeros((w.count, 1), np.int8)
        self._left = self._most
        places.park(0, w.alive.copy(), self._program.hazards.start)
        while places.ready:
            index = places.lowest()
            parked = places.ready.pop(index)
            self._group = parked.lanes
            self._choose(w)
            self._straight(w, index, parked.state)
            if not places.ready:
                self._stuck(w)

    def _choose(self, w: Waves) -> None:
        """The lanes of the running group that instructions work on."""
        lanes = self._group
        if self._mode.any():
            inside = np.where(self._mode == _TRUE, self._predicate, ~self._predicate)
            lanes = lanes & (inside | (self._mode == _NONE))
        w.select(None if np.array_equal(lanes, w.everyone) else lanes)

    def _straight(self, w: Waves, index: int, state: State) -> None:
        """From one place on, until the group parts, waits, ends or meets others."""
        program, hazards = self._program, self._program.hazards
        meet, waves = self._places.lowest(), int(self._group.any(axis=1).sum())
        instructions = cycles = 0
        while True:
            bound = program.at(index)
            self._index = index
            instructions, cycles = instructions + 1, cycles + bound.cycles
            if bound.moving or bound.moving_writes:
                state, complaints = hazards.pass_by(state, with_moving(w, bound))
            else:
                state, complaints = hazards.step(state, index, bound.wants)
            if complaints or index in program.beyond:
                self._complain(index, complaints)
            check_values(w, bound)
            lost = bound.passes(w) if bound.passes is not None else None
            if bound.flow:
                self._state = state
                following = self._flow(w, bound, index, state)
                state = self._state
            else:
                bound.run(w)
                following = index + 1
            if bound.writes:
                w.define(bound.writes)
                if lost is not None:
                    w.undefine(bound.writes, lost)
            if following < 0:
                break
            index = following
            if index >= meet:
                self._meet(w, index, state)
                break
            if instructions >= self._left:
                raise Endless
        self._left -= instructions
        self._outcome.instructions += instructions * waves
        self._outcome.cycles += cycles * waves

    def _complain(self, index: int, complaints: tuple[tuple[str, str], ...]) -> None:
        for kind, register in complaints:
            self._report(kind, register)
        if index in self._program.beyond:
            self._report("register beyond the footprint", self._program.beyond[index])

    def _meet(self, w: Waves, index: int, state: State) -> None:
        """The group comes to a place where others are parked, or passes it."""
        here = self._places.ready.get(index)
        if here is not None and "jp" not in self._program.at(index).inst.sync:
            both = self._group.any(axis=1) & here.lanes.any(axis=1)
            if both.any():
                self._index = index
                self._report("lanes meet without (jp)", "parked lanes would never go on")
        self._places.park(index, self._group, state)

    # Flow

    def _flow(self, w: Waves, bound: Bound, index: int, state: State) -> int:
        """The index that the group goes on with, or less than 0: it parted, waits or ended."""
        inst = bound.inst
        if inst.op in ("end", "kill"):
            return self._end(w, bound, index, state)
        if inst.op == "bar":
            return self._barrier(w, index + 1, state)
        if inst.op in ("predt", "predf", "prede"):
            self._predication(w, inst.op, state)
            return index + 1
        if inst.op == "shpe":
            return index + 1
        if inst.op == "shps":
            taken = flow.preamble(w, done=self._preamble_done)
            self._preamble_done = True
        elif inst.op in flow.TAKEN:
            taken = self._taken(w, bound)
        else:
            raise Illegal(index * WORD_BYTES, inst.op, "not modelled: no meaning in this executor")
        return self._branch(w, taken, index, index + (inst.target or 0), state)

    def _taken(self, w: Waves, bound: Bound) -> Array:
        try:
            return flow.TAKEN[bound.inst.op](w, bound.inst)
        except NotModelled as error:
            raise Illegal(self._index * WORD_BYTES, bound.inst.op, str(error)) from None

    def _branch(self, w: Waves, taken: Array, index: int, target: int, state: State) -> int:
        stays = self._group & ~taken
        if not taken.any():
            return index + 1
        if not stays.any():
            if target >= self._places.lowest() > index and target > index:
                self._check_stack(w, (target, taken))
            return target
        self._places.park(target, taken, state)
        self._places.park(index + 1, stays, state)
        self._check_stack(w)
        return -1

    def _check_stack(self, w: Waves, jumper: tuple[int, Array] | None = None) -> None:
        """The places where one wave's lanes are, beside that of the lanes that run."""
        counts = np.zeros(w.count, np.int64)
        for place, here in self._places.ready.items():
            lanes = here.lanes
            if jumper is not None and place == jumper[0]:
                lanes, jumper = lanes | jumper[1], None
            counts += lanes.any(axis=1)
        if jumper is not None:
            counts += jumper[1].any(axis=1) & (counts > 0)
        else:
            counts -= 1
        deepest = int(counts.max())
        if deepest > self._dispatch.branch_stack:
            self._report(
                "branch stack overflow", f"{deepest} of {self._dispatch.branch_stack} entries"
            )

    def _end(self, w: Waves, bound: Bound, index: int, state: State) -> int:
        gone = self._group if bound.inst.op == "end" else w.chosen() & flow.condition(bound.inst, w)
        w.alive &= ~gone
        left = self._group & ~gone
        if left.any() and gone.any():
            self._places.park(index + 1, left, state)
        self._release(w)
        return -1 if gone.any() else index + 1

    def _predication(self, w: Waves, op: str, state: State) -> None:
        """The two halves of predicated code each follow what came before both."""
        waves = self._group.any(axis=1, keepdims=True)
        if op == "prede":
            other = self._half or self._before
            if other is not None:
                self._state = self._program.hazards.merge(state, other)
            self._before = self._half = None
        elif self._before is None:
            self._before = state
        else:
            self._half, self._state = state, self._before
        if op == "prede":
            self._mode[waves] = _NONE
        else:
            np.copyto(self._predicate, w.p[0], where=waves)
            self._mode[waves] = _TRUE if op == "predt" else _FALSE
        self._choose(w)

    # Barriers

    def _barrier(self, w: Waves, after: int, state: State) -> int:
        lanes = self._group
        here = lanes.any(axis=1, keepdims=True)
        if (here & (w.alive & ~lanes)).any():
            self._report("barrier in divergent code", "other lanes of the wave are elsewhere")
        self._places.park(after, lanes, state, waits=True)
        self._release(w)
        return -1

    def _release(self, w: Waves) -> None:
        """Workgroups of which every lane waits go on."""
        waiting = self._places.waiting
        if not waiting:
            return
        arrived = np.zeros((w.count, w.lanes), np.bool_)
        for parked in waiting.values():
            arrived |= parked.lanes
        shape = (w.groups, -1)
        complete = (arrived | ~w.alive).reshape(shape).all(axis=1)
        complete = np.asarray(complete & arrived.reshape(shape).any(axis=1))
        if not complete.any():
            return
        self._check_missing(w, complete)
        w.races.pass_barrier(np.flatnonzero(complete))
        free = np.repeat(complete, w.per_group)[:, None]
        for index, parked in list(waiting.items()):
            self._places.park(index, parked.lanes & free, parked.state)
            rest = parked.lanes & ~free
            if rest.any():
                parked.lanes = rest
            else:
                del waiting[index]

    def _check_missing(self, w: Waves, complete: Array) -> None:
        ended = w.everyone.any(axis=1) & ~w.alive.any(axis=1)
        if (ended.reshape(w.groups, -1).any(axis=1) & complete).any():
            self._report("barrier with missing waves", "a wave of the workgroup has ended")

    def _stuck(self, w: Waves) -> None:
        if self._places.waiting:
            self._release(w)

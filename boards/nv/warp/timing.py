"""The control word, checked: nothing is read before its stall or its scoreboard has passed.

A thread's clock counts the stalls of what it has issued. Each register keeps when and by which kind
of instruction it was last written; what a scoreboard guards is pending until an instruction waits
for that scoreboard. Latencies are facts of Mesa's tables (see latency.py); a violation names the
register, and the value that is read is poison. While all threads go together, the clock is one
number, and so is the stamp of a register; else each is a row of numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.arch import Arch
from boards.nv.warp.build import PREDICATE, REGISTER, UNIFORM, UNIFORM_PREDICATE, Step
from boards.nv.warp.fields import TRUE, ZERO
from boards.nv.warp.latency import CLASSES
from boards.nv.warp.plan import FORWARDS, SCOREBOARDS, Plan, Read
from boards.nv.warp.state import POISON, Threads

_SHIFT = 4
_CLASS = (1 << _SHIFT) - 1
_LONG_AGO = -(1 << 20)
_UNWRITTEN = 1 << 28
_PENDING = _UNWRITTEN + 1
"""And the number of the scoreboard; one past the last for a result that has none."""
_IN_UNIT = 8
"""Added for a result that its own unit may read sooner."""
_ALL_BITS = 0xFFFFFFFF
_NEVER = "register that was never written"
_SPILL = "STL"
"""May store a register that was never written: code saves those of its caller without looking."""
_PREFIX = {REGISTER: "R", UNIFORM: "UR", PREDICATE: "P", UNIFORM_PREDICATE: "UP"}
Row = int | Array
Held = tuple[int, str, int | None]
"""A register that is still read: by which unit, and the scoreboard of the reader's result."""


class Timing:
    """When the registers of a chunk of threads have their values."""

    def __init__(self, t: Threads, find: Callable[[str, str], None], arch: Arch) -> None:
        self._t, self._find = t, find
        self._clock: Row = 0
        last = {REGISTER: ZERO, UNIFORM: arch.uniform_zero, PREDICATE: TRUE,
                UNIFORM_PREDICATE: TRUE}  # fmt: skip
        self._stamps: dict[int, list[Row]] = {
            file: [_UNWRITTEN] * (count + 1) for file, count in last.items()
        }
        self._pending: list[set[tuple[int, int]]] = [set() for _ in range(SCOREBOARDS)]
        self._loose: dict[str, set[tuple[int, int]]] = {}
        """Results without a scoreboard, by the unit that gives them in order."""
        self._foreign: dict[tuple[int, int], Array] = {}
        """Of a uniform register: lanes whose warp has written it without them."""
        self._writers: dict[tuple[int, int], int] = {}
        """Of a uniform register, the instruction that last wrote it."""
        self._before: dict[tuple[int, int], Array] = {}
        """What uniform registers held before the instruction that runs."""
        self._reading: list[dict[Held, Array]] = [{} for _ in range(SCOREBOARDS)]

    # One number or a row of them

    def _all(self, mask: Array) -> bool:
        """Whether a mask is that of all threads that go together."""
        return mask is self._t.alive

    def _row(self, file: int, register: int) -> Array:
        """The stamps of a register, as a row."""
        row = self._stamps[file][register]
        if isinstance(row, int):
            row = self._stamps[file][register] = np.full(self._t.count, row, np.int32)
        return row

    def _set(self, file: int, register: int, stamp: Row, lanes: Array) -> None:
        if self._all(lanes) and isinstance(stamp, int):
            self._stamps[file][register] = stamp
        else:
            self._row(file, register)[lanes] = stamp if isinstance(stamp, int) else stamp[lanes]

    def together(self) -> None:
        """Threads that parted have met: their clock is one number if they show the same."""
        if not isinstance(self._clock, int):
            clocks = self._clock[self._t.alive]
            if len(clocks) and (clocks == clocks[0]).all():
                self._clock = int(clocks[0])

    # Before an instruction

    def issue(self, plan: Plan, mask: Array) -> None:
        """Wait for scoreboards, then read the guard."""
        for number in plan.waits:
            self._arrived(number, mask)
        for read in plan.guards:
            self._check(plan, read, mask)

    def _arrived(self, number: int, mask: Array) -> None:
        if self._all(mask):
            self._reading[number] = {}
        stamps, done = (_PENDING + number, _PENDING + _IN_UNIT + number), set()
        for file, register in self._pending[number]:
            row = self._stamps[file][register]
            if isinstance(row, int) and self._all(mask):
                if row in stamps:
                    self._stamps[file][register] = _LONG_AGO
                done.add((file, register))
                continue
            row = self._row(file, register)
            of_this = (row == stamps[0]) | (row == stamps[1])
            here = self._t.whole_warps(mask) if file in (UNIFORM, UNIFORM_PREDICATE) else mask
            row[of_this & here] = _LONG_AGO
            if not (of_this & ~here & self._t.alive).any():
                done.add((file, register))
        self._pending[number] -= done
        for place, held in enumerate(self._reading):
            if held:
                self._reading[place] = self._left(held, mask, None if place == number else number)

    def _left(self, held: dict[Held, Array], mask: Array, result: int | None) -> dict[Held, Array]:
        """What is still read: not by whom was waited for, or by who has given its result."""
        kept = {}
        for key, lanes in held.items():
            left = lanes & ~mask & self._t.alive if result is None or key[2] == result else lanes
            if left.any():
                kept[key] = left
        return kept

    def read(self, plan: Plan, mask: Array) -> None:
        """The sources of an instruction, and what a uniform register holds before it."""
        if not self._all(mask):
            for file, register in plan.uniforms:
                self._before[file, register] = self._uniform(file, register).copy()
        for read in plan.reads:
            self._check(plan, read, mask)

    def _uniform(self, file: int, register: int) -> Array:
        t = self._t
        return np.asarray(
            t.uniforms[register] if file == UNIFORM else t.uniform_predicates[register]
        )

    def _check(self, plan: Plan, read: Read, mask: Array) -> None:
        stamp, clock = self._stamps[read.file][read.register], self._clock
        if self._t.undefined and not plan.passes:
            self._defined(plan.step, read, mask)
        foreign = self._foreign.get((read.file, read.register)) if self._foreign else None
        if foreign is not None and (foreign & mask).any():
            name = f"{_PREFIX[read.file]}{read.register} in {plan.step.name}"
            self._find("uniform register that other lanes of the warp have written",
                       f"{name} at {plan.step.offset:#x}")  # fmt: skip
        forwards = plan.unit in FORWARDS
        if isinstance(stamp, int) and isinstance(clock, int):
            if forwards and stamp >= _PENDING + _IN_UNIT:
                return
            if clock - (stamp >> _SHIFT) < read.cycles[stamp & _CLASS]:
                self._violation(plan, read, mask)
            return
        row = self._row(read.file, read.register)
        late = clock - (row >> _SHIFT) < read.table[row & _CLASS]
        late &= mask
        if forwards:
            late &= row < _PENDING + _IN_UNIT
        if late.any():
            self._violation(plan, read, late)

    def _defined(self, step: Step, read: Read, mask: Array) -> None:
        """Reports bits of which nobody knows the value, where an instruction needs them."""
        bits = step.needs.get(read.register, _ALL_BITS)
        if step.name != _SPILL and self._t.undefined.has((read.file, read.register), mask, bits):
            name = f"{_PREFIX[read.file]}{read.register} in {step.name} at {step.offset:#x}"
            self._find(_NEVER, name)

    def _violation(self, plan: Plan, read: Read, late: Array) -> None:
        step = plan.step
        row = self._stamps[read.file][read.register]
        stamp = row if isinstance(row, int) else int(row[late.argmax()])
        name = f"{_PREFIX[read.file]}{read.register} in {step.name} at {step.offset:#x}"
        if stamp == _UNWRITTEN and step.name == _SPILL:
            return
        if stamp == _UNWRITTEN and plan.passes and read.file != UNIFORM_PREDICATE:
            self._t.undefined.forget((read.file, read.register), late)
            return
        if stamp == _UNWRITTEN:
            self._find(_NEVER, name)
        elif stamp > _UNWRITTEN:
            self._find("result that no scoreboard was waited for", name)
        else:
            self._find("result that is read too early", name)
        rows = (self._t.registers, self._t.uniforms, None, None)[read.file]
        if rows is not None:
            rows[read.register][late] = POISON

    # After it

    def wrote(self, plan: Plan, mask: Array) -> None:
        """The results of an instruction, and what it still reads."""
        for file, register in plan.step.writes:
            self._overwritten(plan, file, register, mask)
            lanes = mask
            if file in (UNIFORM, UNIFORM_PREDICATE):
                lanes = self._of_warps(plan.step.offset, file, register, mask)
            if plan.variable:
                self._will_come(plan, file, register, lanes)
                continue
            upper = plan.step.latency == "wide" and file == REGISTER and register % 2
            kind = CLASSES["high" if upper else plan.step.latency]
            self._set(file, register, self._clock << _SHIFT | kind, lanes)
        self._keeps(plan, mask)

    def _of_warps(self, offset: int, file: int, register: int, mask: Array) -> Array:
        """The lanes of the warps that write a uniform register.

        Lanes that parted may each run the same instruction, or write the same value: the register
        is then theirs, too.
        """
        again = self._writers.get((file, register)) == offset
        self._writers[file, register] = offset
        if self._all(mask):
            self._foreign.pop((file, register), None)
            return mask
        lanes = self._t.whole_warps(mask)
        changed = lanes & ~mask
        if again:
            changed &= False
        elif (file, register) in self._before:
            changed &= self._before[file, register] != self._uniform(file, register)
        old = self._foreign.get((file, register), np.zeros(self._t.count, bool))
        foreign = (old & ~mask | changed) & self._t.alive
        self._foreign.pop((file, register), None)
        if foreign.any():
            self._foreign[file, register] = foreign
        return lanes

    def _will_come(self, plan: Plan, file: int, register: int, lanes: Array) -> None:
        """A result whose time is not known."""
        barrier = plan.step.control.write_barrier
        pending = _PENDING + (_IN_UNIT if plan.unit in FORWARDS else 0)
        if barrier is None:
            self._set(file, register, pending + SCOREBOARDS, lanes)
            self._loose.setdefault(plan.unit, set()).add((file, register))
            return
        self._set(file, register, pending + barrier, lanes)
        self._pending[barrier].add((file, register))
        self.answers(plan, lanes)

    def answers(self, plan: Plan, lanes: Array) -> None:
        """A scoreboard of a unit that answers in order stands for earlier results, too.

        measured: nvrtc 13.5 gives one scoreboard to two LDS, or to POPC and BREV, in a row, also
        where a predicate keeps the second from running
        """
        barrier = plan.step.control.write_barrier
        if barrier is None or not plan.unit or not self._loose.get(plan.unit):
            return
        pending = _PENDING + (_IN_UNIT if plan.unit in FORWARDS else 0)
        for file, register in self._loose[plan.unit]:
            row = self._stamps[file][register]
            if isinstance(row, int):
                if row != pending + SCOREBOARDS:
                    continue
                if self._all(lanes):
                    self._stamps[file][register] = pending + barrier
                    self._pending[barrier].add((file, register))
                    continue
            row = self._row(file, register)
            row[(row == pending + SCOREBOARDS) & lanes] = pending + barrier
            self._pending[barrier].add((file, register))
        if self._all(lanes):
            self._loose[plan.unit].clear()

    def _keeps(self, plan: Plan, mask: Array) -> None:
        """Sources that are read until a scoreboard says otherwise."""
        barrier = plan.step.control.read_barrier
        if barrier is None:
            return
        held = self._reading[barrier]
        for read in plan.reads:
            if read.file == REGISTER:
                key = read.register, plan.queue, plan.step.control.write_barrier
                held[key] = held[key] | mask if key in held else mask.copy()

    def _overwritten(self, plan: Plan, file: int, register: int, mask: Array) -> None:
        """A unit that answers in order may write again what it has not yet given."""
        row, forwards = self._stamps[file][register], plan.unit in FORWARDS
        if isinstance(row, int):
            coming = row > _UNWRITTEN and not (forwards and row >= _PENDING + _IN_UNIT)
        else:
            rows = (row > _UNWRITTEN) & mask
            if forwards:
                rows &= row < _PENDING + _IN_UNIT
            coming = bool(rows.any())
        step = plan.step
        again = plan.unit and (file, register) in self._loose.get(plan.unit, ())
        again = again or self._writers.get((file, register)) == step.offset
        if coming and not again:
            name = f"{_PREFIX[file]}{register} in {step.name} at {step.offset:#x}"
            self._find("result that is overwritten before it came", name)
        if file == REGISTER and self._is_held(register, plan.queue, mask):
            name = f"R{register} in {step.name} at {step.offset:#x}"
            self._find("source that is overwritten before it was read", name)

    def _is_held(self, register: int, queue: str, mask: Array) -> bool:
        """Whether another queue has yet to read a register; its own reads it before it writes.

        measured: nvrtc 13.5 lets LDS overwrite what STS stores, without a wait; for Hopper and
        Blackwell it lets LDG overwrite what an earlier LDG has as its address, too.
        """
        return any(
            held == register and not (queue and by == queue) and bool((lanes & mask).any())
            for row in self._reading
            if row
            for (held, by, _), lanes in row.items()
        )

    def passed(self, stall: int, mask: Array) -> None:
        """The stall after an instruction."""
        if isinstance(self._clock, int):
            if self._all(mask):
                self._clock += stall
                return
            self._clock = np.full(self._t.count, self._clock, np.int32)
        self._clock[mask] += stall

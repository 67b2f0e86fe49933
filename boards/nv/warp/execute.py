"""Grids of SASS, run to their end: the executor that a board's GPU has.

Threads of a chunk of blocks run together; a block's threads are always in one chunk. turns.py says
who goes first where they part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

import numpy as np

from boards.machine.arrays import Array
from boards.nv.isa.control import Control
from boards.nv.isa.decode import WORD_BYTES
from boards.nv.launch import ILLEGAL_INSTRUCTION, EndlessGrid, Launch, SmException
from boards.nv.space import MmuFault
from boards.nv.warp import flow, undefined
from boards.nv.warp.arch import of_chip
from boards.nv.warp.build import REGISTER, Builder, Step
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.latency import IN_ORDER
from boards.nv.warp.memory import GlobalMemory
from boards.nv.warp.opcodes import UNIFORM, action, computes, name_of
from boards.nv.warp.plan import Plan, plan_of
from boards.nv.warp.reach import Reach
from boards.nv.warp.state import LANES, RUNNING, Threads
from boards.nv.warp.timing import Timing
from boards.nv.warp.turns import SLICE_STEPS, Turns, in_turns

_CHUNK_THREADS = 4096
_MOST_STEPS = 1 << 22
"""Of a chunk, before its grid counts as endless."""
_OPERATION = 0x1FF
_GUARD_LOW, _GUARD_NOT = 12, 15
_ALWAYS = 7
OUT_OF_RANGE_REGISTER = 0x0D
"""src: Linux, drivers/gpu/drm/nouveau/nvkm/engine/gr/gf100.c, warp errors: OOR_REG; not confirmed
for later chips"""
_REGISTER_UNIT = 8
"""Registers that a warp gets together. # src: CUDA C++ Programming Guide, occupancy"""
Find = Callable[[str, str], None]


class WarpExecutor:
    """Executes SASS, and reports what the code may not do."""

    def __init__(self, find: Find, *, order: int | None = None, banks: bool = False) -> None:
        """`order` draws the order of atomics that meet; `banks` counts bank conflicts."""
        self._find, self._order = find, order
        self.conflicts: Counter[int] | None = Counter() if banks else None
        """By offset of the instruction: turns of shared memory that bank conflicts cost."""

    def launch(self, launch: Launch) -> None:
        """Runs all blocks. Raises: MmuFault, SmException, EndlessGrid."""
        launch.space.execute(launch.code_va, 1)
        program = Program(launch, self._find, self.conflicts)
        padded = -(-prod(launch.block) // LANES) * LANES
        step = max(1, _CHUNK_THREADS // padded)
        with np.errstate(all="ignore"):
            in_turns(map(program.run, self._chunks(launch, step)))

    def _chunks(self, launch: Launch, step: int) -> Iterator[Threads]:
        """The threads of the grid, some blocks at a time."""
        blocks = prod(launch.grid)
        for first in range(0, blocks, step):
            threads = Threads(launch, first, min(step, blocks - first))
            if self._order is not None:
                threads.draw = np.random.default_rng(self._order)
            yield threads


class Program:
    """The code of a launch; an instruction is taken apart when it is first reached."""

    def __init__(self, launch: Launch, find: Find, conflicts: Counter[int] | None) -> None:
        self._conflicts = conflicts
        self._launch, self._find, self._arch = launch, find, of_chip(launch.chip)
        self._banks = {number: launch.constant(number) for number in launch.constants}
        self._memory = GlobalMemory(launch.space)
        self._plans: dict[int, Plan] = {}

    def run(self, t: Threads) -> Iterator[None]:
        """All threads of a chunk, to their end; yields after each slice of steps."""
        timing, turns = Timing(t, self._find, self._arch), Turns(t)
        pc, together, every = 0, True, bool(t.alive.all())
        for count in range(1, _MOST_STEPS):
            if count % SLICE_STEPS == 0:
                yield
            if together:
                plan = self._plan(pc)
                if not plan.flows:
                    self._one(t, timing, plan, t.alive, whole=every)
                    pc += WORD_BYTES
                    continue
                t.pc.fill(pc + WORD_BYTES)
                self._one(t, timing, plan, t.alive, whole=every)
            else:
                self._some(t, timing, turns)
            if not t.alive.any():
                return
            every = bool(t.alive.all())
            pc = int(t.pc[t.alive].min())
            together = not ((t.pc != pc) | (t.waits != RUNNING))[t.alive].any()
            if together:
                timing.together()
        raise EndlessGrid

    def _some(self, t: Threads, timing: Timing, turns: Turns) -> None:
        """The threads whose turn it is, to their next branch or the threads before them."""
        chosen = turns.choose()
        if chosen is None:
            self._find("threads that wait for each other", flow.describe_stuck(t))
            raise EndlessGrid
        mask, pc, meet = chosen
        for _ in range(_MOST_STEPS):
            plan = self._plan(pc)
            pc += WORD_BYTES
            if plan.flows or pc >= meet:
                t.pc[mask] = pc
                self._one(t, timing, plan, mask, whole=False)
                return
            self._one(t, timing, plan, mask, whole=False)
        raise EndlessGrid

    def _one(self, t: Threads, timing: Timing, plan: Plan, mask: Array, *, whole: bool) -> None:
        step = plan.step
        timing.issue(plan, mask)
        if t.copies and step.control.wait & t.copies.scoreboards:
            t.copies.arrive(mask, 0)
        taken = mask
        if step.guard is not None:
            taken = mask & step.guard(t)
            if np.array_equal(taken, mask):
                taken = mask
            elif plan.variable:
                timing.answers(plan, mask & ~taken)
        if taken is mask or taken.any():
            t.whole = whole and taken is mask
            timing.read(plan, taken)
            if t.undefined:
                undefined.run(t, step, taken)
            else:
                step.run(t, taken)
            timing.wrote(plan, taken)
        if t.undefined and step.guard is not None:
            undefined.guarded(t, step, mask)
        timing.passed(plan.stall, mask)
        t.cycles += plan.stall

    def _plan(self, pc: int) -> Plan:
        found = self._plans.get(pc)
        if found is None:
            step = self._build(pc)
            self._check_registers(step)
            found = self._plans[pc] = plan_of(step, self._arch.latencies)
        return found

    def _check_registers(self, step: Step) -> None:
        """Raises: SmException for a register that the warp has not been given."""
        touched = [*((file, number) for file, number, _ in step.reads), *step.writes]
        last = max((number for file, number in touched if file == REGISTER), default=0)
        if last < self._launch.registers:
            return
        name = f"R{last} in {step.name} at {step.offset:#x} of {self._launch.registers} registers"
        self._find("register beyond those of the launch", name)
        if last >= -(-self._launch.registers // _REGISTER_UNIT) * _REGISTER_UNIT:
            raise SmException(OUT_OF_RANGE_REGISTER, self._launch.code_va + step.offset, name)

    def _build(self, pc: int) -> Step:
        """Raises: SmException, with the name of what is not modelled."""
        va = self._launch.code_va + pc
        try:
            word = int.from_bytes(self._launch.space.execute(va, WORD_BYTES), "little")
        except MmuFault:
            raise
        name = name_of(word, self._arch)
        try:
            return self._known(word, pc, name)
        except NotModelled as error:
            why = f"this board does not execute {name} of {va:#x}: {error}"
            raise SmException(ILLEGAL_INSTRUCTION, va, why) from None

    def _known(self, word: int, pc: int, name: str) -> Step:
        build = Builder(word, pc, self._banks, self._arch)
        build.take(0, 12)
        uniform = word & _OPERATION in UNIFORM
        guard = build.predicate_in(_GUARD_LOW, _GUARD_NOT, uniform=uniform)
        always = word >> _GUARD_LOW & 0xF == _ALWAYS
        guards = tuple(build.reads)
        build.reads = []
        reach = Reach(self._memory, self._banks, lambda what: self._find(what, f"{pc:#x}"),
                      self._conflicts)  # fmt: skip
        run = action(build, reach)
        build.finish()
        if self._arch.fixed_doubles and name in IN_ORDER["double"]:
            build.latency = "double"
        control = Control.of(word)
        if build.group is not None:
            control = replace(control, write_barrier=build.group)
        if build.waits:
            control = replace(control, wait=control.wait | build.waits)
        return Step(
            name=name,
            offset=pc,
            control=control,
            guard=None if always else guard,
            guards=guards,
            run=run,
            reads=tuple(build.reads),
            writes=tuple(build.writes),
            latency=build.latency,
            pure=computes(word, self._arch) and build.latency != "control",
            values=tuple(build.values),
            needs=build.needs,
        )

"""Grids of SASS, run to their end: the executor that a board's GPU has.

Threads of a chunk of blocks run together. Those that are furthest behind in the code go first, so
that lanes that parted meet again; a block's threads are always in one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from boards.machine.arrays import Array
from boards.nv.isa.control import Control
from boards.nv.isa.decode import WORD_BYTES
from boards.nv.launch import ILLEGAL_INSTRUCTION, EndlessGrid, Launch, SmException
from boards.nv.space import MmuFault
from boards.nv.warp import flow
from boards.nv.warp.arch import of_chip
from boards.nv.warp.build import Builder, Step
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.latency import IN_ORDER
from boards.nv.warp.memory import GlobalMemory
from boards.nv.warp.opcodes import UNIFORM, action, name_of
from boards.nv.warp.state import LANES, RUNNING, Threads
from boards.nv.warp.timing import Timing

_CHUNK_THREADS = 4096
_MOST_STEPS = 1 << 22
"""Of a chunk, before its grid counts as endless."""
_OPERATION = 0x1FF
_GUARD_LOW, _GUARD_NOT = 12, 15
_ALWAYS = 7
Find = Callable[[str, str], None]


class WarpExecutor:
    """Executes SASS, and reports what the code may not do."""

    def __init__(self, find: Find) -> None:
        self._find = find

    def launch(self, launch: Launch) -> None:
        """Runs all blocks. Raises: MmuFault, SmException, EndlessGrid."""
        launch.space.execute(launch.code_va, 1)
        program = Program(launch, self._find)
        padded = -(-prod(launch.block) // LANES) * LANES
        blocks, step = prod(launch.grid), max(1, _CHUNK_THREADS // padded)
        with np.errstate(all="ignore"):
            for first in range(0, blocks, step):
                program.run(Threads(launch, first, min(step, blocks - first)))


class Program:
    """The code of a launch; an instruction is taken apart when it is first reached."""

    def __init__(self, launch: Launch, find: Find) -> None:
        self._launch, self._find, self._arch = launch, find, of_chip(launch.chip)
        self._banks = {number: launch.constant(number) for number in launch.constants}
        self._memory = GlobalMemory(launch.space)
        self._steps: dict[int, Step] = {}

    def run(self, t: Threads) -> None:
        """All threads of a chunk, to their end."""
        timing = Timing(t, self._find, self._arch)
        for _ in range(_MOST_STEPS):
            ready = t.alive & (t.waits == RUNNING)
            if not ready.any():
                if not t.alive.any():
                    return
                self._find("threads that wait for each other", flow.describe_stuck(t))
                raise EndlessGrid
            pc = int(t.pc[ready].min())
            self._one(t, timing, self._step(pc), ready & (t.pc == pc))
        raise EndlessGrid

    def _one(self, t: Threads, timing: Timing, step: Step, mask: Array) -> None:
        timing.issue(step, mask)
        t.pc[mask] += WORD_BYTES
        taken = mask & step.guard(t) if step.guard is not None else mask
        if taken.any():
            timing.read(step, taken)
            step.run(t, taken)
            timing.wrote(step, taken)
        timing.passed(step, mask)

    def _step(self, pc: int) -> Step:
        found = self._steps.get(pc)
        if found is None:
            found = self._steps[pc] = self._build(pc)
        return found

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
        run = action(build, self._memory, self._banks, lambda what: self._find(what, f"{pc:#x}"))
        build.finish()
        if self._arch.fixed_doubles and name in IN_ORDER["double"]:
            build.latency = "double"
        return Step(
            name=name, offset=pc, control=Control.of(word), guard=None if always else guard,
            guards=guards, run=run, reads=tuple(build.reads), writes=tuple(build.writes),
            latency=build.latency,
        )  # fmt: skip

"""Execute machine code: all waves of a chunk of workgroups at once, grouped by program counter.

    report = execute(dispatch, memory)

The group of waves at the lowest program counter runs until it meets another group, so that
diverging waves find each other again at the first common instruction. A group that has waited for
_PATIENCE instructions of others runs first: all waves of a chunk are resident, and what one waits
for in a loop, a lock or a flag, another one gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from boards.amd.isa.decode import Family, Instruction, UnknownInstruction, decode
from boards.amd.isa.gfx11 import GFX11
from boards.amd.isa.layout import all_ones, gather
from boards.amd.isa.text import disassemble
from boards.amd.wave.barrier import Barriers
from boards.amd.wave.buffer import bind_buffer, bind_scalar_buffer
from boards.amd.wave.dpp import require_lanes, written_lanes
from boards.amd.wave.indexing import bind_indexing, indexable
from boards.amd.wave.lds import bind_lds
from boards.amd.wave.memory import bind_memory
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.relative import bind_relative
from boards.amd.wave.scalar import BARRIER, BARRIER_SIGNAL, BARRIER_WAIT, END, Jump, bind_scalar
from boards.amd.wave.scalar_float import bind_scalar_float
from boards.amd.wave.special import bind_special
from boards.amd.wave.start import register_counts, start, waves_per_group
from boards.amd.wave.state import ACCUMULATORS, Waves
from boards.amd.wave.strict import Observer
from boards.amd.wave.to_lds import bind_to_lds, bind_transposed
from boards.amd.wave.touch import Touch, touch
from boards.amd.wave.trap import bind_trap
from boards.amd.wave.types import Batch, Dispatch, Memory, MemoryFault, Report, Strict, WaveFault
from boards.amd.wave.vector import bind_dual, bind_vector, operation
from boards.machine.arrays import Array

_CHUNK_WAVES = 2048
_CHUNK_LDS_BYTES = 64 << 20
_LARGEST_KEPT_BYTES = (32 << 20) - (1 << 16)
_PATIENCE = 1024
"""Instructions that others run before a waiting group gets a turn, wherever they are."""
_QUANTUM = 4096
"""Instructions a group runs in one turn at most: spin loops must not starve others."""
_FETCH_BYTES = 16
_FOREVER = 1 << 62

Run = Callable[[Waves], Any]


MakeObserver = Callable[[Waves, Strict, Report, Family], Observer]
"""What the strict checks of some workgroups are made by; a subclass may count what it sees."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An instruction ready to run at its address."""

    inst: Instruction
    run: Run
    touch: Touch
    next_pc: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An instruction that this executor does not run, and why."""

    inst: Instruction
    why: str


def execute(
    dispatch: Dispatch,
    memory: Memory,
    strict: Strict | None = None,
    family: Family = GFX11,
    observer: MakeObserver = Observer,
) -> Report:
    """Run a launch to its end, under the eyes of one observer for each chunk of its workgroups.

    Raises: WaveFault.
    """
    _keep_memory()
    report = Report()
    per_group = waves_per_group(dispatch)
    gx, gy, gz = dispatch.groups
    total = gx * gy * gz
    chunk = max(1, _CHUNK_WAVES // per_group)
    if dispatch.lds_bytes:
        chunk = max(1, min(chunk, _CHUNK_LDS_BYTES // dispatch.lds_bytes))
    if dispatch.scratch_wave_bytes:
        chunk = max(1, min(chunk, dispatch.scratch_waves // per_group))
    code: dict[int, Bound] = {}
    with np.errstate(all="ignore"):
        for first in range(0, total, chunk):
            groups, start_ns = min(chunk, total - first), time.monotonic_ns()
            made = Chunk(dispatch, memory, strict or Strict(), family, report, code, observer)
            made.run(first, groups)
            report.batches.append(
                Batch(first * per_group, groups * per_group, start_ns, time.monotonic_ns())
            )
    return report


@cache
def _keep_memory() -> None:
    """Make the C library keep what numpy frees: no page faults at every temporary array."""
    # src: mallopt(3), M_MMAP_THRESHOLD: freeing a large block raises the threshold to its size,
    # and the one for giving memory back to twice that; at most to 32 MiB.
    np.empty(_LARGEST_KEPT_BYTES, np.uint8)


@lru_cache(maxsize=16384)
def _bind_bytes(family: Family, raw: bytes, pc: int, lanes: int) -> Bound | Refused:
    """Decode and bind the instruction that `raw` begins with; kept from launch to launch.

    Raises: UnknownInstruction.
    """
    words = tuple(int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw) - 3, 4))
    inst = decode(family, words, pc, lanes)
    try:
        run = bind(inst)
    except UnsupportedOperand as error:
        return Refused(inst, str(error))
    if run is None:
        return Refused(inst, "no meaning in this executor")
    touched = touch(inst)
    if touched.crooked:
        return Refused(inst, f"registers begin in the wrong place: {touched.crooked}")
    return Bound(inst, run, touched, pc + inst.size_bytes)


class Chunk:
    """Workgroups that run at the same time."""

    def __init__(
        self, dispatch: Dispatch, memory: Memory, strict: Strict, family: Family, report: Report,
        code: dict[int, Bound], make_observer: MakeObserver,
    ) -> None:  # fmt: skip
        self.dispatch, self.memory, self.family = dispatch, memory, family
        self.strict, self.report, self.code = strict, report, code
        self.make_observer = make_observer

    def run(self, first_group: int, groups: int) -> None:
        """Start the waves of some workgroups and run them all to the end."""
        d = self.dispatch
        count = groups * waves_per_group(d)
        vectors, accumulators = register_counts(d, self.family)
        w = self.w = Waves(
            count, d.lanes, vectors, d.lds_bytes, groups, self.family.null, accumulators
        )
        w.memory = self.memory
        observe = self.strict.uninitialised or self.strict.wait_counts or self.strict.lds
        self.observer = w.observer = (
            self.make_observer(w, self.strict, self.report, self.family) if observe else None
        )
        scalars, vectors = start(w, d, first_group, self.family)
        if self.observer:
            self.observer.define(tuple(range(vectors)), scalars)
        self.report.waves += count
        self.barriers = Barriers(count, w.waves_per_group, self.observer)
        self.ready: dict[int, Array] = {d.entry: np.arange(count)}
        self.since = {d.entry: self.report.steps}
        for _ in range(_FOREVER):
            if not self.ready:
                return
            pc = self._next()
            stopped = self._run_group(pc, self.ready.pop(pc), self.since.pop(pc))
            if self.report.steps > d.max_steps:
                raise self._fault(
                    "endless", self._bound(stopped), f"more than {d.max_steps} instructions"
                )

    def _next(self) -> int:
        """The group that runs: the one at the lowest program counter, but no wait is too long."""
        oldest = min(self.since, key=lambda pc: (self.since[pc], pc))
        overdue = self.report.steps - self.since[oldest] >= _PATIENCE
        return oldest if overdue else min(self.ready)

    def _run_group(self, pc: int, waves: Array, since: int) -> int:
        """Run waves from `pc` until they end, wait, split or meet others; where they stopped.

        Parts of a group that had to wait are as old as it is, for as long a time again.
        """
        w, observer, ready = self.w, self.observer, self.ready
        w.select(waves)
        meet = min((other for other in ready if other > pc), default=_FOREVER)
        code, n, first = self.code, len(waves), self.report.steps
        keeps = _PATIENCE <= first - since < 2 * _PATIENCE
        for step in range(first + 1, first + 1 + _QUANTUM):
            bound = code.get(pc) or self._bound(pc)
            if observer:
                observer.before(w, bound.inst, bound.touch)
                mask = w.mask if bound.inst.dpp is None else written_lanes(w, bound.inst.dpp)
                outcome = self._step(bound)
                observer.after(w, bound.touch, mask)
            else:
                outcome = self._step(bound)
            pc = bound.next_pc
            if outcome is not None:
                self.entered = since if keeps else step
                following = self._jump(outcome, pc, waves, bound)
                if following < 0:
                    self._count(step - first, n)
                    return bound.inst.pc
                pc = following
            if pc >= meet or pc in ready:
                break
        self._count(step - first, n)
        self.entered = since if keeps else step
        self._add(pc, waves)
        return pc

    def _count(self, steps: int, waves: int) -> None:
        self.report.steps += steps
        self.report.wave_instructions += steps * waves
        self.w.steps = self.report.steps

    def _step(self, bound: Bound) -> Jump | None:
        try:
            outcome: Jump | None = bound.run(self.w)
        except UnsupportedOperand as error:
            raise self._fault("unsupported", bound, str(error)) from error
        except IndexError as error:
            raise self._fault("out of range", bound, "register beyond the allocation") from error
        return outcome

    def _fault(self, kind: str, bound: Bound, detail: str) -> WaveFault:
        wave = self.w.first_wave + int(self.w.waves[0])
        text = disassemble(bound.inst)
        return WaveFault(kind, pc=bound.inst.pc, text=text, wave=wave, detail=detail)

    def _jump(self, jump: Jump, after: int, waves: Array, bound: Bound) -> int:
        """Where all selected waves go on together, or -1 when they were sent on their ways."""
        if isinstance(jump.target, int):
            if jump.target < 0:
                return self._barrier(jump, after, waves, bound)
            if jump.taken is None or jump.taken.all():
                return jump.target
            if not jump.taken.any():
                return after
            self._add(jump.target, waves[jump.taken])
            self._add(after, waves[~jump.taken])
            return -1
        for target in np.unique(jump.target):
            self._add(int(target), waves[jump.target == target])
        return -1

    def _barrier(self, jump: Jump, after: int, waves: Array, bound: Bound) -> int:
        """Waves arrive at their workgroup's barrier, wait there, or end; as `_jump`."""
        barriers = self.barriers
        if jump is END:
            barriers.end(waves)
        elif jump is not BARRIER_WAIT:
            barriers.signal(waves)
        if jump is BARRIER or jump is BARRIER_WAIT:
            lost = barriers.wait(waves, after)
            if len(lost):
                raise self._fault("endless", bound, "waits for a barrier it did not signal")
        for pc, free in barriers.release():
            self._add(pc, free)
        return after if jump is BARRIER_SIGNAL else -1

    def _add(self, pc: int, waves: Array) -> None:
        here = self.ready.get(pc)
        self.ready[pc] = waves if here is None else np.sort(np.concatenate([here, waves]))
        self.since[pc] = min(self.entered, self.since.get(pc, self.entered))

    def _bound(self, pc: int) -> Bound:
        """Fetch, decode and bind the instruction at `pc`. Raises: WaveFault."""
        try:
            raw = self.memory.fetch(pc, _FETCH_BYTES)
        except MemoryFault as fault:
            wave = self.w.first_wave + int(self.w.waves[0])
            raise WaveFault(
                fault.kind, pc=pc, text="(fetch)", wave=wave, va=fault.va, access="execute"
            ) from fault
        try:
            bound = _bind_bytes(self.family, raw, pc, self.dispatch.lanes)
        except UnknownInstruction as error:
            raise self._stop("illegal instruction", pc, str(error)) from error
        if isinstance(bound, Refused):
            shown = " ".join(f"{word:08x}" for word in bound.inst.words)
            text = f"{disassemble(bound.inst)} ({shown})"
            raise self._stop("unsupported", pc, text, bound.why)
        if any(self.w.vgprs <= register < ACCUMULATORS for register in bound.touch.vector):
            raise self._fault("out of range", bound, "register beyond the allocation")
        self.code[pc] = bound
        return bound

    def _stop(self, kind: str, pc: int, text: str, detail: str = "") -> WaveFault:
        wave = self.w.first_wave + int(self.w.waves[0])
        return WaveFault(kind, pc=pc, text=text, wave=wave, detail=detail)


def bind(inst: Instruction) -> Run | None:
    """The function that executes an instruction, or None when there is none."""
    require_lanes(inst)
    if inst.encoding == "VOPD":
        return bind_dual(inst)
    if inst.name in inst.family.waits:
        return _wait(inst)
    if inst.meaning.startswith("s_buffer_load_"):
        return bind_scalar_buffer(inst)
    if inst.encoding in ("FLAT", "SMEM"):
        return bind_to_lds(inst) or bind_memory(inst) or bind_scalar(inst)
    if inst.encoding == "DS":
        return bind_transposed(inst) or bind_lds(inst)
    if inst.encoding == "MUBUF":
        return bind_to_lds(inst) or bind_buffer(inst) or bind_scalar(inst)
    relative = bind_relative(inst) or bind_indexing(inst)
    if relative is not None:
        return relative
    if inst.encoding[0] == "S":
        return bind_trap(inst) or bind_scalar_float(inst) or bind_scalar(inst)
    if inst.name.startswith("v_s_"):
        return bind_scalar_float(inst)
    op = operation(inst)
    return indexable(inst, bind_special(inst) if op is None else bind_vector(inst, op))


def _wait(inst: Instruction) -> Run:
    """Everything has arrived already; only the strict check follows the counts."""
    value = inst.fields["i"]
    counts = {
        counter: gather(value, pieces)
        for counter, pieces in inst.family.waits[inst.name].items()
        if not pieces or gather(value, pieces) != all_ones(pieces)
    }

    def run(w: Waves) -> None:
        if w.observer is not None:
            for counter, count in counts.items():
                w.observer.wait(w, counter, count)

    return run

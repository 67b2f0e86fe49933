"""The control word, checked: nothing is read before its stall or its scoreboard has passed.

A thread's clock counts the stalls of what it has issued. Each register keeps when and by which kind
of instruction it was last written; what a scoreboard guards is pending until an instruction waits
for that scoreboard. Latencies are facts of Mesa's sm80_instr_latencies.rs (NVIDIA's own numbers
for Ampere and Ada); a violation names the register, and the value that is read is poison.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import PREDICATE, REGISTER, UNIFORM, UNIFORM_PREDICATE, Step
from boards.nv.warp.arch import Arch
from boards.nv.warp.fields import TRUE, ZERO
from boards.nv.warp.latency import CLASSES, IN_ORDER, VARIABLE, Latencies
from boards.nv.warp.state import POISON, Threads

_SHIFT = 4
_CLASS = (1 << _SHIFT) - 1
_LONG_AGO = -(1 << 20)
_UNWRITTEN = 1 << 28
_PENDING = _UNWRITTEN + 1
"""And the number of the scoreboard; one past the last for a result that has none."""
_SCOREBOARDS = 6
_IN_UNIT = 8
"""Added for a result that its own unit may read sooner."""
_FORWARDS = "double"
"""The unit that does so. measured: nvrtc 13.5 chains DFMA without scoreboards."""
_PREFIX = {REGISTER: "R", UNIFORM: "UR", PREDICATE: "P", UNIFORM_PREDICATE: "UP"}


class Timing:
    """When the registers of a chunk of threads have their values."""

    def __init__(self, t: Threads, find: Callable[[str, str], None], arch: Arch) -> None:
        self._t, self._find, self._latencies = t, find, arch.latencies
        self._clock = np.zeros(t.count, np.int32)
        last_uniform = arch.uniform_zero
        sizes = {REGISTER: ZERO, UNIFORM: last_uniform, PREDICATE: TRUE, UNIFORM_PREDICATE: TRUE}
        self._stamps = {
            file: np.full((last + 1, t.count), _UNWRITTEN, np.int32) for file, last in sizes.items()
        }
        self._pending: list[set[tuple[int, int]]] = [set() for _ in range(_SCOREBOARDS)]
        self._loose: dict[str, set[tuple[int, int]]] = {}
        self._reading: list[dict[tuple[int, str], Array]] = [{} for _ in range(_SCOREBOARDS)]

    def issue(self, step: Step, mask: Array) -> None:
        """Wait for scoreboards, then read the guard."""
        wait = step.control.wait
        for number in range(_SCOREBOARDS):
            if wait >> number & 1:
                self._arrived(number, mask)
        self._check(step, step.guards, self._latencies.predicates["guard"], mask)

    def _arrived(self, number: int, mask: Array) -> None:
        done = set()
        for file, register in self._pending[number]:
            row = self._stamps[file][register]
            of_this = (row == _PENDING + number) | (row == _PENDING + _IN_UNIT + number)
            row[of_this & mask] = _LONG_AGO
            if not (of_this & ~mask & self._t.alive).any():
                done.add((file, register))
        self._pending[number] -= done
        kept = {}
        for key, lanes in self._reading[number].items():
            left = lanes & ~mask & self._t.alive
            if left.any():
                kept[key] = left
        self._reading[number] = kept

    def read(self, step: Step, mask: Array) -> None:
        """The sources of an instruction."""
        for read in step.reads:
            file, _, source = read
            table = _table(self._latencies, step, file, source)
            self._check(step, (read,), table, mask)

    def _check(
        self, step: Step, reads: tuple[tuple[int, int, int], ...], table: Array, mask: Array
    ) -> None:
        for file, register, _ in reads:
            stamp = self._stamps[file][register]
            late = self._clock - (stamp >> _SHIFT) < table[stamp & _CLASS]
            late &= mask
            if _unit(step) == _FORWARDS:
                late &= stamp < _PENDING + _IN_UNIT
            if late.any():
                self._violation(step, file, register, late)

    def _violation(self, step: Step, file: int, register: int, late: Array) -> None:
        stamp = int(self._stamps[file][register][late.argmax()])
        name = f"{_PREFIX[file]}{register} in {step.name} at {step.offset:#x}"
        if stamp == _UNWRITTEN:
            self._find("register that was never written", name)
        elif stamp > _UNWRITTEN:
            self._find("result that no scoreboard was waited for", name)
        else:
            self._find("result that is read too early", name)
        rows = (self._t.registers, self._t.uniforms, None, None)[file]
        if rows is not None:
            rows[register][late] = POISON

    def wrote(self, step: Step, mask: Array) -> None:
        """The results of an instruction, and what it still reads."""
        for place, (file, register) in enumerate(step.writes):
            self._overwritten(step, file, register, mask)
            row = self._stamps[file][register]
            lanes = self._t.whole_warps(mask) if file in (UNIFORM, UNIFORM_PREDICATE) else mask
            if step.latency in VARIABLE:
                self._will_come(step, file, register, lanes)
                continue
            upper = step.latency == "wide" and file == REGISTER and place % 2
            row[lanes] = (self._clock << _SHIFT)[lanes] | CLASSES["high" if upper else step.latency]
        self._keeps(step, mask)

    def _will_come(self, step: Step, file: int, register: int, lanes: Array) -> None:
        """A result whose time is not known; a unit that answers in order answers for earlier ones.

        measured: nvrtc 13.5 gives one scoreboard to two LDS, or to POPC and BREV, in a row.
        """
        unit = _unit(step)
        barrier = step.control.write_barrier
        pending = _PENDING + (_IN_UNIT if unit == _FORWARDS else 0)
        if barrier is None:
            self._stamps[file][register][lanes] = pending + _SCOREBOARDS
            self._loose.setdefault(unit, set()).add((file, register))
            return
        self._stamps[file][register][lanes] = pending + barrier
        self._pending[barrier].add((file, register))
        for earlier in self._loose.get(unit, ()) if unit else ():
            row = self._stamps[earlier[0]][earlier[1]]
            row[(row == pending + _SCOREBOARDS) & lanes] = pending + barrier
            self._pending[barrier].add(earlier)

    def _keeps(self, step: Step, mask: Array) -> None:
        """Sources that are read until a scoreboard says otherwise."""
        barrier = step.control.read_barrier
        if barrier is None:
            return
        held, unit = self._reading[barrier], _unit(step)
        for file, register, _ in step.reads:
            if file == REGISTER:
                key = register, unit
                held[key] = held[key] | mask if key in held else mask.copy()

    def _overwritten(self, step: Step, file: int, register: int, mask: Array) -> None:
        name = f"{_PREFIX[file]}{register} in {step.name} at {step.offset:#x}"
        row = self._stamps[file][register]
        coming = (row > _UNWRITTEN) & mask
        if _unit(step) == _FORWARDS:
            coming &= row < _PENDING + _IN_UNIT
        if coming.any():
            self._find("result that is overwritten before it came", name)
        if file == REGISTER and self._is_held(register, _unit(step), mask):
            self._find("source that is overwritten before it was read", name)

    def _is_held(self, register: int, unit: str, mask: Array) -> bool:
        """Whether another unit has yet to read a register; its own reads it before it writes.

        measured: nvrtc 13.5 lets LDS overwrite what STS stores, without a wait.
        """
        return any(
            held == register and not (unit and by == unit) and bool((lanes & mask).any())
            for row in self._reading
            for (held, by), lanes in row.items()
        )

    def passed(self, step: Step, mask: Array) -> None:
        """The stall after an instruction."""
        self._clock[mask] += max(1, step.control.stall)


def _unit(step: Step) -> str:
    """The unit that an instruction goes to, if it keeps their order."""
    return next((name for name, members in IN_ORDER.items() if step.name in members), "")


def _table(latencies: Latencies, step: Step, file: int, source: int) -> Array:
    """Latencies that a reader has to keep, by the class of the writer."""
    if file == REGISTER:
        reader = step.latency
        if reader in ("wide", "high"):
            reader = ("product", "product", "addend low", "addend high")[source]
        return latencies.registers.get(reader, latencies.registers["alu"])
    if file in (PREDICATE, UNIFORM_PREDICATE):
        return latencies.predicates.get(step.latency, latencies.predicates["guard"])
    return latencies.uniforms.get(step.latency, latencies.uniforms["alu"])

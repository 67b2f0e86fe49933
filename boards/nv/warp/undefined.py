"""Bits that nobody wrote, in registers and predicates, and what becomes of them.

Code of nvrtc keeps single bits or bytes in a register that it never writes whole, compares
registers whose comparison a predicate then overrides, and computes what it throws away. So an
instruction that only computes passes undefined bits on: it is run with several fillings of them,
and the bits of its results that change are not defined. Whoever else needs one is reported:
addresses, data of stores, guards of branches and of memory, other lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import PREDICATE, REGISTER, UNIFORM, Step
from boards.nv.warp.defined import Place
from boards.nv.warp.state import Threads

_DRAWN = 4
_MOST_PREDICATES = 3
_SEED = 14
_WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class _Source:
    """A source with bits that nobody wrote."""

    row: Array
    bits: Array
    before: Array

    def fill(self, value: Array | np.uint32 | bool) -> None:
        """Put a value where nothing is defined."""
        self.row[:] = self.before & ~self.bits | self.bits & value


def passes(step: Step) -> bool:
    """Whether an instruction only computes, so that undefined bits may go through it."""
    return step.pure and all(file in (REGISTER, PREDICATE) for file, _ in step.writes)


def run(t: Threads, step: Step, mask: Array) -> None:
    """Runs an instruction, and notes what of its results is not defined."""
    if passes(step) and any((file, number) in t.undefined for file, number, _ in step.reads):
        _computed(t, step, mask)
        return
    for place in step.writes:
        t.undefined.clear(place, mask)
    step.run(t, mask)


def guarded(t: Threads, step: Step, mask: Array) -> None:
    """What an instruction may or may not have written, as its guard is not defined."""
    for file, number, _ in step.guards:
        if (file, number) in t.undefined:
            lanes = mask & t.undefined.of((file, number))
            for place in step.writes:
                t.undefined.forget(place, lanes)


def _computed(t: Threads, step: Step, mask: Array) -> None:
    """Runs an instruction with sources that have undefined bits; notes which results have."""
    sources = [_source(t, place) for place in _touched(t, step)]
    rows = [_row(t, place) for place in step.writes]
    before = [row.copy() for row in rows]
    outcomes = []
    for _ in _fillings(t, step, sources):
        step.run(t, mask)
        outcomes.append([row.copy() for row in rows])
        for row, old in zip(rows, before, strict=True):
            row[:] = old
    for source in sources:
        source.row[:] = source.before
    step.run(t, mask)
    for number, (place, row) in enumerate(zip(step.writes, rows, strict=True)):
        changes = np.zeros_like(row)
        for outcome in outcomes:
            changes |= outcome[number] ^ row
        t.undefined.put(place, changes, mask)


def _touched(t: Threads, step: Step) -> list[Place]:
    """The sources that have undefined bits, each once."""
    return [place for place in dict.fromkeys((f, r) for f, r, _ in step.reads)
            if place in t.undefined]  # fmt: skip


def _row(t: Threads, place: Place) -> Array:
    file, register = place
    if file == UNIFORM:
        return np.asarray(t.uniforms[register])
    return np.asarray(t.registers[register] if file == REGISTER else t.predicates[register])


def _source(t: Threads, place: Place) -> _Source:
    row = _row(t, place)
    return _Source(row, t.undefined.of(place), row.copy())


def _fillings(t: Threads, step: Step, sources: list[_Source]) -> Iterator[None]:
    """Fills the sources in several ways: none, all, what other operands have, random bits."""
    registers = [s for s in sources if s.row.dtype != np.bool_]
    predicates = [s for s in sources if s.row.dtype == np.bool_]
    draw = np.random.default_rng(_SEED)
    same: list[Array | np.uint32] = [np.uint32(0), np.uint32(_WORD - 1)]
    same += [np.uint32(value) for value in step.values]
    same += [t.registers[number].copy() for file, number, _ in step.reads if file == REGISTER]
    fills = [[value] * len(registers) for value in same] if registers else [[], []]
    if registers:
        for _ in range(_DRAWN):
            shape = len(registers), t.count
            fills.append(list(draw.integers(0, _WORD, shape, np.uint32)))
    several = 1 << min(len(predicates), _MOST_PREDICATES)
    for fill in fills:
        for turn in range(several):
            for source, value in zip(registers, fill, strict=True):
                source.fill(value)
            for at, source in enumerate(predicates):
                source.fill(bool(turn >> at % _MOST_PREDICATES & 1))
            yield

"""BAR, fences, asynchronous copies' groups, and convergence barriers as numbers.

A fence orders nothing here: what a thread stores is seen at once, by all.
src: Mesa sm70_encode.rs (BAR, MEMBAR, CCTL, BMOV); bits of the other forms measured: flips of words
of nvrtc 13.5 as nvdisasm 13.5 prints them
"""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array
from boards.nv.isa.control import Control
from boards.nv.warp.barrier import AND, BARRIERS, OR, POPC
from boards.nv.warp.build import Action, Builder, Source
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.flow import release
from boards.nv.warp.integer import out, predicate
from boards.nv.warp.state import AT_BARRIER, Threads

_SYNC, _ARRIVE, _REDUCE = range(3)
_BOTH, _COUNT_REGISTER, _NUMBER_REGISTER, _NEITHER = 1, 4, 2, 5
"""Forms: which of number and count a register has."""
_COUNT_LOW = 16
_COUNT_MASK = 0xFFF
_GLOBAL_LINES = (0, 1, 2, 3, 5, 9, 10, 11)
_ALL_LINES = 4


def _number_and_count(build: Builder) -> tuple[Source, Source]:
    """A register has the number in its low half and the count in its high one.

    measured: nvrtc 13.5 builds both in one register for `bar.sync a, b`
    """
    form = build.form
    if form not in (_BOTH, _COUNT_REGISTER, _NUMBER_REGISTER, _NEITHER):
        raise NotModelled(f"BAR form {form}")
    number, fixed = build.take(54, 4), build.take(42, 12)
    register = ZERO if form == _NEITHER else build.gpr(32)

    def number_of(t: Threads) -> Array:
        if form in (_BOTH, _NUMBER_REGISTER):
            return np.asarray(t.registers[register].astype(np.int64) & (BARRIERS - 1))
        return np.full(t.count, number, np.int64)

    def count_of(t: Threads) -> Array:
        if form in (_BOTH, _COUNT_REGISTER):
            count = t.registers[register].astype(np.int64) >> _COUNT_LOW
            return np.asarray(count & _COUNT_MASK)
        return np.full(t.count, fixed, np.int64)

    return number_of, count_of


def bar(build: Builder) -> Action:
    """BAR.SYNC, BAR.ARV, BAR.RED."""
    build.take(80)
    mode, operation = build.take(77, 3), build.take(74, 2)
    number, count = _number_and_count(build)
    vote = build.predicate_in(87, 90) if mode == _REDUCE else None
    if mode not in (_SYNC, _ARRIVE, _REDUCE) or operation not in (POPC, AND, OR):
        raise NotModelled(f"BAR of kind {mode}.{operation}")
    if mode != _REDUCE and operation:
        raise NotModelled("an operation of BAR without .RED")
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        which = number(t)
        if mode == _ARRIVE:
            t.barriers.arrive(which, mask)
            release(t)
            return
        t.barriers.sync(which, count(t), mask)
        if vote is not None:
            t.barriers.reduce(operation, vote(t), mask)
        t.waits[mask] = AT_BARRIER
        release(t)

    return run


def b2r(build: Builder) -> Action:
    """B2R.RESULT: what the last BAR.RED of a thread found."""
    build.only(78, 1, 1)
    write, some = out(build, uniform=False), predicate(build, 81)
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        write(t, t.barriers.result, mask)
        some(t, t.barriers.result != 0, mask)

    return run


def membar(build: Builder) -> Action:
    """MEMBAR, of every scope."""
    build.only(76, 3, 0, 1, 2, 3)
    build.only(79, 2, 0, 1)
    build.latency = "control"
    return lambda t, mask: None


def errbar(build: Builder) -> Action:
    """ERRBAR: errors of earlier accesses are reported before it; here each is at once."""
    build.latency = "control"
    return lambda t, mask: None


def cctl(build: Builder) -> Action:
    """CCTL: what a cache should do; no cache is modelled."""
    build.take(72)
    build.take(78, 3)
    operation = build.take(87, 4)
    if operation != _ALL_LINES and operation not in _GLOBAL_LINES:
        raise NotModelled(f"CCTL operation {operation}")
    build.gpr(24)
    build.take(32, 32)
    build.take(81, 3)
    build.latency = "control"
    return lambda t, mask: None


def ldgdepbar(build: Builder) -> Action:
    """LDGDEPBAR: copies that were begun are a group, which its scoreboard counts."""
    scoreboard = Control.of(build.word).write_barrier
    build.latency = "control"
    return lambda t, mask: t.copies.close(mask, scoreboard)


def depbar(build: Builder) -> Action:
    """DEPBAR.LE: wait until no more than some groups are left."""
    build.only(47, 1, 1)
    build.only(32, 6, 0)
    scoreboard, left = build.take(44, 3), build.take(38, 6)
    if not left:
        build.waits = 1 << scoreboard
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        if t.copies.scoreboards >> scoreboard & 1:
            t.copies.arrive(mask, left)

    return run


def bmov_out(build: Builder) -> Action:
    """BMOV.32 of a convergence barrier to a register, and .CLEAR."""
    number, clear = build.take(24, 6), build.take(84)
    if number >= BARRIERS:
        raise NotModelled(f"BMOV of register {number} of the branch unit")
    write = out(build, uniform=False)
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        write(t, t.partners[number], mask)
        if clear:
            t.partners[number][mask] = 0

    return run


def bmov_in(build: Builder) -> Action:
    """BMOV.32 of a register to a convergence barrier."""
    number, source = build.take(24, 6), build.gpr(32)
    if number >= BARRIERS:
        raise NotModelled(f"BMOV of register {number} of the branch unit")
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        t.partners[number][mask] = t.registers[source, mask]

    return run

"""Branches, convergence barriers, calls, block barriers, and the end of a thread.

src: Mesa sm70_encode.rs (bits). How silicon orders threads that parted is not published: here they
wait at BSYNC for all lanes that ran the BSSY with them.
"""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array
from boards.nv.isa.decode import WORD_BYTES
from boards.nv.launch import ILLEGAL_INSTRUCTION, SmException
from boards.nv.warp.build import Action, Builder, Source
from boards.nv.warp.state import AT_BARRIER, AT_CONVERGENCE, AT_WARPSYNC, LANES, RUNNING, Threads

_ALL_LANES = (1 << LANES) - 1
_LAST_OF_SIX_BITS = 63
_RELIABLE = 72
"""Of Blackwell's BSSY and BSYNC: .RELIABLE, and .RECONVERGENT above it: here all of them wait.
measured: nvdisasm 13.5, which prints their names"""
_UNIFORM_FORM = 2
"""Of BRA.U, with a uniform predicate at 24. measured: nvdisasm 13.5, sm_100 and sm_120"""


def _distance(build: Builder, width: int, *, split: bool = False) -> int:
    """Where a branch leads: words of 4 bytes from the next instruction.

    measured: nvdisasm 13.5: Hopper and Blackwell keep the low eight bits of BRA and CALL at 16
    """
    words = build.signed(34, width)
    if split and build.arch.family in ("hopper", "blackwell"):
        words = words << 8 | build.take(16, 8)
    return build.offset + WORD_BYTES + (words << 2)


def exit_(build: Builder) -> Action:
    """EXIT: threads end."""
    when = build.predicate_in(87, 90)
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        t.alive &= ~(mask & when(t))
        release(t)

    return run


def bra(build: Builder) -> Action:
    """BRA: threads go elsewhere."""
    target, when = _distance(build, 48, split=True), build.predicate_in(87, 90)
    if build.form == _UNIFORM_FORM:
        build.only(32, 1, 1)
        build.take(91)
        warps = build.predicate_in(24, 27, uniform=True)
    elif build.take(33):
        return _where_parted(build, target, when)
    else:
        _unanimous(build)
        warps = when
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        t.pc[mask & when(t) & warps(t)] = target

    return run


def _unanimous(build: Builder) -> None:
    """BRA.U of Turing, bit 32: the lanes that run it agree. measured: nvrtc 13.5 has it behind
    VOTE.ANY and VOTEU.ANY, whose masks it compares."""
    if build.arch.family == "turing":
        build.take(32)


def _where_parted(build: Builder, target: int, when: Source) -> Action:
    """BRA.DIV: elsewhere if a lane of a mask is not here and has not ended; .CONV: if all are.

    measured: nvdisasm 13.5: the mask is a uniform register, or its opposite with bit 30 behind a
    number of six bits, with bit 82 on Blackwell; without one (Turing) that of all lanes is taken
    """
    masked, inverted, whole = bool(build.take(91)), True, bool(build.take(32))
    number = build.arch.uniform_zero
    if masked and number == _LAST_OF_SIX_BITS:
        number, inverted = build.uniform_source(24, 6), bool(build.take(30))
    elif masked:
        number, inverted = build.uniform_source(24), bool(build.take(82))
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        lanes = t.uniforms[number].astype(np.uint64)
        lanes = lanes ^ np.uint64(_ALL_LANES) if inverted else lanes
        parted = lanes & t.lanes(t.alive) & ~t.lanes(mask) != 0
        t.pc[mask & when(t) & (parted ^ whole)] = target

    return run


def call(build: Builder) -> Action:
    """CALL.REL.NOINC: code has put the way back into a register; a form has a register's part."""
    build.only(86, 1, 1)
    if build.form == 1:
        return _indirect(build)
    build.only(9, 3, 4)
    return bra(build)


def ret(build: Builder) -> Action:
    """RET.REL.NODEC: to a register's distance from the start of the code; .ABS: to an address.

    measured: nvdisasm 13.5: bit 85 is .ABS
    """
    build.only(86, 1, 1)
    return _indirect(build, absolute=bool(build.take(85)))


def brx(build: Builder) -> Action:
    """BRX: to a distance that a register has a part of."""
    return _indirect(build)


def call_absolute(build: Builder) -> Action:
    """CALL.ABS.NOINC: to an address of a register, or of the word, in units of 4 bytes.

    measured: nvdisasm 13.5: bits 34 to 80; Hopper and Blackwell have the low eight bits at 16
    """
    build.only(86, 1, 1)
    if build.form == 1:
        return _indirect(build, absolute=True)
    build.only(9, 3, 4)
    words, when = build.take(34, 47), build.predicate_in(87, 90)
    if build.arch.family in ("hopper", "blackwell"):
        words = words << 8 | build.take(16, 8)
    target = words << 2
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        t.pc[mask & when(t)] = target - t.launch.code_va

    return run


def _indirect(build: Builder, *, absolute: bool = False) -> Action:
    base, number = (0 if absolute else _distance(build, 48, split=True)), build.gpr(24, count=2)
    when = build.predicate_in(87, 90)
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        words = t.registers[number : number + 2].astype(np.int64)
        taken, start = mask & when(t), t.launch.code_va if absolute else 0
        t.pc[taken] = (base - start + (words[0] | words[1] << 32))[taken]

    return run


def bssy(build: Builder) -> Action:
    """BSSY: the lanes that run this meet again at a BSYNC."""
    number, when = build.take(16, 4), build.predicate_in(87, 90)
    build.take(_RELIABLE, 2)
    _distance(build, 30)
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        taken = mask & when(t)
        np.copyto(t.partners[number], t.lanes(taken), where=taken)

    return run


def break_(build: Builder) -> Action:
    """BREAK: the lanes that run this are no longer waited for at a convergence barrier."""
    number, when = build.take(16, 4), build.predicate_in(87, 90)
    build.take(_RELIABLE)
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        gone = t.lanes(mask & when(t))
        t.partners[number] &= ~gone
        release(t)

    return run


def bsync(build: Builder) -> Action:
    """BSYNC: wait for the lanes of the BSSY."""
    number, when = build.take(16, 4), build.predicate_in(87, 90)
    build.take(_RELIABLE, 2)
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        taken = mask & when(t)
        t.waits[taken] = AT_CONVERGENCE + number
        t.yielded[taken] = False
        release(t)

    return run


def _every_lane(t: Threads) -> Array:
    return np.full(t.count, _ALL_LANES, np.uint64)


def warpsync(build: Builder) -> Action:
    """WARPSYNC: wait for the lanes of a mask; .ALL: for all of the warp.

    .COLLECTIVE goes on with the next instructions up to ENDCOLLECTIVE, then at its target.
    measured: nvdisasm 13.5: bit 86; nvrtc 13.5 has the target behind ENDCOLLECTIVE
    """
    newer = build.arch.family in ("hopper", "blackwell")
    if newer and build.take(86):
        _distance(build, 48, split=True)
    ours = newer and (build.a() if build.form == 1 else _every_lane)
    lanes = ours or build.b()
    when = build.predicate_in(87, 90)
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        taken = mask & when(t)
        np.copyto(t.sync_mask, lanes(t).astype(np.uint64), where=taken)
        t.waits[taken] = AT_WARPSYNC
        release(t)

    return run


def trap(build: Builder) -> Action:
    """BPT.TRAP: the code stops itself. Its own code of the error is not published."""
    build.only(84, 3, 3)
    build.take(34, 20)
    build.latency = "control"

    def run(t: Threads, mask: Array) -> None:
        why = "BPT.TRAP: the code stops itself"
        raise SmException(ILLEGAL_INSTRUCTION, t.launch.code_va + build.offset, why)

    return run


def release(t: Threads) -> None:
    """Let everyone go on whose partners have all come or ended."""
    kinds = np.unique(t.waits[t.alive])
    for kind in kinds[kinds != RUNNING]:
        waiting = t.alive & (t.waits == kind)
        if kind == AT_BARRIER:
            free, met = t.barriers.free(waiting, t.alive)
            if met.any():
                t.touched.barrier(met)
        else:
            row = t.sync_mask if kind == AT_WARPSYNC else t.partners[kind - AT_CONVERGENCE]
            free = waiting & (row & t.lanes(t.alive & ~waiting) == 0)
        t.waits[free] = RUNNING


def clear_yielded(t: Threads) -> None:
    """Convergence barriers at which only lanes are missing that ran YIELD are cleared.

    src: US patent 10067768, claim 1: participating threads are synchronized when each is blocked
    at the barrier or in the yielded state. When silicon does so is not published.
    """
    kinds = np.unique(t.waits[t.alive])
    for number in kinds[kinds >= AT_CONVERGENCE] - AT_CONVERGENCE:
        waiting, row = t.alive & (t.waits == AT_CONVERGENCE + number), t.partners[number]
        missing = row & t.lanes(t.alive & ~waiting)
        free = waiting & (missing & ~t.lanes(t.yielded) == 0)
        t.waits[free] = RUNNING
        gone = t.lanes(free)
        np.copyto(row, row & ~gone, where=t.alive & ~free & (gone != 0))


def yield_(build: Builder) -> Action:
    """YIELD: others may go first."""
    run = nothing(build)

    def yields(t: Threads, mask: Array) -> None:
        run(t, mask)
        t.yielded |= mask

    return yields


def nothing(build: Builder) -> Action:
    """NOP, NANOSLEEP: time passes."""
    build.take(32, 32)
    build.take(85, 2)
    build.take(87, 4)
    build.take(24, 8)
    build.latency = "control"
    return lambda t, mask: None


def describe_stuck(t: Threads) -> str:
    """Who waits, when nobody runs."""
    waiting = np.flatnonzero(t.alive)
    first = int(waiting[0])
    kind = int(t.waits[first])
    name = {AT_BARRIER: "BAR.SYNC", AT_WARPSYNC: "WARPSYNC"}.get(kind, "BSYNC")
    if kind == AT_BARRIER:
        name += f" {int(t.barriers.number[first])}"
    block = t.block == t.block[first]
    same = block & t.alive & (t.waits == kind) & (t.barriers.number == t.barriers.number[first])
    here, living = (len(np.unique(t.warp[x])) for x in (same, block & t.alive))
    return (
        f"{name} before {int(t.pc[first]):#x}: {len(waiting)} threads wait, lane {first % LANES};"
        f" of its block {here} of {living} warps that have not ended"
    )

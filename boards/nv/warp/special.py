"""Special registers, votes and shuffles.

src: PTX ISA, shfl and vote; numbers of special registers measured: names that nvdisasm 13.5 prints
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder, Source
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.integer import out, predicate
from boards.nv.warp.state import LANES, Threads

_LANE, _TID, _CTAID, _IN_CLUSTER, _ZERO = 0x00, 0x21, 0x25, 0x88, 0xFF
_VOTE_ALL, _VOTE_ANY, _VOTE_EQUAL = range(3)
_LANE_MASK = LANES - 1
_ONES = 0xFFFFFFFF
_REGISTERS, _CLAMP, _BY, _IMMEDIATES = 1, 2, 4, 7
"""Forms of SHFL: which of its numbers are immediates."""
_EQUAL_MASK, _LESS_MASK = 0x38, 0x39
_MASKS = (_EQUAL_MASK, _LESS_MASK, 0x3A, 0x3B, 0x3C)
"""Lanes equal, below, below or equal, above, above or equal."""
_SHARED_WINDOW = 0x2F
"""SR_SWINHI: the high word of addresses in the window of shared memory."""
_WARP, _SM, _CLOCK, _TIMER = 0x03, 0x43, 0x50, 0x52
_WARP_LOW = 8
"""Of SR_VIRTID. measured: nvrtc 13.5 takes %warpid from its bits 8 to 14."""


def _special(number: int) -> Source:
    """A special register by its number."""
    if number == _LANE:
        return lambda t: t.lane
    if number in (_ZERO, _IN_CLUSTER):
        return lambda t: np.zeros(t.count, np.uint32)
    if number == _SHARED_WINDOW:
        return lambda t: np.full(t.count, t.launch.shared_window >> 32, np.uint32)
    if number in _MASKS:
        return lambda t: _lanes_of(number, t)
    if number == _WARP:
        return lambda t: (t.warp - 1).astype(np.uint32) << np.uint32(_WARP_LOW)
    if number == _SM:
        return lambda t: np.zeros(t.count, np.uint32)
    for first in (_CLOCK, _TIMER):
        if first <= number < first + 2:
            return lambda t: np.full(t.count, t.cycles >> 32 * (number - first) & _ONES, np.uint32)
    for first, of in ((_TID, _thread), (_CTAID, _block)):
        if first <= number < first + 3:
            return of(number - first)
    raise NotModelled(f"special register {number:#x}")


def _lanes_of(number: int, t: Threads) -> Array:
    own = np.uint32(1) << t.lane
    below = own - np.uint32(1)
    return (own, below, own | below, ~(own | below), ~below)[number - _EQUAL_MASK]


def _digit(value: Array, sizes: tuple[int, int, int], axis: int) -> Array:
    """One of three coordinates of a number."""
    for size in sizes[:axis]:
        value = value // size
    return (value % sizes[axis]).astype(np.uint32)


def _thread(axis: int) -> Source:
    return lambda t: _digit(t.thread, t.launch.block, axis)


def _block(axis: int) -> Source:
    return lambda t: _digit(t.block_id, t.launch.grid, axis)


def s2r(build: Builder, *, uniform: bool = False) -> Action:
    """S2R, S2UR: a special register; a lane's own is none that a warp may have."""
    number = build.take(72, 8)
    if uniform and (number in (_LANE, *_MASKS) or _TID <= number < _TID + 3):
        raise NotModelled(f"S2UR of special register {number:#x}")
    source, write = _special(number), out(build, uniform=uniform)
    build.latency = "variable"
    return lambda t, mask: write(t, source(t), mask)


def cs2r(build: Builder) -> Action:
    """CS2R: one that is near, in a fixed time."""
    first = build.take(72, 8)
    pairs = first in (_CLOCK, _TIMER)
    sources = [_special(first), _special(first + 1 if pairs else _ZERO)]
    count = 2 if build.take(80) else 1
    number = build.gpr_out(count=count)
    build.latency = "disp64" if count > 1 else "alu"

    def run(t: Threads, mask: Array) -> None:
        for part in range(count):
            t.put(number + part, sources[part](t), mask)

    return run


def cs2ur(build: Builder) -> Action:
    """CS2UR, CS2UR.32 of Blackwell: a special register that is near, to uniform ones."""
    first = build.take(72, 8)
    count = 2 if build.take(80) else 1
    pairs = first in (_CLOCK, _TIMER)
    sources = [_special(first), _special(first + 1 if pairs else _ZERO)]
    number = build.uniform_out(count)
    build.latency = "udp"

    def run(t: Threads, mask: Array) -> None:
        for part in range(count):
            t.put_uniform(number + part, sources[part](t), mask)

    return run


def elect(build: Builder) -> Action:
    """ELECT: of the lanes that run it and have its predicate, the first one; its number.

    src: PTX ISA, elect.sync
    """
    given, some = build.predicate_in(87, 90), predicate(build, 81)
    write = out(build, uniform=True)
    build.latency = "umov"

    def run(t: Threads, mask: Array) -> None:
        those = (mask & given(t)).reshape(-1, LANES)
        first = np.repeat(those.argmax(axis=1), LANES).astype(np.uint32)
        write(t, first, mask)
        some(t, (t.lane == first) & given(t), mask)

    return run


def _voted(t: Threads, found: Array, mask: Array, operation: int) -> Array:
    ours, those = t.lanes(mask), t.lanes(mask & found)
    if operation == _VOTE_ALL:
        return np.equal(ours, those)
    some = np.not_equal(those, 0)
    return some if operation == _VOTE_ANY else ~some | np.equal(ours, those)


def vote(build: Builder, *, uniform: bool = False) -> Action:
    """VOTE, VOTEU: what the lanes that run this say of a predicate."""
    operation = build.take(72, 2)
    if operation > _VOTE_EQUAL:
        raise NotModelled(f"VOTE operation {operation}")
    given = build.predicate_in(87, 90)
    write, answer = out(build, uniform=uniform), predicate(build, 81, uniform=uniform)
    build.only(91, 1, 0)
    build.latency = "umov" if uniform else "alu"

    def run(t: Threads, mask: Array) -> None:
        found = given(t)
        write(t, t.lanes(mask & found).astype(np.uint32), mask)
        answer(t, _voted(t, found, mask, operation), mask)

    return run


def _shuffled(operation: int, lane: Array, by: Array, clamp: Array) -> tuple[Array, Array]:
    """(lane that is read, whether it is inside). src: PTX ISA, shfl, its own program"""
    segment, bound = clamp >> 8 & _LANE_MASK, clamp & _LANE_MASK
    low = lane & segment
    high = low | bound & ~segment
    if operation == 0:
        from_ = low | by & ~segment & _LANE_MASK
        return from_, from_ <= high
    if operation == 1:
        return lane - by, lane - by >= high
    from_ = lane + by if operation == 2 else lane ^ by
    return from_, from_ <= high


def shfl(build: Builder, report: Callable[[str], None]) -> Action:
    """SHFL with immediates or registers: a word of another lane."""
    form = build.form
    source = build.gpr(24)
    if form not in (_REGISTERS, _CLAMP, _BY, _IMMEDIATES):
        raise NotModelled(f"SHFL form {form}")
    fixed = form in (_BY, _IMMEDIATES), form in (_CLAMP, _IMMEDIATES)
    by = build.take(53, 5) if fixed[0] else build.gpr(32)
    clamp = build.take(40, 13) if fixed[1] else build.gpr(64)
    operation, inside = build.take(58, 2), predicate(build, 81)
    write = out(build, uniform=False)
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        given = [
            np.full(t.count, x, np.int64) if is_fixed else t.registers[x].astype(np.int64)
            for x, is_fixed in zip((by, clamp), fixed, strict=True)
        ]
        lane = t.lane.astype(np.int64)
        from_, good = _shuffled(operation, lane, given[0] & _LANE_MASK, given[1])
        from_ = np.where(good, from_, lane)
        at = np.arange(t.count) - lane + from_
        if (mask & ~mask[at]).any():
            report("SHFL of a lane that does not run it")
        write(t, t.registers[source][at], mask)
        inside(t, good, mask)

    return run

"""Atomics: ATOMG, ATOM and RED on global memory, ATOMS on shared memory.

Lanes that meet at one address go one after the other, in the order that the executor's draw gives;
silicon promises none. src: Mesa sm70_encode.rs: type 73 to 75, operation 87 to 90, descriptor 64;
measured: flips of words of nvrtc 13.5 as nvdisasm 13.5 prints them, for each family
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.nv.space import ATOMIC
from boards.nv.warp.access import Address, own_address, short_address, wide_address
from boards.nv.warp.atomic_changes import ADD, CAST, COMPARE, SINGLE, Atomic, size_of
from boards.nv.warp.build import UNIFORM, Action, Builder
from boards.nv.warp.fields import TRUE, ZERO, NotModelled
from boards.nv.warp.generic import GLOBAL, LOCAL, SHARED, low, split
from boards.nv.warp.integer import Write, predicate
from boards.nv.warp.memory import OUT_OF_RANGE, GlobalMemory, Lanes
from boards.nv.warp.shared import Own, check_aligned, fail
from boards.nv.warp.state import Threads

_TYPES: Final = {0: "u4", 1: "i4", 2: "u8", 3: "f4", 4: "h2", 5: "i8", 6: "f8"}
_WHOLE: Final = {0: "u4", 1: "i4", 2: "u8", 3: "i8"}
"""Since Hopper, whose floats have opcodes of their own."""
_FLOATS: Final = {0: "h2", 3: "b2", 9: "f4", 12: SINGLE, 15: "f8"}
_FLOAT_OPCODES: Final = (0x1A2, 0x1A3, 0x1A6)
_RED_OPCODES: Final = (0x18E, 0x1A6)
_OPCODE: Final = 0x1FF
_ORDERS, _ORDERS_NEWER = 11, 16
_POPC: Final = {"turing": 0xA, "ampere": 0xA, "hopper": 0xB, "blackwell": 0xB}
_TO_PREDICATE = 2
"""The form of ATOMS.CAST whose result is a predicate: Blackwell."""
Report = Callable[[str], None]


def _operand(t: Threads, number: int, dtype: np.dtype[np.generic], lanes: Array) -> Array:
    if number == ZERO:
        return np.zeros(len(lanes), dtype)
    words = t.registers[number : number + dtype.itemsize // 4, lanes]
    return np.ascontiguousarray(words.T).view(dtype).ravel()


def _store(t: Threads, number: int, found: Array, lanes: Array) -> None:
    if number != ZERO:
        words = np.ascontiguousarray(found).view(np.uint32).reshape(len(lanes), -1)
        t.registers[number : number + words.shape[1], lanes] = words.T


def _order(t: Threads, lanes: Array) -> Array:
    """The order in which lanes that meet go: theirs, or a drawn one."""
    return lanes if t.draw is None else t.draw.permutation(lanes)


def _on_global(
    memory: GlobalMemory, atomic: Atomic, addresses: Array, one: Array, two: Array
) -> Array:
    found = np.empty(len(addresses), atomic.dtype)
    size = atomic.dtype.itemsize
    for which, data, at in list(memory.spans(addresses, size, ATOMIC)):
        numbers = data[: len(data) // size * size].view(atomic.dtype)
        found[which] = atomic.run(numbers, at // size, one[which], two[which])
    return found


def _own(build: Builder, report: Report, nbytes: int) -> Own:
    return Own(local=False, nbytes=nbytes, offset=build.offset, report=report)


def _on_shared(
    t: Threads, own: Own, atomic: Atomic, lanes: Array, addresses: Array, one: Array, two: Array
) -> Array:  # fmt: skip
    numbers, places = own.places(t, lanes, addresses)
    return atomic.run(numbers.view(atomic.dtype), places, one, two)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What a generic address reaches beside global memory."""

    own: Own
    done: Write | None
    """The predicate that says whether the change was made; without it, all must be."""


def _newer(build: Builder) -> bool:
    return build.arch.family in ("hopper", "blackwell")


def _order_and_priority(build: Builder) -> None:
    build.only(72, 1, 1)
    if build.take(77, 4) >= (_ORDERS_NEWER if build.arch.family == "blackwell" else _ORDERS):
        raise NotModelled("order of an access")
    build.take(84, 3)


def _kind(build: Builder) -> str:
    """The type; bit 76 is another field on Blackwell, but for floats."""
    floats = build.word & _OPCODE in _FLOAT_OPCODES
    types = _FLOATS if floats else _WHOLE if _newer(build) else _TYPES
    number = build.take(73, 4 if floats or build.arch.family != "blackwell" else 3)
    if number not in types:
        raise NotModelled(f"an atomic of type {number}")
    return types[number]


def _address(build: Builder) -> Address:
    """Where in global memory: a pair of registers, and a pair of uniform ones if they are added.

    Turing's uniform registers are added; later ones hold a descriptor, or are added where a bit is
    0: 71, and on Blackwell 81 of RED, 90 of floats, 76 of others.
    """
    number = build.word & _OPCODE
    red, family = number in _RED_OPCODES, build.arch.family
    blackwell = family == "blackwell"
    if blackwell and not red:
        build.only(63, 1, 1)
    plain = wide_address(build, width=23 if blackwell and not red else 24)
    uniform, adds = bool(build.take(91)), family == "turing"
    if red and build.take(90) != uniform:
        if family != "turing" or not uniform:
            raise NotModelled("a global address of 32 bits")
        plain = short_address(build)
    if not uniform:
        build.take(64, 8)
        return plain
    if not adds:
        place = 71 if not blackwell else 81 if red else 90 if number in _FLOAT_OPCODES else 76
        adds = not build.take(place)
    first = build.take(64, 8 if blackwell else 6)
    build.take(70, 2)
    if first == build.arch.uniform_zero:
        return plain
    build.reads += [(UNIFORM, first, 0), (UNIFORM, first + 1, 0)]
    return _added(plain, first) if adds else plain


def _added(plain: Address, first: int) -> Address:
    def of(t: Threads, lanes: Lanes) -> Array:
        words = t.uniforms[first : first + 2, lanes].astype(np.int64)
        base: Array = words[0] | words[1] << 32
        return np.add(plain(t, lanes), base)

    return of


def _global(
    build: Builder, memory: GlobalMemory, address: Address, atomic: Atomic, number: int,
    sources: tuple[int, int], *, shared: _Shared | None = None,
) -> Action:  # fmt: skip
    offset = build.offset
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        lanes = _order(t, np.flatnonzero(mask))
        addresses = address(t, lanes)
        check_aligned(t, addresses, atomic.dtype.itemsize, offset)
        one, two = (_operand(t, source, atomic.dtype, lanes) for source in sources)
        if shared is None:
            _store(t, number, _on_global(memory, atomic, addresses, one, two), lanes)
            return
        done = np.zeros(t.count, bool)
        for where, part in split(t, addresses):
            given = one[part], two[part]
            if where == GLOBAL:
                found = _on_global(memory, atomic, addresses[part], *given)
            elif where == SHARED and (atomic.shared or shared.done is None):
                at = low(addresses[part])
                found = _on_shared(t, shared.own, atomic, lanes[part], at, *given)
            elif shared.done is None:
                raise fail(t, offset, OUT_OF_RANGE, int(addresses[part][0]), "local atomic")
            else:
                continue
            done[lanes[part]] = True
            _store(t, number, found, lanes[part])
        if shared.done is not None:
            shared.done(t, done, mask)

    return run


def _reached(build: Builder, nbytes: int, report: Report, *, generic: bool) -> _Shared | None:
    """Of ATOM; its predicate is false where the change is not made: nvrtc 13.5 then asks QSPC.

    measured: code of nvrtc for atomics of 64 bits and of floats on generic addresses
    """
    if not generic:
        build.only(81, 3, TRUE)
        return None
    own = _own(build, report, nbytes)
    return _Shared(own, predicate(build, 81) if build.take(81, 3) != TRUE else None)


def atomg(build: Builder, memory: GlobalMemory, report: Report, *, generic: bool = False) -> Action:
    """ATOMG, ATOM: global memory changed, and what was there."""
    kind = _kind(build)
    floats = build.word & _OPCODE in _FLOAT_OPCODES
    operation = build.take(87, 3 if floats and build.arch.family == "blackwell" else 4)
    _order_and_priority(build)
    size = size_of(kind)
    address, data = _address(build), build.gpr(32, 1, size)
    shared, number = _reached(build, 4 * size, report, generic=generic), build.gpr_out(count=size)
    atomic = Atomic(kind, operation, silent=number == ZERO)
    return _global(build, memory, address, atomic, number, (data, ZERO), shared=shared)


def red(build: Builder, memory: GlobalMemory) -> Action:
    """RED, REDG: global memory changed."""
    kind, operation = _kind(build), build.take(87, 3)
    _order_and_priority(build)
    address, data = _address(build), build.gpr(32, 1, size_of(kind))
    build.only(81, 3, *((0, 1) if build.arch.family == "blackwell" else (0,)))
    atomic = Atomic(kind, operation, silent=True)
    return _global(build, memory, address, atomic, ZERO, (data, ZERO))


def atomg_cas(
    build: Builder, memory: GlobalMemory, report: Report, *, generic: bool = False
) -> Action:
    """ATOMG.CAS, ATOM.CAS: replaced where it is what a register says; .CAST: whether it was."""
    kind, cast = _kind(build), build.take(87)
    build.take(88)
    _order_and_priority(build)
    size, address = size_of(kind), wide_address(build)
    shared = _reached(build, 4 * size, report, generic=generic)
    sources, number = (build.gpr(32, 1, size), build.gpr(64, 2, size)), build.gpr_out(count=size)
    if cast:
        raise NotModelled("CAST of global memory")
    atomic = Atomic(kind, COMPARE, silent=number == ZERO)
    return _global(build, memory, address, atomic, number, sources, shared=shared)


def qspc(build: Builder) -> Action:
    """QSPC.E: whether a generic address is one of global, local or shared memory.

    .D asks for the shared memory of other blocks of a cluster: none here.
    """
    build.only(72, 1, 1)
    wanted = build.take(73, 2)
    address, found = wide_address(build), predicate(build, 81)
    build.only(16, 8, ZERO)
    build.latency = "variable"
    places = (GLOBAL, LOCAL, SHARED)

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        yes = np.zeros(t.count, bool)
        for where, part in split(t, address(t, lanes)):
            yes[lanes[part]] = wanted < len(places) and places[wanted] == where
        found(t, yes, mask)

    return run


def _shared_kind(build: Builder, width: int) -> str:
    number = build.take(73, width)
    if number not in (0, 1, 2):
        raise NotModelled(f"an atomic of type {number}")
    return _WHOLE[number]


def _no_third(build: Builder) -> None:
    """Bits 64 to 71 hold a uniform register, if bit 91 says so; Turing has RZ there."""
    if not build.take(91):
        build.only(64, 8, 0, ZERO)


def _shared(
    build: Builder, report: Report, operation: int, kind: str, number: int,
    sources: tuple[int, int], stored: Write | None = None,
) -> Action:  # fmt: skip
    atomic = Atomic(kind, operation, silent=number == ZERO and stored is None)
    own, address = _own(build, report, atomic.dtype.itemsize), own_address(build, uniform=64)
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        lanes = _order(t, np.flatnonzero(mask))
        one, two = (_operand(t, source, atomic.dtype, lanes) for source in sources)
        found = _on_shared(t, own, atomic, lanes, address(t, lanes), one, two)
        if operation == CAST:
            found = (found == one).astype(atomic.dtype)
        if stored is None:
            _store(t, number, found, lanes)
        else:
            yes = np.zeros(t.count, bool)
            yes[lanes] = found != 0
            stored(t, yes, mask)

    return run


def atoms(build: Builder, report: Report) -> Action:
    """ATOMS: shared memory changed."""
    kind, operation = _shared_kind(build, 3), build.take(87, 4)
    size = size_of(kind)
    data = build.gpr(32, 1, size)
    _no_third(build)
    return _shared(build, report, operation, kind, build.gpr_out(count=size), (data, ZERO))


def atoms_cas(build: Builder, report: Report) -> Action:
    """ATOMS.CAS and .CAST: the latter gives 1 where it stored.

    measured: nvrtc 13.5 compares the result of .CAST with 1 and tries again
    """
    kind, cast = _shared_kind(build, 2), build.take(87, 1)
    build.take(88)
    size = size_of(kind)
    sources = build.gpr(32, 1, size), build.gpr(64, 2, size)
    operation = CAST if cast else COMPARE
    if build.form == _TO_PREDICATE:
        if not cast or build.arch.family != "blackwell":
            raise NotModelled("CAS to a predicate")
        build.only(16, 8, 0)
        stored = predicate(build, 81)
        return _shared(build, report, operation, kind, ZERO, sources, stored)
    return _shared(build, report, operation, kind, build.gpr_out(count=size), sources)


def atoms_count(build: Builder, report: Report) -> Action:
    """ATOMS.POPC.INC.32 without a result: one more for each lane."""
    build.only(73, 2, 0)
    build.only(87, 4, _POPC[build.arch.family])
    build.only(16, 8, ZERO)
    _no_third(build)
    own, address = _own(build, report, 4), own_address(build, uniform=64)
    atomic = Atomic("u4", ADD, silent=True)
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        one = np.ones(len(lanes), np.uint32)
        _on_shared(t, own, atomic, lanes, address(t, lanes), one, one)

    return run

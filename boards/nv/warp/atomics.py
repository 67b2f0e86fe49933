"""Atomics: ATOMG, ATOM and RED on global memory, ATOMS on shared memory.

Lanes that meet at one address go one after the other, in the order that the executor's draw gives;
silicon promises none. src: Mesa sm70_encode.rs: type 73 to 75, operation 87 to 90, descriptor 64;
PTX ISA, atom: what each operation stores
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.nv.space import ATOMIC
from boards.nv.warp.access import own_address, wide_address
from boards.nv.warp.build import UNIFORM, Action, Builder
from boards.nv.warp.convert import half_rounded
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.floating import flushed
from boards.nv.warp.generic import GLOBAL, SHARED, low, split
from boards.nv.warp.memory import OUT_OF_RANGE, GlobalMemory
from boards.nv.warp.shared import Own, check_aligned, fail
from boards.nv.warp.state import Threads

_ADD, _MIN, _MAX, _INC, _DEC, _AND, _OR, _XOR, _EXCHANGE = range(9)
_COMPARE = 16
"""Compare and exchange: an opcode of its own."""
_CAST = 17
"""Compare and store: the result is whether it stored."""
_TYPES: Final = {0: "u4", 1: "i4", 2: "u8", 3: "f4", 4: "h2", 5: "i8", 6: "f8"}
_PAIR = "h2"
_ORDERS = 11
Report = Callable[[str], None]
Change = Callable[[Array, Array, Array], Array]
"""(old values, first operand, second operand) to new values."""
_CHANGES: Final[dict[int, Change]] = {
    _ADD: lambda old, one, _: old + one,
    _MIN: lambda old, one, _: np.minimum(old, one),
    _MAX: lambda old, one, _: np.maximum(old, one),
    _INC: lambda old, one, _: np.where(old >= one, 0, old + 1).astype(old.dtype),
    _DEC: lambda old, one, _: np.where((old == 0) | (old > one), one, old - 1).astype(old.dtype),
    _AND: lambda old, one, _: old & one,
    _OR: lambda old, one, _: old | one,
    _XOR: lambda old, one, _: old ^ one,
    _EXCHANGE: lambda old, one, _: one,
    _COMPARE: lambda old, one, two: np.where(old == one, two, old),
    _CAST: lambda old, one, two: np.where(old == one, two, old),
}
_AT: Final[dict[int, np.ufunc]] = {
    _ADD: np.add, _MIN: np.minimum, _MAX: np.maximum, _AND: np.bitwise_and, _OR: np.bitwise_or,
    _XOR: np.bitwise_xor,
}  # fmt: skip
"""What numpy does at repeated places, in order."""


def _float_sum(old: Array, one: Array, _: Array) -> Array:
    """.F32.FTZ.RN: operands and sums that are subnormal are zeros."""
    total = flushed(old.view(np.uint32)).view(np.float32) + flushed(
        np.ascontiguousarray(one).view(np.uint32)
    ).view(np.float32)
    return flushed(total.view(np.uint32)).view(np.float32)


def _half_sum(old: Array, one: Array, _: Array) -> Array:
    """Two halves in a word, each a sum of its own."""
    first, second = (
        np.ascontiguousarray(x).view(np.float16).astype(np.float64) for x in (old, one)
    )
    return half_rounded(first + second, 0).view(np.uint32)


def _change(kind: str, operation: int) -> Change:
    """Raises: NotModelled for what no type has."""
    if kind in ("f4", "f8", _PAIR) and operation not in (_ADD, _EXCHANGE):
        raise NotModelled(f"atomic operation {operation} of {kind}")
    if operation == _ADD and kind == "f4":
        return _float_sum
    if operation == _ADD and kind == _PAIR:
        return _half_sum
    if operation not in _CHANGES:
        raise NotModelled(f"atomic operation {operation}")
    return _CHANGES[operation]


def _turns(places: Array) -> Array:
    """How many earlier lanes have the same place."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.append(starts, len(places)))
    turns = np.empty(len(places), np.int64)
    turns[order] = np.arange(len(places)) - np.repeat(starts, lengths)
    return turns


class Atomic:
    """One operation of one type, on an array of numbers."""

    def __init__(self, kind: str, operation: int, *, silent: bool) -> None:
        self.dtype = np.dtype("u4" if kind == _PAIR else kind)
        self._change = _change(kind, operation)
        self._many = _AT.get(operation) if silent and self.dtype.kind != "f" else None
        if kind == _PAIR:
            self._many = None

    def run(self, numbers: Array, places: Array, one: Array, two: Array) -> Array:
        """What the lanes found. `places` may repeat."""
        if self._many is not None:
            self._many.at(numbers, places, one)
            return one
        found, turns = np.empty(len(places), self.dtype), _turns(places)
        for turn in range(int(turns.max()) + 1):
            now = np.flatnonzero(turns == turn)
            old = numbers[places[now]]
            found[now] = old
            numbers[places[now]] = self._change(old, one[now], two[now])
        return found


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


def _fields(build: Builder) -> None:
    """What every access to global memory has beside its address."""
    build.only(72, 1, 1)
    if build.take(77, 4) >= _ORDERS:
        raise NotModelled("order of an access")
    build.take(84, 3)
    build.only(81, 3, 7, 0)
    if build.take(91):
        number = build.take(64, 6)
        build.take(70, 2)
        if number != build.arch.uniform_zero:
            build.reads += [(UNIFORM, number, 0), (UNIFORM, number + 1, 0)]


def _kind(build: Builder, width: int = 4) -> str:
    number = build.take(73, width)
    if number not in _TYPES:
        raise NotModelled(f"an atomic of type {number}")
    return _TYPES[number]


def _global(
    build: Builder, memory: GlobalMemory, operation: int, number: int, sources: tuple[int, int],
    kind: str, *, shared: Own | None = None,
) -> Action:  # fmt: skip
    atomic = Atomic(kind, operation, silent=number == ZERO)
    address, offset = wide_address(build), build.offset
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        lanes = _order(t, np.flatnonzero(mask))
        addresses = address(t, lanes)
        check_aligned(t, addresses, atomic.dtype.itemsize, offset)
        one, two = (_operand(t, source, atomic.dtype, lanes) for source in sources)
        if shared is None:
            _store(t, number, _on_global(memory, atomic, addresses, one, two), lanes)
            return
        for where, part in split(t, addresses):
            given = one[part], two[part]
            if where == GLOBAL:
                found = _on_global(memory, atomic, addresses[part], *given)
            elif where == SHARED:
                at = low(addresses[part])
                found = _on_shared(t, shared, atomic, lanes[part], at, *given)
            else:
                raise fail(t, offset, OUT_OF_RANGE, int(addresses[part][0]), "local atomic")
            _store(t, number, found, lanes[part])

    return run


def atomg(build: Builder, memory: GlobalMemory, report: Report, *, generic: bool = False) -> Action:
    """ATOMG, ATOM: global memory changed, and what was there."""
    kind, operation = _kind(build), build.take(87, 4)
    _fields(build)
    size = 1 if kind.endswith("4") or kind == _PAIR else 2
    data = build.gpr(32, 1, size)
    shared = _own(build, report, 4 * size) if generic else None
    return _global(build, memory, operation, build.gpr_out(count=size), (data, ZERO), kind,
                   shared=shared)  # fmt: skip


def red(build: Builder, memory: GlobalMemory) -> Action:
    """RED: global memory changed."""
    kind, operation = _kind(build), build.take(87, 3)
    build.only(90, 1, 1)
    _fields(build)
    data = build.gpr(32, 1, 1 if kind.endswith("4") or kind == _PAIR else 2)
    return _global(build, memory, operation, ZERO, (data, ZERO), kind)


def atomg_cas(
    build: Builder, memory: GlobalMemory, report: Report, *, generic: bool = False
) -> Action:
    """ATOMG.CAS: global memory replaced where it is what a register says."""
    kind = _kind(build)
    build.only(72, 1, 1)
    if build.take(77, 4) >= _ORDERS:
        raise NotModelled("order of an access")
    build.take(84, 3)
    build.only(81, 3, 7, 0)
    size = 1 if kind.endswith("4") else 2
    shared = _own(build, report, 4 * size) if generic else None
    sources = build.gpr(32, 1, size), build.gpr(64, 2, size)
    return _global(build, memory, _COMPARE, build.gpr_out(count=size), sources, kind, shared=shared)


def _shared(
    build: Builder, report: Report, operation: int, kind: str, number: int,
    sources: tuple[int, int],
) -> Action:  # fmt: skip
    atomic = Atomic(kind, operation, silent=number == ZERO)
    own, address = _own(build, report, atomic.dtype.itemsize), own_address(build, uniform=64)
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        lanes = _order(t, np.flatnonzero(mask))
        one, two = (_operand(t, source, atomic.dtype, lanes) for source in sources)
        found = _on_shared(t, own, atomic, lanes, address(t, lanes), one, two)
        if operation == _CAST:
            found = (found == one).astype(atomic.dtype)
        _store(t, number, found, lanes)

    return run


def atoms(build: Builder, report: Report) -> Action:
    """ATOMS: shared memory changed."""
    kind, operation = _kind(build, 3), build.take(87, 4)
    size = 1 if kind.endswith("4") else 2
    data = build.gpr(32, 1, size)
    return _shared(build, report, operation, kind, build.gpr_out(count=size), (data, ZERO))


def atoms_cas(build: Builder, report: Report) -> Action:
    """ATOMS.CAS and .CAST: the latter gives 1 where it stored.

    measured: nvrtc 13.5 compares the result of .CAST with 1 and tries again
    """
    kind, cast = _kind(build, 2), build.take(87, 1)
    build.take(88)
    size = 1 if kind.endswith("4") else 2
    sources = build.gpr(32, 1, size), build.gpr(64, 2, size)
    operation = _CAST if cast else _COMPARE
    return _shared(build, report, operation, kind, build.gpr_out(count=size), sources)


def atoms_count(build: Builder, report: Report) -> Action:
    """ATOMS.POPC.INC.32 without a result: one more for each lane."""
    build.only(73, 2, 0)
    build.only(87, 4, 0xA)
    build.only(16, 8, ZERO)
    own, address = _own(build, report, 4), own_address(build, uniform=64)
    atomic = Atomic("u4", _ADD, silent=True)
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        one = np.ones(len(lanes), np.uint32)
        _on_shared(t, own, atomic, lanes, address(t, lanes), one, one)

    return run

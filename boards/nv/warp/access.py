"""Instructions that load and store: what memory.py's arrays are read and written with.

src: Mesa sm70_encode.rs: size 73 to 75, offset 40 to 63, scale of a shared address 78 and 79
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import REGISTER, UNIFORM, Action, Builder, Source
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.memory import NUMBERS, OUT_OF_RANGE, GlobalMemory, Lanes, numbers
from boards.nv.warp.shared import Own, check_aligned, fail
from boards.nv.warp.state import Threads

_SIZES = {0: (1, False), 1: (1, True), 2: (2, False), 3: (2, True), 4: (4, False), 5: (8, False),
          6: (16, False), 7: (16, False)}  # fmt: skip
"""By the field of the size. Turing's 7 prints as .U.128, of global memory alone; measured: where
nvrtc 13.5 emits it, results are numpy's if it is a load of 128 bits."""
_WORD = 4
_SCALES = 2
_PRIORITIES = 6
_ORDERS, _ORDERS_TURING = 11, 12
Report = Callable[[str], None]
Address = Callable[[Threads, Lanes], Array]


@dataclass(frozen=True, slots=True)
class Shape:
    """How many bytes a lane moves, and whether a small number has a sign."""

    nbytes: int
    signed: bool

    @property
    def registers(self) -> int:
        """How many registers they fill."""
        return max(1, self.nbytes // _WORD)


def shape(build: Builder) -> Shape:
    """The size of an access. Raises: NotModelled."""
    size = build.take(73, 3)
    if size not in _SIZES:
        raise NotModelled(f"an access of size {size}")
    return Shape(*_SIZES[size])


def put_numbers(t: Threads, number: int, values: Array, kind: Shape, lanes: Lanes) -> None:
    """Numbers of some lanes into registers."""
    if number == ZERO:
        return
    if kind.nbytes < _WORD:
        small = values.view(f"i{kind.nbytes}") if kind.signed else values
        t.registers[number, lanes] = small.astype(np.int32).view(np.uint32)
    elif kind.nbytes == _WORD:
        t.registers[number, lanes] = values
    else:
        rows = np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
        for place in range(rows.shape[1]):
            t.registers[number + place, lanes] = rows[:, place]


def data_register(build: Builder, kind: Shape) -> int:
    """The register that is stored, or the first of several."""
    number = build.gpr(32, 1, kind.registers)
    if kind.nbytes < _WORD:
        build.needs_bits(number, (1 << 8 * kind.nbytes) - 1)
    return number


def data_of(t: Threads, number: int, kind: Shape, lanes: Lanes) -> Array:
    """Registers of some lanes as numbers."""
    dtype = NUMBERS[kind.nbytes]
    if number == ZERO:
        return np.zeros(len(t.index[lanes]), dtype)
    if kind.nbytes < _WORD:
        return t.registers[number, lanes].astype(dtype)
    if kind.nbytes == _WORD:
        return np.array(t.registers[number, lanes])
    words = t.registers[number : number + kind.registers, lanes]
    return np.ascontiguousarray(words.T).view(dtype).ravel()


_ADDRESS_MASK = (1 << 32) - 1
"""measured: nvrtc 13.5 on sm_120: [R7+0xbffc] where R7 is below 0"""


def wide_address(build: Builder, at: int = 40, width: int = 24) -> Address:
    """A pair of registers and an offset."""
    offset, number = build.signed(at, width), build.gpr(24, count=2)

    def of(t: Threads, lanes: Lanes) -> Array:
        value: Array = t.registers[number, lanes].astype(np.int64)
        if number != ZERO:
            value |= t.registers[number + 1, lanes].astype(np.int64) << 32
        return np.add(value, offset)

    return of


def own_address(build: Builder, *, uniform: int, scaled: bool = True) -> Address:
    """An address in shared or local memory, 32 bits; bit 91: a uniform register is added.

    measured: nvdisasm 13.5: [R1+UR4] with bit 91
    """
    offset, number = build.signed(40, 24), build.gpr(24)
    zero = build.arch.uniform_zero
    added = build.uniform(uniform) if build.take(91) else zero
    if added != zero:
        build.reads.append((UNIFORM, added, 0))
    scale = build.take(78, _SCALES) if scaled else 0
    factor = 2 << scale if scale else 1

    def of(t: Threads, lanes: Lanes) -> Array:
        value: Array = t.registers[number, lanes].astype(np.int64)
        if factor > 1:
            value *= factor
        if added != zero:
            value += t.uniforms[added, lanes]
        return np.add(value, offset) & _ADDRESS_MASK

    return of


def short_address(build: Builder) -> Address:
    """A register and an offset, which a uniform pair is added to: [R0.U32+UR4]."""
    offset, number = build.signed(40, 24), build.gpr(24)

    def of(t: Threads, lanes: Lanes) -> Array:
        return np.add(t.registers[number, lanes].astype(np.int64), offset)

    return of


def global_address(build: Builder, descriptor: int) -> Address:
    """A global address; uniform registers hold its descriptor, or a number that is added.

    measured: nvdisasm 13.5: [R2.64+UR4] on sm_75 with bit 91; later without bit 76, desc[UR4] with
    """
    build.only(72, 1, 1)
    build.take(101)
    turing = build.arch.family == "turing"
    most = _ORDERS_TURING if turing else _ORDERS
    if build.take(77, 4) >= most or build.take(84, 3) >= _PRIORITIES:
        raise NotModelled("order or priority of an access")
    uniform, pair = build.take(91), build.take(90)
    adds = uniform if turing else not build.take(76)
    number = build.register(descriptor)
    build.latency = "agu"
    if pair != uniform and not (uniform and adds):
        raise NotModelled("a global address of 32 bits")
    plain = wide_address(build) if pair == uniform else short_address(build)
    if not uniform or number == build.arch.uniform_zero:
        return plain
    build.reads += [(UNIFORM, number, 0), (UNIFORM, number + 1, 0)]
    if not adds:
        return plain

    def of(t: Threads, lanes: Lanes) -> Array:
        words = t.uniforms[number : number + 2, lanes].astype(np.int64)
        base: Array = words[0] | words[1] << 32
        return np.add(plain(t, lanes), base)

    return of


def ldg(build: Builder, memory: GlobalMemory) -> Action:
    """LDG: global memory to registers."""
    kind, address = shape(build), global_address(build, 32)
    build.only(81, 3, 7)
    number, offset = build.gpr_out(count=kind.registers), build.offset

    def run(t: Threads, mask: Array) -> None:
        lanes = t.chosen(mask)
        addresses = address(t, lanes)
        check_aligned(t, addresses, kind.nbytes, offset)
        put_numbers(t, number, memory.load(addresses, kind.nbytes), kind, lanes)

    return run


def stg(build: Builder, memory: GlobalMemory) -> Action:
    """STG: registers to global memory."""
    kind, address = shape(build), global_address(build, 64)
    number, offset = data_register(build, kind), build.offset

    def run(t: Threads, mask: Array) -> None:
        lanes = t.chosen(mask)
        addresses = address(t, lanes)
        check_aligned(t, addresses, kind.nbytes, offset)
        memory.store(addresses, data_of(t, number, kind, lanes), kind.nbytes)

    return run


def _own(
    build: Builder,
    report: Report,
    kind: Shape,
    uniform: int,
    *,
    local: bool,
    conflicts: Counter[int] | None,
) -> tuple[Own, Address]:
    if build.arch.family == "turing" and not local:
        build.take(76)
    if local and not build.take(84, 3) < _PRIORITIES:
        raise NotModelled("priority of an access")
    build.latency = "agu"
    own = Own(local=local, nbytes=kind.nbytes, offset=build.offset, report=report,
              conflicts=conflicts)  # fmt: skip
    return own, own_address(build, uniform=uniform, scaled=not local)


def load_own(
    build: Builder, report: Report, *, local: bool, conflicts: Counter[int] | None = None
) -> Action:
    """LDS, LDL."""
    kind = shape(build)
    own, address = _own(build, report, kind, 32, local=local, conflicts=conflicts)
    number = build.gpr_out(count=kind.registers)

    def run(t: Threads, mask: Array) -> None:
        lanes = t.chosen(mask)
        missing: list[Array] = []
        put_numbers(t, number, own.load(t, lanes, address(t, lanes), missing), kind, lanes)
        if missing and number != ZERO:
            for part, none in enumerate(missing[0].T):
                t.undefined.forget((REGISTER, number + part), t.index[lanes][none])

    return run


def store_own(
    build: Builder, report: Report, *, local: bool, conflicts: Counter[int] | None = None
) -> Action:
    """STS, STL."""
    kind = shape(build)
    own, address = _own(build, report, kind, 64, local=local, conflicts=conflicts)
    number = data_register(build, kind)

    def run(t: Threads, mask: Array) -> None:
        lanes = t.chosen(mask)
        own.store(t, lanes, address(t, lanes), data_of(t, number, kind, lanes))

    return run


def uldc(build: Builder) -> Action:
    """ULDC: a constant to uniform registers."""
    kind = shape(build)
    build.only(91, 1, 0)
    sources: list[Source] = [build.constant(32, part) for part in range(kind.registers)]
    if kind.nbytes < _WORD:
        sources = [_small(build, kind)]
    number = build.uniform_out(kind.registers)
    build.latency = "uldc"

    def run(t: Threads, mask: Array) -> None:
        for part, source in enumerate(sources):
            t.put_uniform(number + part, source(t), mask)

    return run


def _small(build: Builder, kind: Shape) -> Source:
    """A byte or a half of a constant bank, with its sign."""
    data = build.constant_bytes(38, 16, kind.nbytes)
    value = int.from_bytes(data, "little", signed=kind.signed)
    return lambda t: np.full(t.count, value & 0xFFFFFFFF, np.uint32)


def ldc(build: Builder, banks: dict[int, bytes]) -> Action:
    """LDC: a constant whose offset a register gives."""
    kind, number = shape(build), build.gpr(24)
    build.only(78, 2, 0)
    build.only(91, 1, 0)
    base, bank = build.take(38, 16), np.frombuffer(banks.get(build.take(54, 5), b""), np.uint8)
    first, offset = build.gpr_out(count=kind.registers), build.offset
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        lanes = t.chosen(mask)
        at = t.registers[number, lanes].astype(np.int64) + base
        check_aligned(t, at, kind.nbytes, offset)
        bad = at + kind.nbytes > len(bank)
        if bad.any():
            raise fail(t, offset, OUT_OF_RANGE, int(at[bad.argmax()]), "beyond a constant bank,")
        put_numbers(t, first, numbers(bank, kind.nbytes)[at // kind.nbytes], kind, lanes)

    return run

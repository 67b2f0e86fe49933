"""Instructions that load and store: what memory.py's arrays are read and written with.

src: Mesa sm70_encode.rs: size 73 to 75, offset 40 to 63, scale of a shared address 78 and 79
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.nv.launch import SmException
from boards.nv.space import READ, WRITE
from boards.nv.warp.build import UNIFORM, Action, Builder, Source
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.memory import MISALIGNED, OUT_OF_RANGE, GlobalMemory
from boards.nv.warp.state import POISON, Threads

_SIZES = {0: (1, False), 1: (1, True), 2: (2, False), 3: (2, True), 4: (4, False), 5: (8, False),
          6: (16, False)}  # fmt: skip
_WORD = 4
_SCALES = 2
_PRIORITIES = 6
_ORDERS, _ORDERS_TURING = 11, 12
Report = Callable[[str], None]


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


def _fail(t: Threads, offset: int, error: int, address: int, why: str) -> SmException:
    return SmException(error, t.launch.code_va + offset, f"{why} at {address:#x}", address)


def _aligned(t: Threads, addresses: Array, nbytes: int, offset: int) -> None:
    bad = addresses % nbytes != 0
    if bad.any():
        address = int(addresses[bad.argmax()])
        raise _fail(t, offset, MISALIGNED, address, f"{nbytes} bytes that are not aligned")


def _to_registers(raw: Array, kind: Shape) -> Array:
    """Bytes of each lane as rows of words."""
    if kind.nbytes >= _WORD:
        return np.ascontiguousarray(raw).view(np.uint32).T
    small = np.ascontiguousarray(raw).view(f"<{'i' if kind.signed else 'u'}{kind.nbytes}")
    return small.astype(np.int64).astype(np.uint32).T


def _put(t: Threads, number: int, rows: Array, lanes: Array) -> None:
    if number != ZERO:
        t.registers[number : number + len(rows), lanes] = rows


def _data(t: Threads, number: int, kind: Shape, lanes: Array) -> Array:
    """Registers of each lane as bytes."""
    if number == ZERO:
        return np.zeros((len(lanes), kind.nbytes), np.uint8)
    words = np.ascontiguousarray(t.registers[number : number + kind.registers, lanes].T)
    return words.view(np.uint8)[:, : kind.nbytes]


def _address(build: Builder, *, wide: bool) -> Callable[[Threads, Array], Array]:
    """A register, or a pair, and an offset."""
    offset = build.signed(40, 24)
    number = build.gpr(24, count=2 if wide else 1)

    def of(t: Threads, lanes: Array) -> Array:
        value: Array = t.registers[number, lanes].astype(np.int64)
        if wide and number != ZERO:
            value = value | t.registers[number + 1, lanes].astype(np.int64) << 32
        return np.add(value, offset)

    return of


def _global(build: Builder, descriptor: int) -> Callable[[Threads, Array], Array]:
    """A global address; uniform registers hold its descriptor, or a number that is added.

    measured: nvdisasm 13.5: [R2.64+UR4] on sm_75 with bit 91; later with bit 76, desc[UR4] without
    """
    build.only(72, 1, 1)
    turing = build.arch.family == "turing"
    most = _ORDERS_TURING if turing else _ORDERS
    if build.take(77, 4) >= most or build.take(84, 3) >= _PRIORITIES:
        raise NotModelled("order or priority of an access")
    uniform, pair = build.take(91), build.take(90)
    if uniform != pair:
        raise NotModelled("a global address of 32 bits")
    adds = uniform if turing else build.take(76)
    number = build.register(descriptor)
    build.latency = "agu"
    if not uniform or number == build.arch.uniform_zero:
        return _address(build, wide=True)
    build.reads += [(UNIFORM, number, 0), (UNIFORM, number + 1, 0)]
    plain = _address(build, wide=True)
    if not adds:
        return plain

    def of(t: Threads, lanes: Array) -> Array:
        words = t.uniforms[number : number + 2, lanes].astype(np.int64)
        return np.add(plain(t, lanes), words[0] | words[1] << 32)

    return of


def ldg(build: Builder, memory: GlobalMemory) -> Action:
    """LDG: global memory to registers."""
    kind, address = shape(build), _global(build, 32)
    build.only(81, 3, 7)
    number, offset = build.gpr_out(count=kind.registers), build.offset

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        addresses = address(t, lanes)
        _aligned(t, addresses, kind.nbytes, offset)
        for which, data, at in memory.each(addresses, kind.nbytes, READ):
            _put(t, number, _to_registers(data[at], kind), lanes[which])

    return run


def stg(build: Builder, memory: GlobalMemory) -> Action:
    """STG: registers to global memory."""
    kind, address = shape(build), _global(build, 64)
    number, offset = build.gpr(32, 1, kind.registers), build.offset

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        addresses = address(t, lanes)
        _aligned(t, addresses, kind.nbytes, offset)
        bytes_ = _data(t, number, kind, lanes)
        parts = list(memory.each(addresses, kind.nbytes, WRITE))
        for which, data, at in parts:
            data[at] = bytes_[which]

    return run


def _own(build: Builder, *, scaled: bool) -> Callable[[Threads, Array], Array]:
    """An address in shared or local memory."""
    plain = _address(build, wide=False)
    scale = build.take(78, _SCALES) if scaled else 0
    if not scale:
        return plain
    offset, factor = build.signed(40, 24), 2 << scale
    return lambda t, lanes: (plain(t, lanes) - offset) * factor + offset


class Window:
    """Shared memory of blocks or local memory of threads: bytes, and which are known."""

    def __init__(self, build: Builder, report: Report, *, local: bool) -> None:
        self._local, self._report, self._offset = local, report, build.offset
        self.kind = shape(build)
        self._address = _own(build, scaled=not local)
        if build.arch.family == "turing" and not local:
            build.take(76)
        if local and not build.take(84, 3) < _PRIORITIES:
            raise NotModelled("priority of an access")
        build.latency = "agu"

    def index(self, t: Threads, lanes: Array) -> tuple[Array, Array]:
        """(row, columns) of the bytes of each lane. Raises: SmException."""
        addresses = self._address(t, lanes)
        nbytes = self.kind.nbytes
        _aligned(t, addresses, nbytes, self._offset)
        limit = t.launch.local_bytes if self._local else t.launch.shared_bytes
        bad = (addresses < 0) | (addresses + nbytes > limit)
        if bad.any():
            name = "local" if self._local else "shared"
            address = int(addresses[bad.argmax()])
            raise _fail(t, self._offset, OUT_OF_RANGE, address, f"beyond {name} memory,")
        rows = lanes if self._local else t.block[lanes]
        return rows[:, None], addresses[:, None] + np.arange(nbytes)

    def load(self, t: Threads, lanes: Array) -> Array:
        """Bytes of each lane; poison and a violation for what nobody wrote."""
        at = self.index(t, lanes)
        data, known = (t.local, t.local_known) if self._local else (t.shared, t.shared_known)
        raw = data[at]
        if not known[at].all():
            name = "local" if self._local else "shared"
            self._report(f"{name} memory is read and was never written")
            raw = np.where(known[at], raw, np.uint8(POISON & 0xFF))
        return raw

    def store(self, t: Threads, lanes: Array, raw: Array) -> None:
        """Bytes of each lane."""
        at = self.index(t, lanes)
        data, known = (t.local, t.local_known) if self._local else (t.shared, t.shared_known)
        if not self._local:
            self._same_bytes(t, at, raw)
        data[at], known[at] = raw, True

    def _same_bytes(self, t: Threads, at: tuple[Array, Array], raw: Array) -> None:
        """Lanes of one instruction that store different bytes to one address."""
        places = (at[0] * t.launch.shared_bytes + at[1]).ravel()
        order = np.argsort(places, kind="stable")
        same = places[order][1:] == places[order][:-1]
        values = raw.ravel()[order]
        if (same & (values[1:] != values[:-1])).any():
            self._report("lanes store different values to one shared address")


def load_own(build: Builder, report: Report, *, local: bool) -> Action:
    """LDS, LDL."""
    window = Window(build, report, local=local)
    kind = window.kind
    number = build.gpr_out(count=kind.registers)

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        _put(t, number, _to_registers(window.load(t, lanes), kind), lanes)

    return run


def store_own(build: Builder, report: Report, *, local: bool) -> Action:
    """STS, STL."""
    window = Window(build, report, local=local)
    kind = window.kind
    number = build.gpr(32, 1, kind.registers)

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        window.store(t, lanes, _data(t, number, kind, lanes))

    return run


def uldc(build: Builder) -> Action:
    """ULDC: a constant to uniform registers."""
    kind = shape(build)
    build.only(91, 1, 0)
    if kind.nbytes < _WORD:
        raise NotModelled("a small constant")
    sources: list[Source] = [build.constant(32, part) for part in range(kind.registers)]
    number = build.uniform_out(kind.registers)
    build.latency = "uldc"

    def run(t: Threads, mask: Array) -> None:
        for part, source in enumerate(sources):
            t.put_uniform(number + part, source(t), mask)

    return run


def ldc(build: Builder, banks: dict[int, bytes]) -> Action:
    """LDC: a constant whose offset a register gives."""
    kind, number = shape(build), build.gpr(24)
    build.only(78, 2, 0)
    build.only(91, 1, 0)
    base, bank = build.take(38, 16), np.frombuffer(banks.get(build.take(54, 5), b""), np.uint8)
    first, offset = build.gpr_out(count=kind.registers), build.offset
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        at = t.registers[number, lanes].astype(np.int64) + base
        _aligned(t, at, kind.nbytes, offset)
        bad = at + kind.nbytes > len(bank)
        if bad.any():
            raise _fail(t, offset, OUT_OF_RANGE, int(at[bad.argmax()]), "beyond a constant bank,")
        _put(t, first, _to_registers(bank[at[:, None] + np.arange(kind.nbytes)], kind), lanes)

    return run

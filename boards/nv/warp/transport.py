"""LDSM, which spreads rows of shared memory over a warp; LDGSTS, which copies in the background.

src: PTX ISA, ldmatrix and cp.async: which lane names and gets what; bits measured: flips of words
of nvrtc 13.5 as nvdisasm 13.5 prints them
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.access import Address, Shape, own_address, shape
from boards.nv.warp.build import UNIFORM, Action, Builder
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.memory import GlobalMemory
from boards.nv.warp.shared import Own, check_aligned
from boards.nv.warp.state import LANES, Threads

Report = Callable[[str], None]
_ROW_BYTES, _ROWS, _IN_ROW = 16, 8, 4
_PLAIN, _TURNED = 0, 2
_LOW_HALF = 0xFFFF


def ldsm(build: Builder, report: Report) -> Action:
    """LDSM.16.M88 and .MT88: one, two or four matrices of 8 rows of 8 halves."""
    size, turned = build.take(72, 2), build.take(77, 3)
    build.only(75, 2, 0)
    if size > 2 or turned not in (_PLAIN, _TURNED):
        raise NotModelled(f"LDSM of kind {size}.{turned}")
    count = 1 << size
    address = own_address(build, uniform=32, scaled=False)
    number = build.gpr_out(count=count)
    own = Own(local=False, nbytes=_ROW_BYTES, offset=build.offset, report=report)
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        if (t.whole_warps(mask) & ~mask).any():
            report("LDSM of a warp whose lanes do not all run it")
        lanes = np.flatnonzero(t.whole_warps(mask))
        named = lanes.reshape(-1, LANES)[:, : count * _ROWS].ravel()
        rows = own.load(t, named, address(t, named))
        words = np.ascontiguousarray(rows).view(np.uint32)
        matrices = words.reshape(-1, count, _ROWS, _IN_ROW)
        if turned:
            halves = np.ascontiguousarray(matrices).view(np.uint16)
            matrices = np.ascontiguousarray(np.swapaxes(halves, 2, 3)).view(np.uint32)
        spread = matrices.reshape(-1, count, LANES)
        for place in range(count if number != ZERO else 0):
            t.registers[number + place, lanes] = spread[:, place].ravel()

    return run


def _source(build: Builder) -> Address:
    offset, number = build.signed(32, 12), build.gpr(24, 0, 2)

    def of(t: Threads, lanes: Array | slice) -> Array:
        pair = t.registers[number : number + 2, lanes].astype(np.int64)
        return np.asarray(np.add(pair[0] | pair[1] << 32, offset))

    return of


def _copied(build: Builder) -> tuple[Shape, int]:
    """(size, descriptor) of LDGSTS; measured: Blackwell has other bits for them."""
    if build.arch.family == "blackwell":
        build.take(72, 2)
        size = build.take(74, 2)
        if size > 2:
            raise NotModelled(f"LDGSTS of size {size}")
        return Shape(4 << size, signed=False), build.uniform(64)
    kind = shape(build)
    if kind.nbytes < 4:
        raise NotModelled("LDGSTS of less than a word")
    build.take(70, 3)
    return kind, build.take(64, 6)


def ldgsts(build: Builder, memory: GlobalMemory, report: Report) -> Action:
    """LDGSTS: global to shared memory; zeros where its predicate is false.

    measured: nvJitLink 13.5 makes `LDGSTS [...], [...], !PT` of cp.async with a source of 0 bytes,
    and a predicate of the operand `ignore-src`, inverted. .ZFILL is there where the number of bytes
    is in a register.
    """
    kind, descriptor = _copied(build)
    build.only(76, 1, 1)
    build.take(77, 5)
    build.take(82, 5)
    build.only(91, 1, 1)
    copies = build.predicate_in(87, 90)
    if descriptor != build.arch.uniform_zero:
        build.reads += [(UNIFORM, descriptor, 0), (UNIFORM, descriptor + 1, 0)]
    source = _source(build)
    offset, number = build.signed(44, 20), build.gpr(16, 1)
    own = Own(local=False, nbytes=kind.nbytes, offset=build.offset, report=report)
    build.latency = "agu"

    def run(t: Threads, mask: Array) -> None:
        wanted = copies(t)
        values = np.zeros(t.count, f"V{kind.nbytes}" if kind.nbytes > 8 else f"u{kind.nbytes}")
        loads = np.flatnonzero(mask & wanted)
        values = values.view("c16") if kind.nbytes > 8 else values
        if len(loads):
            addresses = source(t, loads)
            check_aligned(t, addresses, kind.nbytes, build.offset)
            values[loads] = memory.load(addresses, kind.nbytes)
        to = t.registers[number].astype(np.int64) + offset
        own.forget(t, np.flatnonzero(mask), to[mask])

        def land(done: Array) -> None:
            lanes = np.flatnonzero(done)
            own.store(t, lanes, to[lanes], values[lanes])

        t.copies.begin(mask, land)

    return run

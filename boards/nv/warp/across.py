"""REDUX, MATCH and R2UR: one answer of the lanes that run an instruction together.

src: PTX ISA, redux.sync and match.sync; operation of REDUX at 78 and .S32 at 73, measured: text of
nvdisasm 13.5; Mesa sm70_encode.rs (MATCH, R2UR)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.integer import out, predicate
from boards.nv.warp.state import LANES, Threads

_AND, _OR, _XOR, _SUM, _MIN, _MAX = range(6)
_REDUCE: Final = {
    _AND: np.bitwise_and, _OR: np.bitwise_or, _XOR: np.bitwise_xor, _SUM: np.add,
    _MIN: np.minimum, _MAX: np.maximum,
}  # fmt: skip
_ONES = 0xFFFFFFFF


def _neutral(operation: int, kind: type[np.int32] | type[np.uint32]) -> int:
    limits = np.iinfo(kind)
    return {_AND: -1 if limits.min else _ONES, _MIN: int(limits.max), _MAX: int(limits.min)}.get(
        operation, 0
    )


def redux(build: Builder) -> Action:
    """REDUX: a sum, the least, the most, or bit by bit, to a uniform register."""
    operation, kind = build.take(78, 3), np.int32 if build.take(73) else np.uint32
    if operation not in _REDUCE:
        raise NotModelled(f"REDUX operation {operation}")
    number, write = build.gpr(24), out(build, uniform=True)
    build.latency = "variable"
    neutral = _neutral(operation, kind)

    def run(t: Threads, mask: Array) -> None:
        words = np.where(mask, t.registers[number].view(kind), kind(neutral)).reshape(-1, LANES)
        found = _REDUCE[operation].reduce(words, axis=1, dtype=kind)
        write(t, np.repeat(found, LANES).view(np.uint32), mask)

    return run


def match(build: Builder) -> Action:
    """MATCH.ANY: the lanes with one's own value; MATCH.ALL: all lanes if they agree, or none."""
    wide, some = bool(build.take(73)), bool(build.take(79))
    number = build.gpr(24, count=2 if wide else 1)
    write, agree = out(build, uniform=False), predicate(build, 81)
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        words = t.registers[number].astype(np.uint64)
        if wide and number != ZERO:
            words = words | t.registers[number + 1].astype(np.uint64) << np.uint64(32)
        rows, runs = words.reshape(-1, LANES), mask.reshape(-1, LANES)
        equal = (rows[:, :, None] == rows[:, None, :]) & runs[:, None, :]
        weights = (1 << np.arange(LANES, dtype=np.uint64)).astype(np.uint64)
        same = (equal @ weights).ravel()
        if not some:
            everyone = t.lanes(mask)
            all_of_them = same == everyone
            agree(t, all_of_them, mask)
            same = np.where(all_of_them, everyone, 0)
        write(t, same.astype(np.uint32), mask)

    return run


def r2ur(build: Builder) -> Action:
    """R2UR: a register of the first lane that runs it, to a uniform one."""
    number, write = build.gpr(24), out(build, uniform=True)
    build.only(81, 3, 7)
    build.latency = "r2ur"

    def run(t: Threads, mask: Array) -> None:
        first = np.repeat(mask.reshape(-1, LANES).argmax(axis=1), LANES)
        at = t.index // LANES * LANES + first
        write(t, t.registers[number][at], mask)

    return run

"""Semaphores in memory: what a release stores, what a reduction computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boards.nv.space import ATOMIC, GpuSpace

TIMESTAMP_OFFSET = 8
_WORDS_WITH_TIME = 4


@dataclass(frozen=True, slots=True)
class Release:
    """A store of `words` words: payload, and with four the time after it."""

    va: int
    payload: int
    words: int
    wide: bool = False


def release(space: GpuSpace, what: Release, now_ns: int) -> None:
    """Store a semaphore; the payload comes last. Raises: MmuFault."""
    timed = what.words == _WORDS_WITH_TIME
    nbytes = 8 if what.wide or timed else 4
    list(space.parts(what.va, what.words * 4, ATOMIC))
    if timed:
        space.write(what.va + TIMESTAMP_OFFSET, now_ns.to_bytes(8, "little"))
    space.write(what.va, (what.payload & (1 << nbytes * 8) - 1).to_bytes(nbytes, "little"))


def _inc(old: int, value: int) -> int:
    return 0 if old >= value else old + 1


def _dec(old: int, value: int) -> int:
    return value if old == 0 or old > value else old - 1


OPERATIONS: tuple[Callable[[int, int], int], ...] = (
    min, max, int.__xor__, int.__and__, int.__or__, int.__add__, _inc, _dec,
)  # fmt: skip
"""By number. src: clc56f.h SEM_EXECUTE_REDUCTION_*, clc7b5.h LAUNCH_DMA_SEMAPHORE_REDUCTION_*"""


def reduce(
    space: GpuSpace, va: int, value: int, operation: int, bits: int, *, signed: bool
) -> None:
    """An atomic operation on a semaphore. Raises: MmuFault, IndexError for an unknown one."""
    old = space.read_word(va, bits // 8)
    if signed:
        old, value = _signed(old, bits), _signed(value, bits)
    made = OPERATIONS[operation](old, value) & (1 << bits) - 1
    space.write(va, made.to_bytes(bits // 8, "little"), ATOMIC)


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)

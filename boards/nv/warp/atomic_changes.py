"""What atomics do to numbers: operations by type, lane after lane where several meet.

src: PTX ISA, atom: what each operation stores
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.convert import half_rounded
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.floating import flushed
from boards.nv.warp.half import brain_bits, brains, single_to_odd

ADD, _MIN, _MAX, _INC, _DEC, _AND, _OR, _XOR, _EXCHANGE = range(9)
COMPARE = 16
"""Compare and exchange: an opcode of its own."""
CAST = 17
"""Compare and store: the result is whether it stored."""
_PAIRS: Final = ("h2", "b2")
"""Two halves or bfloat16 in a word."""
SINGLE: Final = "f4 kept"
"""Singles whose subnormal numbers are kept."""
_FLOATS: Final = ("f4", "f8", SINGLE, *_PAIRS)
Change = Callable[[Array, Array, Array], Array]
"""(old values, first operand, second operand) to new values."""
_CHANGES: Final[dict[int, Change]] = {
    ADD: lambda old, one, _: old + one,
    _MIN: lambda old, one, _: np.minimum(old, one),
    _MAX: lambda old, one, _: np.maximum(old, one),
    _INC: lambda old, one, _: np.where(old >= one, 0, old + 1).astype(old.dtype),
    _DEC: lambda old, one, _: np.where((old == 0) | (old > one), one, old - 1).astype(old.dtype),
    _AND: lambda old, one, _: old & one,
    _OR: lambda old, one, _: old | one,
    _XOR: lambda old, one, _: old ^ one,
    _EXCHANGE: lambda old, one, _: one,
    COMPARE: lambda old, one, two: np.where(old == one, two, old),
    CAST: lambda old, one, two: np.where(old == one, two, old),
}
_AT: Final[dict[int, np.ufunc]] = {
    ADD: np.add, _MIN: np.minimum, _MAX: np.maximum, _AND: np.bitwise_and, _OR: np.bitwise_or,
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
    return np.asarray(half_rounded(first + second, 0).view(np.uint32))


def _brain_sum(old: Array, one: Array, _: Array) -> Array:
    rows = brain_bits(single_to_odd(brains(old) + brains(np.ascontiguousarray(one))))
    return np.asarray(rows[0] | rows[1] << np.uint32(16), np.uint32)


def size_of(kind: str) -> int:
    """Registers of a number."""
    return 2 if kind in ("u8", "i8", "f8") else 1


def _change(kind: str, operation: int) -> Change:
    """Raises: NotModelled for what no type has."""
    if kind in _FLOATS and operation not in (ADD, _EXCHANGE):
        raise NotModelled(f"atomic operation {operation} of {kind}")
    if operation == ADD and kind == "f4":
        return _float_sum
    if operation == ADD and kind in _PAIRS:
        return _half_sum if kind == "h2" else _brain_sum
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
        self.dtype = np.dtype("u4" if kind in _PAIRS else "f4" if kind == SINGLE else kind)
        self.shared = kind in ("u4", "i4")
        """Whether it goes to shared memory through a generic address."""
        self._change = _change(kind, operation)
        self._many = _AT.get(operation) if silent and self.dtype.kind != "f" else None
        if kind in _PAIRS:
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

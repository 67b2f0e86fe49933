"""Bits that nobody wrote, in registers of which code writes a part after the other.

Code of nvrtc keeps single bits or bytes in a register that it never writes whole: LOP3, PRMT, P2R
and moves pass such bits on, and whoever else needs one is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from boards.machine.arrays import Array

ALL = np.uint32(0xFFFFFFFF)
Mix = Callable[[list[Array]], Array]


class Undefined:
    """Of registers and threads, the bits that were never written."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bits: dict[int, Array] = {}

    def __bool__(self) -> bool:
        return bool(self._bits)

    def of(self, register: int | None) -> Array:
        """The bits of a register that are not defined."""
        found = None if register is None else self._bits.get(register)
        return np.zeros(self._count, np.uint32) if found is None else found

    def has(self, register: int, mask: Array, bits: int) -> bool:
        """Whether any of some bits is not defined in a thread of a mask."""
        found = self._bits.get(register)
        return found is not None and bool((found[mask] & np.uint32(bits)).any())

    def put(self, register: int, bits: Array | np.uint32, mask: Array) -> None:
        """What is not defined of a register that the threads of a mask wrote."""
        row = self.of(register)
        np.copyto(row, bits, where=mask)
        self._bits[register] = row
        if not row.any():
            del self._bits[register]

    def clear(self, register: int, mask: Array) -> None:
        """A register that the threads of a mask wrote whole."""
        if register in self._bits:
            self.put(register, np.uint32(0), mask)


def upward(parts: list[Array]) -> Array:
    """The bits of a sum or product that depend on such bits of its parts: those from the lowest."""
    every = np.bitwise_or.reduce(parts).astype(np.int64)
    return np.asarray((-(every & -every) & 0xFFFFFFFF).astype(np.uint32))


def depends(mix: Mix, values: list[Array], undefined: list[Array]) -> Array:
    """The bits of a bitwise function that depend on bits that are not defined."""
    zeros = [value & ~bits for value, bits in zip(values, undefined, strict=True)]
    ones = [value | bits for value, bits in zip(values, undefined, strict=True)]
    some, every = np.zeros_like(values[0]), np.full_like(values[0], ALL)
    for picked in product(*zip(zeros, ones, strict=True)):
        found = mix(list(picked))
        some, every = some | found, every & found
    return np.asarray(some & ~every)

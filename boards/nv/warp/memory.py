"""Global memory as arrays: which bytes a lane's address is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.nv.space import ATOMIC, READ, WRITE, GpuSpace, MmuFault

OUT_OF_RANGE, MISALIGNED = 0x0E, 0x0F
"""src: Linux, drivers/gpu/drm/nouveau/nvkm/engine/gr/gf100.c, warp errors: OOR_ADDR,
MISALIGNED_ADDR; not confirmed for later chips"""

NUMBERS: Final = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
"""How numpy moves so many bytes at once."""
Lanes = Array | slice
"""Which of several: by number, by truth, or all."""


@dataclass(frozen=True, slots=True)
class _Segment:
    low: int
    high: int
    data: Array


class GlobalMemory:
    """An address space as a few arrays, found again for each chunk of threads."""

    def __init__(self, space: GpuSpace) -> None:
        self._space = space
        self._known: dict[int, list[_Segment]] = {
            READ: [], WRITE: [], ATOMIC: [],
        }  # fmt: skip

    def _segment(self, va: int, access: int) -> _Segment:
        """The array that an address lies in. Raises: MmuFault."""
        for known in self._known[access]:
            if known.low <= va < known.high:
                return known
        mapping = self._space.find(va)
        if mapping is None:
            list(self._space.parts(va, 1, access))
            raise MmuFault(va, 0, access)
        at = mapping.va
        for part in self._space.parts(mapping.va, mapping.nbytes, access):
            self._known[access].append(_Segment(at, at + len(part), part))
            at += len(part)
        return self._segment(va, access)

    def spans(
        self, addresses: Array, nbytes: int, access: int
    ) -> Iterator[tuple[Lanes, Array, Array]]:
        """(which addresses, array, where in it their bytes begin). Raises: MmuFault."""
        segment = self._segment(int(addresses[0]), access)
        at = addresses - segment.low
        if at.min() >= 0 and at.max() + nbytes <= len(segment.data):
            yield slice(None), segment.data, at
            return
        left = np.ones(len(addresses), bool)
        while left.any():
            segment = self._segment(int(addresses[left.argmax()]), access)
            inside = left & (addresses >= segment.low) & (addresses < segment.high)
            at = addresses[inside] - segment.low
            if int(at.max()) + nbytes > len(segment.data):
                raise MmuFault(segment.high, 2, access)
            yield inside, segment.data, at
            left &= ~inside

    def load(self, addresses: Array, nbytes: int) -> Array:
        """A number at each address, which is a multiple of its size. Raises: MmuFault."""
        parts = list(self.spans(addresses, nbytes, READ))
        if len(parts) == 1:
            return np.asarray(numbers(parts[0][1], nbytes)[parts[0][2] // nbytes])
        values = np.empty(len(addresses), NUMBERS[nbytes])
        for which, data, at in parts:
            values[which] = numbers(data, nbytes)[at // nbytes]
        return values

    def store(self, addresses: Array, values: Array, nbytes: int) -> None:
        """A number to each address. Raises: MmuFault, before anything is stored."""
        for which, data, at in list(self.spans(addresses, nbytes, WRITE)):
            numbers(data, nbytes)[at // nbytes] = values[which]


def numbers(data: Array, nbytes: int) -> Array:
    """Bytes as numbers of a size."""
    return data[: len(data) // nbytes * nbytes].view(NUMBERS[nbytes])

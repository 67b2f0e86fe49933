"""Global memory as arrays: which bytes a lane's address is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.nv.space import READ, WRITE, GpuSpace, MmuFault

OUT_OF_RANGE, MISALIGNED = 0x0E, 0x0F
"""src: Linux, drivers/gpu/drm/nouveau/nvkm/engine/gr/gf100.c, warp errors: OOR_ADDR,
MISALIGNED_ADDR; not confirmed for later chips"""


@dataclass(frozen=True, slots=True)
class _Segment:
    low: int
    high: int
    data: Array


class GlobalMemory:
    """An address space as a few arrays, found again for each chunk of threads."""

    def __init__(self, space: GpuSpace) -> None:
        self._space = space
        self._known: dict[int, list[_Segment]] = {READ: [], WRITE: []}

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

    def each(
        self, addresses: Array, nbytes: int, access: int
    ) -> Iterator[tuple[Array, Array, Array]]:
        """(which addresses, array, index of their bytes in it). Raises: MmuFault."""
        left = np.ones(len(addresses), bool)
        while left.any():
            segment = self._segment(int(addresses[left.argmax()]), access)
            inside = left & (addresses >= segment.low) & (addresses < segment.high)
            at = addresses[inside] - segment.low
            if int(at.max()) + nbytes > len(segment.data):
                raise MmuFault(segment.high, 2, access)
            yield inside, segment.data, at[:, None] + np.arange(nbytes)
            left &= ~inside

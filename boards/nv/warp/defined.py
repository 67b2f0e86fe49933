"""Which bits of registers and predicates were never written, thread by thread."""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array

Place = tuple[int, int]
"""(file, register)."""
_WORDS = (0, 1)
"""Files of words; the others have truths."""


class Undefined:
    """Of registers and predicates, the bits that were never written."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bits: dict[Place, Array] = {}

    def __bool__(self) -> bool:
        return bool(self._bits)

    def __contains__(self, place: Place) -> bool:
        return place in self._bits

    def of(self, place: Place) -> Array:
        """The bits of a register that are not defined. Raises: KeyError for a defined one."""
        return self._bits[place]

    def has(self, place: Place, mask: Array, bits: int) -> bool:
        """Whether any of some bits is not defined in a thread of a mask."""
        found = self._bits.get(place)
        if found is None:
            return False
        some = found[mask]
        return bool((some if some.dtype == np.bool_ else some & np.uint32(bits)).any())

    def put(self, place: Place, bits: Array, mask: Array) -> None:
        """What is not defined of a register that the threads of a mask wrote."""
        row = self._bits.get(place)
        row = np.zeros_like(bits) if row is None else row
        np.copyto(row, bits, where=mask)
        self._bits[place] = row
        if not row.any():
            del self._bits[place]

    def forget(self, place: Place, mask: Array) -> None:
        """A register whose value the threads of a mask, or of these numbers, cannot know."""
        row = self._bits.get(place)
        if row is None:
            row = self._bits[place] = np.zeros(
                self._count, np.uint32 if place[0] in _WORDS else bool
            )
        row[mask] = ALL if place[0] in _WORDS else True

    def clear(self, place: Place, mask: Array) -> None:
        """A register that the threads of a mask wrote whole."""
        row = self._bits.get(place)
        if row is not None:
            row[mask] = 0
            if not row.any():
                del self._bits[place]


ALL = np.uint32(0xFFFFFFFF)

"""Bytes that only the shader processors see: shared memory of workgroups, private of lanes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.wave.races import Races, Running

_ALL: Final = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF}
"""An item of which every byte is written."""
_PAD: Final = 16
"""Bytes behind each owner's, for accesses that begin inside and end outside."""


def step_of(size: int) -> int:
    """From one owner's bytes to the next one's."""
    return -(-size // _PAD) * _PAD + _PAD


class Storage(ABC):
    """Bytes of `owners`, of `size` bytes each."""

    def __init__(self, what: str, owners: int, size: int, races: Races | None = None) -> None:
        self._what, self._size, self._races = what, size, races
        self._step = step_of(size)
        self._bytes = np.zeros(owners * self._step, np.uint8)
        self._written = np.zeros(owners * self._step, np.uint8)

    @abstractmethod
    def owner(self, w: Running, at: Array | None) -> Array:
        """Whose bytes each chosen lane reaches."""

    def place(self, w: Running, at: Array | None, offset: Array, nbytes: int) -> Array:
        """Positions in the array; those outside are behind the owner's bytes."""
        outside = (offset < 0) | (offset + nbytes > self._size)
        if outside.any():
            far = int(offset[np.argmax(outside)])
            w.report(f"{self._what} memory out of bounds", f"byte {far} of {self._size}")
            offset = np.where(outside, self._step - _PAD, offset)
        return self.owner(w, at) * self._step + offset

    def load(self, w: Running, at: Array | None, offset: Array, item: int, count: int) -> Array:
        """Items of each chosen lane, shape (n, count)."""
        place = self.place(w, at, offset, item * count)
        view = self._bytes.view(f"u{item}")
        index = (place // item)[:, None] + np.arange(count)
        if (self._written.view(view.dtype)[index] != _ALL[item]).any():
            w.report(f"{self._what} memory read before it was written", f"items of {item} bytes")
        if self._races is not None:
            self._races.read(w, at, place, item * count)
        answer: Array = view[index]
        return answer

    def store(self, w: Running, at: Array | None, offset: Array, data: Array) -> None:
        """Items of each chosen lane, of shape (n, count)."""
        item, count = data.dtype.itemsize, data.shape[1]
        place = self.place(w, at, offset, item * count)
        if self._races is not None:
            self._races.write(w, at, place, item * count)
        index = (place // item)[:, None] + np.arange(count)
        self._bytes.view(data.dtype)[index] = data
        self._written.view(data.dtype)[index] = _ALL[item]

    def words(self, place: Array) -> Array:
        """Words at positions."""
        answer: Array = self._bytes.view(np.uint32)[place >> 2]
        return answer

    def put_words(self, place: Array, data: Array) -> None:
        """Writes words at positions."""
        self._bytes.view(np.uint32)[place >> 2] = data
        self._written.view(np.uint32)[place >> 2] = _ALL[4]


class SharedMemory(Storage):
    """Of workgroups."""

    def __init__(self, groups: int, size: int, races: Races) -> None:
        super().__init__("shared", groups, size, races)
        self.races = races

    def owner(self, w: Running, at: Array | None) -> Array:
        return _lanes(w, at) // (w.lanes * w.per_group)


class PrivateMemory(Storage):
    """Of lanes."""

    def __init__(self, lanes: int, size: int) -> None:
        super().__init__("private", lanes, size)

    def owner(self, w: Running, at: Array | None) -> Array:
        return _lanes(w, at)


def _lanes(w: Running, at: Array | None) -> Array:
    return np.arange(w.count * w.lanes) if at is None else at

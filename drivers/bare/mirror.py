"""Memory of a card behind a cable, as the host uses it: a copy here, written and fetched.

The host stores to its own copy. `push` writes what has changed since to the card, `fetch` reads
what the card's engines have stored. Both sides store to words of their own: a word that the host
did not change is never written over.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

import numpy as np
import numpy.typing as npt

from drivers.base.contracts import Region

_WORD: Final = 4
LINE: Final = 64
"""Bytes between two parts that are fetched with them: another read costs more."""
NEAR: Final = 8
"""Words without a change between two changes that are written with them: another write costs more.
They are the host's, too: what the card stores to lies in lines of 64 bytes of its own."""


class Mirror:
    """`nbytes` of a card's memory from `first` on, zeros at the start. `view` is the host's."""

    def __init__(self, region: Region, first: int, nbytes: int) -> None:
        self._region, self._first = region, first
        self.nbytes = nbytes
        self._bytes = bytearray(nbytes)
        self.view = memoryview(self._bytes)
        self._now = np.frombuffer(self._bytes, np.uint32)
        self._there = np.zeros(nbytes // _WORD, np.uint32)
        """What the card has, as far as the host knows."""

    def push(self) -> int:
        """Write what has changed, the lower addresses first; how many bytes."""
        changed = np.flatnonzero(self._now != self._there)
        if not len(changed):
            return 0
        cuts = np.flatnonzero(np.diff(changed) > NEAR) + 1
        written = 0
        for run in np.split(changed, cuts):
            written += self._write(int(run[0]), int(run[-1]) + 1)
        return written

    def _write(self, first: int, last: int) -> int:
        words: npt.NDArray[np.uint32] = self._now[first:last].copy()
        self._region.write(self._first + _WORD * first, memoryview(words.tobytes()))
        self._there[first:last] = words
        return words.nbytes

    def fetch(self, off: int, nbytes: int) -> None:
        """Read words that the card's engines store to."""
        data = np.frombuffer(self._region.read(self._first + off, nbytes), np.uint32)
        place = slice(off // _WORD, off // _WORD + len(data))
        self._now[place] = self._there[place] = data


class Mirrors:
    """All of one card."""

    def __init__(self, region: Region, lock: AbstractContextManager[object]) -> None:
        """`lock`: that of the region, where accesses take turns; an own one behind it would make
        two orders of locks."""
        self._region, self.lock = region, lock
        self._all: dict[int, Mirror] = {}
        self._watched: set[tuple[int, int, int]] = set()
        """(which, offset, bytes)."""

    def make(self, first: int, nbytes: int) -> Mirror:
        """Of memory that is zeros."""
        with self.lock:
            made = self._all[first] = Mirror(self._region, first, nbytes)
        return made

    def drop(self, first: int) -> None:
        """The memory is given back."""
        with self.lock:
            self._all.pop(first, None)
            self._watched = {one for one in self._watched if one[0] != first}

    def push(self) -> None:
        """Write what has changed in any of them."""
        with self.lock:
            for mirror in list(self._all.values()):
                mirror.push()

    def fetch(self, first: int, off: int, nbytes: int) -> None:
        """Read a part of the one at `first`."""
        with self.lock:
            self._all[first].fetch(off, nbytes)

    def watch(self, first: int, off: int, nbytes: int) -> None:
        """Read this part with every `look` from now on."""
        with self.lock:
            self._watched.add((first, off, nbytes))

    def look(self) -> None:
        """Read all that is watched; neighbours in one read."""
        with self.lock:
            for first, off, nbytes in _joined(sorted(self._watched)):
                self._all[first].fetch(off, nbytes)


def _joined(parts: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Neighbours in one mirror as one part."""
    found: list[tuple[int, int, int]] = []
    for first, off, nbytes in parts:
        which, start, count = found[-1] if found else (-1, 0, 0)
        if which == first and off <= start + count + LINE:
            found[-1] = (first, start, max(off + nbytes, start + count) - start)
        else:
            found.append((first, off, nbytes))
    return found

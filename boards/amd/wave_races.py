"""Who touched which LDS dword, and since which barrier: races and reads of what nobody wrote.

Reads are only noted: most of them a barrier makes harmless before anybody writes again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from boards.amd.wave_state import Waves
from boards.amd.wave_types import Array

_NEVER, _MANY = -1, -2
_NOTES = 64
"""Reads that may wait to be looked at."""
Found = Callable[[str, int], None]
"""Report a kind of finding and the wave, counted from the first of the chunk."""


class _Note(NamedTuple):
    """A read: LDS dwords, flat lane positions, the waves, barriers signalled and waited for."""

    word: Array
    lanes: Array
    waves: Array
    epoch: Array
    waited: Array


class Races:
    """The last writer and reader of every dword, with the barriers they had signalled.

    An access is ordered after those that came before a barrier its wave has waited for.
    """

    def __init__(self, w: Waves) -> None:
        self._lanes, self._per_group = w.lanes, w.waves_per_group
        self.signals = np.zeros(w.count, np.int64)
        """Barriers that each wave has signalled, and (next) those it has waited for."""
        self.waits = np.zeros(w.count, np.int64)
        size = len(w.lds)
        self._written = np.zeros(size, np.bool_)
        self._complete = self._fresh = False
        self._writer, self._writer_epoch = (np.full(size, _NEVER, np.int32) for _ in range(2))
        self._reader, self._reader_epoch = (np.full(size, _NEVER, np.int32) for _ in range(2))
        groups = w.count // w.waves_per_group
        self._group_write, self._group_read = (np.full(groups, _NEVER) for _ in range(2))
        self._notes: list[_Note] = []

    def mark(self, word: Array) -> None:
        """Dwords that an atomic wrote; atomics do not race with each other."""
        self._written[word] = True
        self._fresh = True

    def read(self, waves: Array, word: Array, index: Array, found: Found) -> None:
        """Lanes at flat positions `index` of `waves` read LDS dwords `word`."""
        if not self._all_written():
            blank = ~self._written[word]
            if blank.any():
                found("unwritten LDS", int(waves[index[int(np.argmax(blank))] // self._lanes]))
        if self._per_group == 1:
            return
        groups = waves // self._per_group
        epoch, waited = self.signals[waves], self.waits[waves]
        if (self._group_write[groups] >= waited).any():
            self._clash(waves, word, index, self._writer, self._writer_epoch, found)
        np.maximum.at(self._group_read, groups, epoch)
        if len(self._notes) >= _NOTES:
            self._look()
        self._notes.append(_Note(word, index, waves, epoch, waited))

    def write(self, waves: Array, word: Array, index: Array, found: Found) -> None:
        """Lanes at flat positions `index` of `waves` write LDS dwords `word`."""
        self.mark(word)
        if self._per_group == 1:
            return
        groups = waves // self._per_group
        waited = self.waits[waves]
        if (self._group_write[groups] >= waited).any():
            self._clash(waves, word, index, self._writer, self._writer_epoch, found)
        if (self._group_read[groups] >= waited).any():
            self._look()
            self._clash(waves, word, index, self._reader, self._reader_epoch, found)
        row = self._rows(waves, index)
        epoch = self.signals[waves]
        self._writer[word], self._writer_epoch[word] = waves[row], epoch[row]
        np.maximum.at(self._group_write, groups, epoch)

    def _all_written(self) -> bool:
        """Whether no dword is blank any more; the padding behind the last one stays so."""
        if self._fresh and not self._complete:
            self._complete, self._fresh = bool(self._written[:-1].all()), False
        return self._complete

    def _clash(
        self, waves: Array, word: Array, index: Array, who: Array, when: Array, found: Found
    ) -> None:
        row = self._rows(waves, index)
        clash = (when[word] >= self.waits[waves][row]) & (who[word] != waves[row])
        if clash.any():
            found("LDS race", int(waves[row[int(np.argmax(clash))]]))

    def _look(self) -> None:
        """Enter the noted reads that can still clash with a write."""
        notes, self._notes = self._notes, []
        passed = self.waits.reshape(-1, self._per_group).min(axis=1)
        for word, index, waves, epoch, waited in notes:
            if (epoch < passed[waves // self._per_group]).all():
                continue
            row = self._rows(waves, index)
            wave = waves[row]
            shared = (self._reader_epoch[word] >= waited[row]) & (self._reader[word] != wave)
            self._reader[word] = np.where(shared, _MANY, wave)
            self._reader_epoch[word] = epoch[row]

    def _rows(self, waves: Array, index: Array) -> Array:
        """The positions in `waves` of flat lane positions."""
        if len(index) == len(waves) * self._lanes:
            return np.repeat(np.arange(len(waves)), self._lanes)
        answer: Array = index // self._lanes
        return answer

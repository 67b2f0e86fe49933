"""Races in shared memory: bytes that two waves of a workgroup touch with no barrier in between.

Each word has its last writer and its last reader since the latest barrier of its workgroup. Where
a word is shared by halves, it counts by bytes.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from boards.machine.arrays import Array

_NOBODY: Final = -1
_MANY: Final = -2
_MOST_NOTES: Final = 64
_ATOMIC: Final = -3
_KIND: Final = "race in shared memory"


class Running(Protocol):
    """The waves that run, as the memory that they share sees them."""

    count: int
    lanes: int
    """Of a wave."""
    per_group: int
    """Waves of a workgroup."""

    def report(self, kind: str, what: str) -> None:
        """A violation at the instruction that runs."""


class Races:
    """Who touched which word since when; an epoch of a workgroup ends at its barrier."""

    def __init__(self, groups: int, nbytes: int, per_group: int) -> None:
        """`nbytes` of all workgroups together."""
        self._off = per_group == 1
        self._everyone: Array | None = None
        """The wave of every lane."""
        self.epoch = np.zeros(groups, np.int32)
        size = 0 if self._off else nbytes
        self._writer = np.full(size, _NOBODY, np.int32)
        self._write_epoch = np.full(size, _NOBODY, np.int32)
        self._wrote = np.full(groups, _NOBODY, np.int32)
        """The epoch of each workgroup's latest write."""
        self._notes: list[tuple[Array, Array, Array]] = []
        """Reads that are not entered yet: most of them a barrier makes harmless."""
        self._reader = np.full(size, _NOBODY, np.int32)
        self._read_epoch = np.full(size, _NOBODY, np.int32)

    def _who(self, w: Running, at: Array | None) -> tuple[Array, Array]:
        if at is None:
            if self._everyone is None:
                self._everyone = self._lanes(w, np.arange(w.count * w.lanes))
            wave = self._everyone
        else:
            wave = self._lanes(w, at)
        return wave, self.epoch[wave // w.per_group]

    @staticmethod
    def _lanes(w: Running, lanes: Array) -> Array:
        answer: Array = (lanes // w.lanes).astype(np.int32)[:, None]
        return answer

    def _units(self, place: Array, nbytes: int) -> Array:
        """Bytes that stand for what is touched, of whole words their first; shape (n, units)."""
        steps = np.arange(0, nbytes, 4) if nbytes >= 4 else np.arange(nbytes)
        answer: Array = place[:, None] + steps
        return answer

    def read(self, w: Running, at: Array | None, place: Array, nbytes: int) -> None:
        """The chosen lanes read."""
        if self._off:
            return
        wave, epoch = self._who(w, at)
        unit = self._units(place, nbytes)
        if (self._wrote >= self.epoch).any():
            self._check(w, unit, wave, epoch, self._writer, self._write_epoch)
        if len(self._notes) >= _MOST_NOTES:
            self._enter(w)
        self._notes.append((unit, wave, epoch))

    def _enter(self, w: Running) -> None:
        """Reads that a write can still clash with; a barrier made the others harmless."""
        notes, self._notes = self._notes, []
        for unit, wave, epoch in notes:
            if (epoch < self.epoch[wave // w.per_group]).all():
                continue
            others = (self._read_epoch[unit] == epoch) & (self._reader[unit] != wave)
            self._reader[unit] = np.where(others, _MANY, wave)
            self._read_epoch[unit] = epoch
            lost = self._reader[unit] != wave
            if lost.any():
                self._reader[unit[lost]] = _MANY

    def write(self, w: Running, at: Array | None, place: Array, nbytes: int) -> None:
        """The chosen lanes write."""
        if self._off:
            return
        wave, epoch = self._who(w, at)
        unit = self._units(place, nbytes)
        self._enter(w)
        self._wrote[wave // w.per_group] = epoch
        self._check(w, unit, wave, epoch, self._writer, self._write_epoch)
        self._check(w, unit, wave, epoch, self._reader, self._read_epoch)
        self._writer[unit], self._write_epoch[unit] = wave, epoch
        if (self._writer[unit] != wave).any():
            w.report(_KIND, "two waves write one place at once")

    def atomic(self, w: Running, at: Array | None, place: Array) -> None:
        """The chosen lanes change words in turn: that races only with plain accesses."""
        if self._off:
            return
        wave, epoch = (each[:, 0] for each in self._who(w, at))
        self._enter(w)
        self._wrote[wave // w.per_group] = epoch
        for who, when in ((self._writer, self._write_epoch), (self._reader, self._read_epoch)):
            clash = (when[place] == epoch) & (who[place] != wave) & (who[place] != _ATOMIC)
            if clash.any():
                w.report(_KIND, "another wave's access since the last barrier")
        self._writer[place], self._write_epoch[place] = _ATOMIC, epoch

    def _check(
        self, w: Running, unit: Array, wave: Array, epoch: Array, who: Array, when: Array
    ) -> None:
        clash = (when[unit] == epoch) & (who[unit] != wave)
        if clash.any():
            w.report(_KIND, "another wave's access since the last barrier")

    def pass_barrier(self, groups: Array) -> None:
        """These workgroups met at their barrier."""
        self.epoch[groups] += 1

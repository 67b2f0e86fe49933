"""Races in shared memory: bytes that two waves of a workgroup touch with no barrier in between.

Each word has its last writer and its last reader since the latest barrier of its workgroup. Where
a word is shared by halves, it counts by bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from boards.machine.arrays import Array

if TYPE_CHECKING:
    from boards.qcom.wave.state import Waves

_NOBODY: Final = -1
_MANY: Final = -2
_ATOMIC: Final = -3
_KIND: Final = "race in shared memory"


class Races:
    """Who touched which word since when; an epoch of a workgroup ends at its barrier."""

    def __init__(self, groups: int, nbytes: int, per_group: int) -> None:
        """`nbytes` of all workgroups together."""
        self._off = per_group == 1
        self.epoch = np.zeros(groups, np.int32)
        size = 0 if self._off else nbytes
        self._writer = np.full(size, _NOBODY, np.int32)
        self._write_epoch = np.full(size, _NOBODY, np.int32)
        self._reader = np.full(size, _NOBODY, np.int32)
        self._read_epoch = np.full(size, _NOBODY, np.int32)

    def _who(self, w: Waves, at: Array | None) -> tuple[Array, Array]:
        lanes = np.arange(w.count * w.lanes) if at is None else at
        wave = (lanes // w.lanes).astype(np.int32)
        return wave, self.epoch[wave // w.per_group]

    def _units(self, place: Array, nbytes: int) -> list[Array]:
        """Bytes that stand for what is touched: of whole words their first."""
        if nbytes >= 4:
            return [place + part for part in range(0, nbytes, 4)]
        return [place + part for part in range(nbytes)]

    def read(self, w: Waves, at: Array | None, place: Array, nbytes: int) -> None:
        """The chosen lanes read."""
        if self._off:
            return
        wave, epoch = self._who(w, at)
        for byte in self._units(place, nbytes):
            self._check(w, byte, wave, epoch, self._writer, self._write_epoch)
            others = (self._read_epoch[byte] == epoch) & (self._reader[byte] != wave)
            self._reader[byte] = np.where(others, _MANY, wave)
            self._read_epoch[byte] = epoch
            lost = self._reader[byte] != wave
            if lost.any():
                self._reader[byte[lost]] = _MANY

    def write(self, w: Waves, at: Array | None, place: Array, nbytes: int) -> None:
        """The chosen lanes write."""
        if self._off:
            return
        wave, epoch = self._who(w, at)
        for byte in self._units(place, nbytes):
            self._check(w, byte, wave, epoch, self._writer, self._write_epoch)
            self._check(w, byte, wave, epoch, self._reader, self._read_epoch)
            self._writer[byte], self._write_epoch[byte] = wave, epoch
            if (self._writer[byte] != wave).any():
                w.report(_KIND, "two waves write one place at once")

    def atomic(self, w: Waves, at: Array | None, place: Array) -> None:
        """The chosen lanes change words in turn: that races only with plain accesses."""
        if self._off:
            return
        wave, epoch = self._who(w, at)
        for who, when in ((self._writer, self._write_epoch), (self._reader, self._read_epoch)):
            clash = (when[place] == epoch) & (who[place] != wave) & (who[place] != _ATOMIC)
            if clash.any():
                w.report(_KIND, "another wave's access since the last barrier")
        self._writer[place], self._write_epoch[place] = _ATOMIC, epoch

    def _check(
        self, w: Waves, byte: Array, wave: Array, epoch: Array, who: Array, when: Array
    ) -> None:
        clash = (when[byte] == epoch) & (who[byte] != wave)
        if clash.any():
            w.report(_KIND, "another wave's access since the last barrier")

    def pass_barrier(self, groups: Array) -> None:
        """These workgroups met at their barrier."""
        self.epoch[groups] += 1

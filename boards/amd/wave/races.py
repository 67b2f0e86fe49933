"""Who touched which bytes of LDS, and since which barrier: races and reads of unwritten bytes.

Reads are only noted: most of them a barrier makes harmless before the next write. A store of the
bytes that are there already races with nothing: every order of it and the others gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from boards.amd.wave.state import Waves
from boards.machine.arrays import Array, Words

_NEVER, _MANY = -1, -2
_NOTES = 64
"""Reads that may wait to be checked."""
DWORD = np.array([15], np.uint8)
"""All four bytes of a dword, a bit each."""
_BYTES = np.array(
    [sum(0xFF << 8 * i for i in range(4) if octets >> i & 1) for octets in range(16)], np.uint32
)
"""The bits of a dword's bytes, by the bytes."""
Found = Callable[[str, int], None]
"""Report a kind of violation and the wave, counted from the first of the chunk."""


class Stored(NamedTuple):
    """What each lane stores: LDS dwords, which of their bytes, and the dwords' values."""

    word: Array
    octets: Array
    value: Words

    def differs(self, words: Words) -> Array:
        """Where it changes the bytes of `words`."""
        return np.asarray((self.value ^ words) & _BYTES[self.octets] != 0)

    def overruled(self, room: Words) -> Array:
        """Where a later lane of the same instruction stores other bytes to the same place; `room`
        is as large as LDS, and overwritten."""
        if self.octets is DWORD:
            room[self.word] = self.value
            return np.asarray(room[self.word] != self.value)
        wrong = np.zeros(len(self.word), np.bool_)
        for i in range(4):
            lanes = np.flatnonzero(self.octets >> i & 1)
            octet = self.value[lanes] >> np.uint32(8 * i) & np.uint32(0xFF)
            room[self.word[lanes]] = octet
            wrong[lanes] |= room[self.word[lanes]] != octet
        return wrong


class _Note(NamedTuple):
    """A read: LDS dwords, which of their bytes, flat lane positions, the waves, barriers signalled
    and waited for."""

    word: Array
    octets: Array
    lanes: Array
    waves: Array
    epoch: Array
    waited: Array


class Last:
    """Who touched each dword last: the wave, the barriers it had signalled, which bytes."""

    def __init__(self, size: int, groups: int, per_group: int) -> None:
        self.wave = np.full(size, _NEVER, np.int32)
        self.epoch = np.full(size, _NEVER, np.int32)
        self.octets = np.zeros(size, np.uint8)
        self.group = np.full(groups, _NEVER)
        """The latest epoch of any access of a workgroup."""
        self._per_group = per_group
        self._alike: Words | None = None
        """The other waves of the workgroup that stored the same bytes, a bit each (at most 32)."""

    def _bit(self, wave: Array) -> Words:
        answer: Words = np.uint32(1) << (wave % self._per_group).astype(np.uint32)
        return answer

    def share(self, word: Array, wave: Array, repeats: Array) -> None:
        """Waves stored to dwords, in the lanes of `repeats` what another wave had stored, too."""
        if self._alike is None:
            if not repeats.any():
                return
            self._alike = np.zeros(len(self.wave), np.uint32)
        self._alike[word[~repeats]] = 0
        np.bitwise_or.at(self._alike, word[repeats], self._bit(wave[repeats]))

    def enter(self, word: Array, wave: Array, epoch: Array, octets: Array) -> Array:
        """Note an access; those whose bytes another wave touched in the same step."""
        held = octets
        if octets is not DWORD:
            same = (self.wave[word] == wave) & (self.epoch[word] == epoch)
            held = octets | np.where(same, self.octets[word], np.uint8(0))
        self.wave[word], self.epoch[word] = wave, epoch
        lost: Array = self.wave[word] != wave
        if octets is DWORD:
            self.octets[word] = octets
            return lost
        self.octets[word] = 0
        np.bitwise_or.at(self.octets, word[~lost], held[~lost])
        return np.asarray(lost & (self.octets[word] & octets != 0))

    def since(
        self, word: Array, waited: Array, wave: Array, octets: Array, *, storing: bool
    ) -> Array:
        """Where another wave touched the same bytes, with no barrier in between.

        A wave reads bytes that it stored, too, whichever of the stores came last.
        """
        late: Array = self.epoch[word] >= waited
        if not late.any():
            return late
        other = self.wave[word] != wave
        if self._alike is not None:
            alike, own = self._alike[word], self._bit(wave)
            other = other | (alike & ~own != 0) if storing else other & (alike & own == 0)
        return np.asarray(late & other & (self.octets[word] & octets != 0))

    def put_off(self, wave: int, epoch: int, group: int) -> None:
        """What a wave did before its last barrier happens after it."""
        self.epoch[(self.wave == wave) & (self.epoch == epoch)] = epoch + 1
        self.group[group] = max(int(self.group[group]), epoch + 1)


class Races:
    """The last writer and reader of every dword, with the barriers they had signalled.

    An access is ordered after those that came before a barrier its wave has waited for. `octets`
    are the bytes touched, a bit each; DWORD for all.
    """

    def __init__(self, w: Waves) -> None:
        self._lanes, self._per_group = w.lanes, w.waves_per_group
        self.signals = np.zeros(w.count, np.int64)
        """Barriers that each wave has signalled, and (next) those it has waited for."""
        self.waits = np.zeros(w.count, np.int64)
        size, groups = len(w.lds), w.count // w.waves_per_group
        self._written = np.zeros(size, np.uint8)
        self._complete = self._fresh = False
        self._writes, self._reads = (Last(size, groups, self._per_group) for _ in range(2))
        self._lds, self._room = w.lds, np.zeros(0, np.uint32)
        self._notes: list[_Note] = []

    def signal(self, waves: Array, late: Array) -> None:
        """Waves arrive at their barrier; what those in `late` did may happen after it."""
        for wave in waves[late]:
            self._look()
            group = int(wave) // self._per_group
            for last in (self._writes, self._reads):
                last.put_off(int(wave), int(self.signals[wave]), group)
        self.signals[waves] += 1

    def mark(self, word: Array, octets: Array = DWORD) -> None:
        """Dwords that an atomic wrote; atomics do not race: an atomic load is a plain one."""
        if octets is DWORD:
            self._written[word] = octets
        else:
            np.bitwise_or.at(self._written, word, octets)
        self._fresh = True

    def read(self, waves: Array, word: Array, octets: Array, index: Array, found: Found) -> None:
        """Lanes at flat positions `index` of `waves` read LDS dwords `word`."""
        if not self._all_written():
            blank = octets & ~self._written[word] != 0
            if blank.any():
                found("unwritten LDS", int(waves[index[int(np.argmax(blank))] // self._lanes]))
        if self._per_group == 1:
            return
        groups = waves // self._per_group
        epoch, waited = self.signals[waves], self.waits[waves]
        if (self._writes.group[groups] >= waited).any():
            row = self._rows(waves, index)
            clash = self._writes.since(word, waited[row], waves[row], octets, storing=False)
            if clash.any():
                found("LDS race", int(waves[row[int(np.argmax(clash))]]))
        np.maximum.at(self._reads.group, groups, epoch)
        if len(self._notes) >= _NOTES:
            self._look()
        self._notes.append(_Note(word, octets, index, waves, epoch, waited))

    def write(self, waves: Array, stored: Stored, index: Array, found: Found) -> None:
        """Lanes at flat positions `index` of `waves` are about to store."""
        word, octets, _ = stored
        self.mark(word, octets)
        if self._per_group == 1:
            return
        groups = waves // self._per_group
        row = self._rows(waves, index)
        wave, waited, epoch = waves[row], self.waits[waves], self.signals[waves]
        repeats = wrong = np.zeros(len(word), np.bool_)
        if (self._writes.group[groups] >= waited).any():
            clash = self._writes.since(word, waited[row], wave, octets, storing=True)
            wrong = clash & stored.differs(self._lds[word])
            repeats = clash & ~wrong
        if (self._reads.group[groups] >= waited).any():
            self._look()
            clash = self._reads.since(word, waited[row], wave, octets, storing=True)
            wrong = wrong | clash & stored.differs(self._lds[word])
        earlier = self._writes.wave[word] if repeats.any() else wave
        lost = self._writes.enter(word, wave, epoch[row], octets)
        if lost.any():
            if not len(self._room):
                self._room = np.zeros_like(self._lds)
            wrong = wrong | lost & stored.overruled(self._room)
        self._writes.share(word, np.where(lost, wave, earlier), (repeats | lost) & ~wrong)
        if wrong.any():
            found("LDS race", int(wave[int(np.argmax(wrong))]))
        np.maximum.at(self._writes.group, groups, epoch)

    def _all_written(self) -> bool:
        """Whether no byte is blank any more; the padding behind the last dword stays so."""
        if self._fresh and not self._complete:
            self._complete, self._fresh = bool((self._written[:-1] == DWORD).all()), False
        return self._complete

    def _look(self) -> None:
        """Enter the noted reads that can still clash with a write."""
        notes, self._notes = self._notes, []
        passed = self.waits.reshape(-1, self._per_group).min(axis=1)
        reads = self._reads
        for word, octets, index, waves, epoch, waited in notes:
            if (epoch < passed[waves // self._per_group]).all():
                continue
            row = self._rows(waves, index)
            wave = waves[row]
            shared = (reads.epoch[word] >= waited[row]) & (reads.wave[word] != wave)
            both = octets
            if octets is not DWORD:
                both = octets | np.where(shared, reads.octets[word], np.uint8(0))
            reads.enter(word, np.where(shared, _MANY, wave), epoch[row], both)

    def _rows(self, waves: Array, index: Array) -> Array:
        """The positions in `waves` of flat lane positions."""
        if len(index) == len(waves) * self._lanes:
            return np.repeat(np.arange(len(waves)), self._lanes)
        answer: Array = index // self._lanes
        return answer

"""Memory that GPUs reach: VRAM, system memory of the driver, pages of the process.

A pool is one range of host memory seen as numpy arrays. VRAM that was never written holds poison:
words that depend on their own place, so that reading one is noticed without shadow memory.
"""

from __future__ import annotations

import os
import weakref

import numpy as np

from boards.machine import host
from boards.machine.arrays import Array, Words

LINE_SHIFT = 7
"""Caches exchange 128-byte lines. # src: kfd_crat.c cache_line_size 128 of gfx10+ and gfx9.4.3"""
_PAGE_SHIFT = 12
_WORDS_PER_PAGE = host.PAGE_BYTES // 4
_BLOCK_SHIFT = 16
"""Poison is accounted by blocks of 64 KiB."""
_WORD_MASK = 0xFFFFFFFF
_FACTOR, _SALT = np.uint32(0x9E3779B1), np.uint32(0x5EED1235)


def poison(first: int, count: int) -> Words:
    """What words number `first`... of VRAM hold before their first write."""
    index = np.arange(first, first + count, dtype=np.uint32)
    return index * _FACTOR + _SALT


def poison_at(first: int, words: list[int]) -> int:
    """Number of the first of a few words, `first`..., that is poison; -1: none is."""
    factor, salt = int(_FACTOR), int(_SALT)
    for number, word in enumerate(words, first):
        if word == number * factor + salt & _WORD_MASK:
            return number
    return -1


class Pool:
    """One range of host memory: bytes, dwords, and who wrote each cache line."""

    def __init__(self, name: str, va: int, nbytes: int, fd: int = -1) -> None:
        self.name, self.va, self.nbytes, self.fd = name, va, nbytes, fd
        self.bytes: Array = np.frombuffer(host.view(va, nbytes), np.uint8)
        self.words: Words = self.bytes[: nbytes & -4].view(np.uint32)
        lines = (nbytes >> LINE_SHIFT) + 1
        self.writer = np.zeros(lines, np.uint16)
        self.written_at = np.zeros(lines, np.uint32)
        self.poisoned = False
        """Whether fresh memory of this pool is undefined."""

    def prepare(self, off: int, nbytes: int) -> None:
        """Before a range is read for the first time."""

    def forget(self, off: int, nbytes: int) -> None:
        """A range has been freed: earlier writes to it are gone."""
        lines = slice(off >> LINE_SHIFT, (off + nbytes - 1 >> LINE_SHIFT) + 1)
        self.writer[lines] = 0

    def may_be_undefined(self, low: int, high: int) -> bool:
        """Whether poison can be left between two offsets."""
        return False

    def is_guarded(self, off: int, nbytes: int) -> bool:
        """Whether part of a range is the firmware's alone."""
        return False


class FilePool(Pool):
    """A pool in a memory file of its own, which can be mapped a second time.

    The file lives as long as any array of it.
    """

    def __init__(self, name: str, nbytes: int) -> None:
        fd = host.memory_file(name, nbytes)
        super().__init__(name, host.map_file(fd, 0, nbytes), nbytes, fd)
        weakref.finalize(self.bytes, _release, self.va, nbytes, fd).atexit = False

    def forget(self, off: int, nbytes: int) -> None:
        super().forget(off, nbytes)
        host.punch(self.fd, off, nbytes)

    def empty(self) -> None:
        """Give all pages back at once; they read as zeros."""
        host.punch(self.fd, 0, self.nbytes)


def _release(va: int, nbytes: int, fd: int) -> None:
    host.unmap(va, nbytes)
    os.close(fd)


class Vram(FilePool):
    """Memory of a GPU. Raw pages become poison when they are first read."""

    def __init__(self, name: str, nbytes: int) -> None:
        super().__init__(name, nbytes)
        self.poisoned = True
        self._raw = np.ones(nbytes >> _PAGE_SHIFT, np.bool_)
        self._suspect = np.zeros((nbytes >> _BLOCK_SHIFT) + 1, np.bool_)
        self._looks = np.zeros((nbytes >> _BLOCK_SHIFT) + 1, np.uint16)

    def prepare(self, off: int, nbytes: int) -> None:
        """Poison the raw pages of a range; called when it is mapped."""
        first, last = off >> _PAGE_SHIFT, (off + nbytes - 1 >> _PAGE_SHIFT) + 1
        raw = self._raw[first:last]
        if not raw.any():
            return
        edges = np.flatnonzero(np.diff(np.concatenate(([False], raw, [False])).view(np.int8)))
        for start, end in edges.reshape(-1, 2).tolist():
            word = (first + start) * _WORDS_PER_PAGE
            count = (end - start) * _WORDS_PER_PAGE
            self.words[word : word + count] = poison(word, count)
        raw[:] = False
        self._suspect[off >> _BLOCK_SHIFT : (off + nbytes - 1 >> _BLOCK_SHIFT) + 1] = True

    def zero(self, off: int, nbytes: int) -> None:
        """Clear a range for the kernel's own use: page tables."""
        self.bytes[off : off + nbytes] = 0
        self._raw[off >> _PAGE_SHIFT : off + nbytes - 1 + host.PAGE_BYTES >> _PAGE_SHIFT] = False

    def forget(self, off: int, nbytes: int) -> None:
        """Freed memory is raw again: what was in it cannot be read."""
        super().forget(off, nbytes)
        self._raw[off >> _PAGE_SHIFT : off + nbytes - 1 + host.PAGE_BYTES >> _PAGE_SHIFT] = True

    def may_be_undefined(self, low: int, high: int) -> bool:
        """Whether poison can be left; reads a block once in a while to settle it."""
        first, last = low >> _BLOCK_SHIFT, (high - 1 >> _BLOCK_SHIFT) + 1
        if last - first == 1 and not self._suspect[first]:
            return False
        suspect = self._suspect[first:last]
        if not suspect.any():
            return False
        looks = self._looks[first:last]
        looks += suspect
        for block in np.flatnonzero(suspect & (looks & (looks - 1) == 0)).tolist():
            words = 1 << _BLOCK_SHIFT - 2
            start = (first + block) * words
            part = self.words[start : start + words]
            suspect[block] = bool((part == poison(start, len(part))).any())
        return bool(suspect.any())

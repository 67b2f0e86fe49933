"""Free ranges of numbers: what lies at the bottom of both allocators, of pages and of addresses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

_TRIES = 16
"""Ranges that are tried for one whose alignment happens to fit."""


class Extents:
    """Free ranges of [first, last), never two of them touching. Best fit."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.free_bytes = 0
        self._starts: list[int] = []
        self._ends: dict[int, int] = {}
        self._by_size: list[tuple[int, int]] = []
        if first < last:
            self._add(first, last)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def largest_bytes(self) -> int:
        """The longest free range."""
        return self._by_size[-1][0] if self._by_size else 0

    def _add(self, start: int, end: int) -> None:
        insort(self._starts, start)
        self._ends[start] = end
        insort(self._by_size, (end - start, start))
        self.free_bytes += end - start

    def _remove(self, start: int) -> int:
        end = self._ends.pop(start)
        del self._starts[bisect_left(self._starts, start)]
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        self.free_bytes -= end - start
        return end

    def _candidates(self, nbytes: int, align: int) -> list[int]:
        """Starts of ranges that are long enough, and of one that surely fits; the smallest first"""
        at = bisect_left(self._by_size, (nbytes, 0))
        found = [start for _, start in self._by_size[at : at + _TRIES]]
        sure = bisect_left(self._by_size, (nbytes + align - 1, 0))
        if sure < len(self._by_size):
            found.append(self._by_size[sure][1])
        return found

    def take(self, nbytes: int, align: int) -> int | None:
        """The start of `nbytes` that were free, a multiple of `align`; None when none fits."""
        for start in self._candidates(nbytes, align):
            place = -(-start // align) * align
            if place + nbytes <= self._ends[start]:
                self._cut(start, place, nbytes)
                return place
        return None

    def take_largest(self, most_bytes: int) -> tuple[int, int] | None:
        """(start, length) of the longest free range, or of its first `most_bytes`."""
        if not self._by_size:
            return None
        size, start = self._by_size[-1]
        size = min(size, most_bytes)
        self._cut(start, start, size)
        return start, size

    def _cut(self, start: int, place: int, nbytes: int) -> None:
        end = self._remove(start)
        if start < place:
            self._add(start, place)
        if place + nbytes < end:
            self._add(place + nbytes, end)

    def give(self, start: int, nbytes: int) -> None:
        """Free again. Raises: ValueError for a range that is free already, or not of these."""
        end = start + nbytes
        at = bisect_right(self._starts, start)
        before = self._starts[at - 1] if at else None
        after = self._starts[at] if at < len(self._starts) else None
        overlaps = (before is not None and self._ends[before] > start) or (
            after is not None and after < end
        )
        if overlaps or nbytes <= 0 or start < self.first or end > self.last:
            raise ValueError(f"{start:#x}+{nbytes:#x} is not a range that was taken")
        if before is not None and self._ends[before] == start:
            self._remove(before)
            start = before
        if after == end:
            end = self._remove(end)
        self._add(start, end)

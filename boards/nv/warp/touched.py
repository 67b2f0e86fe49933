"""Races in shared memory.

Two warps that touch one byte with no barrier of the block between them race if one of them writes.
A write of what is there already is not reported, nor a load beside an atomic: code of nvrtc 13.5
loads a word and then tries ATOMS.CAST.
"""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array

_GRAIN = 16
"""Bytes that are followed together until an access is smaller."""
_MANY = -1


class Touched:
    """Which warp touched which bytes of shared memory since the block's last barrier."""

    def __init__(self, blocks: int, nbytes: int) -> None:
        self._blocks, self._grain = blocks, _GRAIN
        self._row = -(-nbytes // _GRAIN)
        shape = blocks * self._row
        self._writer, self._reader, self._atomic = (np.zeros(shape, np.int16) for _ in range(3))
        self._wrote = self._changed = False
        self._reads: list[tuple[Array, Array, int, Array]] = []

    def _cells(self, rows: Array, columns: Array, nbytes: int) -> Array:
        while nbytes < self._grain:
            self._grain //= 2
            self._row *= 2
            self._writer, self._reader, self._atomic = (
                np.repeat(x, 2) for x in (self._writer, self._reader, self._atomic)
            )
        first = rows * self._row + columns // self._grain
        count = nbytes // self._grain
        return np.asarray(np.add(first[:, None], np.arange(count)))

    @staticmethod
    def _mark(table: Array, cells: Array, who: Array) -> None:
        before = table[cells]
        table[cells] = np.where((before == 0) | (before == who), who, _MANY)
        lost = table[cells]
        if (lost != who).any():
            table[cells[(lost != who)]] = _MANY

    @staticmethod
    def _others(table: Array, cells: Array, who: Array) -> Array:
        found = table[cells]
        return np.asarray(np.logical_and(found != 0, found != who))

    def _settle(self) -> None:
        """Earlier reads into the table; nobody asks for most of them before a barrier."""
        for rows, columns, nbytes, who in self._reads:
            cells = self._cells(rows, columns, nbytes)  # may replace the tables by finer ones
            self._mark(self._reader, cells, who[:, None])
        self._reads.clear()

    def read(self, rows: Array, columns: Array, nbytes: int, who: Array) -> bool:
        """Whether another warp has written what is read."""
        self._reads.append((rows, columns, nbytes, who))
        if not self._wrote:
            return False
        cells, by = self._cells(rows, columns, nbytes), who[:, None]
        return bool(self._others(self._writer, cells, by).any())

    def write(self, rows: Array, columns: Array, nbytes: int, who: Array, new: Array) -> bool:
        """Whether another warp has touched what is written and changed."""
        self._settle()
        self._wrote = True
        cells, by = self._cells(rows, columns, nbytes), who[:, None]
        found = self._others(self._reader, cells, by) | self._others(self._writer, cells, by)
        found |= self._others(self._atomic, cells, by)
        self._mark(self._writer, cells, by)
        return bool((found & new[:, None]).any())

    def change(self, rows: Array, columns: Array, nbytes: int, who: Array) -> bool:
        """Whether another warp has written what is changed."""
        self._settle()
        self._changed = True
        cells, by = self._cells(rows, columns, nbytes), who[:, None]
        self._mark(self._atomic, cells, by)
        return bool(self._others(self._writer, cells, by).any())

    def barrier(self, blocks: Array) -> None:
        """A barrier of whole blocks orders what came before it."""
        if blocks.all():
            self._reads.clear()
            if self._wrote or self._changed:
                self._wrote = self._changed = False
                self._writer[:], self._atomic[:] = 0, 0
            self._reader[:] = 0
            return
        self._settle()
        for table in (self._writer, self._reader, self._atomic):
            table.reshape(self._blocks, self._row)[blocks] = 0

"""Elements between vectors of waves and a pool: slices when dense, wide gathers otherwise."""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array, Words
from boards.machine.pool import Pool

_DWORD = 4
_WIDE = {8: np.uint64, 16: np.complex128}
"""Types that move two or four dwords as one element; numpy copies them bit by bit."""


def is_dense(off: Array, nbytes: int) -> bool:
    """Whether elements follow each other without a gap, in ascending order."""
    count = len(off)
    if count == 1:
        return True
    if int(off[-1]) - int(off[0]) != (count - 1) * nbytes:
        return False
    return bool((off[1:] - off[:-1] == nbytes).all())


def gather(pool: Pool, off: Array, nbytes: int, dense: bool) -> Words:
    """Elements at byte offsets, zero-extended. Shapes: (n,) -> (dwords, n)."""
    if nbytes < _DWORD or int(np.bitwise_or.reduce(off)) & _DWORD - 1:
        return _gather_bytes(pool, off, nbytes)
    dwords = nbytes // _DWORD
    if dense:
        first = int(off[0]) // _DWORD
        block = pool.words[first : first + dwords * len(off)]
        columns: Words = block.reshape(len(off), dwords).T.copy()
        return columns
    wide = _WIDE.get(nbytes)
    if wide is not None and not int(np.bitwise_or.reduce(off)) & nbytes - 1:
        elements: Array = pool.bytes[: pool.nbytes & -nbytes].view(wide)[off // nbytes]
        return elements.view(np.uint32).reshape(len(off), dwords).T.copy()
    index = off >> 2
    return np.stack([pool.words[index + i] for i in range(dwords)])


def _gather_bytes(pool: Pool, off: Array, nbytes: int) -> Words:
    if nbytes == 2 and not int(np.bitwise_or.reduce(off)) & 1:
        halves: Words = pool.bytes.view(np.uint16)[off >> 1].astype(np.uint32)[None]
        return halves
    rows = np.zeros((max(1, nbytes // _DWORD), len(off)), np.uint32)
    for i in range(nbytes):
        shift = np.uint32(8 * (i % _DWORD))
        rows[i // _DWORD] |= pool.bytes[off + i].astype(np.uint32) << shift
    return rows


def scatter(pool: Pool, off: Array, data: Words, nbytes: int, dense: bool) -> None:
    """The low `nbytes` of each column to its offset; a later column wins."""
    if nbytes < _DWORD or int(np.bitwise_or.reduce(off)) & _DWORD - 1:
        _scatter_bytes(pool, off, data, nbytes)
        return
    dwords = nbytes // _DWORD
    if dense:
        first = int(off[0]) // _DWORD
        block = pool.words[first : first + dwords * len(off)]
        block.reshape(len(off), dwords)[:] = data[:dwords].T
        return
    wide = _WIDE.get(nbytes)
    if wide is not None and not int(np.bitwise_or.reduce(off)) & nbytes - 1:
        elements: Array = np.ascontiguousarray(data[:dwords].T).view(wide)[:, 0]
        pool.bytes[: pool.nbytes & -nbytes].view(wide)[off // nbytes] = elements
        return
    index = off >> 2
    for i in range(dwords):
        pool.words[index + i] = data[i]


def _scatter_bytes(pool: Pool, off: Array, data: Words, nbytes: int) -> None:
    for i in range(nbytes):
        octets = data[i // _DWORD] >> np.uint32(8 * (i % _DWORD))
        pool.bytes[off + i] = octets.astype(np.uint8)

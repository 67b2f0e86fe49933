"""Registers, predicates and program counters of the threads that run together.

A row of an array is a register, a column a thread; thread 32 w + l is lane l of warp w. Uniform
registers are kept a thread, too: the lanes of a warp have equal values.
"""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array
from boards.nv.launch import Launch
from boards.nv.warp.arch import of_chip
from boards.nv.warp.barrier import Barriers
from boards.nv.warp.copies import Copies
from boards.nv.warp.defined import Undefined
from boards.nv.warp.fields import TRUE, ZERO
from boards.nv.warp.memory import Lanes
from boards.nv.warp.touched import Touched

LANES = 32
POISON = 0xDEADBEEF
_CONVERGENCE = 16
_LARGEST = 16
_WEIGHTS = (1 << np.arange(LANES, dtype=np.uint64)).astype(np.uint64)
RUNNING, AT_BARRIER, AT_WARPSYNC, AT_CONVERGENCE = 0, 1, 2, 3
"""What a thread waits for; AT_CONVERGENCE + n is for convergence barrier n."""


def _memory(rows: int, nbytes: int) -> tuple[Array, Array]:
    """Bytes, and which of them are known; a row is a multiple of the largest access."""
    shape = rows, -(-nbytes // _LARGEST) * _LARGEST
    return np.zeros(shape, np.uint8), np.zeros(shape, bool)


class Threads:
    """Everything that instructions of a chunk of blocks change."""

    def __init__(self, launch: Launch, first_block: int, blocks: int) -> None:
        self.launch = launch
        per_block = launch.block[0] * launch.block[1] * launch.block[2]
        self.padded = -(-per_block // LANES) * LANES
        self.count = blocks * self.padded
        index = np.arange(self.count, dtype=np.int64)
        self.thread = index % self.padded
        self.block = index // self.padded
        self.block_id = self.block + first_block
        self.lane = (index % LANES).astype(np.uint32)
        self.registers = np.full((ZERO + 1, self.count), POISON, np.uint32)
        self.uniform_zero = of_chip(launch.chip).uniform_zero
        self.uniforms = np.full((self.uniform_zero + 1, self.count), POISON, np.uint32)
        self.registers[ZERO] = self.uniforms[self.uniform_zero] = 0
        self.predicates = np.zeros((TRUE + 1, self.count), bool)
        self.uniform_predicates = np.zeros((TRUE + 1, self.count), bool)
        self.predicates[TRUE] = self.uniform_predicates[TRUE] = True
        self.alive = self.thread < per_block
        self.pc = np.zeros(self.count, np.int64)
        self.waits = np.zeros(self.count, np.int32)
        self.partners = np.zeros((_CONVERGENCE, self.count), np.uint64)
        """Of a convergence barrier: the lanes that a thread meets there."""
        self.yielded = np.zeros(self.count, bool)
        """Whether a thread ran YIELD since it last reached a convergence barrier."""
        self.sync_mask = np.zeros(self.count, np.uint64)
        self.shared, self.shared_known = _memory(blocks, launch.shared_bytes)
        self.local, self.local_known = _memory(self.count, launch.local_bytes)
        self.touched = Touched(blocks, launch.shared_bytes)
        self.index = index
        self.whole = False
        """Whether the instruction that runs is that of all threads."""
        self.warp = (self.thread // LANES + 1).astype(np.int16)
        self.draw: np.random.Generator | None = None
        """Draws the order of atomics that meet; without it, that of the lanes."""
        self.cycles = 0
        """What the clocks of code show."""
        self.undefined = Undefined(self.count)
        self.copies = Copies(self.count)
        self.barriers = Barriers(blocks, self.padded, self.alive)

    def chosen(self, mask: Array) -> Lanes:
        """The threads of a mask, as an index."""
        return slice(None) if self.whole else np.flatnonzero(mask)

    def lanes(self, mask: Array) -> Array:
        """A mask of each thread's warp, as a number for each thread."""
        packed = mask.reshape(-1, LANES).astype(np.uint64) @ _WEIGHTS
        return np.repeat(packed, LANES)

    def whole_warps(self, mask: Array) -> Array:
        """All threads of the warps that have one in the mask."""
        return np.repeat(mask.reshape(-1, LANES).any(axis=1), LANES)

    def put(self, register: int, value: Array, mask: Array) -> None:
        """A register of the threads of a mask."""
        if register != ZERO:
            if self.whole:
                self.registers[register] = value
            else:
                np.copyto(self.registers[register], value, where=mask, casting="unsafe")

    def put_uniform(self, register: int, value: Array, mask: Array) -> None:
        """A uniform register of the warps of a mask."""
        if register != self.uniform_zero:
            row = self.uniforms[register]
            if self.whole:
                row[:] = value
            else:
                np.copyto(row, value, where=self.whole_warps(mask), casting="unsafe")

    def put_predicate(self, predicate: int, value: Array, mask: Array) -> None:
        """A predicate of the threads of a mask."""
        if predicate != TRUE:
            if self.whole:
                self.predicates[predicate] = value
            else:
                np.copyto(self.predicates[predicate], value, where=mask)

    def put_uniform_predicate(self, predicate: int, value: Array, mask: Array) -> None:
        """A uniform predicate of the warps of a mask."""
        if predicate != TRUE:
            np.copyto(self.uniform_predicates[predicate], value, where=self.whole_warps(mask))

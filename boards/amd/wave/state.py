"""The state of all waves that run at the same time, and the selection an instruction works on."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.wave.types import Memory, Privileged, Unmapped
from boards.machine.arrays import Array, Words

SGPRS = 128
VCC, EXEC = 106, 126
_NULL = 124
ACCUMULATORS = 256
_POISON = 0xDEADBEEF
_INDEXED = np.uint32(1 << 27)
"""MODE.gpr_idx_en of gfx9."""
_BYTE_BITS = 8
WORD_BITS = 32


def pack_bits(mask: Array) -> Words:
    """Lane masks (n, lanes) of bool as dwords (n, lanes / 32)."""
    full = np.ascontiguousarray(mask)
    return np.packbits(full, axis=1, bitorder="little").view(np.uint32)


def unpack_bits(words: Words) -> Array:
    """Dwords (n, lanes / 32) as lane masks (n, lanes) of bool."""
    octets = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)


def _registers(vgprs: int, accumulators: int, count: int, lanes: int) -> Words:
    """Poisoned rows; those between the two kinds of registers are never touched."""
    if not accumulators:
        return np.full((vgprs, count, lanes), _POISON, np.uint32)
    rows = np.empty((ACCUMULATORS + accumulators, count, lanes), np.uint32)
    rows[:vgprs] = _POISON
    rows[ACCUMULATORS:] = _POISON
    return rows


class Witness(Protocol):
    """What instructions report to the strict checks; `w` has the waves that execute selected."""

    def far_read(self, w: Waves, inst: Instruction, registers: Array) -> None:
        """Vector registers that each selected wave (n,) reads through M0."""
        ...

    def far_write(self, w: Waves, registers: Array) -> None:
        """Vector registers that each selected wave (n,) wrote through M0."""
        ...

    def far_scalar_write(self, w: Waves, registers: Array) -> None:
        """Scalar registers that each selected wave (n,) wrote through M0."""
        ...

    def wait(self, w: Waves, counter: str, count: int) -> None:
        """At most `count` operations of a counter are left."""
        ...

    def misaligned(self, w: Waves, inst: Instruction, lost: Array) -> None:
        """Low bits of addresses that hardware drops, for each selected wave (n,)."""
        ...

    def mark_lds(self, w: Waves, at: Array, nbytes: int) -> None:
        """Dwords that an atomic wrote."""
        ...

    def lds(
        self, w: Waves, inst: Instruction, at: Array, index: Array, nbytes: int,
        data: Words | None,
    ) -> None:  # fmt: skip
        """An ordinary access to LDS bytes `at` by lanes at flat positions `index`: a read, or a
        store of columns of `data`, which is not done yet."""
        ...


class Waves:
    """Registers of `count` waves of `lanes` lanes, and which of them execute now.

    Shapes: vgpr (registers, waves, lanes), sgpr (128, waves), scc and mode (waves,).
    """

    def __init__(
        self, count: int, lanes: int, vgprs: int, lds_bytes: int, groups: int,
        null: int = _NULL, accumulators: int = 0,
    ) -> None:  # fmt: skip
        self.count, self.lanes = count, lanes
        self.waves_per_group = count // groups
        self.vgprs = vgprs
        self.vgpr = _registers(vgprs, accumulators, count, lanes)
        """Rows from ACCUMULATORS on are accumulation registers."""
        self.sgpr = np.full((SGPRS, count), _POISON, np.uint32)
        self.null = null
        """The register that reads 0 and forgets what is written; -1: none."""
        if null >= 0:
            self.sgpr[null] = 0
        self.scc = np.zeros(count, np.bool_)
        self.mode = np.zeros(count, np.uint32)
        self.plain_mode = self._indexed = False
        self.narrowed: Array | None = None
        """The lanes that write, while an instruction with DPP runs."""
        self.reached_lds: Array | None = None
        """Which of the selected waves the latest FLAT load took to LDS; None: it may be all."""
        self.lds_bytes = lds_bytes
        self.lds = np.full(groups * lds_bytes // 4 + 1, _POISON, np.uint32)
        self.shared_base, self.private_base = 0, 0
        self.scratch_va, self.scratch_wave_bytes = 0, 0
        self.flat_scratch = np.zeros(count, np.uint64)
        """FLAT_SCRATCH, where kernels set it themselves."""
        self.steps = 0
        self._positions: Array | None = None
        self._positions_of: Array | None = None
        self.observer: Witness | None = None
        self.privileged: Privileged | None = None
        """The state of a trap handler, where the waves are one."""
        self.memory: Memory = Unmapped()
        self.first_wave = 0
        self.pc = 0
        self.select(np.arange(count))

    def observe_lds(
        self, inst: Instruction, at: Array, index: Array, nbytes: int, data: Words | None = None
    ) -> None:
        """Report a read of LDS bytes, or a store of `data` to come, to the strict checks."""
        if self.observer is not None:
            self.observer.lds(self, inst, at, index, nbytes, data)

    def mark_lds(self, at: Array, nbytes: int) -> None:
        """Report an atomic on LDS to the strict checks."""
        if self.observer is not None:
            self.observer.mark_lds(self, at, nbytes)

    def select(self, waves: Array) -> None:
        """The waves that execute from now on, in ascending order."""
        self.waves = waves
        self.n = len(waves)
        first, last = int(waves[0]), int(waves[-1])
        self.contiguous = last - first + 1 == self.n
        self.sel: slice | Array = slice(first, last + 1) if self.contiguous else waves
        self._mask_known = False
        self._mask: Array | None = None
        self._lds_bases: Array | None = None

    @property
    def positions(self) -> Array:
        """The lanes that write, as flat positions (wave * lanes + lane), ascending."""
        mask = self.mask
        if self._positions is None or mask is not self._positions_of:
            self._positions = self._all() if mask is None else np.flatnonzero(mask)
            self._positions_of = mask
        elif mask is None and len(self._positions) != self.n * self.lanes:
            self._positions = self._all()
        return self._positions

    def _all(self) -> Array:
        return np.arange(self.n * self.lanes)

    @property
    def lds_bases(self) -> Array:
        """Where the LDS of each lane's workgroup begins in `lds`, in bytes, for all lanes."""
        if self._lds_bases is None:
            first = self.waves // self.waves_per_group * self.lds_bytes
            self._lds_bases = np.repeat(first, self.lanes)
        return self._lds_bases

    @property
    def mask(self) -> Array | None:
        """The lanes that write, as bool (n, lanes): EXEC's; None when every lane is on."""
        return self._exec_mask() if self.narrowed is None else self.narrowed

    @property
    def enabled(self) -> Array:
        """EXEC of the selected waves as bool (n, lanes), even while fewer lanes write."""
        mask = self._exec_mask()
        return np.ones((self.n, self.lanes), np.bool_) if mask is None else mask

    def _exec_mask(self) -> Array | None:
        if not self._mask_known:
            words = self.exec_words()
            full = bool((words == np.uint32(0xFFFFFFFF)).all())
            self._mask = None if full else unpack_bits(words)
            self._mask_known = True
        return self._mask

    @property
    def active(self) -> Array:
        """The lanes that write, as bool (n, lanes)."""
        mask = self.mask
        return np.ones((self.n, self.lanes), np.bool_) if mask is None else mask

    def exec_words(self) -> Words:
        return self.scalar_mask(EXEC)

    def scalar_mask(self, register: int) -> Words:
        """A lane mask in scalar registers, as dwords (n, lanes / 32)."""
        rows = [self.sgpr[register + i][self.sel] for i in range(self.lanes // WORD_BITS)]
        return np.stack(rows, axis=1)

    def scalar(self, register: int) -> Words:
        answer: Words = self.sgpr[register][self.sel]
        return answer

    def scalar64(self, register: int) -> Array:
        low = self.sgpr[register][self.sel].astype(np.uint64)
        answer: Array = low | self.sgpr[register + 1][self.sel].astype(np.uint64) << np.uint64(
            WORD_BITS
        )
        return answer

    def put_scalar(self, register: int, value: Array) -> None:
        """Write a scalar register of the selected waves; writes to NULL vanish."""
        if register == self.null:
            return
        self.sgpr[register][self.sel] = value
        if register >= EXEC:
            self._mask_known = False

    def put_scalar64(self, register: int, value: Array) -> None:
        if register == self.null:
            return
        self.put_scalar(register, (value & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        self.put_scalar(register + 1, (value >> np.uint64(WORD_BITS)).astype(np.uint32))

    def put_mask(self, register: int, mask: Array) -> None:
        """Write a bool (n, lanes) as a lane mask; what goes to NULL vanishes, all of it."""
        if register == self.null:
            return
        words = pack_bits(mask)
        for i in range(words.shape[1]):
            self.put_scalar(register + i, words[:, i])

    def put(self, register: int, value: Array, mask: Array | None) -> None:
        """Write lanes of a vector register where `mask` holds (None: everywhere)."""
        row = self.vgpr[register]
        if mask is None:
            row[self.sel] = value
        elif self.contiguous:
            np.copyto(row[self.sel], value, where=mask)
        else:
            row[self.sel] = np.where(mask, value, row[self.sel])

    @property
    def indexing(self) -> bool:
        """Whether vector registers of the selected waves are counted from M0."""
        return self._indexed and bool((self.mode[self.sel] & _INDEXED).any())

    def index_registers(self, *, on: bool) -> None:
        """Turn the mode on or off in which vector registers are counted from M0."""
        mode = self.mode[self.sel]
        self.set_mode(mode | _INDEXED if on else mode & ~_INDEXED)

    def set_mode(self, value: Array) -> None:
        self.mode[self.sel] = value
        self._indexed = bool((self.mode & _INDEXED).any())
        self.plain_mode = bool((self.mode & np.uint32(0xFF) == np.uint32(0xF0)).all())

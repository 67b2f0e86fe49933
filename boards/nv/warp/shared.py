"""Shared memory of blocks and local memory of threads: bytes, and which of them are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.nv.launch import SmException
from boards.nv.warp.memory import MISALIGNED, NUMBERS, OUT_OF_RANGE, Lanes
from boards.nv.warp.state import LANES, POISON, Threads

_BANKS, _BANK_BYTES = 32, 4
Report = Callable[[str], None]


def fail(t: Threads, offset: int, error: int, address: int, why: str) -> SmException:
    """An exception of the code at an offset."""
    return SmException(error, t.launch.code_va + offset, f"{why} at {address:#x}", address)


def check_aligned(t: Threads, addresses: Array, nbytes: int, offset: int) -> None:
    """Raises: SmException for an address that is no multiple of the access."""
    if nbytes == 1:
        return
    bad = addresses & (nbytes - 1) != 0
    if bad.any():
        address = int(addresses[bad.argmax()])
        raise fail(t, offset, MISALIGNED, address, f"{nbytes} bytes that are not aligned")


_LOCAL_END = 1 << 24
"""src: cubins of nvrtc 12.9: the first stack pointer is 0xFFFDC0, 0x240 bytes below it"""


@dataclass(frozen=True, slots=True)
class Own:
    """Accesses of one instruction to shared or local memory."""

    local: bool
    nbytes: int
    offset: int
    report: Report
    conflicts: Counter[int] | None = None

    def _rows(self, t: Threads, lanes: Lanes, addresses: Array) -> Array:
        """The row of each lane. Raises: SmException."""
        check_aligned(t, addresses, self.nbytes, self.offset)
        limit = t.launch.local_bytes if self.local else t.launch.shared_bytes
        if len(addresses) and (addresses.min() < 0 or addresses.max() + self.nbytes > limit):
            bad = (addresses < 0) | (addresses + self.nbytes > limit)
            name = "local" if self.local else "shared"
            address = int(addresses[bad.argmax()])
            raise fail(t, self.offset, OUT_OF_RANGE, address, f"beyond {name} memory,")
        if self.local:
            return t.index[lanes]
        if self.conflicts is not None:
            self._count(t, t.index[lanes], addresses, self.conflicts)
        return t.block[lanes]

    def _arrays(self, t: Threads) -> tuple[Array, Array, int]:
        """(numbers, which bytes are known, numbers in a row)."""
        kind = NUMBERS[self.nbytes]
        data, known = (t.local, t.local_known) if self.local else (t.shared, t.shared_known)
        return data.reshape(-1).view(kind), known.reshape(-1), data.shape[1] // self.nbytes

    def _known(self, known: Array, places: Array) -> Array:
        """Whether all bytes of a place are known."""
        if self.nbytes == 1:
            return np.asarray(known[places])
        if self.nbytes < 16:
            kind = f"u{self.nbytes}"
            every = int.from_bytes(b"\1" * self.nbytes, "little")
            return np.asarray(np.equal(known.view(kind)[places], np.array(every, kind)))
        every = int.from_bytes(b"\1" * 8, "little")
        pairs = known.view("c16")[places].view("u8").reshape(-1, 2)
        return np.asarray(np.equal(pairs, np.uint64(every)).all(axis=1))

    def _placed(self, t: Threads, addresses: Array) -> Array:
        """Where addresses are in memory: a thread's high ones follow its low ones."""
        launch = t.launch
        if not self.local or not launch.local_high_bytes:
            return addresses
        start = _LOCAL_END - launch.local_high_bytes
        low = launch.local_bytes - launch.local_high_bytes
        moved = np.where(addresses >= start, addresses - start + low, addresses)
        wrong = (addresses >= low) & (addresses < start) | (addresses >= _LOCAL_END)
        if wrong.any():
            address = int(addresses[wrong.argmax()])
            raise fail(t, self.offset, OUT_OF_RANGE, address, "beyond local memory,")
        return moved

    def load(
        self, t: Threads, lanes: Lanes, addresses: Array, missing: list[Array] | None = None
    ) -> Array:
        """A number of each lane; poison and a violation for what was never written.

        Of several words, single ones may have been never written: `missing` gets which. measured:
        nvrtc 13.5 loads 16 bytes of an array of 12, and does not use the last word
        """
        addresses = self._placed(t, addresses)
        rows = self._rows(t, lanes, addresses)
        numbers, known, stride = self._arrays(t)
        places = rows * stride + addresses // self.nbytes
        values = np.asarray(numbers[places])
        there = self._known(known, places)
        if not there.all() and missing is not None and self.nbytes > _BANK_BYTES:
            words = known.reshape(-1, self.nbytes)[places].reshape(len(places), -1, _BANK_BYTES)
            missing.append(~words.all(axis=2))
            there = words.all(axis=2).any(axis=1)
        if not there.all():
            name = "local" if self.local else "shared"
            self.report(f"{name} memory is read and was never written")
            poison = np.full(self.nbytes, POISON & 0xFF, np.uint8).view(values.dtype)
            values = np.where(there, values, poison)
        if not self.local and t.touched.read(rows, addresses, self.nbytes, t.warp[lanes]):
            self.report("shared memory is read while another warp writes it")
        return values

    def store(self, t: Threads, lanes: Lanes, addresses: Array, values: Array) -> None:
        """A number of each lane."""
        addresses = self._placed(t, addresses)
        rows = self._rows(t, lanes, addresses)
        numbers, known, stride = self._arrays(t)
        places = rows * stride + addresses // self.nbytes
        if not self.local:
            new = self._differ(numbers[places], values)
            if t.touched.write(rows, addresses, self.nbytes, t.warp[lanes], new):
                self.report("shared memory is written while another warp uses it")
        numbers[places] = values
        known.view(NUMBERS[self.nbytes])[places] = np.full(self.nbytes, 1, np.uint8).view(
            NUMBERS[self.nbytes]
        )
        if not self.local and self._differ(numbers[places], values).any():
            self.report("lanes store different values to one shared address")

    def places(self, t: Threads, lanes: Lanes, addresses: Array) -> tuple[Array, Array]:
        """(numbers of shared memory, which of them an atomic of each lane changes)."""
        rows = self._rows(t, lanes, addresses)
        numbers, known, stride = self._arrays(t)
        places = rows * stride + addresses // self.nbytes
        if not self._known(known, places).all():
            self.report("shared memory is read and was never written")
        if t.touched.change(rows, addresses, self.nbytes, t.warp[lanes]):
            self.report("shared memory is changed while another warp uses it")
        return numbers, places

    @staticmethod
    def _differ(one: Array, two: Array) -> Array:
        if one.dtype.kind != "c":
            return np.not_equal(one, two)
        first, second = (np.ascontiguousarray(x).view("u8").reshape(-1, 2) for x in (one, two))
        return np.asarray(np.not_equal(first, second).any(axis=1))

    def _count(self, t: Threads, index: Array, addresses: Array, found: Counter[int]) -> None:
        """Extra turns of a warp whose lanes meet in a bank at different words.

        src: CUDA C++ Programming Guide, shared memory of compute capability 5.x and later; accesses
        of 8 and 16 bytes go by halves and quarters of a warp
        """
        words = max(1, self.nbytes // _BANK_BYTES)
        groups = np.repeat(index * words // LANES, words)
        word = (addresses[:, None] // _BANK_BYTES + np.arange(words)).ravel()
        once = np.unique(np.stack((groups, word)), axis=1)
        banks, turns = np.unique(once[0] * _BANKS + once[1] % _BANKS, return_counts=True)
        starts = np.flatnonzero(np.diff(banks // _BANKS, prepend=-1))
        found[self.offset] += int((np.maximum.reduceat(turns, starts) - 1).sum())

    def forget(self, t: Threads, lanes: Lanes, addresses: Array) -> None:
        """Bytes that a copy will bring: until it has, nobody knows them."""
        rows = self._rows(t, lanes, addresses)
        _, known, stride = self._arrays(t)
        places = rows * stride + addresses // self.nbytes
        known.view(NUMBERS[self.nbytes])[places] = 0

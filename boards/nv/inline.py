"""Inline to memory: words of the push buffer that are stored at an address.

src: open-gpu-doc, classes/inline-to-memory/cla140.h; clc7c0.h has the same methods
"""

from __future__ import annotations

from boards.nv import faults
from boards.nv.faults import RcError
from boards.nv.semaphores import Release, release
from boards.nv.work import Work

LINE_LENGTH, LINE_COUNT, OUT_UPPER, OUT_LOWER, PITCH_OUT = 0x180, 0x184, 0x188, 0x18C, 0x190
LAUNCH, DATA = 0x1B0, 0x1B4
SEMAPHORE_A, SEMAPHORE_B, SEMAPHORE_C = 0x1DC, 0x1E0, 0x1E4
_NOP, _WAIT_FOR_IDLE = 0x100, 0x110
METHODS = frozenset((
    LINE_LENGTH, LINE_COUNT, OUT_UPPER, OUT_LOWER, PITCH_OUT, LAUNCH, DATA,
    SEMAPHORE_A, SEMAPHORE_B, SEMAPHORE_C,
))  # fmt: skip
_PITCH_LAYOUT, _REDUCTION = 1, 2
_COMPLETION_SHIFT, _RELEASE = 4, 2
_ONE_WORD = 12
_MOST_BYTES = 1 << 22


class InlineToMemory:
    """Its state: where the next words go, and how many are missing."""

    def __init__(self, channel: Work) -> None:
        self._channel = channel
        self._state: dict[int, int] = {}
        self._data = bytearray()
        self._missing = 0
        self._launch = 0

    def method(self, method: int, data: int) -> None:
        """One method. Raises: RcError, MmuFault."""
        if method in (_NOP, _WAIT_FOR_IDLE):
            return
        if method not in METHODS:
            self._channel.find("unknown inline method", f"{method:#x}")
            raise RcError(faults.GR_CLASS_ERROR, f"inline method {method:#x}")
        if method == LAUNCH:
            self._begin(data)
        elif method == DATA:
            self._take(data)
        elif self._missing:
            self._refuse(f"method {method:#x} while {self._missing} bytes of data are missing")
        else:
            self._state[method] = data

    def _refuse(self, why: str) -> None:
        self._channel.find("inline transfer that cannot be", why)
        raise RcError(faults.GR_EXCEPTION, why)

    def _begin(self, data: int) -> None:
        if self._missing:
            self._refuse(f"LAUNCH_DMA while {self._missing} bytes of data are missing")
        if not data & _PITCH_LAYOUT or data & _REDUCTION:
            self._refuse(f"LAUNCH_DMA {data:#x}: block linear or a reduction")
        nbytes = self._state.get(LINE_LENGTH, 0) * self._state.get(LINE_COUNT, 0)
        if not 0 < nbytes <= _MOST_BYTES:
            self._refuse(f"{nbytes} bytes of inline data")
        self._data, self._missing, self._launch = bytearray(), nbytes, data

    def _take(self, word: int) -> None:
        if not self._missing:
            self._refuse("data without LAUNCH_DMA")
        part = word.to_bytes(4, "little")[: self._missing]
        self._data += part
        self._missing -= len(part)
        if not self._missing:
            self._store()

    def _store(self) -> None:
        length, lines = self._state[LINE_LENGTH], self._state[LINE_COUNT]
        va = self._state.get(OUT_LOWER, 0) | self._state.get(OUT_UPPER, 0) << 32
        pitch = self._state.get(PITCH_OUT, 0) if lines > 1 else length
        for line in range(lines):
            part = self._data[line * length : (line + 1) * length]
            self._channel.space.write(va + line * pitch, bytes(part))
        if self._launch >> _COMPLETION_SHIFT & 3 == _RELEASE:
            at = self._state.get(SEMAPHORE_B, 0) | self._state.get(SEMAPHORE_A, 0) << 32
            words = 1 if self._launch >> _ONE_WORD & 1 else 4
            what = Release(at, self._state.get(SEMAPHORE_C, 0), words)
            release(self._channel.space, what, self._channel.now_ns())

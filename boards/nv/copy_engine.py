"""The copy engine: lines of bytes, fills by remapping, semaphores.

src: open-gpu-doc, classes/dma-copy/clc7b5.h, clc8b5.h, clcab5.h
"""

from __future__ import annotations

import numpy as np

from boards.machine.arrays import Array
from boards.nv import faults
from boards.nv.chip import HOPPER_COMPUTE_A
from boards.nv.faults import RcError
from boards.nv.semaphores import OPERATIONS, Release, reduce, release
from boards.nv.space import READ, WRITE
from boards.nv.work import Work

_NOP, _PM_TRIGGER, _LAUNCH = 0x100, 0x140, 0x300
_SEMAPHORE_A, _SEMAPHORE_B, _PAYLOAD, _PAYLOAD_UPPER = 0x240, 0x244, 0x248, 0x24C
_IN_UPPER, _IN_LOWER, _OUT_UPPER, _OUT_LOWER = 0x400, 0x404, 0x408, 0x40C
_PITCH_IN, _PITCH_OUT, _LENGTH, _COUNT = 0x410, 0x414, 0x418, 0x41C
_CONST_A, _CONST_B, _COMPONENTS = 0x700, 0x704, 0x708
_STATE = frozenset((
    _SEMAPHORE_A, _SEMAPHORE_B, _PAYLOAD, _PAYLOAD_UPPER, _IN_UPPER, _IN_LOWER, _OUT_UPPER,
    _OUT_LOWER, _PITCH_IN, _PITCH_OUT, _LENGTH, _COUNT, _CONST_A, _CONST_B, _COMPONENTS,
))  # fmt: skip
_UPPER_BITS, _HOPPER_UPPER_BITS = 17, 25
_NO_WRITE, _FIRST_CONST = 6, 4
_ONE_WORD, _FOUR_WORDS, _CONDITIONAL = 1, 2, 3
_ALLOWED = 0x0E0F_C7FF & ~(3 << 12)
"""Bits of LAUNCH_DMA that are modelled: no physical addresses, no VPR, no error codes."""
_HOPPER_ALLOWED = _ALLOWED | 3 << 20 | 1 << 23


class CopyEngine:
    """One copy object of a channel."""

    def __init__(self, channel: Work) -> None:
        self._channel = channel
        self._state: dict[int, int] = {}

    def method(self, method: int, data: int) -> None:
        """One method. Raises: RcError, MmuFault."""
        if method == _LAUNCH:
            self._launch(data)
        elif method in _STATE:
            self._state[method] = data
        elif method not in (_NOP, _PM_TRIGGER):
            self._refuse(f"method {method:#x}", "unknown method of the copy engine")

    def _refuse(self, why: str, kind: str = "copy that cannot be") -> None:
        self._channel.find(kind, why)
        engine = max(self._channel.engine - 9, 0)
        raise RcError(faults.copy_engine_code(engine), why)

    def _get(self, method: int) -> int:
        if method not in self._state:
            self._refuse(f"method {method:#x} was never set", "copy from unset state")
        return self._state[method]

    def _address(self, upper: int, lower: int) -> int:
        high = self._get(upper)
        hopper = self._channel.chip.compute >= HOPPER_COMPUTE_A
        if high >> (_HOPPER_UPPER_BITS if hopper else _UPPER_BITS):
            self._refuse(f"address word {high:#x}")
        return high << 32 | self._get(lower)

    def _launch(self, data: int) -> None:
        hopper = self._channel.chip.hopper
        if data & ~(_HOPPER_ALLOWED if hopper else _ALLOWED):
            self._refuse(f"LAUNCH_DMA {data:#x}: bits that are not modelled or not there")
        if data & 3 == 3:
            self._refuse(f"LAUNCH_DMA {data:#x}: no such transfer type")
        if data & 3:
            self._transfer(data)
        if data >> 3 & 3:
            self._semaphore(data)

    # Transfers

    def _transfer(self, data: int) -> None:
        remap, lines = bool(data >> 10 & 1), 1
        fill = remap and self._only_constants()
        if not data >> 8 & 1 or not (fill or data >> 7 & 1):
            self._refuse(f"LAUNCH_DMA {data:#x}: block linear")
        if data >> 9 & 1:
            lines = self._get(_COUNT)
        length = self._get(_LENGTH)
        if not length or not lines:
            self._refuse(f"a copy of {lines} lines of {length}")
        element = self._element_bytes() if remap else (1, 1)
        wide = (length * element[0], length * element[1])
        target = self._address(_OUT_UPPER, _OUT_LOWER)
        for line in range(lines):
            to = target + line * (self._get(_PITCH_OUT) if lines > 1 else 0)
            source = np.zeros(0, np.uint8) if fill else self._line(line, lines, wide[0])
            made = self._remapped(source, length) if remap else source
            self._store(to, made)

    def _line(self, line: int, lines: int, nbytes: int) -> Array:
        va = self._address(_IN_UPPER, _IN_LOWER)
        va += line * (self._get(_PITCH_IN) if lines > 1 else 0)
        return np.concatenate(list(self._channel.space.parts(va, nbytes, READ)))

    def _store(self, va: int, data: Array) -> None:
        done = 0
        for part in list(self._channel.space.parts(va, len(data), WRITE)):
            part[:] = data[done : done + len(part)]
            done += len(part)

    # Remapping

    def _element_bytes(self) -> tuple[int, int]:
        """Of the source and of the target."""
        how = self._get(_COMPONENTS)
        size = (how >> 16 & 3) + 1
        return size * ((how >> 20 & 3) + 1), size * ((how >> 24 & 3) + 1)

    def _only_constants(self) -> bool:
        how = self._get(_COMPONENTS)
        chosen = [how >> 4 * n & 7 for n in range((how >> 24 & 3) + 1)]
        return all(choice >= _FIRST_CONST for choice in chosen)

    def _remapped(self, source: Array, count: int) -> Array:
        how = self._get(_COMPONENTS)
        size, targets = (how >> 16 & 3) + 1, (how >> 24 & 3) + 1
        made = np.zeros((count, targets, size), np.uint8)
        for component in range(targets):
            choice = how >> 4 * component & 7
            if choice < _FIRST_CONST:
                made[:, component] = source.reshape(count, -1, size)[:, choice]
            elif choice >= _NO_WRITE:
                self._refuse("a component that is not written: not modelled")
            else:
                value = self._get(_CONST_A if choice == _FIRST_CONST else _CONST_B)
                made[:, component] = np.frombuffer(value.to_bytes(4, "little")[:size], np.uint8)
        return made.reshape(-1)

    # Semaphores

    def _semaphore(self, data: int) -> None:
        kind, wide = data >> 3 & 3, bool(data >> 27 & 1)
        if kind == _CONDITIONAL:
            self._refuse("a semaphore with a conditional interrupt: not modelled")
        words = 4 if kind == _FOUR_WORDS else 2 if wide else 1
        va = self._address(_SEMAPHORE_A, _SEMAPHORE_B)
        if va % (words * 4):
            self._refuse(f"a semaphore of {words} words at {va:#x}")
        payload = self._get(_PAYLOAD) | (self._get(_PAYLOAD_UPPER) << 32 if wide else 0)
        if data >> 19 & 1:
            operation = data >> 14 & 0xF
            if operation >= len(OPERATIONS):
                self._refuse(f"semaphore reduction {operation}")
            bits = 64 if wide else 32
            signed = not data >> 18 & 1
            reduce(self._channel.space, va, payload, operation, bits, signed=signed)
            return
        now_ns = self._channel.now_ns()
        release(self._channel.space, Release(va, payload, words, wide=wide), now_ns)

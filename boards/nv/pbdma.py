"""What fetches push buffers: GP entries, method headers, subchannels, methods of the host.

src: open-gpu-doc, classes/host/clc56f.h, clc86f.h of open-gpu-kernel-modules; cla06fsubch.h
"""

from __future__ import annotations

import struct
from typing import Protocol

from boards.nv import faults
from boards.nv.compute import ComputeFront
from boards.nv.copy_engine import CopyEngine
from boards.nv.faults import RcError
from boards.nv.host_methods import Blocked, HostMethods
from boards.nv.inline import InlineToMemory
from boards.nv.work import Work

__all__ = ["Blocked", "Pbdma"]

_SUBCHANNELS = 8
_COMPUTE_SUBCHANNEL, _COPY_SUBCHANNEL = 1, 4
_FIRST_ENGINE_METHOD = 0x100
_SET_OBJECT = 0
_CLASS_MASK, _METHOD_MASK, _COUNT_MASK = 0xFFFF, 0xFFF, 0x1FFF
_COUNT_SHIFT, _SUBCHANNEL_SHIFT, _SUBCHANNEL_MASK, _OP_SHIFT = 16, 13, 7, 29
_INC, _NONINC, _IMMD, _ONE_INC, _END = 1, 3, 4, 5, 7
_LENGTH_SHIFT, _LENGTH_MASK, _ADDRESS_HI, _OPCODE_MASK = 10, 0x1FFFFF, 0xFF, 0xFF
_LOW_MASK = 0xFFFF_FFFC
_WORD = 4


class Engine(Protocol):
    """What methods of a subchannel go to."""

    def method(self, method: int, data: int) -> None:
        """One method. Raises: RcError, MmuFault, SmException, EndlessGrid."""
        ...


class Pbdma:
    """The fetcher of one channel, with what it has read and not done."""

    def __init__(self, channel: Work) -> None:
        self._channel = channel
        self._host = HostMethods(channel)
        self._bound: dict[int, Engine] = {}
        self._methods: list[tuple[int, int, int]] = []
        self._at = 0
        self.busy = False
        """An entry was fetched and is not done."""
        self.moved = False
        """The last run did at least one method."""

    def fetch(self, low: int, high: int) -> None:
        """One GP entry. Raises: RcError, MmuFault."""
        self.busy = True
        self._methods, self._at = [], 0
        length = high >> _LENGTH_SHIFT & _LENGTH_MASK
        if not length:
            if high & _OPCODE_MASK:
                raise RcError(faults.PBDMA_ERROR, f"GP entry with opcode {high & _OPCODE_MASK}")
            return
        if low & 1:
            raise RcError(faults.PBDMA_ERROR, "GP entry with a conditional fetch")
        va = low & _LOW_MASK | (high & _ADDRESS_HI) << 32
        data = self._channel.space.read(va, length * _WORD)
        self._methods = list(self._decode(struct.unpack(f"<{length}I", data), va))

    def _decode(self, words: tuple[int, ...], va: int) -> list[tuple[int, int, int]]:
        """(subchannel, method, data) of a segment. Raises: RcError."""
        found: list[tuple[int, int, int]] = []
        at = 0
        while at < len(words):  # ends: at grows
            header, where = words[at], va + at * _WORD
            at += 1
            if not header:
                continue
            op = header >> _OP_SHIFT
            if op == _END:
                break
            count = header >> _COUNT_SHIFT & _COUNT_MASK
            subchannel = header >> _SUBCHANNEL_SHIFT & _SUBCHANNEL_MASK
            method = (header & _METHOD_MASK) * _WORD
            if op == _IMMD:
                found.append((subchannel, method, count))
                continue
            if op not in (_INC, _NONINC, _ONE_INC):
                raise RcError(faults.PBDMA_ERROR, f"method header {header:#010x} at {where:#x}")
            if at + count > len(words):
                raise RcError(faults.PBDMA_ERROR, f"{count} words after the header at {where:#x}")
            for number in range(count):
                step = {_INC: number, _NONINC: 0}.get(op, min(number, 1))
                found.append((subchannel, method + step * _WORD, words[at + number]))
            at += count
        return found

    def run(self) -> None:
        """Do the methods that are left. Raises: Blocked, and what engines raise."""
        self.moved = False
        while self._at < len(self._methods):  # ends: _at grows
            subchannel, method, data = self._methods[self._at]
            self._one(subchannel, method, data)
            self._at += 1
            self.moved = True
        self.busy = False

    def _one(self, subchannel: int, method: int, data: int) -> None:
        if method == _SET_OBJECT:
            self._bind(subchannel, data)
        elif method < _FIRST_ENGINE_METHOD:
            self._host.method(method, data)
        else:
            engine = self._bound.get(subchannel)
            if engine is None:
                why = f"method {method:#x} of subchannel {subchannel}, which has no object"
                self._channel.find("method before SET_OBJECT", why)
                raise RcError(faults.PBDMA_ERROR, why)
            engine.method(method, data)

    def _bind(self, subchannel: int, data: int) -> None:
        """SET_OBJECT: the class has to have been allocated on this channel."""
        number = data & _CLASS_MASK
        chip, find = self._channel.chip, self._channel.find
        if not self._channel.has_object(number):
            find("SET_OBJECT of a class without an object", f"{number:#x}")
            raise RcError(faults.PBDMA_ERROR, f"no object of class {number:#x} on this channel")
        usual = {chip.compute: _COMPUTE_SUBCHANNEL, chip.copy: _COPY_SUBCHANNEL}
        graphics = self._channel.engine == 1
        if graphics and subchannel != usual.get(number, subchannel):
            find("object on an unusual subchannel", f"{number:#x} on {subchannel}")
        if number == chip.compute:
            self._bound[subchannel] = ComputeFront(self._channel)
        elif number == chip.copy:
            self._bound[subchannel] = CopyEngine(self._channel)
        else:
            self._bound[subchannel] = InlineToMemory(self._channel)

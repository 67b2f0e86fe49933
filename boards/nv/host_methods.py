"""Methods below 0x100, which the host does itself: semaphores, barriers, waits.

src: open-gpu-doc, classes/host/clc56f.h; open-gpu-kernel-modules, clc86f.h
"""

from __future__ import annotations

from boards.nv import faults
from boards.nv.faults import RcError
from boards.nv.semaphores import Release, reduce, release
from boards.nv.space import ATOMIC
from boards.nv.work import Work

_NOP, _INTERRUPT, _FB_FLUSH, _SET_REFERENCE, _WFI, _YIELD = 0x08, 0x20, 0x24, 0x50, 0x78, 0x80
_MEM_OPS, _MEM_OP_D = range(0x28, 0x34, 4), 0x34
_SEM = range(0x5C, 0x6C, 4)
_SEM_EXECUTE = 0x6C
_MEMBAR, _OPERATION_SHIFT = 5, 27
_CACHE_OPERATIONS = (0xD, 0xE, 0x10, 0x15)
_ACQUIRE, _RELEASE, _ACQ_STRICT_GEQ, _ACQ_CIRC_GEQ, _ACQ_AND, _ACQ_NOR, _REDUCTION = range(7)
_SIGNED = 31
_HI_BITS, _HOPPER_HI_BITS = 8, 25
_MASK32 = 0xFFFF_FFFF


class Blocked(Exception):
    """A semaphore has not the value that is waited for."""


class HostMethods:
    """The host's part of one channel."""

    def __init__(self, channel: Work) -> None:
        self._channel = channel
        self._sem = [0, 0, 0, 0]

    def method(self, method: int, data: int) -> None:
        """One method. Raises: Blocked, RcError, MmuFault."""
        if method in _SEM:
            self._sem[(method - _SEM.start) // _SEM.step] = data
        elif method == _SEM_EXECUTE:
            self._execute(data)
        elif method == _MEM_OP_D:
            self._memory_operation(data >> _OPERATION_SHIFT)
        elif method not in (_NOP, _INTERRUPT, _FB_FLUSH, _SET_REFERENCE, _WFI, _YIELD, *_MEM_OPS):
            self._channel.find("unknown method of the host", f"{method:#x}")
            raise RcError(faults.PBDMA_ERROR, f"host method {method:#x}")

    def _memory_operation(self, operation: int) -> None:
        """MEM_OP_D. TLB invalidation is the kernel's: a driver that asks for it is reported."""
        if operation == _MEMBAR or operation in _CACHE_OPERATIONS:
            return
        self._channel.find("memory operation of the kernel's", f"{operation:#x}")
        raise RcError(faults.PBDMA_ERROR, f"memory operation {operation:#x}")

    def _address(self, nbytes: int) -> int:
        low, high = self._sem[:2]
        bits = _HOPPER_HI_BITS if self._channel.chip.hopper else _HI_BITS
        va = low | high << 32
        if high >> bits or va % nbytes:
            self._channel.find("semaphore at an impossible address", f"{va:#x}")
            raise RcError(faults.PBDMA_ERROR, f"semaphore of {nbytes} bytes at {va:#x}")
        return va

    def _execute(self, data: int) -> None:
        operation, wide = data & 7, bool(data >> 24 & 1)
        bits = 64 if wide else 32
        payload = (self._sem[2] | self._sem[3] << 32) & (1 << bits) - 1
        if operation == _RELEASE:
            self._release(payload, wide, timestamp=bool(data >> 25 & 1))
        elif operation == _REDUCTION:
            va = self._address(bits // 8)
            signed = not data >> _SIGNED
            reduce(self._channel.space, va, payload, data >> 27 & 0xF, bits, signed=signed)
        elif operation > _REDUCTION:
            raise RcError(faults.PBDMA_ERROR, f"semaphore operation {operation}")
        elif not self._reached(operation, payload, bits):
            raise Blocked

    def _release(self, payload: int, wide: bool, *, timestamp: bool) -> None:
        words = 4 if timestamp else 2 if wide else 1
        va = self._address(words * 4)
        now_ns = self._channel.now_ns()
        release(self._channel.space, Release(va, payload, words, wide=wide), now_ns)

    def _reached(self, operation: int, payload: int, bits: int) -> bool:
        va = self._address(bits // 8)
        list(self._channel.space.parts(va, bits // 8, ATOMIC))
        now = self._channel.space.read_word(va, bits // 8)
        full = (1 << bits) - 1
        if operation == _ACQUIRE:
            return now == payload
        if operation == _ACQ_STRICT_GEQ:
            return now >= payload
        if operation == _ACQ_CIRC_GEQ:
            return (now - payload & full) < 1 << bits - 1
        if operation == _ACQ_AND:
            return bool(now & payload)
        return bool(~(now | payload) & full)

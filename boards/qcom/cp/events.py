"""Events: caches, timestamps, interrupts.

src: Mesa 25.0.7, adreno_pm4.xml, vgt_event_type, CP_EVENT_WRITE and CP_EVENT_WRITE7;
src/freedreno/common/freedreno_gpu_event.h
"""

from __future__ import annotations

from boards.machine.arrays import Words
from boards.qcom.cp.faults import OPCODE_ERROR, GpuFault
from boards.qcom.cp.processor import Processor

_FLUSH_TS, _RB_DONE_TS = 4, 22
_TIMESTAMPS = (2, 3, _FLUSH_TS, 8, 21, _RB_DONE_TS, 26, 28, 29)
"""Of generation 6: they write memory and have four words."""
_KNOWN_6 = frozenset((*range(0, 31), 36, 37, 38, 39, 40, 42, 43, 44, 45, 49, 63))
_KNOWN_7 = frozenset((*range(0, 34), *range(36, 46), 48, 49, 50, 51, 63))
_INVALIDATE_6, _RESET_7, _CLEAN_7, _FLUSH_7, _INVALIDATE_7 = 49, 48, 49, 50, 51
_USER_32, _USER_64, _SUM, _ALWAYS_ON = 0, 1, 2, 3


def event(cp: Processor, words: Words) -> None:
    """CP_EVENT_WRITE, or CP_EVENT_WRITE7."""
    if cp.machine.chip.generation >= 7:
        _seventh(cp, words)
    else:
        _sixth(cp, words)


def _sixth(cp: Processor, words: Words) -> None:
    head = int(words[0])
    number = head & 0xFF
    if number not in _KNOWN_6 or head & 0x3FFFFF00:
        raise GpuFault(OPCODE_ERROR, f"EVENT_WRITE {head:#x}")
    if len(words) not in (1, 4):
        raise GpuFault(OPCODE_ERROR, f"EVENT_WRITE {number} with {len(words)} words")
    if number in (_FLUSH_TS, _RB_DONE_TS) and len(words) == 1:
        cp.machine.find("event", f"event {number} writes memory, and there is no address")
    _caches(cp, clean=number == _FLUSH_TS, invalidate=number == _INVALIDATE_6)
    if len(words) == 4:
        stamp = head >> 30 & 1
        _late(cp, number, user=not stamp)
        value = cp.machine.always_on() if stamp else int(words[3])
        _store(cp, words, value, 8 if stamp else 4)


def _seventh(cp: Processor, words: Words) -> None:
    head = int(words[0])
    number, enabled, source = head & 0xFF, head >> 27 & 1, head >> 20 & 7
    if number not in _KNOWN_7 or source > _ALWAYS_ON:
        raise GpuFault(OPCODE_ERROR, f"EVENT_WRITE7 {head:#x}")
    wanted = {_USER_32: 4, _USER_64: 5}.get(source, 3) if enabled else 1
    if len(words) != wanted:
        raise GpuFault(OPCODE_ERROR, f"EVENT_WRITE7 {head:#x} with {len(words)} words")
    if number == _RB_DONE_TS and not enabled:
        cp.machine.find("event", "RB_DONE_TS without WRITE_ENABLED")
    clean = number in (_FLUSH_TS, _CLEAN_7, _FLUSH_7)
    _caches(cp, clean=clean, invalidate=number in (_RESET_7, _FLUSH_7, _INVALIDATE_7))
    if not enabled:
        return
    if head >> 24 & 1:
        cp.machine.find("unmodelled", "EVENT_WRITE7 to on-chip memory")
    elif source in (_USER_32, _USER_64):
        _late(cp, number, user=True)
        nbytes = 4 << source
        _store(cp, words, int.from_bytes(words[3:].tobytes(), "little"), nbytes)
    else:
        _store(cp, words, cp.machine.always_on(), 8)


def _caches(cp: Processor, *, clean: bool, invalidate: bool) -> None:
    if clean:
        cp.machine.caches.clean()
    if invalidate:
        cp.machine.caches.invalidate()


def _late(cp: Processor, number: int, *, user: bool) -> None:
    """A value that says that work is done, before its results are in DRAM."""
    if user and number == _RB_DONE_TS and cp.machine.caches.dirty:
        cp.machine.find("early write", "RB_DONE_TS while results are in UCHE")


def _store(cp: Processor, words: Words, value: int, nbytes: int) -> None:
    va = int(words[1]) | int(words[2]) << 32
    if va % nbytes:
        raise GpuFault(OPCODE_ERROR, f"an event writes {nbytes} bytes to {va:#x}")
    cp.write(va, value.to_bytes(nbytes, "little"))
    cp.ends[va] = cp.machine.caches.dispatch

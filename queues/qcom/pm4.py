"""Packets of Adreno's command processor: headers with parity, one function for each packet.

Type 4 writes registers, type 7 is an operation. Names are the vendor's.
# src: Mesa 25.0.7, src/freedreno/registers/adreno/adreno_pm4.xml; headers: the same tree's
# common/freedreno_pm4.h
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from drivers.base.errors import BadArgument

WORD_BITS: Final = 32
WORD_MASK: Final = (1 << WORD_BITS) - 1
WORD_BYTES: Final = 4
TYPE4, TYPE7 = 4, 7
TYPE_SHIFT: Final = 28
TYPE4_MAX: Final = 0x7E
"""Most words behind a type 4 header."""
_COUNT4_MASK: Final = 0x7F
TYPE7_MAX: Final = 0x3FFF
REG_MAX: Final = 0x3FFFF
OPCODE_MAX: Final = 0x7F
_COUNT4_PARITY, _REG_SHIFT, _REG_PARITY = 7, 8, 27
_COUNT7_PARITY, _OPCODE_SHIFT, _OPCODE_PARITY = 15, 16, 23
_PARITY_HALVES: Final = (16, 8, 4, 2, 1)


class Op(IntEnum):
    """Operations of type 7 packets that this stack writes or reads."""

    NOP = 0x10
    WAIT_MEM_WRITES = 0x12
    WAIT_FOR_ME = 0x13
    WAIT_MEM_GTE = 0x14
    THREAD_CONTROL = 0x17
    WAIT_FOR_IDLE = 0x26
    RUN_OPENCL = 0x31
    EXEC_CS = 0x33
    LOAD_STATE6_FRAG = 0x34
    LOAD_STATE6 = 0x36
    CCHE_INVALIDATE = 0x3A
    WAIT_REG_MEM = 0x3C
    MEM_WRITE = 0x3D
    REG_TO_MEM = 0x3E
    INDIRECT_BUFFER = 0x3F
    EXEC_CS_INDIRECT = 0x41
    EVENT_WRITE = 0x46
    SET_AMBLE = 0x55
    SET_MARKER = 0x65
    MEM_TO_MEM = 0x73
    MEMCPY = 0x75


class Event(IntEnum):
    """Events of generation 6. # src: adreno_pm4.xml vgt_event_type"""

    CACHE_FLUSH_TS = 4
    RB_DONE_TS = 22
    CACHE_INVALIDATE = 49
    LABEL = 63


class Event7(IntEnum):
    """Events of generation 7."""

    RB_DONE_TS = 22
    CACHE_CLEAN = 49
    CACHE_FLUSH7 = 50
    CACHE_INVALIDATE7 = 51
    LABEL = 63


class StateType(IntEnum):
    """What LOAD_STATE6 loads."""

    SHADER, CONSTANTS, UBO, IBO = range(4)


class StateSource(IntEnum):
    """Where LOAD_STATE6 takes it from: the packet, a bindless base, memory, a UBO."""

    DIRECT, BINDLESS, INDIRECT, UBO = range(4)


class StateBlock(IntEnum):
    """Which block of the GPU takes it; those of compute alone."""

    CS_TEX = 5
    CS_SHADER = 13
    IBO = 14
    CS_IBO = 15


class Compare(IntEnum):
    """How WAIT_REG_MEM compares memory with its reference."""

    ALWAYS, LT, LE, EQ, NE, GE, GT = range(7)


class WriteSource(IntEnum):
    """What EVENT_WRITE7 writes."""

    USER_32B, USER_64B, TIMESTAMP_SUM, ALWAYSON = range(4)


COMPUTE_MARKER: Final = 8
"""RM6_COMPUTE. # src: adreno_pm4.xml a6xx_marker"""
CP_SET_THREAD_BR: Final = 1
CONCURRENT_BIN_DISABLE: Final = 1 << 27
_TIMESTAMP: Final = 1 << 30
_WRITE_ENABLED: Final = 1 << 27
_WRITE_SOURCE_SHIFT: Final = 20
_POLL_MEMORY: Final = 1 << 4
_POLL_CYCLES: Final = 16
_STATE_TYPE, _STATE_SOURCE, _STATE_BLOCK, _UNIT_SHIFT = 14, 16, 18, 22
_DST_MAX: Final = 0x3FFF
_UNIT_MAX: Final = 0x3FF


def odd_parity(value: int) -> int:
    """The bit that makes the number of ones odd."""
    for half in _PARITY_HALVES:
        value ^= value >> half
    return ~value & 1


def pkt4(register: int, values: Sequence[int]) -> list[int]:
    """Write registers from `register` on."""
    count = len(values)
    if not 0 < count <= TYPE4_MAX or not 0 <= register <= REG_MAX:
        raise BadArgument(f"{count} registers from {register:#x} on do not fit a packet")
    head = TYPE4 << TYPE_SHIFT | count | odd_parity(count) << _COUNT4_PARITY
    head |= register << _REG_SHIFT | odd_parity(register) << _REG_PARITY
    return [head, *map(word32, values)]


def pkt7(op: int, values: Sequence[int] = ()) -> list[int]:
    """An operation with its words."""
    count = len(values)
    if count > TYPE7_MAX or not 0 <= op <= OPCODE_MAX:
        raise BadArgument(f"operation {op:#x} with {count} words does not fit a packet")
    head = TYPE7 << TYPE_SHIFT | count | odd_parity(count) << _COUNT7_PARITY
    head |= op << _OPCODE_SHIFT | odd_parity(op) << _OPCODE_PARITY
    return [head, *map(word32, values)]


def word32(value: int) -> int:
    """A word of a packet. Raises: BadArgument for more than 32 bits."""
    if not 0 <= value <= WORD_MASK:
        raise BadArgument(f"{value:#x} does not fit a word of a packet")
    return value


def halves(value: int) -> tuple[int, int]:
    """The low and the high word of 64 bits."""
    return value & WORD_MASK, value >> WORD_BITS


class Header(NamedTuple):
    """What a packet's first word says."""

    kind: int
    """TYPE4 or TYPE7."""
    place: int
    """The first register, or the operation."""
    nwords: int
    """Words behind it."""
    wrong: str
    """Which parity is wrong; "": none."""


def parse(word: int) -> Header | None:
    """The header; None for a word that is none."""
    kind = word >> TYPE_SHIFT
    if kind == TYPE4:
        count, place = word & _COUNT4_MASK, word >> _REG_SHIFT & REG_MAX
        bits = word >> _COUNT4_PARITY & 1, word >> _REG_PARITY & 1
    elif kind == TYPE7:
        count, place = word & TYPE7_MAX, word >> _OPCODE_SHIFT & OPCODE_MAX
        bits = word >> _COUNT7_PARITY & 1, word >> _OPCODE_PARITY & 1
    else:
        return None
    wanted = odd_parity(count), odd_parity(place)
    names = [name for name, a, b in zip(("count", "place"), bits, wanted, strict=True) if a != b]
    return Header(kind, place, count, " and ".join(names))


def wait_for_idle() -> list[int]:
    """Until everything before is done."""
    return pkt7(Op.WAIT_FOR_IDLE)


def event(number: int) -> list[int]:
    """An event that writes nothing."""
    return pkt7(Op.EVENT_WRITE, [number])


def event_value(number: int, va: int, value: int) -> list[int]:
    """Generation 6: 32 bits to memory once the event is through."""
    return pkt7(Op.EVENT_WRITE, [number, *halves(va), value])


def event_time(number: int, va: int) -> list[int]:
    """Generation 6: the 64-bit always-on counter."""
    return pkt7(Op.EVENT_WRITE, [number | _TIMESTAMP, *halves(va), 0])


def event7_value(number: int, va: int, value: int) -> list[int]:
    """Generation 7: 32 bits to memory once the event is through."""
    first = number | _WRITE_ENABLED | WriteSource.USER_32B << _WRITE_SOURCE_SHIFT
    return pkt7(Op.EVENT_WRITE, [first, *halves(va), value])


def event7_time(number: int, va: int) -> list[int]:
    """Generation 7: the 64-bit always-on counter. # src: Mesa tu_cmd_buffer.cc, 3 words"""
    first = number | _WRITE_ENABLED | WriteSource.ALWAYSON << _WRITE_SOURCE_SHIFT
    return pkt7(Op.EVENT_WRITE, [first, *halves(va)])


def wait_memory(va: int, value: int) -> list[int]:
    """Until 32 bits of memory have reached `value`, unsigned."""
    words = [Compare.GE | _POLL_MEMORY, *halves(va), value, WORD_MASK, _POLL_CYCLES]
    return pkt7(Op.WAIT_REG_MEM, words)


def memcpy(dst: int, src: int, nwords: int) -> list[int]:
    """The command processor copies words. # src: Mesa tu_device.cc tu_copy_buffer()"""
    return pkt7(Op.MEMCPY, [nwords, *halves(src), *halves(dst)])


def load_state(
    block: StateBlock, kind: StateType, *, first: int, units: int, va: int = 0,
    words: Sequence[int] = (),
) -> list[int]:  # fmt: skip
    """Load state of the compute stage: from `va`, or the words themselves."""
    if not 0 <= first <= _DST_MAX or not 0 <= units <= _UNIT_MAX:
        raise BadArgument(f"{units} units of state from {first} on do not fit a packet")
    source = StateSource.INDIRECT if va else StateSource.DIRECT
    head = first | kind << _STATE_TYPE | source << _STATE_SOURCE
    head |= block << _STATE_BLOCK | units << _UNIT_SHIFT
    return pkt7(Op.LOAD_STATE6_FRAG, [head, *halves(va), *words])


def exec_cs(grid: Sequence[int]) -> list[int]:
    """Start `grid` workgroups."""
    return pkt7(Op.EXEC_CS, [0, *grid])


def set_marker(mode: int) -> list[int]:
    """What kind of work follows."""
    return pkt7(Op.SET_MARKER, [mode])

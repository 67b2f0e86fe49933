"""The scheduling part of an instruction word: stalls, barriers and operand reuse.

Source: Mesa src/nouveau/compiler/nak/sm70_encode.rs (the dependency fields of an instruction).
"""

from __future__ import annotations

from dataclasses import dataclass

# A barrier number that names no barrier.
NO_BARRIER = 7

# src: Mesa sm70_encode.rs: bits 105..125 of the word
STALL_LOW, STALL_BITS = 105, 4
YIELD_BIT = 109
WRITE_BARRIER_LOW = 110
READ_BARRIER_LOW = 113
BARRIER_BITS = 3
WAIT_LOW, WAIT_BITS = 116, 6
REUSE_LOW, REUSE_BITS = 122, 4


def field(word: int, low: int, width: int) -> int:
    """Bits ``low`` to ``low + width - 1`` of the word."""
    return word >> low & ((1 << width) - 1)


@dataclass(frozen=True, slots=True)
class Control:
    """What the scheduler reads; a barrier is a number or None, ``wait`` and ``reuse`` are masks.

    ``yields`` is False where the bit is set: the hardware's sense of the bit is "stay".
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait: int
    reuse: int

    @classmethod
    def of(cls, word: int) -> Control:
        """The control fields of a 128-bit word."""
        write = field(word, WRITE_BARRIER_LOW, BARRIER_BITS)
        read = field(word, READ_BARRIER_LOW, BARRIER_BITS)
        return cls(
            stall=field(word, STALL_LOW, STALL_BITS),
            yields=not word >> YIELD_BIT & 1,
            write_barrier=None if write == NO_BARRIER else write,
            read_barrier=None if read == NO_BARRIER else read,
            wait=field(word, WAIT_LOW, WAIT_BITS),
            reuse=field(word, REUSE_LOW, REUSE_BITS),
        )

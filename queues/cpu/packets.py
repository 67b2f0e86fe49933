"""The CPU's packets: what its command processor reads from memory, one function per packet.

A packet is a run of uint64 words. The header holds the opcode in bits 0-7 and the packet's length
in words, header included, in bits 32-63. Addresses are host virtual addresses.

    EXEC       header, kernel entry, work items, items per chunk (0: automatic) and HOLD, arguments
    COPY       header, destination, source, bytes            (ranges may overlap)
    WAIT       header, signal, value                         (until signal >= value)
    SIGNAL     header, signal, value                         (value, time stamp, wake the waiters)
    TIMESTAMP  header, signal                                (nanoseconds into the time stamp)
    BARRIER    header

The processor stops before an EXEC with HOLD, as at a WAIT. Set while the kernel runs, it ends the
kernel between two chunks, and in loops where the kernel itself polls (word args[-1]).

A kernel is `void kernel(const uint64_t *args, uint64_t begin, uint64_t end, void *scratch)`; it
computes the work items begin..end-1, in any order and on any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from drivers.base.errors import MalformedInput

EXEC: Final = 1
COPY: Final = 2
WAIT: Final = 3
SIGNAL: Final = 4
TIMESTAMP: Final = 5
BARRIER: Final = 6

WORD_BYTES: Final = 8
LENGTH_SHIFT: Final = 32
OPCODE_MASK: Final = 0xFF
EXEC_CHUNK_WORD: Final = 3
HOLD: Final = 1 << 63
"""Of that word: the kernel must not begin, or not continue."""
EXEC_ARGS_WORD: Final = 4
"""Word of an EXEC packet at which the arguments begin."""
MAX_WORD: Final = (1 << 64) - 1
MAX_GRID: Final = 1 << 48
"""More work items than this are refused: the chunk counter must never overflow."""
MAX_ARGS: Final = 1 << 12

SIGNAL_BYTES: Final = 64
"""A signal is one cache line: value, time stamp in ns, number of sleeping waiters."""
SIGNAL_VALUE_OFF: Final = 0
SIGNAL_TIME_OFF: Final = 8
SIGNAL_WAITERS_OFF: Final = 16

_FIELDS: Final[dict[int, tuple[str, tuple[str, ...]]]] = {
    EXEC: ("EXEC", ("entry", "grid", "chunk")),
    COPY: ("COPY", ("dst", "src", "nbytes")),
    WAIT: ("WAIT", ("signal", "value")),
    SIGNAL: ("SIGNAL", ("signal", "value")),
    TIMESTAMP: ("TIMESTAMP", ("signal",)),
    BARRIER: ("BARRIER", ()),
}
OPCODES: Final = frozenset(_FIELDS)
_ARGUMENTS: Final = {EXEC: slice(EXEC_ARGS_WORD, None), COPY: slice(1, 3)}
"""Words that may be patched: a kernel's arguments; destination and source."""
Words: TypeAlias = list[int]
"""One packet."""


def _packet(opcode: int, *words: int) -> Words:
    for word in words:
        if not 0 <= word <= MAX_WORD:
            raise MalformedInput(f"packet word {word:#x} does not fit 64 bits")
    return [opcode | (len(words) + 1) << LENGTH_SHIFT, *words]


def exec_packet(*, entry: int, grid: int, chunk: int = 0, args: Sequence[int] = ()) -> Words:
    """Run a kernel over `grid` work items; `args` are addresses or integers."""
    return _packet(EXEC, entry, grid, chunk, *args)


def copy_packet(*, dst: int, src: int, nbytes: int) -> Words:
    """Copy `nbytes`; the ranges may overlap."""
    return _packet(COPY, dst, src, nbytes)


def wait_packet(*, signal: int, value: int) -> Words:
    """Stop here until the signal at address `signal` has reached `value`."""
    return _packet(WAIT, signal, value)


def signal_packet(*, signal: int, value: int) -> Words:
    """Set the signal and its time stamp, wake its sleepers. A smaller value is ignored."""
    return _packet(SIGNAL, signal, value)


def timestamp_packet(*, signal: int) -> Words:
    """Write the monotonic time in ns to the signal's time stamp."""
    return _packet(TIMESTAMP, signal)


def barrier_packet() -> Words:
    """Order the packets before and after; the CPU runs packets in order, so this costs nothing."""
    return _packet(BARRIER)


def joined(steps: Sequence[Words]) -> Words:
    """A list of packets, as the processor reads it."""
    return [*chain.from_iterable(steps)]


def place(packet: Words, number: int) -> int:
    """Word of argument `number` of an EXEC packet; of a COPY: 0 is its destination, 1 its source.

    Raises: MalformedInput for a packet without arguments.
    """
    words = range(len(packet))[_ARGUMENTS.get(packet[0] & OPCODE_MASK, slice(0))]
    if not 0 <= number < len(words):
        raise MalformedInput(f"no argument {number} in a packet {packet[0]:#x}")
    return words[number]


@dataclass(frozen=True, slots=True)
class Packet:
    """One decoded packet: `at` is its word offset, `fields` its named words."""

    at: int
    name: str
    fields: dict[str, int]
    args: tuple[int, ...] = ()

    def __str__(self) -> str:
        shown = [f"{name}={value:#x}" for name, value in self.fields.items()]
        if self.name == "EXEC":
            shown.append(f"args=[{', '.join(f'{a:#x}' for a in self.args)}]")
        return f"{self.at:6d}: {self.name} {' '.join(shown)}".rstrip()


def header_length(words: Sequence[int], at: int) -> int:
    """Length in words of the packet at `at`. Raises: MalformedInput when it is not a packet."""
    header = words[at]
    length, opcode = header >> LENGTH_SHIFT, header & OPCODE_MASK
    if opcode not in _FIELDS:
        raise MalformedInput(f"word {at}: unknown opcode {opcode} in header {header:#x}")
    fixed = 1 + len(_FIELDS[opcode][1])
    if length < fixed or (opcode != EXEC and length != fixed):
        raise MalformedInput(f"word {at}: {_FIELDS[opcode][0]} cannot be {length} words long")
    if at + length > len(words):
        raise MalformedInput(f"word {at}: packet of {length} words ends after the list")
    return length


def decode(words: Sequence[int], start: int = 0) -> Iterator[Packet]:
    """Read packets back, for dumps and for the reference command processor.

    Raises: MalformedInput at the first word that is no packet.
    """
    following = start
    for at in range(start, len(words)):
        if at != following:
            continue
        length = header_length(words, at)
        name, fields = _FIELDS[words[at] & OPCODE_MASK]
        values = words[at + 1 : at + length]
        args = tuple(values[len(fields) :])
        yield Packet(at, name, dict(zip(fields, values, strict=False)), args)
        following = at + length


def dump(words: Sequence[int], start: int = 0, limit: int = 16) -> str:
    """The packets from `start` on as text, at most `limit` of them; never raises."""
    lines: list[str] = []
    try:
        for packet in decode(words, start):
            if len(lines) == limit:
                lines.append("   ...")
                break
            lines.append(str(packet))
    except MalformedInput as error:
        lines.append(f"   !!: {error.message}")
    return "\n".join(lines)

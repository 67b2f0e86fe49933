"""A ring of push buffers behind a GPFIFO: what the queues of kernels and of copies share.

The ring's memory is cut into blocks of whole 256-byte lines. A block begins with methods, which end
by writing the position after it to `progress_va`; QMD and constants of a launch follow in it. Each
block has one entry of the GPFIFO, so one that would wrap simply begins at offset 0.

`put` counts lines. Every block has a line at least and there are twice as many entries as lines, so
entries are free whenever lines are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from drivers.base.errors import BadArgument
from drivers.gpu.ring import Ring, RingParts
from drivers.nv.nvk.channel import Channel
from queues.nv import words as nv_words
from queues.nv.classes import WORD_BYTES
from queues.nv.launch import LINE_BYTES, PAYLOAD_WORD
from queues.nv.words import ENTRY_LENGTH_SHIFT, Target, gp_entry

RING_BYTES: Final = 1 << 20
LINES: Final = RING_BYTES // LINE_BYTES
ENTRIES: Final = 2 * LINES
MOST_BYTES: Final = 128 << 10
"""Of one block: more than a launch with the largest bank 0, of 64 KiB."""
_DUMP_BLOCKS: Final = 4
_POSITION_BYTES: Final = 8


Elsewhere: TypeAlias = Callable[[int, int], bytes]


def nowhere(va: int, nbytes: int) -> bytes:
    """For a ring that plays no graphs."""
    return b""


class Tail:
    """Words that write a ring's progress: `pack_into(memory, at, head, position, end)`."""

    def __init__(self, words: Sequence[int]) -> None:
        packed = struct.pack(f"<{len(words)}I", *words)
        at = PAYLOAD_WORD * WORD_BYTES
        self.nwords, self.nbytes = len(words), len(packed)
        self.head, self.end = packed[:at], packed[at + _POSITION_BYTES :]
        form = struct.Struct(f"<{len(self.head)}sQ{len(self.end)}s")
        self.pack_into: Callable[..., None] = form.pack_into


class PushRing(Ring):
    """Positions count lines."""

    decode_as = "nv"
    unit_bytes = LINE_BYTES
    subchannel = 0
    hw: Channel

    def __init__(self, parts: RingParts, hw: Channel, target: Target) -> None:
        super().__init__(parts, hw)
        self.target = target
        self.elsewhere: Elsewhere = nowhere
        """Packets of graphs, at an address; b"" for none."""
        self._cell = parts.progress().cast("Q")
        self._cell[0] = 0
        self._entries, self._gp_put = hw.entries, hw.write_pointer
        self._count = 0
        """Entries written so far, modulo ENTRIES."""
        self._rung = 0
        """The same when the doorbell was last stored."""
        self._entry = gp_entry(self.ring_va, 1) - (1 << ENTRY_LENGTH_SHIFT)
        """One for the ring's first byte and no words."""
        gp_entry(self.ring_va + self.ring_bytes - LINE_BYTES, MOST_BYTES // WORD_BYTES)
        self._marks = [0] * ENTRIES
        """Position after the block of each entry."""
        self._tail = Tail(nv_words.release(target, self.subchannel, va=self.progress_va, value=0))

    @property
    def done(self) -> int:
        return self._cell[0]

    def ask(self, mark: int) -> None:
        """Every block reports its end to memory, and waits poll it.

        A signal handler that waits may have interrupted a doorbell; then it is stored here.
        """
        if self._rung != self._count and self.broken is None:
            self.ring_doorbell(mark)

    def room(self, nbytes: int) -> tuple[int, int]:
        """(position, byte) of a block of `nbytes`. Raises: Hang, BadArgument, why it stopped."""
        done = self.done
        self.limit = done + LINES - 1
        if self.broken is not None:  # also by another thread, since the limit was set
            self.limit = -1
            raise self.broken.with_traceback(None)
        if nbytes > MOST_BYTES:
            raise BadArgument(
                f"{nbytes} bytes of packets at once are too much for {self.name}",
                hint="submit fewer at a time",
            )
        lines = -(-nbytes // LINE_BYTES)
        put = self.put
        at = put % LINES
        if at + lines > LINES:  # the ring's tail stays unused
            put, at = put + LINES - at, 0
        if put + lines - done > LINES - 1:
            self.wait_free(put + lines - LINES + 1)
            return self.room(nbytes)
        return put, at * LINE_BYTES

    def send(self, at: int, nwords: int, before: int, mark: int) -> bool:
        """Give the hardware the methods at a byte of the ring: an entry, GPPut, the doorbell.

        False where a signal handler ran since the ring stood at `before`: nothing was given.
        """
        entry = self._entry + (at | nwords << ENTRY_LENGTH_SHIFT)
        count = self._count
        after = (count + 1) % ENTRIES
        if self.put != before:
            return False
        self._entries[count] = entry  # no handler can run from here to the doorbell: no call
        self._marks[count] = mark
        self._count = after
        self.put = mark
        self._gp_put[0] = after
        self.ring_doorbell(mark)
        self._rung = self._count
        return True

    def play(self, entry: int) -> None:
        """Methods elsewhere, by their entry, then the progress: two entries, one doorbell."""
        tail, before = self._tail, self.put
        put, at = self.room(tail.nbytes)
        mark, count = put + 1, self._count
        behind = self._entry + (at | tail.nwords << ENTRY_LENGTH_SHIFT)
        following, after = (count + 1) % ENTRIES, (count + 2) % ENTRIES
        if self.put == before:
            tail.pack_into(self.bytes, at, tail.head, mark, tail.end)
            if self.put == before:
                self._entries[count] = entry  # from here on as in `send`
                self._entries[following] = behind
                self._marks[count] = self._marks[following] = mark
                self._count = after
                self.put = mark
                self._gp_put[0] = after
                self.ring_doorbell(mark)
                self._rung = self._count
                return
        self.play(entry)  # retry: a signal handler ran in between

    def emit(self, words: Sequence[int]) -> None:
        """Methods, then the progress, as one block."""
        tail = self._tail
        first = len(words) * WORD_BYTES
        nbytes = first + tail.nbytes
        before = self.put
        put, at = self.room(nbytes)
        mark = put + -(-nbytes // LINE_BYTES)
        packed = b"".join(word.to_bytes(WORD_BYTES, "little") for word in words)
        if self.put == before:
            self.bytes[at : at + first] = packed
            tail.pack_into(self.bytes, at + first, tail.head, mark, tail.end)
            if self.send(at, nbytes // WORD_BYTES, before, mark):
                return
        self.emit(words)  # retry: a signal handler ran in between

    def emit_parts(self, parts: Iterable[Sequence[int]]) -> None:
        """Several lists of words in as few blocks as they fit."""
        block: list[int] = []
        for part in parts:
            if (len(block) + len(part)) * WORD_BYTES > MOST_BYTES // 2 and block:
                self.emit(block)
                block = []
            block += part
        if block:
            self.emit(block)

    def flush(self) -> int:
        """The position to wait for: everything before is released to the system as it ends."""
        return self.put

    def pending_bytes(self) -> bytes:
        """The methods of the first blocks that the hardware has not finished."""
        done, found = self.done, []
        for back in range(1, min(ENTRIES, 2 * (self.put - done) + 1) + 1):
            number = (self._count - back) % ENTRIES
            if self._marks[number] <= done:
                break
            found.append(number)
        pieces = []
        for number in found[: -_DUMP_BLOCKS - 1 : -1]:
            va, nwords = nv_words.parse_entry(self._entries[number])
            pieces.append(self.packets_at(va, nwords * WORD_BYTES))
        return b"".join(pieces)

    def packets_at(self, va: int, nbytes: int) -> bytes:
        off = va - self.ring_va
        inside = 0 <= off <= self.ring_bytes - nbytes
        return bytes(self.bytes[off : off + nbytes]) if inside else self.elsewhere(va, nbytes)

    def _let_go(self) -> None:
        self._cell = memoryview(bytearray(8)).cast("Q")
        self._cell[0] = self.put
        self._entries = memoryview(bytearray(ENTRIES * nv_words.ENTRY_BYTES)).cast("Q")
        self._gp_put = memoryview(bytearray(WORD_BYTES)).cast("I")

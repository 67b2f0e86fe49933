"""A ring of push buffers behind a GPFIFO: what the queues of kernels and of copies share.

The ring's memory is cut into blocks of whole 256-byte lines. A block begins with methods, which end
by writing the position after it to `progress_va`; QMD and constants of a launch follow in it. Each
block has one entry of the GPFIFO, so one that would wrap simply begins at offset 0.

`put` counts lines. Every block has a line at least and there are twice as many entries as lines, so
entries are free whenever lines are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from drivers.base.errors import BadArgument
from drivers.gpu.ring import Ring, RingParts
from drivers.nv.nvk.channel import Channel
from queues.nv import words as nv_words
from queues.nv.classes import WORD_BYTES
from queues.nv.launch import LINE_BYTES
from queues.nv.words import ENTRY_LENGTH_SHIFT, Target, gp_entry

RING_BYTES: Final = 1 << 20
LINES: Final = RING_BYTES // LINE_BYTES
ENTRIES: Final = 2 * LINES
MOST_BYTES: Final = 128 << 10
"""Of one block: more than a launch with the largest bank 0, of 64 KiB."""
_DUMP_BLOCKS: Final = 4


class PushRing(Ring):
    """Positions count lines."""

    decode_as = "nv"
    unit_bytes = LINE_BYTES
    subchannel = 0
    hw: Channel

    def __init__(self, parts: RingParts, hw: Channel, target: Target) -> None:
        super().__init__(parts, hw)
        self.target = target
        self._cell = parts.progress().cast("Q")
        self._cell[0] = 0
        self._entries, self._gp_put = hw.entries, hw.write_pointer
        self._count = 0
        """Entries written so far, modulo ENTRIES."""
        self._entry = gp_entry(self.ring_va, 1) - (1 << ENTRY_LENGTH_SHIFT)
        """One for the ring's first byte and no words."""
        gp_entry(self.ring_va + self.ring_bytes - LINE_BYTES, MOST_BYTES // WORD_BYTES)
        self._marks = [0] * ENTRIES
        """Position after the block of each entry."""

    @property
    def done(self) -> int:
        return self._cell[0]

    def ask(self, mark: int) -> None:
        """Nothing: every block reports its end to memory, and waits poll it."""

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
        return True

    def emit(self, words: Sequence[int]) -> None:
        """Methods, then the progress, as one block."""
        tail = nv_words.release(self.target, self.subchannel, va=self.progress_va, value=0)
        nbytes = (len(words) + len(tail)) * WORD_BYTES
        before = self.put
        put, at = self.room(nbytes)
        mark = put + -(-nbytes // LINE_BYTES)
        tail = nv_words.release(self.target, self.subchannel, va=self.progress_va, value=mark)
        packed = b"".join(word.to_bytes(WORD_BYTES, "little") for word in (*words, *tail))
        if self.put == before:
            self.bytes[at : at + nbytes] = packed
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
        for back in range(1, min(ENTRIES, self.put - done + 1) + 1):
            number = (self._count - back) % ENTRIES
            if self._marks[number] <= done:
                break
            found.append(number)
        pieces = []
        for number in found[: -_DUMP_BLOCKS - 1 : -1]:
            va, nwords = nv_words.parse_entry(self._entries[number])
            at = va - self.ring_va
            pieces.append(bytes(self.bytes[at : at + nwords * WORD_BYTES]))
        return b"".join(pieces)

    def packets_at(self, va: int, nbytes: int) -> bytes:
        off = va - self.ring_va
        inside = 0 <= off <= self.ring_bytes - nbytes
        return bytes(self.bytes[off : off + nbytes]) if inside else b""

    def _let_go(self) -> None:
        self._cell = memoryview(bytearray(8)).cast("Q")
        self._cell[0] = self.put
        self._entries = memoryview(bytearray(ENTRIES * nv_words.ENTRY_BYTES)).cast("Q")
        self._gp_put = memoryview(bytearray(WORD_BYTES)).cast("I")

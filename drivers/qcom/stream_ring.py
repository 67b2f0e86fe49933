"""A ring of command memory: what the queues of kernels and of copies share.

The ring's memory is cut into blocks of whole 64-byte lines. A block is a list of packets that ends
by writing the position after it to `progress_va`; it is submitted by one ioctl, so one that would
wrap simply begins at offset 0. `put` counts lines. The hardware writes 32 bits of the position: no
more than half of that is ever under way.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from drivers.base.errors import BadArgument, DeviceError
from drivers.gpu.iface import Memory
from drivers.gpu.ring import Ring, RingParts
from drivers.qcom.gate import Block, Gate, Lane, Played
from drivers.qcom.iface import QcomQueue
from queues.qcom import words as qcom_words
from queues.qcom.chips import Chip
from queues.qcom.launch import LINE_BYTES
from queues.qcom.pm4 import WORD_BYTES, WORD_MASK
from queues.qcom.words import Sync

RING_BYTES: Final = 1 << 20
LINES: Final = RING_BYTES // LINE_BYTES
MOST_BYTES: Final = 128 << 10
"""Of one block."""
_DUMP_BLOCKS: Final = 4
_POSITION_BYTES: Final = 4
Elsewhere: TypeAlias = Callable[[int, int], bytes]
Place: TypeAlias = tuple[int, int, int]
"""(position after a block, its address, its bytes)."""


def nowhere(va: int, nbytes: int) -> bytes:
    """For a ring that plays no graphs."""
    return b""


class Tail:
    """Words that write a ring's progress: `pack_into(memory, at, head, position)`."""

    def __init__(self, words: Sequence[int]) -> None:
        self.nbytes = len(words) * WORD_BYTES
        self.head = struct.pack(f"<{len(words) - 1}I", *words[:-1])
        self.pack_into: Callable[..., None] = struct.Struct(f"<{len(self.head)}sI").pack_into


class StreamRing(Ring):
    """Positions count lines."""

    decode_as = "qcom"
    unit_bytes = LINE_BYTES
    hw: QcomQueue

    def __init__(self, parts: RingParts, hw: QcomQueue, chip: Chip, gate: Gate) -> None:
        super().__init__(parts, hw)
        self.chip = chip
        self.elsewhere: Elsewhere = nowhere
        """Packets of graphs, at an address; b"" for none."""
        self._cell = parts.progress().cast("I")
        self._cell[0] = 0
        self._blocks: deque[Place] = deque()
        """Those that may not be finished, and some that are."""
        self.lane = Lane(gate, hw, self._refused)
        """Its blocks: some are held until what they wait for is on its way."""
        self._let_blocks_go = gate.let_go
        self._tail = Tail(qcom_words.release(chip, va=self.progress_va, value=0))

    @property
    def done(self) -> int:
        put = self.put
        return put - (put - self._cell[0] & WORD_MASK)

    def settle(self, mark: int) -> bool:
        return self.lane.settle(mark, self.lock)

    def ask(self, mark: int) -> None:
        """Nothing: the kernel driver can be asked to wait for any submission."""

    def room(self, nbytes: int) -> tuple[int, int]:
        """(position, byte) of a block of `nbytes`. Raises: Hang, BadArgument, why it stopped."""
        done = self.done
        if self.broken is not None:
            self.limit = -1
            raise self.broken.with_traceback(None)
        if nbytes > MOST_BYTES:
            raise BadArgument(
                f"{nbytes} bytes of packets at once are too much for {self.name}",
                hint="submit fewer at a time",
            )
        blocks = self._blocks
        for _ in range(len(blocks)):
            if not blocks or blocks[0][0] > done:  # a signal handler may have taken some
                break
            blocks.popleft()
        lines = -(-nbytes // LINE_BYTES)
        put = self.put
        at = put % LINES
        if at + lines > LINES:  # the ring's tail stays unused
            put, at = put + LINES - at, 0
        if put + lines - done > LINES - 1:
            self.wait_free(min(put + lines - LINES + 1, self.put))
            return self.room(nbytes)
        self.limit = min(done + LINES - 1, put - at + LINES)
        return put, at * LINE_BYTES

    def send(
        self,
        at: int,
        nbytes: int,
        before: int,
        mark: int,
        syncs: Sequence[Sync] = (),
        played: Played | None = None,
    ) -> bool:
        """Submit the packets at a byte of the ring, behind those that are `played`.

        False where a signal handler ran since the ring stood at `before`: nothing was submitted.
        Raises: what the kernel refuses; then nothing runs.
        """
        lane, blocks, va = self.lane, self._blocks, self.ring_va + at
        held, block = lane.held, (mark, before, va, nbytes, syncs, played)
        place = (mark, va, nbytes) if played is None else (mark, *played[1:])
        why: DeviceError | None = self.broken
        if why is not None:  # a signal handler may have closed the ring
            raise why.with_traceback(None)
        if self.put != before:  # no handler can run from here to `blocks += ...`
            return False
        if syncs or held or lane.direct is not None:
            held += (block,)
            self.put = mark
            blocks += (place,)
            self._let_blocks_go()
        else:
            lane.direct = block
            self.put = mark
            blocks += (place,)
            self._submit(block)
        why = self.broken
        if why is not None and lane.given < mark:
            raise why.with_traceback(None)
        return True

    def _submit(self, block: Block) -> None:
        """The usual block: nothing is before it."""
        lane, mark, played = self.lane, block[0], block[5]
        try:
            if played is None:
                self.hw.submit(block[2], block[3])
            else:
                self.hw.submit_with(*played, block[2], block[3])
        except BaseException as error:
            if lane.failed(block, error):
                raise
            return
        lane.given, lane.direct = mark, None
        if lane.held:  # a signal handler has added some
            self._let_blocks_go()

    def _refused(self, block: Block) -> None:
        """Take a block back that the kernel refused, unless a signal handler's follows it."""
        mark, before = block[:2]
        if self.put == mark:
            self.put = before
            if self._blocks and self._blocks[-1][0] == mark:
                self._blocks.pop()

    def play(self, memory: Memory, va: int, nbytes: int, syncs: Sequence[Sync] = ()) -> None:
        """Packets elsewhere, then the progress: one submission."""
        tail, before = self._tail, self.put
        put, at = self.room(tail.nbytes)
        mark = put + 1
        if self.put == before:
            tail.pack_into(self.bytes, at, tail.head, mark & WORD_MASK)
            if self.send(at, tail.nbytes, before, mark, syncs, (memory, va, nbytes)):
                return
        self.play(memory, va, nbytes, syncs)  # retry: a signal handler ran in between

    def emit(self, words: Sequence[int], syncs: Sequence[Sync] = ()) -> None:
        """Packets, then the progress, as one block."""
        tail = self._tail
        first = len(words) * WORD_BYTES
        nbytes, before = first + tail.nbytes, self.put
        put, at = self.room(nbytes)
        mark = put + -(-nbytes // LINE_BYTES)
        packed = struct.pack(f"<{len(words)}I", *words)
        if self.put == before:
            self.bytes[at : at + first] = packed
            tail.pack_into(self.bytes, at + first, tail.head, mark & WORD_MASK)
            if self.send(at, nbytes, before, mark, syncs):
                return
        self.emit(words, syncs)  # retry: a signal handler ran in between

    def emit_parts(self, parts: Iterable[Sequence[int]]) -> None:
        """Several lists of words in as few blocks as they fit; each wait begins one.

        A block copies no more than one packet may: it is a submission, which may not take long.
        """
        block: list[int] = []
        syncs: list[Sync] = []
        moved = 0
        for part in parts:
            more = qcom_words.words_copied(part)
            large = (len(block) + len(part)) * WORD_BYTES > MOST_BYTES // 2
            large = large or moved + more > qcom_words.MOST_COPIED_WORDS
            if block and (large or qcom_words.waits(part)):
                self.emit(block, syncs)
                block, syncs, moved = [], [], 0
            block += part
            moved += more
            syncs += qcom_words.syncs_of(part)
        if block:
            self.emit(block, syncs)

    def flush(self) -> int:
        """The position to wait for: everything before is released to memory as it ends."""
        return self.put

    def pending(self) -> list[Place]:
        """The blocks that the hardware has not finished, the first one first."""
        done = self.done
        return [place for place in list(self._blocks) if place[0] > done]

    def pending_bytes(self) -> bytes:
        return b"".join(self.packets_at(va, size) for _, va, size in self.pending()[:_DUMP_BLOCKS])

    def packets_at(self, va: int, nbytes: int) -> bytes:
        off = va - self.ring_va
        inside = 0 <= off <= self.ring_bytes - nbytes
        return bytes(self.bytes[off : off + nbytes]) if inside else self.elsewhere(va, nbytes)

    def _let_go(self) -> None:
        self._cell = memoryview(bytearray(_POSITION_BYTES)).cast("I")
        self._cell[0] = self.put & WORD_MASK
        self.lane.close()
        self._blocks.clear()

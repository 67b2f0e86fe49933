"""A compute queue that reads PM4 packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drivers.amd.iface import HardwareQueue
from drivers.amd.ring import SLACK_BYTES, About, AnyLauncher, Ring, wrong_kind
from drivers.base.errors import BadArgument
from queues import amd_words, pm4
from queues.amd_launch import (
    WORD_BYTES,
    Block,
    Launcher,
    Packer,
    Target,
    Words,
    enclose,
    progress,
    words_of,
)

RING_BYTES: Final = 512 << 10
STEP_OFF: Final = WORD_BYTES * 2
"""From what a ring has done to the launches that are done of the graph in it."""
MOST_BYTES: Final = 32 << 10
"""Of one block. What is left of a ring in front of one that wraps is filled by a single NOP."""


class Pm4Ring(Ring):
    """Positions count words. Blocks are contiguous: what would wrap starts anew at the front.

    Every block of packets ends by writing the position behind it to `progress_va`, so that what is
    done is known to the word, and with it what of the ring and of the arguments in it is free.
    """

    decode_as = "pm4"
    unit_bytes = WORD_BYTES

    def __init__(self, about: About, hw: HardwareQueue, target: Target) -> None:
        super().__init__(about, hw)
        self.target = target
        self._cell = about.progress().cast("Q")
        self._cell[0] = self._cell[1] = 0
        self._end = self.ring_bytes - SLACK_BYTES
        """No block ends behind this, so that every lap begins by looking at `done`."""
        self.limit = self._end
        """Bytes from the ring's start that may be written without looking at `done`."""
        self._flush = Packet(target, _flush(target, about))

    @property
    def done(self) -> int:
        return self._cell[0]

    def steps(self) -> object:
        return self.done, self._cell[1]

    @property
    def step_va(self) -> int:
        """Where graphs write how many of their launches are done."""
        return self.progress_va + STEP_OFF

    def room(self, nbytes: int) -> int:
        """Byte of the ring where a block of `nbytes` may be written now.

        Raises: Hang when the ring stays full; the device's fault; BadArgument.
        """
        at = self.put * WORD_BYTES % self.ring_bytes
        if at + nbytes <= self.limit:
            return at
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        if nbytes > MOST_BYTES:
            raise BadArgument(
                f"{nbytes} bytes of packets at once are too much for {self.name}",
                hint="submit fewer at a time, or bind() a graph",
            )
        if at + nbytes > self._end:
            at = self._wrap(at)
        self._wait_free(nbytes)
        free = self.ring_bytes - SLACK_BYTES - (self.put - self.done) * WORD_BYTES
        self.limit = min(self._end, at + free)
        return at

    def _wrap(self, at: int) -> int:
        """Fill the ring's tail with a NOP; 0, where it goes on."""
        tail = self.ring_bytes - at
        self._wait_free(tail)
        padding = Packer(words_of(pm4.nop(words=tail // WORD_BYTES)))
        padding.pack_into(self.bytes, at, *padding.template)
        self.put += tail // WORD_BYTES
        self.limit = 0
        return 0

    def _wait_free(self, nbytes: int) -> None:
        self.wait_free(self.put + (nbytes + SLACK_BYTES) // WORD_BYTES - self.size)

    def commit(self, nbytes: int) -> None:
        """What was written at `room` is complete: tell the hardware."""
        self.put += nbytes // WORD_BYTES
        self.write_pointer[0] = self.put
        self.ring_doorbell(self.put)

    def launch(self, launcher: AnyLauncher, words: Sequence[int], grid: Block) -> None:
        """One launch, its arguments checked."""
        if not isinstance(launcher, Launcher):
            raise wrong_kind(self.name)
        at = self.room(launcher.nbytes)
        kernarg_va = self.ring_va + at + launcher.arguments_off
        mark = self.put + launcher.nwords
        launcher.pack_into(self.bytes, at, *launcher.values(words, kernarg_va, grid, mark))
        self.commit(launcher.nbytes)

    def quick(self, launcher: AnyLauncher, words: Sequence[int], grid: int) -> None:
        """A launch of `grid` workgroups in one dimension: the fast path of eager work."""
        if not isinstance(launcher, Launcher):
            raise wrong_kind(self.name)
        at = self.put * WORD_BYTES % self.ring_bytes
        nbytes = launcher.nbytes
        if at + nbytes > self.limit:
            at = self.room(nbytes)
        put = self.put + launcher.nwords
        kernarg_va = self.ring_va + at + launcher.arguments_off
        launcher.pack_into(self.bytes, at, *launcher.quick(words, kernarg_va, grid, put))
        self.put = put  # not before the words are there: a ^C may come at any call
        self.write_pointer[0] = put
        self.ring_doorbell(put)

    def emit(self, words: Sequence[int]) -> None:
        """Packets, and the progress behind them."""
        self.write(self.packed(words))

    def packed(self, words: Sequence[int], outer: Sequence[int] = ()) -> Packet:
        """Packets and the progress behind them, ready for `write`; `outer` stays in the ring."""
        return Packet(self.target, words_of(words, progress(self.target, self.progress_va)), outer)

    def flush(self) -> int:
        """Everything before becomes visible to all, then an interrupt; what to wait for."""
        self.write(self._flush)
        return self.put

    def write(self, packet: Packet) -> None:
        """Packets with the progress behind them."""
        at = self.room(packet.nbytes)
        packet.pack(self.bytes, at, self.ring_va, self.put)
        self.commit(packet.nbytes)

    def settled(self) -> int:
        return self.put

    def _let_go(self) -> None:
        self._cell = memoryview(bytearray(16)).cast("Q")


class Packet:
    """Packets whose holes are the progress behind them and, of several XCCs, the jump to them."""

    __slots__ = ("_ib_off", "_packer", "nbytes")

    def __init__(self, target: Target, inner: Words, outer: Sequence[int] = ()) -> None:
        whole = enclose(target, inner, outer=outer)
        self._packer, self._ib_off = Packer(whole.made), WORD_BYTES * whole.inner_at
        self.nbytes = self._packer.nbytes

    def pack(self, memory: memoryview, at: int, ring_va: int, put: int) -> None:
        """Write it to byte `at` of the ring, whose position is `put`."""
        packer = self._packer
        values = packer.template.copy()
        values[packer.slots["progress"]] = put + packer.nwords
        if "ib" in packer.slots:
            values[packer.slots["ib"]] = ring_va + at + self._ib_off
        packer.pack_into(memory, at, *values)


def _flush(target: Target, about: About) -> Words:
    """Write every cache back, tell the progress, raise the device's event."""
    done = progress(target, about.progress_va, target.flavour.release_all)
    ring = amd_words.notify(target, mailbox_va=about.mailbox_va, event_id=about.event_id)
    return words_of(done, amd_words.once(target, ring))

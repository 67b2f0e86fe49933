"""A compute queue that reads PM4 packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drivers.amd.compute_ring import AmdComputeRing, AnyLauncher, wrong_kind
from drivers.amd.iface import HardwareQueue, Mailbox
from drivers.base.errors import BadArgument
from drivers.gpu.ring import SLACK_BYTES, RingParts
from queues.amd import pm4
from queues.amd import words as amd_words
from queues.amd.pm4_launch import (
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
"""From the ring's progress word to the word that counts a graph's finished launches."""
FLUSHES: Final = 2
"""Interrupts per lap of a ring that fills up: each wakes threads that wait for room."""
MOST_BYTES: Final = 32 << 10
"""Of one block. A single NOP fills the ring's tail before a block that would wrap."""


class Pm4Ring(AmdComputeRing):
    """Positions count words. Blocks are contiguous: one that would wrap begins at offset 0.

    Every block of packets ends by writing the position after it to `progress_va`. So progress is
    known to the word, and with it which part of the ring, and of the arguments in it, is free.
    """

    decode_as = "pm4"
    unit_bytes = WORD_BYTES

    def __init__(
        self, parts: RingParts, hw: HardwareQueue, target: Target, mailbox: Mailbox | None
    ) -> None:
        """Without a `mailbox` nothing interrupts."""
        super().__init__(parts, hw, target)
        self._cell = parts.progress().cast("Q")
        self._cell[0] = self._cell[1] = 0
        self._end = self.ring_bytes - SLACK_BYTES
        """No block ends after this, so that every lap begins with a read of `done`."""
        self._due = self.size // FLUSHES
        """Position from which on a ring that fills up requests its next interrupt."""
        self.limit = self._due * WORD_BYTES
        """Bytes from the ring's start that may be written without reading `done`."""
        self._reporting = _reporting(target, parts.progress_va, mailbox)
        self._flush = Packet(self._reporting, reports=True)

    @property
    def done(self) -> int:
        return self._cell[0]

    def steps(self) -> object:
        return self.done, self._cell[1]

    @property
    def step_va(self) -> int:
        """Address at which graphs count their finished launches."""
        return self.progress_va + STEP_OFF

    def room(self, nbytes: int) -> int:
        """Return `put` once a block of `nbytes` may be written there.

        Raises: Hang when the ring stays full; the device's fault; BadArgument.
        """
        put = self.put
        at = put * WORD_BYTES % self.ring_bytes
        if at + nbytes <= self.limit:
            return put
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        if nbytes > MOST_BYTES:
            raise BadArgument(
                f"{nbytes} bytes of packets at once are too much for {self.name}",
                hint="submit fewer at a time, or bind() a graph",
            )
        if put >= self._due:
            behind, self._due = self.due(put, self.size // FLUSHES)
            if behind:
                self.flush()
            return self.room(nbytes)
        if at + nbytes > self._end:
            self._wrap(put)
            return self.room(nbytes)
        self._wait_free(put, nbytes)
        free = self.ring_bytes - SLACK_BYTES - (put - self.done) * WORD_BYTES
        limit = min(self._end, at + free, at + (self._due - put) * WORD_BYTES)
        if self.put == put and self.broken is None:
            self.limit = limit
        return put

    def _wrap(self, put: int) -> None:
        """Fill the ring's tail with a NOP; the next block begins at offset 0."""
        tail = self.ring_bytes - put * WORD_BYTES % self.ring_bytes
        self._wait_free(put, tail)
        padding = Packer(words_of(pm4.nop(words=tail // WORD_BYTES)))
        at, values = self.ring_bytes - tail, padding.template
        if self.put == put:
            padding.pack_into(self.bytes, at, *values)
            if self.put == put:
                self.put, self.limit = put + tail // WORD_BYTES, 0

    def _wait_free(self, put: int, nbytes: int) -> None:
        self.wait_free(put + (nbytes + SLACK_BYTES) // WORD_BYTES - self.size)

    def launch(self, launcher: AnyLauncher, words: Sequence[int], grid: Block) -> None:
        """One launch, its arguments checked."""
        if not isinstance(launcher, Launcher):
            raise wrong_kind(self.name)
        put = self.room(launcher.nbytes)
        at = put * WORD_BYTES % self.ring_bytes
        kernarg_va, mark = self.ring_va + at + launcher.arguments_off, put + launcher.nwords
        values = launcher.values(words, kernarg_va, grid, mark)
        if self.put == put:
            launcher.pack_into(self.bytes, at, *values)
            if self.put == put:
                self.put = self.write_pointer[0] = mark
                self.ring_doorbell(mark)
                return
        self.launch(launcher, words, grid)  # retry: a signal handler ran in between

    def quick(self, launcher: AnyLauncher, words: Sequence[int], grid: int) -> None:
        """A launch of `grid` workgroups in one dimension: the fast path of eager work."""
        if type(launcher) is not Launcher or not launcher.quick:
            self.launch(launcher, words, (grid, 1, 1))
            return
        put = self.put
        at = put * WORD_BYTES % self.ring_bytes
        if at + launcher.nbytes > self.limit:
            put = self.room(launcher.nbytes)
            at = put * WORD_BYTES % self.ring_bytes
        if self.put == put:  # no signal handler can run from here to the end of packing
            values, mark = launcher.shared, put + launcher.nwords
            values[launcher.arguments] = words
            values[launcher.kernarg] = self.ring_va + at + launcher.arguments_off
            values[launcher.grid], values[launcher.progress] = grid, mark
            launcher.pack_into(self.bytes, at, *values)
            if self.put == put:  # only after the words are written: a ^C may come at any call
                self.put = self.write_pointer[0] = mark
                self.ring_doorbell(mark)
                return
        self.quick(launcher, words, grid)  # retry: a signal handler ran in between

    def emit(self, words: Sequence[int]) -> None:
        """Packets, then the progress."""
        self.write(self.packed(words))

    def packed(self, words: Sequence[int], *, reports: bool = False) -> Packet:
        """Packets, then the progress, ready for `write`; with `reports` they end as a flush."""
        done = self._reporting if reports else progress(self.target, self.progress_va)
        return Packet(words_of(words, done), reports=reports)

    def flush(self) -> int:
        """Release everything before to the system, then interrupt; the position to wait for."""
        return self.write(self._flush)

    def write(self, packet: Packet) -> int:
        """Write packets, then the progress; the position after them."""
        put = self.put
        at = put * WORD_BYTES % self.ring_bytes
        if at + packet.nbytes > self.limit:
            put = self.room(packet.nbytes)
            at = put * WORD_BYTES % self.ring_bytes
        if self.put == put:  # no signal handler can run from here to the end of packing
            values, mark = packet.shared, put + packet.nwords
            values[packet.progress] = mark
            packet.pack_into(self.bytes, at, *values)
            if self.put == put:
                self.put = self.write_pointer[0] = mark
                self.ring_doorbell(mark)
                if packet.reports:
                    self.asks(mark)
                return mark
        return self.write(packet)  # retry: a signal handler ran in between

    def packets_at(self, va: int, nbytes: int) -> bytes:
        off = va - self.ring_va
        inside = 0 <= off <= self.ring_bytes - nbytes
        return bytes(self.bytes[off : off + nbytes]) if inside else b""

    def _let_go(self) -> None:
        self._cell = memoryview(bytearray(16)).cast("Q")


class Packet:
    """Packets whose only hole is the progress after them."""

    __slots__ = ("nbytes", "nwords", "pack_into", "progress", "reports", "shared")

    def __init__(self, inner: Words, *, reports: bool = False) -> None:
        made, _ = enclose(inner)
        packer = Packer(made)
        self.reports = reports
        """Whether they end in an interrupt."""
        self.nbytes, self.nwords, self.pack_into = packer.nbytes, packer.nwords, packer.pack_into
        self.progress = packer.slots["progress"]
        """Index into `shared`."""
        self.shared = packer.template
        """Arguments of `pack_into`, rewritten right before each packing, with the ring's lock."""


def _reporting(target: Target, progress_va: int, mailbox: Mailbox | None) -> Words:
    """Write every cache back, write the progress, raise the device's event."""
    done = progress(target, progress_va, target.flavour.release_all)
    if mailbox is None:
        return words_of(done)
    ring = amd_words.notify(target, mailbox_va=mailbox.va, event_id=mailbox.event_id)
    return words_of(done, amd_words.once(target, ring))

"""A copy queue: an SDMA engine's ring."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from drivers.amd.iface import HardwareQueue, Mailbox
from drivers.gpu.ring import SLACK_BYTES, CopyRing, RingParts
from queues.amd import sdma
from queues.amd.copy_queue import ReadyCopy
from queues.amd.sdma import Engine

RING_BYTES: Final = 256 << 10
MOST_BYTES: Final = 16 << 10
"""Of packets written at once."""
_WORD_BYTES: Final = 4
_MASK: Final = (1 << 32) - 1


class SdmaRing(CopyRing):
    """Positions count bytes; a packet never wraps, the ring's tail is filled with NOPs.

    A fence writes the low 32 bits of the position after it; `done` extends them to all of it.
    """

    decode_as = "sdma"
    unit_bytes = 1
    hw: HardwareQueue

    def __init__(
        self, parts: RingParts, hw: HardwareQueue, engine: Engine, mailbox: Mailbox | None
    ) -> None:
        """Without a `mailbox` nothing interrupts."""
        super().__init__(parts, hw)
        self.engine = engine
        self._cell = parts.progress().cast("I")
        self._cell[0] = 0
        self._done = 0
        self._interrupt: list[int] = []
        if mailbox is not None:
            event = sdma.fence(engine, addr=mailbox.va, data=mailbox.event_id)
            self._interrupt = [*event, *sdma.trap(int_context=mailbox.event_id)]
        self._ready = ReadyCopy(engine, parts.progress_va, self._interrupt)

    @property
    def done(self) -> int:
        self._done += (self._cell[0] - self._done) & _MASK
        return self._done

    def settle(self, mark: int) -> bool:
        return bool(self.hw.settle())

    def _room(self, nbytes: int) -> int:
        """Return `put`, past a filled tail, once `nbytes` may be written there."""
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        put = self.put
        at = put % self.ring_bytes
        tail = self.ring_bytes - at
        if tail < nbytes:
            self._wait_free(tail)
            filled = bytes(tail)
            if self.put == put:
                self.bytes[at:] = filled
                self.put = put + tail
            return self._room(nbytes)
        self._wait_free(nbytes)
        return put

    def _wait_free(self, nbytes: int) -> None:
        self.wait_free(self.put + nbytes + SLACK_BYTES - self.ring_bytes)

    def emit(self, packets: Iterable[Sequence[int]], *, interrupt: bool = False) -> None:
        """Packets in order, then the progress, and one doorbell.

        With `interrupt` the device's event after that: it wakes threads that sleep for `put`.
        """
        words = array("I")
        for packet in packets:
            words.extend(packet)
            if len(words) * _WORD_BYTES >= MOST_BYTES:
                self._write(words, ())
                words = array("I")
        self._write(words, self._interrupt if interrupt else ())

    def copy(self, *, dst: int, src: int, nbytes: int) -> None:
        """`emit` of one copy, with an interrupt: the fast path of host copies.

        At most the engine's `copy_max_bytes`.
        """
        ready = self._ready
        put = self._room(ready.nbytes)
        at, mark = put % self.ring_bytes, put + ready.nbytes
        values = ready.values(dst=dst, src=src, nbytes=nbytes, progress=mark & _MASK)
        if self.put == put:
            ready.packer.pack_into(self.bytes, at, *values)
            if self.put == put:
                self.put = self.write_pointer[0] = mark
                self.ring_doorbell(mark)
                return
        self.copy(dst=dst, src=src, nbytes=nbytes)  # retry: a signal handler ran in between

    def _write(self, words: array[int], behind: Sequence[int]) -> None:
        """`behind` is written after the progress: less than SLACK_BYTES, never overwritten."""
        fence = sdma.fence(self.engine, addr=self.progress_va, data=0)
        nbytes = (len(words) + len(fence) + len(behind)) * _WORD_BYTES
        put = self._room(nbytes)
        at, mark = put % self.ring_bytes, put + nbytes
        fence = sdma.fence(self.engine, addr=self.progress_va, data=mark & _MASK)
        packed = array("I", [*words, *fence, *behind]).tobytes()
        if self.put == put:
            self.bytes[at : at + nbytes] = packed
            self.put = self.write_pointer[0] = mark
            self.ring_doorbell(mark)
            return
        self._write(words, behind)  # retry: a signal handler ran in between

    def flush(self) -> int:
        """Interrupt once everything before is done; the position to wait for."""
        self.emit((), interrupt=True)
        return self.put

    def _let_go(self) -> None:
        self._done = self.put
        self._cell = memoryview(bytearray(8)).cast("I")

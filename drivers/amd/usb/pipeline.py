"""Long copies through the bridge's SRAM: cable and copy engine work at the same time.

The SRAM is two halves. All packets of a copy are in the engine's ring before its data is sent.

Into the card, a part ends in a word that its half did not hold before; the engine polls it, copies
the part and counts it where one request reads it. A half is filled again once it was counted.

Out of it, the engine polls a word that the host writes with the request for the transfer, copies a
part to SRAM and starts the transfer. The next one is asked for when the first bytes have come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from drivers.amd.sdma_ring import SdmaRing
from drivers.base.deadline import polls
from drivers.base.errors import DeviceTimeout
from drivers.base.interrupts import deferred
from drivers.usb.asm24 import sram, wire
from drivers.usb.asm24.bridge import Bridge
from drivers.usb.asm24.sram import Under
from queues.amd import sdma
from queues.amd.sdma import Compare, Engine

HALVES: Final = 2
HALF_BYTES: Final = wire.SRAM_BYTES // HALVES
MARK_BYTES: Final = 4
CHUNK_BYTES: Final = HALF_BYTES - MARK_BYTES
"""Into the card: a word of each half marks its end."""
MOST_CHUNKS: Final = 512
"""Whose packets are in the ring at once: 34 KiB of it."""
HEAD_BYTES: Final = wire.SLOT_BYTES
"""What shows that a part is on its way."""
COUNT_OFF: Final = 0x800
"""In the page of the queue: how many parts the engine took, modulo 256. One byte is read, so that
it is never of two moments."""
GO_OFF: Final = 0x840
"""How many parts the engine may write to SRAM, modulo 256; written by the host."""
_MARK: Final = 0x5100_0000
_OTHER: Final = 0x0100_0000
_SERIAL_MASK: Final = 0xFF_FFFF
_BYTE: Final = 0xFF
_HALF_BYTE: Final = 0x80
_EMPTY: Final = bytes(wire.SLOT_BYTES)
_DRAIN_S: Final = 2.0
STARTED: Final = 1
"""What is written to start a transfer: any value does."""


@dataclass(frozen=True, slots=True)
class Places:
    """GPU addresses of the SRAM, the trigger's page and the queue's page."""

    sram_va: int
    trigger_va: int
    queue_va: int


def sectors(nbytes: int) -> int:
    """Bytes of whole sectors."""
    return -(-nbytes // wire.SECTOR_BYTES) * wire.SECTOR_BYTES


class Pipeline:
    """The two halves, and what the host knows of them."""

    def __init__(self, bridge: Bridge, places: Places) -> None:
        self._bridge, self._places, self._port = bridge, places, bridge.sram
        self._images = [bytearray(HALF_BYTES) for _ in range(HALVES)]
        """What is in the SRAM."""
        self._known = False
        self._parts = 0
        """Of all copies so far."""

    def forget(self) -> None:
        """Others may have written to the SRAM."""
        self._known = False

    @contextmanager
    def changing(self) -> Iterator[bytearray]:
        """The first half as the host knows it, to be written like the SRAM itself."""
        known, self._known = self._known, False
        yield self._images[0]
        self._known = known

    def _clear(self, sizes: Iterable[int]) -> None:
        """Begin to count, and clear the slots in which parts end: their contents are unknown."""
        bridge, parts = self._bridge, self._parts & _BYTE
        for off in (COUNT_OFF, GO_OFF):
            bridge.put_xdata(wire.QUEUE_XDATA + off, parts)
        for number, size in enumerate(sizes):
            half = (self._parts + number) % HALVES
            slot = (sectors(size) - 1) // wire.SLOT_BYTES
            at = slot * wire.SLOT_BYTES
            self._images[half][at : at + wire.SLOT_BYTES] = _EMPTY
            bridge.write_sram(_slot(half) + slot, _EMPTY)

    # Into the card

    def copy_in(self, ring: SdmaRing, dst_va: int, src: memoryview) -> int:
        """At most `MOST_CHUNKS`; the ring's position behind it, which is waited for next.

        The ring had nothing to do.

        Raises: DeviceTimeout when the engine takes no data.
        """
        with deferred(), ring.lock, self._bridge.lock:
            first, engine = self._parts, ring.engine
            parts = list(range(0, src.nbytes, CHUNK_BYTES))
            if not self._known:
                ends = (min(CHUNK_BYTES, src.nbytes - at) + MARK_BYTES for at in parts[:HALVES])
                self._clear(ends)
            self._known = False  # until it has ended well
            packets, marks = [], []
            for number, at in enumerate(parts):
                size = min(CHUNK_BYTES, src.nbytes - at)
                marks.append(self._mark(src, number, size))
                packets += self._take(engine, first + number, dst_va + at, size, marks[-1])
            ring.emit(packets)
            put = ring.put
            self._parts += len(parts)
            with self._port.alone():
                self._feed(src, first, marks)
            self._known = True
            return put

    def _mark(self, src: memoryview, number: int, size: int) -> int:
        """The last word of a part: another one than the half has there when it is sent."""
        at = sectors(size + MARK_BYTES) - MARK_BYTES
        if number < HALVES:
            image = self._images[(self._parts + number) % HALVES]
            there = bytes(image[at : at + MARK_BYTES])
        else:  # data of the part before; where that ends in its mark, the number is another one
            before = (number - HALVES) * CHUNK_BYTES + at
            there = bytes(src[before : before + MARK_BYTES]) if at < CHUNK_BYTES else b""
        mark = _MARK | self._parts + number & _SERIAL_MASK
        return mark ^ _OTHER if int.from_bytes(there, "little") == mark else mark

    def _take(
        self, engine: Engine, serial: int, dst_va: int, size: int, mark: int
    ) -> list[list[int]]:
        half_va = self._places.sram_va + serial % HALVES * HALF_BYTES
        end_va = half_va + sectors(size + MARK_BYTES) - MARK_BYTES
        count_va = self._places.queue_va + COUNT_OFF
        return [
            sdma.poll_mem(engine, addr=end_va, value=mark, func=Compare.EQ),
            sdma.copy_linear(engine, dst_addr=dst_va, src_addr=half_va, count=size),
            sdma.fence(engine, addr=count_va, data=serial + 1 & _BYTE),
        ]

    def _feed(self, src: memoryview, first: int, marks: list[int]) -> None:
        port, count_at = self._port, wire.QUEUE_XDATA + COUNT_OFF
        under: list[Under | None] = [None] * HALVES
        for number, mark in enumerate(marks):
            half = (first + number) % HALVES
            sent = under[half]
            if sent is not None:
                port.finish(sent)
            at = number * CHUNK_BYTES
            part = src[at : at + CHUNK_BYTES]
            nbytes, image = sectors(part.nbytes + MARK_BYTES), self._images[half]
            image[: part.nbytes] = part
            image[nbytes - MARK_BYTES : nbytes] = mark.to_bytes(MARK_BYTES, "little")
            asked = sram.arm(_slot(half), nbytes, into_host=False)
            _, taken = port.ask([asked, sram.read_byte(count_at)])
            if number >= HALVES:
                self._await(first + number - HALVES + 1, taken)
            under[half] = port.start([sram.send(memoryview(image)[:nbytes])])
        for one in filter(None, under):
            port.finish(one)

    def _await(self, serial: int, taken: bytes) -> None:
        """Until the engine has counted that far; `taken`: what it had counted, where known."""
        asked = [sram.read_byte(wire.QUEUE_XDATA + COUNT_OFF)]
        for _ in polls(_DRAIN_S, self._bridge.host):
            (count,) = taken or self._port.ask(asked)[0]
            if (count - serial & _BYTE) < _HALF_BYTE:
                return
            taken = b""
        raise DeviceTimeout(
            f"{self._bridge.usb.name}: the copy engine took {count:#x} of {serial & _BYTE:#x} "
            "parts (modulo 256) out of SRAM",
            register=f"XDATA {wire.QUEUE_XDATA + COUNT_OFF:#06x}",
            last=count,
            hint="close the device and open it again",
        )

    # Out of it

    def copy_out(self, ring: SdmaRing, dst: memoryview, src_va: int) -> int:
        """At most `MOST_CHUNKS` halves; the ring's position behind it.

        Raises: DeviceTimeout when the engine starts no transfer.
        """
        with deferred(), ring.lock, self._bridge.lock:
            known = self._known
            if not known:
                self._clear(())
            self._known = False
            first, engine = self._parts, ring.engine
            sizes = [min(HALF_BYTES, dst.nbytes - at) for at in range(0, dst.nbytes, HALF_BYTES)]
            packets = []
            for number, size in enumerate(sizes):
                packets += self._give(engine, first + number, src_va + number * HALF_BYTES, size)
            ring.emit(packets)
            put = ring.put
            self._parts += len(sizes)
            with self._port.alone():
                self._fetch(dst, first, sizes)
            self._known = known
            return put

    def _give(self, engine: Engine, serial: int, src_va: int, size: int) -> list[list[int]]:
        half_va = self._places.sram_va + serial % HALVES * HALF_BYTES
        go_va = self._places.queue_va + GO_OFF
        return [
            sdma.poll_mem(engine, addr=go_va, value=serial + 1 & _BYTE, mask=_BYTE,
                          func=Compare.EQ),
            sdma.copy_linear(engine, dst_addr=half_va, src_addr=src_va, count=size),
            sdma.fence(engine, addr=self._places.trigger_va, data=STARTED),
        ]  # fmt: skip

    def _fetch(self, dst: memoryview, first: int, sizes: list[int]) -> None:
        port = self._port
        ahead = self._ask_for(first, sizes[0])
        for number, size in enumerate(sizes):
            asked, head, rest = ahead
            data = port.finish(head)[0]
            port.finish(asked)
            if number + 1 < len(sizes):
                ahead = self._ask_for(first + number + 1, sizes[number + 1])
            data += b"".join(port.finish(rest)) if rest is not None else b""
            dst[number * HALF_BYTES :][:size] = data[:size]
            self._images[(first + number) % HALVES][: len(data)] = data

    def _ask_for(self, serial: int, size: int) -> tuple[Under, Under, Under | None]:
        """The request, the first bytes, the others."""
        port, nbytes = self._port, sectors(size)
        head = min(nbytes, HEAD_BYTES)
        go_at = wire.QUEUE_XDATA + GO_OFF
        armed = sram.arm(_slot(serial % HALVES), nbytes, into_host=True)
        asked = port.start([armed, sram.write_byte(go_at, serial + 1 & _BYTE)])
        begun = port.start([sram.receive(head)])
        rest = port.start([sram.receive(nbytes - head)]) if nbytes > head else None
        return asked, begun, rest


def _slot(half: int) -> int:
    return half * HALF_BYTES // wire.SLOT_BYTES

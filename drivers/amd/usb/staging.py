"""Host copies through the bridge's SRAM: the cable has one end of it, a copy engine the other.

Into the card, the SRAM is two halves: while the engine copies one, the cable fills the other. Out
of it, the engine's last write starts the transfer that the bridge was armed for.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Final, NoReturn

from drivers.amd.sdma_ring import SdmaRing
from drivers.bare.memory import Memories
from drivers.bare.mirror import Mirrors
from drivers.base import forks
from drivers.base.errors import BadArgument, Busy, DeviceTimeout
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Undo, run_all
from drivers.gpu.ring import CopyRing
from drivers.gpu.staging import Wait
from drivers.usb.asm24 import wire
from drivers.usb.asm24.bridge import Bridge
from queues.amd import sdma

HALF_BYTES: Final = wire.SRAM_BYTES // 2
_STARTED: Final = 1
"""What is written to start a transfer: any value does."""


class SramStaging:
    """The SRAM and the page of its trigger, mapped to the GPU."""

    def __init__(self, bridge: Bridge, memories: Memories, mirrors: Mirrors) -> None:
        self._bridge, self._mirrors = bridge, mirrors
        with Undo() as undo:
            self._sram = memories.reach(wire.SRAM_BUS, wire.SRAM_BYTES, "SRAM")
            undo.add(self._sram.free)
            self._trigger = memories.reach(wire.TRIGGER_BUS, PAGE_BYTES, "trigger")
        self._marks = [0, 0]
        """Position of the ring at which a half is free again."""
        self._ring: CopyRing | None = None
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self.lock = RLock()
        self.busy = False

    def _enter(self, ring: CopyRing) -> None:
        if ring is not self._ring:
            self._ring, self._marks = ring, [0, 0]

    def _reach(self, ring: CopyRing, mark: int, wait: Wait) -> None:
        """Return once the ring has done `mark`: look before asking for an interrupt."""
        if ring.done < mark:
            self._mirrors.look()
        wait(ring, mark)

    def copy_in(self, ring: CopyRing, dst_va: int, src: memoryview, wait: Wait) -> None:
        """Copy all of `src` to the card; returns when that is done."""
        self._enter(ring)
        for number, at in enumerate(range(0, src.nbytes, HALF_BYTES)):
            half = number % 2
            self._reach(ring, self._marks[half], wait)
            part = src[at : at + HALF_BYTES]
            self._bridge.write_sram(half * HALF_BYTES // wire.SLOT_BYTES, _sectors(part))
            with ring.lock:
                source = self._sram.gpu_va + half * HALF_BYTES
                ring.copy(dst=dst_va + at, src=source, nbytes=part.nbytes)
                self._marks[half] = ring.put
        self._reach(ring, max(self._marks), wait)

    def copy_out(self, ring: CopyRing, dst: memoryview, src_va: int, wait: Wait) -> None:
        """Fill `dst` from the card."""
        self._enter(ring)
        self._reach(ring, max(self._marks), wait)
        for at in range(0, dst.nbytes, HALF_BYTES):
            size = min(HALF_BYTES, dst.nbytes - at)
            try:
                dst[at : at + size] = self._fetched(ring, src_va + at, size)[:size]
            except DeviceTimeout:
                wait(ring, self._marks[0])  # where the engine faulted, this says why
                raise
        self._reach(ring, max(self._marks), wait)

    def _fetched(self, ring: CopyRing, src_va: int, nbytes: int) -> bytes:
        """Arm, copy, start, read; the cable is locked meanwhile."""
        if not isinstance(ring, SdmaRing):
            raise BadArgument(f"{ring.name} is no copy engine's", hint="use copy_queue()")
        whole = -(-nbytes // wire.SECTOR_BYTES) * wire.SECTOR_BYTES
        engine, sram = ring.engine, self._sram.gpu_va
        copy = sdma.copy_linear(engine, dst_addr=sram, src_addr=src_va, count=nbytes)
        start = sdma.fence(engine, addr=self._trigger.gpu_va, data=_STARTED)
        with ring.lock, self._bridge.lock:  # in this order everywhere
            self._bridge.arm_sram(0, whole)
            ring.emit([copy, start])
            self._marks[0] = ring.put
            return self._bridge.read_sram(whole)

    def let_go(self) -> NoReturn:
        """Raises: Busy. There is one SRAM; see `one_stager`."""
        raise Busy("the SRAM of a cable is not given up", hint="close the device")

    def close(self) -> None:
        """Unmap it; no copy is under way."""
        run_all([self._sram.free, self._trigger.free])


def _sectors(part: memoryview) -> bytes | memoryview:
    """Whole sectors."""
    missing = -part.nbytes % wire.SECTOR_BYTES
    return bytes(part) + bytes(missing) if missing else part


def one_stager(bridge: Bridge, memories: Memories, mirrors: Mirrors) -> Callable[[], SramStaging]:
    """What makes the only one. It raises Busy in a signal handler in the middle of a copy."""
    made: list[SramStaging] = []

    def make() -> SramStaging:
        if made and made[0].busy:
            raise Busy("a copy is under way, and the cable has one way in", hint="copy after it")
        made[:] = [SramStaging(bridge, memories, mirrors)]
        return made[0]

    return make

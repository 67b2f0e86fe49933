"""Host copies through the bridge's SRAM: the cable has one end of it, a copy engine the other.

A copy of no more than half of it is made in one piece: into the card, data first, then the engine;
out of it, the engine's last write starts the transfer that the bridge was armed for. Longer ones
are pipelined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Final, NoReturn

from drivers.amd.sdma_ring import SdmaRing
from drivers.amd.usb.pipeline import (
    CHUNK_BYTES,
    HALF_BYTES,
    MOST_CHUNKS,
    STARTED,
    Pipeline,
    Places,
    sectors,
)
from drivers.bare.memory import Memories
from drivers.bare.mirror import Mirrors
from drivers.base import forks
from drivers.base.errors import BadArgument, Busy, DeviceTimeout, during
from drivers.base.pages import PAGE_BYTES
from drivers.base.undo import Undo, run_all
from drivers.gpu.ring import CopyRing
from drivers.gpu.staging import Wait
from drivers.usb.asm24 import wire
from drivers.usb.asm24.bridge import Bridge
from queues.amd import sdma

_TURNS: Final = 100
"""How often other threads' work may come first."""


class SramStaging:
    """The SRAM and the page of its trigger, mapped to the GPU."""

    def __init__(self, bridge: Bridge, memories: Memories, mirrors: Mirrors) -> None:
        self._bridge, self._mirrors = bridge, mirrors
        with Undo() as undo:
            self._sram = memories.reach(wire.SRAM_BUS, wire.SRAM_BYTES, "SRAM")
            undo.add(self._sram.free)
            self._trigger = memories.reach(wire.TRIGGER_BUS, PAGE_BYTES, "trigger")
            undo.add(self._trigger.free)
            self._queue = memories.reach(wire.QUEUE_BUS, PAGE_BYTES, "queue")
        places = Places(self._sram.gpu_va, self._trigger.gpu_va, self._queue.gpu_va)
        self._pipeline = Pipeline(bridge, places)
        self._mark = 0
        """Position of the ring at which the SRAM is free again."""
        self._ring: CopyRing | None = None
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self.lock = RLock()
        self.busy = False

    def _enter(self, ring: CopyRing) -> None:
        if ring is not self._ring:
            self._ring, self._mark = ring, 0
            self._pipeline.forget()

    def _reach(self, ring: CopyRing, mark: int, wait: Wait) -> None:
        """Return once the ring has done that: look before asking for an interrupt."""
        if ring.done < mark:
            self._mirrors.look()
        wait(ring, mark)

    @contextmanager
    def _idle(self, ring: SdmaRing, wait: Wait) -> Iterator[None]:
        """The ring's lock, with nothing in front: who keeps the cable until the engine has copied
        keeps other threads from giving it what it waits for.

        Raises: Busy when others never pause.
        """
        for _ in range(_TURNS):
            mark = ring.put
            self._reach(ring, mark, wait)
            with ring.lock:
                if ring.put == mark:
                    yield
                    return
        raise Busy(f"other threads keep {ring.name} at work", hint="copy when they pause")

    def copy_in(self, ring: CopyRing, dst_va: int, src: memoryview, wait: Wait) -> None:
        """Copy all of `src` to the card; returns when that is done."""
        with during(f"copy {src.nbytes} bytes into the card"):
            self._copy_in(ring, dst_va, src, wait)

    def _copy_in(self, ring: CopyRing, dst_va: int, src: memoryview, wait: Wait) -> None:
        engine = self._begin(ring, wait)
        long, most = src.nbytes > HALF_BYTES, MOST_CHUNKS * CHUNK_BYTES
        for at in range(0, src.nbytes, most):
            part = src[at : at + most]
            try:
                if long:
                    with self._idle(engine, wait):
                        self._mark = self._pipeline.copy_in(engine, dst_va + at, part)
                else:
                    self._put(engine, dst_va, part)
            except DeviceTimeout:
                ring.sleep(0)  # where the engine faulted, this says why
                raise
            self._reach(ring, self._mark, wait)

    def copy_out(self, ring: CopyRing, dst: memoryview, src_va: int, wait: Wait) -> None:
        """Fill `dst` from the card."""
        with during(f"copy {dst.nbytes} bytes out of the card"):
            self._copy_out(ring, dst, src_va, wait)

    def _copy_out(self, ring: CopyRing, dst: memoryview, src_va: int, wait: Wait) -> None:
        engine = self._begin(ring, wait)
        long, most = dst.nbytes > HALF_BYTES, MOST_CHUNKS * HALF_BYTES
        for at in range(0, dst.nbytes, most):
            part = dst[at : at + most]
            try:
                with self._idle(engine, wait):
                    if long:
                        self._mark = self._pipeline.copy_out(engine, part, src_va + at)
                    else:
                        part[:] = self._fetched(engine, src_va, part.nbytes)
            except DeviceTimeout:
                ring.sleep(0)
                raise
            self._reach(ring, self._mark, wait)

    def _begin(self, ring: CopyRing, wait: Wait) -> SdmaRing:
        self._enter(ring)
        self._reach(ring, self._mark, wait)
        if not isinstance(ring, SdmaRing):
            raise BadArgument(f"{ring.name} is not a copy engine's", hint="use copy_queue()")
        return ring

    def _put(self, ring: SdmaRing, dst_va: int, part: memoryview) -> None:
        """Data, then the engine's copy of it."""
        data = _whole(part)
        with self._pipeline.changing() as image:
            self._bridge.write_sram(0, data)
            image[: len(data)] = data
        with ring.lock:
            ring.copy(dst=dst_va, src=self._sram.gpu_va, nbytes=part.nbytes)
            self._mark = ring.put

    def _fetched(self, ring: SdmaRing, src_va: int, nbytes: int) -> bytes:
        """Arm, copy, start, read; ring and cable are locked meanwhile."""
        whole = sectors(nbytes)
        engine, sram = ring.engine, self._sram.gpu_va
        copy = sdma.copy_linear(engine, dst_addr=sram, src_addr=src_va, count=nbytes)
        start = sdma.fence(engine, addr=self._trigger.gpu_va, data=STARTED)
        with self._pipeline.changing() as image, self._bridge.lock:
            self._bridge.arm_sram(0, whole)
            ring.emit([copy, start])
            self._mark = ring.put
            image[:whole] = data = self._bridge.read_sram(whole)
        return data[:nbytes]

    def let_go(self) -> NoReturn:
        """Raises: Busy. There is one SRAM; see `one_stager`."""
        raise Busy("the SRAM of a cable is not given up", hint="close the device")

    def close(self) -> None:
        """Unmap it; no copy is under way."""
        run_all([self._sram.free, self._trigger.free, self._queue.free])


def _whole(part: memoryview) -> bytes | memoryview:
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

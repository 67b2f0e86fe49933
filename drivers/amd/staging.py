"""Copies between host memory and the card: through pinned memory that both reach, by SDMA."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final, TypeAlias

from drivers.amd.copy_ring import CopyRing
from drivers.amd.iface import Iface, Memory, Use
from drivers.base import forks
from queues.amd_copy import copy_packets

Wait: TypeAlias = Callable[[CopyRing, int], None]
"""Returns once the ring has done so much; raises why it does not."""
HALF_BYTES: Final = 2 << 20
"""The memory has two halves: while the engine copies one, the host fills or empties the other."""


class Staging:
    """Two halves, and until when the engine needs each of them."""

    def __init__(self, iface: Iface) -> None:
        bo = iface.allocate(2 * HALF_BYTES, Use.SHARED, "staging", host=True)
        self._bo: Memory | None = bo
        self._view, self._va = bo.view(), bo.gpu_va
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread that is not here may hold the lock."""
        self.lock = Lock()

    def copy_in(self, ring: CopyRing, dst_va: int, src: memoryview, wait: Wait) -> None:
        """All of `src` to the card; returns when it is there."""
        marks = [0, 0]
        for number, at in enumerate(range(0, src.nbytes, HALF_BYTES)):
            half = number % 2
            part = src[at : at + HALF_BYTES]
            wait(ring, marks[half])
            off = half * HALF_BYTES
            self._view[off : off + part.nbytes] = part
            with ring.lock:
                ring.emit(
                    copy_packets(
                        ring.engine, dst=dst_va + at, src=self._va + off, nbytes=part.nbytes
                    )
                )
                marks[half] = ring.put
        wait(ring, max(marks))

    def copy_out(self, ring: CopyRing, dst: memoryview, src_va: int, wait: Wait) -> None:
        """Fill `dst` from the card."""
        marks, parts = [0, 0], range(0, dst.nbytes, HALF_BYTES)
        for number in range(len(parts) + 1):
            if number < len(parts):
                at, off = parts[number], number % 2 * HALF_BYTES
                size = min(HALF_BYTES, dst.nbytes - at)
                with ring.lock:
                    ring.emit(
                        copy_packets(ring.engine, dst=self._va + off, src=src_va + at, nbytes=size)
                    )
                    marks[number % 2] = ring.put
            if number:
                self._empty(ring, dst, parts[number - 1], number - 1, marks, wait)

    def _empty(
        self, ring: CopyRing, dst: memoryview, at: int, number: int, marks: list[int], wait: Wait
    ) -> None:
        half = number % 2
        wait(ring, marks[half])
        off, size = half * HALF_BYTES, min(HALF_BYTES, dst.nbytes - at)
        dst[at : at + size] = self._view[off : off + size]

    def close(self) -> None:
        """Free it; nothing is copied."""
        bo, self._bo = self._bo, None
        self._view = memoryview(b"")
        if bo is not None:
            bo.free()

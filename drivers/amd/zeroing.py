"""Memory zeroed by the copy engine, for an interface whose memory the host cannot see."""

from __future__ import annotations

from typing import Final

from drivers.amd.pair import AmdPair, AmdRecovery, AmdWaits
from drivers.gpu.ring import Waited
from queues.amd.copy_queue import zero_packets

BUSY_S: Final = 1.0
"""How long zeroing memory waits for copies under way."""


def zero(pair: AmdPair, recovery: AmdRecovery, waits: AmdWaits, va: int, nbytes: int) -> bool:
    """Zero memory with the copy engine, after its other work; False where that does not end.

    That work may wait for a signal which the caller has yet to set. Raises: Hang.
    """
    ring = pair.copies
    if ring.broken is not None or recovery.parked(ring):
        return False
    if ring.wait_done(ring.put, BUSY_S) is not Waited.DONE:
        return False
    with ring.lock:
        if ring.broken is not None or not ring.idle:
            return False
        ring.emit(zero_packets(ring.engine, dst=va, nbytes=nbytes), interrupt=True)
        mark = ring.put
    waits.wait_ring(ring, mark)
    pair.compute.stale = True
    return True

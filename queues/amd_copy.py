"""Copies of any size as SDMA packets."""

from __future__ import annotations

from collections.abc import Iterator

from queues import sdma
from queues.sdma import Engine


def copy_packets(engine: Engine, *, dst: int, src: int, nbytes: int) -> Iterator[list[int]]:
    """As many packets as the engine needs for `nbytes`."""
    for at in range(0, nbytes, engine.copy_max_bytes):
        count = min(nbytes - at, engine.copy_max_bytes)
        yield sdma.copy_linear(engine, dst_addr=dst + at, src_addr=src + at, count=count)

"""How much memory of a device this process uses: `Device.memory_stats()` returns it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Memory of one opened device. Sizes in bytes of size classes, counts of calls.

    Of this process and this opening of the device alone: other programs' memory, kernels' code and
    queues are not in it, and neither is memory that was wrapped or imported, which belongs to
    others.
    """

    used_bytes: int
    """Of buffers that are alive, and of freed ones that a queue may still use."""
    cached_bytes: int
    """Freed, and kept for the next buffers; given back to the device where it gets full."""
    peak_bytes: int
    """Most bytes ever held from the device at once, used and cached."""
    limit_bytes: int | None
    """Most that this process can get: the device's memory, or its share of the machine's. None
    where nothing says how much there is; `limit_reason` has why."""
    allocations: int
    hits: int
    """Allocations that the cache served."""
    live: int
    """Blocks that are allocated and not freed."""
    limit_reason: str = ""
    """Why `limit_bytes` is None; "" where it is known."""

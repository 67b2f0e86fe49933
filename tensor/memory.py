"""How much memory of a device tensors hold."""

from __future__ import annotations

from drivers.base.contracts import MemoryStats
from tensor import engine

__all__ = ["memory_stats"]


def memory_stats(device: str | None = None) -> MemoryStats:
    """Bytes of a device (None: the default) that this process uses, has cached, used at most, and
    may get; the device is opened on first use.

    Memory of a tensor that is gone counts as used until the work that uses it is over.
    """
    return engine.device(device).memory_stats()

"""Addresses of GPU memory, given out once for all GPUs of a process.

Each GPU has an address space of its own. As no two pieces of memory have one address, memory of a
GPU can be mapped to another one at the same address.
"""

from __future__ import annotations

from threading import RLock
from typing import Final

from drivers.bare.extents import Extents
from drivers.base import forks
from drivers.base.contracts import World
from drivers.base.errors import OutOfMemory
from drivers.base.pages import PAGE_BYTES
from queues.nv.generations import SHARED_WINDOW

KEPT_AS: Final = "/dev/nvidia-uvm"
BIG_BYTES: Final = 64 << 10
HUGE_BYTES: Final = 2 << 20
"""Page sizes of GPUs, beside PAGE_BYTES. # src: kern_gmmu.c kgmmuGetMaxBigPageSize_HAL() of Volta
and later"""
FIRST_VA: Final = 4 << 30
LAST_VA: Final = SHARED_WINDOW
"""From here on generic addresses are shared and private memory."""
GUARD_BYTES: Final = PAGE_BYTES


class Addresses:
    """Those below 2^40 that nobody has; each piece has an unmapped page on both sides."""

    def __init__(self) -> None:
        self._free = Extents(FIRST_VA, LAST_VA)
        self._lock = RLock()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread that is not here may hold the lock."""
        self._lock = RLock()

    def take(self, nbytes: int) -> int:
        """The address of `nbytes`. Raises: OutOfMemory."""
        align = _align(nbytes)
        with self._lock:
            at = self._free.take(nbytes + align + GUARD_BYTES, align)
        if at is None:
            raise OutOfMemory(
                f"no addresses for {nbytes:,} bytes", requested=nbytes, used=0, cached=0,
                limit=LAST_VA - FIRST_VA, hint="free buffers",
            )  # fmt: skip
        return at + align

    def give(self, va: int, nbytes: int) -> None:
        """Addresses that nothing is mapped at any more, on any GPU."""
        align = _align(nbytes)
        with self._lock:
            self._free.give(va - align, nbytes + align + GUARD_BYTES)


def _align(nbytes: int) -> int:
    return next((one for one in (HUGE_BYTES, BIG_BYTES) if nbytes >= one), PAGE_BYTES)


def addresses_of(world: World) -> Addresses:
    """The addresses of this process, kept for as long as the world."""
    kept = world.kept.setdefault(KEPT_AS, Addresses())
    if not isinstance(kept, Addresses):
        raise TypeError(f"{KEPT_AS} keeps {kept!r}")
    return kept

"""64-byte slots of memory that host and queues both see: for signals, and for rings' progress."""

from __future__ import annotations

import weakref
from threading import Lock
from typing import Final, NamedTuple, Protocol

from drivers.base import forks
from drivers.base.undo import run_all
from drivers.gpu.iface import GpuIface, Memory, Use

SLOT_BYTES: Final = 64
POOL_BYTES: Final = 16 << 10


class Slot(NamedTuple):
    """One of them: the memory it is in, and its offset there."""

    pool: Memory
    off: int

    @property
    def gpu_va(self) -> int:
        """Its address."""
        return self.pool.gpu_va + self.off

    def view(self) -> memoryview:
        """Its bytes."""
        return self.pool.view()[self.off : self.off + SLOT_BYTES]


class Detachable(Protocol):
    """What holds a slot until the device closes."""

    def detach(self) -> None:
        """Keep the last value and release the memory."""


class Slots:
    """Memory for signals, in pools that stay until the device closes."""

    def __init__(self, iface: GpuIface) -> None:
        self._iface = iface
        self._pools: list[Memory] = []
        self._free: list[Slot] = []
        self.holders: weakref.WeakSet[Detachable] = weakref.WeakSet()
        iface.peeks.append(self.peek)
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self._lock = Lock()

    def take(self) -> Slot:
        """A free slot. Raises: OutOfMemory."""
        with self._lock:
            if not self._free:
                pool = self._iface.allocate(POOL_BYTES, Use.SHARED, "signals", host=True)
                self._pools.append(pool)
                self._free = [Slot(pool, off) for off in range(0, POOL_BYTES, SLOT_BYTES)]
            return self._free.pop()

    def peek(self, va: int) -> int | None:
        """The value of the signal at an address; None when it is none of these."""
        for pool in self._pools:
            off = va - pool.gpu_va
            if 0 <= off < pool.nbytes and off % SLOT_BYTES == 0:
                value: int = pool.view()[off : off + SLOT_BYTES].cast("Q")[0]
                return value
        return None

    def give_back(self, slot: Slot) -> None:
        """Free a slot that is no longer waited on or signalled."""
        self._free.append(slot)

    def detach(self) -> None:
        """Let every signal keep its value without the memory."""
        for holder in list(self.holders):
            holder.detach()

    def close(self) -> None:
        """Free every pool."""
        peeks = self._iface.peeks
        if self.peek in peeks:
            peeks.remove(self.peek)
        pools, self._pools, self._free = self._pools, [], []
        run_all(pool.free for pool in pools)

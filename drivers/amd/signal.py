"""Signals: 64-byte slots of memory that host and queues both see."""

from __future__ import annotations

from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Final

from drivers.amd.iface import Iface, Memory, Use
from drivers.base import forks
from drivers.base.errors import BadArgument, UseAfterFree
from drivers.base.undo import run_all

if TYPE_CHECKING:
    from drivers.amd.device import AmdDevice

SLOT_BYTES: Final = 64
POOL_BYTES: Final = 16 << 10
TIME_OFF: Final = 8
"""Offset in a slot of the time of its last change, in ticks of the GPU's clock."""
MAX_VALUE: Final = (1 << 32) - 1
"""Queues compare 32 bits. # src: WAIT_REG_MEM, POLL_REGMEM: one reference word"""


class Slots:
    """Memory for signals, in pools that stay until the device closes."""

    def __init__(self, iface: Iface) -> None:
        self._iface = iface
        self._pools: list[Memory] = []
        self._free: list[tuple[Memory, int]] = []
        iface.peeks.append(self.peek)
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self._lock = Lock()

    def take(self) -> tuple[Memory, int]:
        """A slot: its pool, and its offset there. Raises: OutOfMemory."""
        with self._lock:
            if not self._free:
                pool = self._iface.allocate(POOL_BYTES, Use.SHARED, "signals", host=True)
                self._pools.append(pool)
                self._free = [(pool, at) for at in range(0, POOL_BYTES, SLOT_BYTES)]
            return self._free.pop()

    def peek(self, va: int) -> int | None:
        """The value of the signal at an address; None when it is none of these."""
        for pool in self._pools:
            off = va - pool.gpu_va
            if 0 <= off < pool.nbytes and off % SLOT_BYTES == 0:
                value: int = pool.view()[off : off + SLOT_BYTES].cast("Q")[0]
                return value
        return None

    def give_back(self, slot: tuple[Memory, int]) -> None:
        """Free a slot that is no longer waited on or signalled."""
        self._free.append(slot)

    def close(self) -> None:
        """Free every pool."""
        peeks = self._iface.peeks
        if self.peek in peeks:
            peeks.remove(self.peek)
        pools, self._pools, self._free = self._pools, [], []
        run_all(pool.free for pool in pools)


class AmdSignal:
    """A value that only grows, of at most 32 bits: the width that queues compare."""

    __slots__ = ("__weakref__", "_device", "_slot", "_words", "gpu_va")

    def __init__(self, device: AmdDevice, slot: tuple[Memory, int], value: int) -> None:
        pool, at = slot
        self._device, self._slot = device, slot
        self._words = pool.view()[at : at + SLOT_BYTES].cast("Q")
        self._words[0], self._words[1] = value, 0
        self.gpu_va = pool.gpu_va + at

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree("a closed signal was used", hint="make a new one")
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"AmdSignal({self._words[0]})"

    @property
    def device(self) -> AmdDevice:
        """The device it belongs to."""
        return self._device

    @property
    def pool(self) -> Memory:
        """The memory it is in."""
        return self._slot[0]

    @property
    def value(self) -> int:
        """The value now."""
        _ = self.gpu_va
        return self._words[0]

    @property
    def timestamp_ns(self) -> int:
        """The GPU's clock at the last signal() or timestamp() of a queue, as CLOCK_BOOTTIME."""
        _ = self.gpu_va
        return self._device.clock.nanoseconds(self._words[1])

    @property
    def ticks(self) -> int:
        """The same in ticks of the GPU; 0 for none yet."""
        _ = self.gpu_va
        return self._words[1]

    def set(self, value: int) -> None:
        """Host-side signal; parked queues continue. Raises: BadArgument when it would decrease."""
        checked_value(value)
        _ = self.gpu_va
        if value < self._words[0]:
            raise BadArgument(
                f"a signal at {self._words[0]} cannot go back to {value}", hint="make a new signal"
            )
        self._words[1] = self._device.clock.now_ticks()
        self._words[0] = value
        self._device.iface.publish()

    def wait(self, value: int, timeout_s: float = inf) -> None:
        """Return once `value` is reached: spins a little, then sleeps.

        Without `timeout_s`, for as long as queues move. Raises: DeviceTimeout, which stops nothing;
        DeviceFault, Hang with the dump of the queue that is stuck.
        """
        _ = self.gpu_va
        self._device.wait_until(self, lambda: self._words[0] >= value, value, timeout_s)

    def close(self) -> None:
        """Give its memory back. Raises: UseAfterFree the second time."""
        if not self._forget():
            raise UseAfterFree("a signal was closed twice", hint="close each signal once")

    def _forget(self) -> bool:
        """Whether this call was the one that closed it."""
        try:
            del self.gpu_va
        except AttributeError:
            return False
        self.detach()
        self._device.give_back(self._slot)
        return True

    def detach(self) -> None:
        """Keep the last value and release the memory: the device closes."""
        self._words = memoryview(bytearray(self._words)).cast("Q")

    def __del__(self) -> None:
        self._forget()


def checked_value(value: object) -> int:
    """A value that queues can compare. Raises: BadArgument."""
    if type(value) is not int or not 0 <= value <= MAX_VALUE:
        raise BadArgument(f"{value!r} is no signal value", hint="pass 0 ... 2**32 - 1")
    return value

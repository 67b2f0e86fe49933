"""Signals: a value that host and queues change, and the time of its last change."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from drivers.base.errors import BadArgument, UseAfterFree
from drivers.gpu.iface import Memory
from drivers.gpu.slots import Slot, Slots

if TYPE_CHECKING:
    from drivers.gpu.owner import Owner


class GpuSignal:
    """A value that only grows. The slot's second word is the time of its last change, in ticks."""

    __slots__ = ("__weakref__", "_slot", "_words", "device", "gpu_va")

    def __init__(self, device: Owner, slots: Slots, value: int) -> None:
        self.device = device
        self._slot: Slot = slots.take()
        self._words = self._slot.view().cast("Q")
        self._words[0], self._words[1] = value, 0
        self.gpu_va = self._slot.gpu_va
        slots.holders.add(self)

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree("a closed signal was used", hint="make a new one")
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._words[0]})"

    @property
    def pool(self) -> Memory:
        """The memory it is in."""
        return self._slot.pool

    @property
    def value(self) -> int:
        """The value now."""
        _ = self.gpu_va
        return self._words[0]

    @property
    def timestamp_ns(self) -> int:
        """The GPU's clock at the last signal() or timestamp() of a queue, as CLOCK_BOOTTIME."""
        _ = self.gpu_va
        return self.device.iface.clock.nanoseconds(self._words[1])

    @property
    def ticks(self) -> int:
        """The same in ticks of the GPU; 0 for none yet."""
        _ = self.gpu_va
        return self._words[1]

    def set(self, value: int) -> None:
        """Host-side signal; parked queues continue. Raises: BadArgument when it would decrease."""
        self.device.signal_value(value)
        _ = self.gpu_va
        if value < self._words[0]:
            raise BadArgument(
                f"a signal at {self._words[0]} cannot go back to {value}", hint="make a new signal"
            )
        self._words[1] = self.device.iface.clock.now_ticks()
        self._words[0] = value
        self.device.iface.publish()

    def wait(self, value: int, timeout_s: float = inf) -> None:
        """Return once `value` is reached: spins a little, then sleeps.

        Without `timeout_s`, for as long as queues move. Raises: DeviceTimeout, which stops nothing;
        DeviceFault, Hang with the dump of the queue that is stuck.
        """
        _ = self.gpu_va
        self.device.wait_until(self, lambda: self._words[0] >= value, value, timeout_s)

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
        self.device.give_back(self._slot)
        return True

    def detach(self) -> None:
        """Keep the last value and release the memory: the device closes."""
        self._words = memoryview(bytearray(self._words)).cast("Q")

    def __del__(self) -> None:
        self._forget()

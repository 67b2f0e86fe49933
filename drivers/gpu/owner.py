"""What buffers, signals and argument checks ask of the device that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from drivers.base.contracts import Device
from drivers.base.errors import DeviceError
from drivers.gpu.heap import Allocation, Heap
from drivers.gpu.iface import GpuIface


class SignalValue(Protocol):
    """A signal, as far as a wait is concerned."""

    @property
    def value(self) -> int:
        """The value now."""


class Owner(Device, Protocol):
    """A device with memory of its own."""

    @property
    def iface(self) -> GpuIface:
        """The way to its GPU."""

    @property
    def heap(self) -> Heap:
        """Its memory."""

    @property
    def refusal(self) -> DeviceError | None:
        """Why it takes no work any more; None while it does."""

    def give_back(self, held: Allocation) -> None:
        """Take back memory without references; finalisers call this at any moment."""

    def share_with(self, other: Owner) -> None:
        """From now on `other` reaches memory of this device."""

    def signal_value(self, value: int) -> int:
        """A value that signals can have. Raises: BadArgument."""

    def wait_until(
        self, signal: SignalValue, reached: Callable[[], bool], value: int, timeout_s: float
    ) -> None:
        """Return once `reached()`. Raises: DeviceTimeout, Hang, DeviceFault."""

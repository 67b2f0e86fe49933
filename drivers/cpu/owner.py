"""What buffers, signals and programs of the CPU device ask of it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from drivers.base.contracts import Device, World
from drivers.base.errors import DeviceError
from drivers.cpu.futex import Futex
from drivers.cpu.heap import Allocation


class SignalValue(Protocol):
    """A signal, as far as a wait is concerned."""

    @property
    def value(self) -> int:
        """The value now."""


class Owner(Device, Protocol):
    """A device whose memory is the host's."""

    world: World
    futex: Futex

    @property
    def host_lock(self) -> AbstractContextManager[object]:
        """Held by a host thread that changes a signal or how it is used; for microseconds."""

    def freed(self, held: Allocation) -> None:
        """Take back memory without references; finalisers call this at any moment."""

    def released(self, held: Allocation) -> None:
        """Take back what was freed explicitly, which other threads may be using right now."""

    def run_host_packet(self, words_va: int, nwords: int) -> None:
        """With `host_lock` held: run a host thread's SIGNAL packet, independent of the rings."""

    def why_not(self, signal: SignalValue, value: int, timeout_s: float) -> DeviceError:
        """The error for a signal that was not reached: what a queue waits for, if one does."""

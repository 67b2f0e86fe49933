"""Signals: shared events, the command buffers that will raise them, and when those ended."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from drivers.base.errors import DeviceError
from drivers.hosted.signal import NS, HostedSignal, SignalHome
from drivers.metal.api import Api, Owned
from drivers.metal.ring import Ring, Work


@dataclass(slots=True, eq=False)
class Marker:
    """What will raise a signal: a command buffer of a ring."""

    work: Work
    value: int | None
    """None: a time alone."""
    ring: Ring


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """Of a command buffer of a ring."""

    ring: Ring
    error: DeviceError

    @property
    def waits(self) -> bool:
        """Whether it was not raised yet."""
        return self.ring.failed is self.error


class SignalOwner(SignalHome, Protocol):
    """The device, as far as a signal needs it."""

    api: Api
    rings: tuple[Ring, Ring]

    def check_open(self) -> None:
        """Raises: UseAfterFree."""

    def raise_failed(self) -> None:
        """Raises: the failure of a command buffer, once."""

    def drop(self, owned: Owned) -> None:
        """Finalisers call this at any moment: release an object once nothing runs."""


class MetalMarkers:
    """The value of a signal that the host knows, and the command buffers that will raise it.

    The queues wait for the shared event. The host takes the value from the command buffers that
    set it, once they have ended: only then is their time known, and what they wrote seen.
    """

    def __init__(self, device: SignalOwner, event: Owned, value: int) -> None:
        self._device, self._event, self._value = device, event, value
        self._time_ns = 0
        self._coming: deque[Marker] = deque()
        self._failures: list[tuple[Failure, int]] = []
        """What failed below, with the last value before it."""
        self.closed = False

    @property
    def event(self) -> int:
        """The shared event."""
        return self._event.handle

    def coming(self, marker: Marker) -> None:
        """With the device's lock held: a command buffer will raise it."""
        if not self.closed:
            self._coming.append(marker)

    def reached(self) -> int:
        """With the device's lock held: the value, with all command buffers that have ended."""
        for ring in self._device.rings:
            ring.collect()
        for marker in [marker for marker in self._coming if marker.work.done]:
            self._coming.remove(marker)
            self._time_ns = max(self._time_ns, marker.work.end_ns)
            if marker.work.failed and marker.value is not None and marker.ring.failed is not None:
                self.fail(Failure(marker.ring, marker.ring.failed), marker.value)
            self._value = max(self._value, marker.value or 0)
        return self._value

    def fail(self, failure: Failure, value: int) -> None:
        """With the device's lock held: it gets the value by work that failed or was dropped."""
        if not self.closed:
            self._failures.append((failure, self._value))
            self._value = max(self._value, value)

    def failure(self, value: int) -> Failure | None:
        """With the device's lock held: a failure, not yet raised, that the value stands for."""
        self._failures = [one for one in self._failures if one[0].waits]
        return next((one for one, sound in self._failures if value > sound), None)

    def marker_of(self, value: int) -> Marker | None:
        """With the device's lock held: the first marker after which the value is reached."""
        found = (m for m in self._coming if m.value is not None and m.value >= value)
        return next(found, None)

    def time_ns(self) -> int:
        """By the clock of command buffers, or the host's where that set it last."""
        return self._time_ns

    def put(self, value: int) -> None:
        """With the device's lock held: the host sets it."""
        device = self._device
        device.check_open()
        device.api.send["setSignaledValue:"](self.event, value)
        self._value = value
        self._time_ns = max(self._time_ns, int(device.world.monotonic_s() * NS))

    def raise_failed(self) -> None:
        """Raises: the failure of a command buffer, once."""
        self._device.raise_failed()

    def end(self) -> None:
        """Give the event back."""
        self.closed = True
        self._coming.clear()
        self._device.drop(self._event)


MetalSignal: TypeAlias = HostedSignal[SignalOwner, MetalMarkers]

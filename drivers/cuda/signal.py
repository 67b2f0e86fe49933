"""Signals: a value that the host knows, and events of streams that will raise it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from drivers.base.deadline import polls
from drivers.cuda.events import Events
from drivers.cuda.ring import PATIENCE_S, Ring
from drivers.hosted.signal import NS, HostedSignal, SignalHome

MOST_MARKERS: Final = 256
"""Of one signal that nobody asks."""


@dataclass(slots=True, eq=False)
class Marker:
    """What will raise a signal: an event in a ring."""

    event: int
    value: int | None
    """None: a time alone."""
    ring: Ring
    position: int
    """Of the ring, that is done with the event."""


class SignalOwner(SignalHome, Protocol):
    """The device, as far as a signal needs it."""

    events: Events


class CudaMarkers:
    """The value that the host knows of a signal, and what will raise it."""

    def __init__(self, device: SignalOwner, value: int) -> None:
        self._device, self._value, self._time_ns = device, value, 0
        self._coming: deque[Marker] = deque()
        self.closed = False

    def coming(self, marker: Marker) -> None:
        """With the device's lock held: a stream's event will raise it.

        Of a graph that is replayed and never asked, at most MOST_MARKERS are kept: then it waits.
        """
        if self.closed:  # while the event was behind a wait
            self._device.events.give(marker.event)
            return
        self._coming.append(marker)
        if len(self._coming) > MOST_MARKERS:
            oldest = self._coming[0]
            for _ in polls(PATIENCE_S, self._device.world):
                self.reached()
                if oldest not in self._coming:
                    return
            raise oldest.ring.hang(PATIENCE_S)

    def reached(self) -> int:
        """With the device's lock held: the value, with all events that were reached."""
        events = self._device.events
        for marker in list(self._coming):
            if not events.done(marker.event):
                continue
            try:
                self._coming.remove(marker)
            except ValueError:
                continue  # closed meanwhile by another thread, which gave the event back
            self._time_ns = max(self._time_ns, events.spent(marker.event))
            self._value = max(self._value, marker.value or 0)
            marker.ring.finished(marker.position)
        return self._value

    def marker_of(self, value: int) -> Marker | None:
        """With the device's lock held: the first marker after which the value is reached."""
        found = (m for m in self._coming if m.value is not None and m.value >= value)
        return next(found, None)

    def time_ns(self) -> int:
        """By events, or the host's clock where that set it last."""
        return self._time_ns

    def put(self, value: int) -> None:
        """With the device's lock held: the host sets it."""
        self._value = value
        self._time_ns = max(self._time_ns, int(self._device.world.monotonic_s() * NS))

    def raise_failed(self) -> None:
        """An event says by itself that work failed."""

    def end(self) -> None:
        """Give the events back. Finalisers call this at any moment."""
        self.closed = True
        for _ in range(len(self._coming)):
            try:
                self._device.events.give(self._coming.popleft().event)
            except IndexError:
                return  # `reached` had the last ones


CudaSignal: TypeAlias = HostedSignal[SignalOwner, CudaMarkers]

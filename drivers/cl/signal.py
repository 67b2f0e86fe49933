"""Signals: a value that the host knows, and markers of queues that will raise it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from drivers.cl.event import Event
from drivers.cl.ring import Ring
from drivers.hosted.signal import NS, HostedSignal, SignalHome

PATIENCE_S: Final = 60.0
"""A driver may compile a kernel when it first runs.
# measured: PoCL 3.0, random numbers, 2 cores with 20 programs waiting: more than 10 s"""
MOST_MARKERS: Final = 256
"""Of one signal that nobody asks."""


@dataclass(slots=True, eq=False)
class Marker:
    """What will raise a signal: an event in a ring."""

    event: Event
    value: int | None
    """None: a time alone."""
    ring: Ring
    position: int
    """Of the ring, that is done with the event."""


class SignalOwner(SignalHome, Protocol):
    """The device, as far as a signal needs it."""

    rings: tuple[Ring, Ring]

    def drop_events(self, events: Sequence[Event]) -> None:
        """Finalisers call this at any moment: release events later."""


class ClMarkers:
    """The value that the host knows of a signal, and what will raise it."""

    def __init__(self, device: SignalOwner, value: int) -> None:
        self._device, self._value, self._time_ns = device, value, 0
        self._coming: deque[Marker] = deque()
        """Of queues, in order."""
        self.closed = False

    def coming(self, marker: Marker) -> None:
        """With the device's lock held: a queue's marker will raise it.

        Of a graph that is replayed and never asked, at most MOST_MARKERS are kept: then it waits.
        """
        if self.closed:  # while the marker was behind a wait
            marker.event.release()
            return
        self._coming.append(marker)
        if len(self._coming) > MOST_MARKERS:
            self.reached()
            self._wait_for(list(self._coming)[: -MOST_MARKERS // 2])

    def _wait_for(self, markers: Sequence[Marker]) -> None:
        """Wait for the older ones of many markers, so that the queues still have work."""
        if markers:
            for ring in self._device.rings:
                ring.flush()
            for marker in markers:
                marker.ring.reach(marker.event, self._device.world, PATIENCE_S)
            self.reached()

    def reached(self) -> int:
        """With the device's lock held: the value, with all markers that are done."""
        for marker in list(self._coming):
            event, ring = marker.event, marker.ring
            if not event.done():
                continue
            ended_ns = event.time_ns()
            try:
                self._coming.remove(marker)
            except ValueError:
                continue  # closed meanwhile by another thread, which gave the event back
            self._time_ns = max(self._time_ns, ended_ns)
            self._value = max(self._value, marker.value or 0)
            ring.done = max(ring.done, marker.position)
            event.release()
        return self._value

    def marker_of(self, value: int) -> Event | None:
        """With the device's lock held: the first marker after which the value is reached."""
        found = (m.event for m in self._coming if m.value is not None and m.value >= value)
        return next(found, None)

    def time_ns(self) -> int:
        """By the device's clock, or the host's where that set it last."""
        return self._time_ns

    def put(self, value: int) -> None:
        """With the device's lock held: the host sets it."""
        self._value = value
        self._time_ns = int(self._device.world.monotonic_s() * NS)

    def raise_failed(self) -> None:
        """An event says by itself that work failed."""

    def end(self) -> None:
        """Give the events back."""
        self.closed = True
        self._device.drop_events([*self._taken()])

    def _taken(self) -> Iterator[Event]:
        """Events that nobody else releases: each marker is taken out by one thread alone."""
        for _ in range(len(self._coming)):
            try:
                yield self._coming.popleft().event
            except IndexError:
                return  # `reached` had the last ones


ClSignal: TypeAlias = HostedSignal[SignalOwner, ClMarkers]

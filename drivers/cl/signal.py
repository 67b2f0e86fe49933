"""Signals: a value that the host knows, and markers of queues that will raise it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drivers.base.deadline import polls
from drivers.base.errors import BadArgument, DeviceFault, DeviceTimeout, UseAfterFree
from drivers.base.launches import check_signal_value
from drivers.cl import abi
from drivers.cl.api import Api
from drivers.cl.errors import name_of, signed

if TYPE_CHECKING:
    from drivers.cl.device import ClDevice
    from drivers.cl.ring import Ring

PATIENCE_S: Final = 10.0
MOST_MARKERS: Final = 256
"""Of one signal that nobody asks."""
_NS: Final = 10**9


class Event:
    """A marker in a queue; its clReleaseEvent is called once it is done."""

    __slots__ = ("_api", "handle")

    def __init__(self, api: Api, handle: int) -> None:
        self._api, self.handle = api, handle

    def done(self) -> bool:
        """Whether everything before it has ended. Raises: DeviceFault where that failed."""
        status = signed(
            self._api.number("clGetEventInfo", self.handle, abi.EVENT_COMMAND_EXECUTION_STATUS)
        )
        if status < 0:
            raise DeviceFault(
                f"work of an OpenCL queue failed: {name_of(status)}",
                kind=name_of(status), hint="see what the kernels before it access",
            )  # fmt: skip
        return status == abi.COMPLETE

    def time_ns(self) -> int:
        """When it ended, by the device's clock."""
        return self._api.number("clGetEventProfilingInfo", self.handle, abi.PROFILING_COMMAND_END)

    def release(self) -> None:
        """Once."""
        self._api.do("clReleaseEvent", self.handle)


@dataclass(slots=True, eq=False)
class Marker:
    """What will raise a signal: an event in a ring."""

    event: Event
    value: int | None
    """None: a time alone."""
    ring: Ring
    position: int
    """Of the ring, that is done with the event."""


class ClSignal:
    """A value that only grows, and the time of its last change in ns."""

    def __init__(self, device: ClDevice, value: int) -> None:
        self.device, self._value, self._time_ns = device, value, 0
        self._coming: deque[Marker] = deque()
        """Of queues, in order."""
        self.closed = False

    def check(self) -> None:
        """Raises: UseAfterFree once closed."""
        if self.closed:
            raise UseAfterFree("a closed signal was used", hint="make a new one")

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
            for ring in self.device.rings:
                ring.flush()
            for marker in markers:
                marker.ring.reach(marker.event, self.device.world, PATIENCE_S)
            self.reached()

    def reached(self) -> int:
        """With the device's lock held: the value, with all markers that are done."""
        for marker in list(self._coming):
            event, ring = marker.event, marker.ring
            if not event.done():
                continue
            self._time_ns = max(self._time_ns, event.time_ns())
            self._value = max(self._value, marker.value or 0)
            ring.done = max(ring.done, marker.position)
            self._coming.remove(marker)
            event.release()
        return self._value

    def marker_of(self, value: int) -> Event | None:
        """With the device's lock held: the first marker after which the value is reached."""
        found = (m.event for m in self._coming if m.value is not None and m.value >= value)
        return next(found, None)

    @property
    def value(self) -> int:
        self.check()
        with self.device.lock:
            self.device.pump()
            return self.reached()

    @property
    def timestamp_ns(self) -> int:
        self.check()
        with self.device.lock:
            self.device.pump()
            self.reached()
            return self._time_ns

    def set(self, value: int) -> None:
        check_signal_value(value, self.device.limits)
        self.check()
        with self.device.lock:
            now = self.reached()
            if value < now:
                raise BadArgument(
                    f"a signal at {now} cannot go back to {value}", hint="make a new signal"
                )
            self._value = value
            self._time_ns = int(self.device.world.monotonic_s() * _NS)
            self.device.pump()

    def wait(self, value: int, timeout_s: float = PATIENCE_S) -> None:
        self.check()
        for _ in polls(timeout_s, self.device.world):
            if self.value >= value:
                return
        raise DeviceTimeout(
            f"a signal is at {self._value} after {timeout_s:g} s, not at {value}",
            register="signal", last=self._value, hint="submit the work that signals it",
        )  # fmt: skip

    def close(self) -> None:
        self.check()
        self.closed = True
        self.device.drop_events([marker.event for marker in self._coming])
        self._coming.clear()

    def __del__(self) -> None:
        if not self.closed:
            self.close()

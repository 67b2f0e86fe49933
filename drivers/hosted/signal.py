"""Signals of a library's device: the half that is the same for every library."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, Generic, Protocol, TypeVar

from drivers.base.contracts import Limits, World
from drivers.base.deadline import polls
from drivers.base.errors import BadArgument, DeviceTimeout, UseAfterFree
from drivers.base.launches import check_signal_value

NS: Final = 10**9


class Markers(Protocol):
    """What will raise one signal, in its library's terms. Called with the device's lock held."""

    closed: bool
    """Set by `end`."""

    def reached(self) -> int:
        """The value, with everything that is done."""

    def time_ns(self) -> int:
        """Of the last change; 0 before."""

    def put(self, value: int) -> None:
        """The host sets it, no lower than it is."""

    def raise_failed(self) -> None:
        """Raises: why what it waits for failed, once; where the library says that by itself."""

    def end(self) -> None:
        """Finalisers call this at any moment, without the lock."""


class SignalHome(Protocol):
    """The device, as far as a signal needs it."""

    @property
    def world(self) -> World:
        """Whose clock deadlines are of."""

    @property
    def limits(self) -> Limits:
        """How wide signals are."""

    def working(self) -> AbstractContextManager[object]:
        """Its lock. Raises: Unsupported inside of another call of the device."""

    def pump(self) -> None:
        """With the lock held: hand over what no longer waits. Raises: UseAfterFree."""


HomeT = TypeVar("HomeT", bound=SignalHome)
MarkersT = TypeVar("MarkersT", bound=Markers)


class HostedSignal(Generic[HomeT, MarkersT]):
    """A value that only grows, and the time of its last change in ns."""

    def __init__(self, device: HomeT, markers: MarkersT, patience_s: float) -> None:
        self.device, self.markers, self._patience_s = device, markers, patience_s

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self.markers.closed

    def check(self) -> None:
        """Raises: UseAfterFree once closed."""
        if self.markers.closed:
            raise UseAfterFree("a closed signal was used", hint="make a new one")

    def _now(self, *, waited: bool = False) -> int:
        self.check()
        with self.device.working():
            self.device.pump()
            now = self.markers.reached()
            if waited:
                self.markers.raise_failed()
            return now

    @property
    def value(self) -> int:
        return self._now()

    @property
    def timestamp_ns(self) -> int:
        self.check()
        with self.device.working():
            self.device.pump()
            self.markers.reached()
            return self.markers.time_ns()

    def set(self, value: int) -> None:
        check_signal_value(value, self.device.limits)
        self.check()
        with self.device.working():
            now = self.markers.reached()
            if value < now:
                raise BadArgument(
                    f"a signal at {now} cannot go back to {value}", hint="make a new signal"
                )
            self.markers.put(value)
            self.device.pump()

    def wait(self, value: int, timeout_s: float | None = None) -> None:
        """Return once it has the value; None: after as long as this library may take."""
        self.check()
        most_s = self._patience_s if timeout_s is None else timeout_s
        now = 0
        for _ in polls(most_s, self.device.world):
            now = self._now(waited=True)
            if now >= value:
                return
        raise DeviceTimeout(
            f"a signal is at {now} after {most_s:g} s, not at {value}",
            register="signal", last=now, hint="submit the work that signals it",
        )  # fmt: skip

    def close(self) -> None:
        self.check()
        self.markers.end()

    def __del__(self) -> None:
        if not self.closed:
            self.close()

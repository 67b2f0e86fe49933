"""Signals: a value that the host knows, and submits that will raise it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from drivers.base.errors import DeviceError
from drivers.hosted.signal import HostedSignal, SignalHome
from drivers.webgpu.stream import Stream

PATIENCE_S: Final = 60.0
MOST_MARKS: Final = 1024
"""Of one signal that nobody asks."""


@dataclass(slots=True, eq=False)
class Mark:
    """What will raise a signal."""

    value: int | None
    """None: a time alone."""
    position: int
    """Of the stream."""
    time: Callable[[], int]
    """When that was, in ns; once it is done."""


class SignalOwner(SignalHome, Protocol):
    """The device, as far as a signal needs it."""

    freed_mark: object
    stream: Stream

    def now_ns(self) -> int:
        """The host's clock, for signals that the host sets."""


class WebGpuMarkers:
    """The value of a signal that the host knows, and the submits that will raise it."""

    def __init__(self, device: SignalOwner, value: int) -> None:
        self._device, self._value = device, value
        self._time: Callable[[], int] = int
        self._coming: deque[Mark] = deque()
        """Of the stream, in order."""
        self.closed = False

    def coming(self, mark: Mark) -> None:
        """With the device's lock held: something that was encoded will raise it.

        Of a graph that is replayed and never asked, at most MOST_MARKS are kept: then it waits.
        """
        if self.closed:  # while the mark was behind a wait
            return
        self._coming.append(mark)
        if len(self._coming) > MOST_MARKS:
            oldest = self._coming[MOST_MARKS // 2].position
            self._device.stream.wait(oldest, PATIENCE_S, "a signal's queue")
            self.reached()

    def reached(self) -> int:
        """With the device's lock held: the value, with all marks that are done.

        Raises: DeviceError, once for each mark, where the commands before it were thrown away.
        """
        stream = self._device.stream
        for _ in range(len(self._coming)):
            if not stream.reached(self._coming[0].position):
                break
            mark = self._coming.popleft()
            if mark.position in stream.dropped:
                raise DeviceError(
                    "the commands that signal were thrown away",
                    hint="see the error of their submit",
                )
            self._time = mark.time
            self._value = max(self._value, mark.value or 0)
        return self._value

    def promised(self, value: int) -> bool:
        """With the device's lock held: whether what was encoded reaches the value."""
        if self._value >= value:
            return True
        dropped = self._device.stream.dropped
        return any(
            mark.value is not None and mark.value >= value and mark.position not in dropped
            for mark in self._coming
        )

    def time_ns(self) -> int:
        """By the adapter's clock; the host's where it has none, or set it last."""
        found = self._time()
        self._time = lambda: found
        return found

    def put(self, value: int) -> None:
        """With the device's lock held: the host sets it."""
        self._value = value
        moment = self._device.now_ns()
        self._time = lambda: moment

    def raise_failed(self) -> None:
        """`reached` says by itself that work failed."""

    def end(self) -> None:
        """Forget what comes."""
        self.closed = True
        self._coming.clear()
        self._device.freed_mark = object()


WebGpuSignal: TypeAlias = HostedSignal[SignalOwner, WebGpuMarkers]

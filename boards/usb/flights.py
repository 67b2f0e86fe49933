"""Transfers under way on a cable: what each costs, and when it is made.

Each endpoint makes its transfers in order, and endpoints do not wait for each other. A transfer
arrives half a round trip after the host queued it, and the host knows of its end half a round trip
later. Bulk data is held back while the device is not asked to take it, or has none: USB's NRDY.
Everything is by the cable's own clock: what the GPU and the host's processor take is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from boards.usb.port import UsbFunction

CONTROL: Final = -1
_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Speeds:
    """Seconds of a wait and of a request, bytes a second of bulk transfers."""

    trip_s: float = 100e-6
    request_s: float = 20e-6
    stream_out: float = 3.6e6
    stream_in: float = 1.8e6
    sram: float = 700e6

    def bulk_s(self, kind: str, into_host: bool, nbytes: int) -> float:
        """Seconds of a bulk transfer."""
        if kind == "SRAM":
            return nbytes / self.sram
        return nbytes / (self.stream_in if into_host else self.stream_out)


class Transfer(Protocol):
    """What the product queues."""

    @property
    def endpoint(self) -> int:
        """-1 for a request."""

    @property
    def into_host(self) -> bool: ...
    @property
    def data(self) -> bytes | memoryview: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def request_type(self) -> int: ...
    @property
    def request(self) -> int: ...
    @property
    def value(self) -> int: ...
    @property
    def index(self) -> int: ...


@dataclass(slots=True)
class Flight:
    """One transfer under way."""

    transfer: Transfer
    data: bytes
    arrives_s: float
    meets: Callable[[], bool]
    """Whether it comes short; raises OSError for a mishap."""
    fails: Callable[[], bool]
    """Whether it fails, whatever the device does."""
    behind: Flight | None = None
    """The request that it was queued with: the device takes no data before that."""
    mute: bool = False
    """It never ends by itself."""
    ready_s: float = -1.0
    """Since when the device takes it; below 0 while it does not."""
    end_s: float = _NEVER
    result: bytes = b""
    error: OSError | None = field(default=None)

    @property
    def done(self) -> bool:
        """Whether it was made, or failed."""
        return self.end_s < _NEVER


class Pipes:
    """The endpoints of one device."""

    def __init__(self, function: UsbFunction, speeds: Callable[[], Speeds]) -> None:
        self._function, self._speeds = function, speeds
        self._queues: dict[int, deque[Flight]] = {}
        self._free_s: dict[int, float] = {}
        self._now_s = 0.0
        """When the last transfer was made."""

    def add(self, flight: Flight) -> None:
        """Behind the others of its endpoint."""
        self._queues.setdefault(flight.transfer.endpoint, deque()).append(flight)

    def drop(self, flights: list[Flight]) -> None:
        """They are cancelled."""
        for queue in self._queues.values():
            kept = [one for one in queue if all(one is not other for other in flights)]
            queue.clear()
            queue.extend(kept)

    def clear(self) -> None:
        """All that are under way are cancelled."""
        self._queues.clear()

    def moving(self, endpoint: int) -> bool:
        """Whether data of a bulk transfer is on its way."""
        queue = self._queues.get(endpoint, deque[Flight]())
        return len(queue) > 0 and self._end_s(endpoint, queue[0]) < _NEVER

    def step(self, until_s: float) -> bool:
        """Make the transfer that ends next, if that is by then; whether there was one."""
        due = [
            (end_s, endpoint)
            for endpoint, queue in self._queues.items()
            if queue and (end_s := self._end_s(endpoint, queue[0])) <= until_s
        ]
        if not due:
            return False
        end_s, endpoint = min(due)
        flight = self._queues[endpoint].popleft()
        self._free_s[endpoint] = self._now_s = max(end_s, self._now_s)
        flight.end_s = end_s
        try:
            flight.result = self._made(flight)
        except OSError as error:
            flight.error = error
        return True

    def _end_s(self, endpoint: int, flight: Flight) -> float:
        """When the first of an endpoint's transfers ends; infinite while it is held back."""
        if flight.mute:
            return _NEVER
        begin_s = max(flight.arrives_s, self._free_s.get(endpoint, 0.0))
        if endpoint == CONTROL:
            return begin_s + self._speeds().request_s
        if flight.fails():
            return begin_s
        held = flight.behind is not None and not flight.behind.done
        kind = "" if held else self._function.ready(endpoint)
        if not kind:
            flight.ready_s = -1.0
            return _NEVER
        if flight.ready_s < 0:
            flight.ready_s = self._now_s
        nbytes = flight.transfer.nbytes if flight.transfer.into_host else len(flight.data)
        moved_s = self._speeds().bulk_s(kind, flight.transfer.into_host, nbytes)
        return max(begin_s, flight.ready_s) + moved_s

    def _made(self, flight: Flight) -> bytes:
        short = flight.meets()
        function, transfer = self._function, flight.transfer
        if transfer.endpoint == CONTROL:
            head = (transfer.request_type, transfer.request, transfer.value, transfer.index)
            if not transfer.into_host:
                function.control_out(*head, flight.data)
                return b""
            data = function.control_in(*head, transfer.nbytes)
        elif transfer.into_host:
            data = function.bulk_in(transfer.endpoint, transfer.nbytes)
        else:
            function.bulk_out(transfer.endpoint, flight.data)
            return b""
        return data[: len(data) // 2] if short else data

"""A cable: what each transfer costs by the clock, what goes wrong with it, and how many there were.

The costs are published figures of one enclosure, so that seconds on a real cable can be predicted:
src: README.md of github.com/tinygrad/asm2464pd-firmware (3.6 MB/s and 1.8 MB/s for streams of
packets, 700 MB/s for SRAM at 10 Gb/s). That the host waits 100 us for what it queued, and that the
bridge takes 20 us for a request, are assumptions.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from boards.machine.chassis import Chassis
from boards.machine.pci.panel import Killed
from boards.usb.flights import CONTROL, Flight, Pipes, Speeds, Transfer
from boards.usb.port import UsbFunction

_MOST_STEPS: Final = 1 << 20


class Mishap(StrEnum):
    """How a transfer goes wrong."""

    STALL = "stall"
    """EPIPE: the device refuses it."""
    TIMEOUT = "timeout"
    """ETIMEDOUT: it does not answer."""
    SHORT = "short"
    """Half of what was asked for comes; of a transfer out, EIO."""
    UNPLUG = "unplug"
    """ENODEV, now and from now on."""
    KILL = "kill"
    """The process dies before the transfer."""


class TransferError(OSError):
    """`done` transfers of those queued together were made before."""

    def __init__(self, number: int, text: str, done: int) -> None:
        super().__init__(number, text)
        self.done = done


class CableBatch:
    """Transfers that were queued together: the methods of the product's `Batch`."""

    def __init__(self, cable: Cable, flights: list[Flight]) -> None:
        self._cable, self._flights = cable, flights

    def wait(self, timeout_s: float) -> list[bytes]:
        """Raises: TransferError."""
        flights = self._flights
        try:
            self._cable.finish(flights, timeout_s)
        finally:
            self.cancel()
        return [flight.result for flight in flights]

    def cancel(self) -> None:
        self._cable.drop(self._flights)
        self._flights = []


class Cable:
    """A device's port: the methods of the product's `Usb`, with OSError."""

    def __init__(
        self, function: UsbFunction, board: Chassis, name: str = "1-1", speeds: Speeds | None = None
    ) -> None:
        self.function, self.name = function, name
        self.clock, self._lock = board.clock, board.lock
        self.product = function.descriptors.product_name
        self.serial = function.descriptors.serial
        self.speeds = speeds or Speeds()
        self.trips = self.transfers = 0
        """How often the host waited, and for how many transfers altogether."""
        self.now_s = 0.0
        """Time that the host spent waiting for it."""
        self.open = False
        self.gone = False
        self.dead = False
        self.killed: Callable[[], object] = lambda: None
        """Ends the process that has claimed it."""
        self.failed: list[str] = []
        """What went wrong so far."""
        self._plan: dict[int, Mishap] = {}
        self._pipes = Pipes(function, lambda: self.speeds)
        function.moving = self._pipes.moving

    def fail(self, mishap: Mishap | str, *, at: int = 1) -> None:
        """The `at`-th transfer from now on goes wrong."""
        self._plan[self.transfers + at] = Mishap(mishap)

    def claim(self) -> Cable:
        """Open it, claim its interface and set it. Raises: OSError EBUSY, ENODEV."""
        if self.gone:
            raise OSError(errno.ENODEV, "no device")
        if self.open:
            raise OSError(errno.EBUSY, "another program has claimed the interface")
        self.open, self.dead = True, False
        self.function.abandoned()
        return self

    def plug(self) -> None:
        """Plug it in again; without power of its own, the card was off meanwhile."""
        self.close()
        self.gone = False
        self.function.power_lost()

    # Transfers

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        """Make transfers that were queued together; a request waits for bulk transfers before it.

        Raises: TransferError, Killed.
        """
        results: list[bytes] = []
        for part in _parts(transfers):
            try:
                results += self.start(part).wait(timeout_s)
            except TransferError as error:
                error.done += len(results)
                raise
        return results

    def start(self, transfers: Sequence[Transfer]) -> CableBatch:
        """Queue them all, and wait for none. Raises: TransferError, Killed."""
        flights: list[Flight] = []
        last: Flight | None = None
        with self._lock:
            for transfer in transfers:
                self.transfers += 1
                if self.dead:
                    raise Killed
                if self.gone or not self.open:
                    raise TransferError(errno.ENODEV, "no device", len(flights))
                flights.append(self._queued(transfer, last))
                if transfer.endpoint == CONTROL:
                    last = flights[-1]
        return CableBatch(self, flights)

    def _queued(self, transfer: Transfer, behind: Flight | None) -> Flight:
        mishap = self._plan.pop(self.transfers, None)
        if mishap is not None:
            self.failed.append(f"{mishap} at transfer {self.transfers}")
        if mishap is Mishap.KILL:
            self.dead = True  # the kernel cancels and releases what a process had
            self.close()
            self.killed()
            raise Killed

        def meets() -> bool:
            return self._meets(mishap, transfer)

        def fails() -> bool:
            sends = mishap is Mishap.SHORT and not transfer.into_host
            return self.gone or sends or mishap in (Mishap.UNPLUG, Mishap.STALL)

        data = b"" if transfer.into_host else bytes(transfer.data)
        arrives_s = self.now_s + self.speeds.trip_s / 2
        mute = mishap is Mishap.TIMEOUT
        flight = Flight(transfer, data, arrives_s, meets, fails, behind, mute)
        self._pipes.add(flight)
        return flight

    def _meets(self, mishap: Mishap | None, transfer: Transfer) -> bool:
        """Whether a transfer comes short. Raises: OSError."""
        if mishap is Mishap.UNPLUG:
            self.gone = True
        if self.gone:
            raise OSError(errno.ENODEV, "unplugged")
        if mishap is Mishap.STALL:
            raise OSError(errno.EPIPE, "stalled")
        if mishap is Mishap.SHORT and not transfer.into_host:
            raise OSError(errno.EIO, "fewer bytes went out")
        return mishap is Mishap.SHORT

    def finish(self, flights: Sequence[Flight], timeout_s: float) -> None:
        """Return when all have ended. Raises: TransferError of the first that fails."""
        with self._lock:
            self._finish(flights, self.now_s + timeout_s)

    def _finish(self, flights: Sequence[Flight], deadline_s: float) -> None:
        for number, flight in enumerate(flights):
            for _ in range(_MOST_STEPS):
                if flight.done or not self._pipes.step(deadline_s):
                    break
            if not flight.done:
                self._pass(deadline_s)
                if self.gone:
                    raise TransferError(errno.ENODEV, "unplugged", number)
                raise TransferError(errno.ETIMEDOUT, "no answer", number)
            if flight.error is not None:
                self._notice(flight)
                error = flight.error
                raise TransferError(error.errno or errno.EIO, str(error), number) from error
        if flights:
            self._notice(max(flights, key=lambda flight: flight.end_s))

    def _notice(self, flight: Flight) -> None:
        """The host learns of an end: a round trip, where it has to wait for that."""
        known_s = flight.end_s + self.speeds.trip_s / 2
        if known_s > self.now_s:
            self.trips += 1
            self._pass(known_s)

    def _pass(self, until_s: float) -> None:
        """Let time pass, and make the transfers that end in it."""
        for _ in range(_MOST_STEPS):
            if not self._pipes.step(until_s):
                break
        self.clock.skip(until_s - self.now_s)
        self.now_s = until_s

    def drop(self, flights: list[Flight]) -> None:
        """Cancel those that have not ended."""
        with self._lock:
            self._pipes.drop(flights)

    def close(self) -> None:
        """The interface is released; usbfs cancels what is under way."""
        with self._lock:
            self._pipes.clear()
            self.open = False


def _parts(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    """Cut before each request behind a bulk transfer."""
    found: list[list[Transfer]] = []
    bulk = True
    for transfer in transfers:
        if not found or (bulk and transfer.endpoint == CONTROL):
            found.append([])
        bulk = transfer.endpoint != CONTROL
        found[-1].append(transfer)
    return found

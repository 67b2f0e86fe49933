"""A cable: what each transfer costs by the clock, what goes wrong with it, and how many there were.

The costs are published figures of one enclosure, so that seconds on a real cable can be predicted:
src: README.md of github.com/tinygrad/asm2464pd-firmware (3.6 MB/s and 1.8 MB/s for streams of
packets, 700 MB/s for SRAM at 10 Gb/s). That the host waits 100 us for what it queued, and that the
bridge takes 20 us for a request, are assumptions.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from boards.machine.clock import Clock
from boards.machine.pci.panel import Killed
from boards.usb.port import UsbFunction

_CONTROL: Final = -1


@dataclass(frozen=True, slots=True)
class Speeds:
    """Seconds of a wait and of a request, bytes a second of bulk transfers."""

    trip_s: float = 100e-6
    request_s: float = 20e-6
    stream_out: float = 3.6e6
    stream_in: float = 1.8e6
    sram: float = 700e6


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


class Cable:
    """A device's port: the methods of the product's `Usb`, with OSError."""

    def __init__(
        self, function: UsbFunction, clock: Clock, name: str = "1-1", speeds: Speeds | None = None
    ) -> None:
        self.function, self.clock, self.name = function, clock, name
        self.product = function.descriptors.product_name
        self.serial = function.descriptors.serial
        self.speeds = speeds or Speeds()
        self.trips = self.transfers = 0
        """How often the host waited, and for how many transfers altogether."""
        self.open = False
        self.gone = False
        self.dead = False
        self.killed: Callable[[], object] = lambda: None
        """Ends the process that has claimed it."""
        self.failed: list[str] = []
        """What went wrong so far."""
        self._plan: dict[int, Mishap] = {}

    def fail(self, mishap: Mishap | str, *, at: int = 1) -> None:
        """The `at`-th transfer from now on goes wrong."""
        self._plan[self.transfers + at] = Mishap(mishap)

    def claim(self) -> Cable:
        """Open it and claim its interface. Raises: OSError EBUSY, ENODEV."""
        if self.gone:
            raise OSError(errno.ENODEV, "no device")
        if self.open:
            raise OSError(errno.EBUSY, "another program has claimed the interface")
        self.open, self.dead = True, False
        return self

    def plug(self) -> None:
        """Plug it in again; without power of its own, the card was off meanwhile."""
        self.gone = self.open = False
        self.function.power_lost()

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        """Make transfers that were queued together. Raises: TransferError, Killed."""
        results: list[bytes] = []
        bulk = True
        for transfer in transfers:
            if (bulk and transfer.endpoint == _CONTROL) or not results:
                # a request waits for bulk transfers before it, as all do for the first
                self.trips += 1
                self.clock.skip(self.speeds.trip_s)
            bulk = transfer.endpoint != _CONTROL
            self.transfers += 1
            try:
                results.append(self._made(transfer))
            except OSError as error:
                number = error.errno or errno.EIO
                if number == errno.ETIMEDOUT:
                    self.clock.skip(timeout_s)
                raise TransferError(number, str(error), len(results)) from error
        return results

    def _made(self, transfer: Transfer) -> bytes:
        short = self._meets(transfer)
        function, request = self.function, transfer.request
        if transfer.endpoint == _CONTROL:
            self.clock.skip(self.speeds.request_s)
            head = (transfer.request_type, request, transfer.value, transfer.index)
            if not transfer.into_host:
                function.control_out(*head, bytes(transfer.data))
                return b""
            data = function.control_in(*head, transfer.nbytes)
        elif transfer.into_host:
            data = function.bulk_in(transfer.endpoint, transfer.nbytes)
            self._charge(len(data), self.speeds.stream_in)
        else:
            function.bulk_out(transfer.endpoint, bytes(transfer.data))
            self._charge(len(transfer.data), self.speeds.stream_out)
            return b""
        return data[: len(data) // 2] if short else data

    def _meets(self, transfer: Transfer) -> bool:
        """Whether a transfer comes short. Raises: OSError, Killed."""
        if self.dead:
            raise Killed
        if self.gone or not self.open:
            raise OSError(errno.ENODEV, "no device")
        mishap = self._plan.pop(self.transfers, None)
        if mishap is None:
            return False
        self.failed.append(f"{mishap} at transfer {self.transfers}")
        if mishap is Mishap.KILL:
            self.dead, self.open = True, False  # the kernel releases what a process had
            self.killed()
            raise Killed
        if mishap is Mishap.UNPLUG:
            self.gone = True
            raise OSError(errno.ENODEV, "unplugged")
        if mishap is Mishap.STALL:
            raise OSError(errno.EPIPE, "stalled")
        if mishap is Mishap.TIMEOUT:
            raise OSError(errno.ETIMEDOUT, "no answer")
        if not transfer.into_host:
            raise OSError(errno.EIO, "fewer bytes went out")
        return True

    def _charge(self, nbytes: int, stream: float) -> None:
        rate = self.speeds.sram if self.function.bulk_is_sram else stream
        self.clock.skip(nbytes / rate)

    def close(self) -> None:
        self.open = False

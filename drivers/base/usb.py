"""USB as drivers see it: one opened device, and transfers that are queued together.

Source: USB 2.0, 5.5 (control), 5.8 (bulk), 9.3 (fields of a control request).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

CONTROL: Final = -1
"""`Transfer.endpoint` of a request; bulk endpoints are numbers from 0x01 to 0xff."""
_INTO_HOST: Final = 0x80


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transfer. `what` is how errors name it: "write XDATA 0xb450"."""

    what: str
    endpoint: int
    data: bytes | memoryview = b""
    """What goes out."""
    nbytes: int = 0
    """How much may come in."""
    request_type: int = 0
    request: int = 0
    value: int = 0
    index: int = 0

    @property
    def into_host(self) -> bool:
        """Whether data comes in. src: USB 2.0, 9.3.1 and 9.6.6: bit 7 of either number"""
        kind = self.request_type if self.endpoint == CONTROL else self.endpoint
        return bool(kind & _INTO_HOST)

    @classmethod
    def ask(
        cls, what: str, request_type: int, request: int, value: int, index: int, nbytes: int
    ) -> Self:
        """A request with an answer of at most `nbytes`; bit 7 of `request_type` is set."""
        return cls(what, CONTROL, b"", nbytes, request_type, request, value, index)

    @classmethod
    def tell(
        cls, what: str, request_type: int, request: int, value: int, index: int, data: bytes = b""
    ) -> Self:
        """A request with data, which may be empty; bit 7 of `request_type` is clear."""
        return cls(what, CONTROL, data, 0, request_type, request, value, index)

    @classmethod
    def bulk_in(cls, what: str, endpoint: int, nbytes: int) -> Self:
        """What comes from an endpoint (0x80 and up), at most `nbytes`: a short packet ends it."""
        return cls(what, endpoint, b"", nbytes)

    @classmethod
    def bulk_out(cls, what: str, endpoint: int, data: bytes | memoryview) -> Self:
        """All of `data` to an endpoint (below 0x80)."""
        return cls(what, endpoint, data)


class Batch(Protocol):
    """Transfers under way."""

    def wait(self, timeout_s: float) -> list[bytes]:
        """Return when all have ended; once only.

        One result each, b"" of what went out. The first that fails ends the others.
        Raises, all of them named by `what`: DeviceTimeout when `timeout_s` is over, DeviceGone when
        the device was unplugged, MalformedInput when more comes than was asked for.
        """

    def cancel(self) -> None:
        """End those that are under way; what they did is not known. Nothing after `wait`."""


class Usb(Protocol):
    """One USB device with one interface claimed. Every failure is a DeviceError."""

    name: str
    """Where it is: "1-4.2", as sysfs names it."""
    product: str
    serial: str
    """What it calls itself; "" where it does not say."""

    def start(self, transfers: Sequence[Transfer]) -> Batch:
        """Queue all of them behind those that are under way, and return at once.

        Each endpoint makes its transfers in order; endpoints do not wait for each other. Bulk data
        is held back by a device that has not been asked to take it yet.
        # src: USB 3.2, 8.10.1 (NRDY)

        Raises: DeviceGone when the device was unplugged.
        """

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        """Queue all of them, one behind the other, and wait for the last: one round trip.

        A request waits for bulk transfers before it: that is another one. Results and errors are
        those of `Batch.wait`.
        """

    def close(self) -> None:
        """Release the interface. A second close does nothing."""


def parts(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    """Cut before each request that follows a bulk transfer, since endpoints have queues apart."""
    found: list[list[Transfer]] = [[]]
    for transfer in transfers:
        last = found[-1]
        if transfer.endpoint == CONTROL and last and last[-1].endpoint != CONTROL:
            found.append([])
        found[-1].append(transfer)
    return found

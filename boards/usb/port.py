"""A USB device as its port sees it: requests, bulk transfers, descriptors. Failures are OSError.

src: Linux 6.12, Documentation/driver-api/usb/error-codes.rst: EPIPE for a stall, ETIMEDOUT,
EOVERFLOW for babble, ENODEV once it is unplugged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from boards.machine.chassis import Chassis


@dataclass(frozen=True, slots=True)
class Descriptors:
    """What enumeration tells of a device."""

    vendor: int
    product: int
    manufacturer: str
    product_name: str
    serial: str


class UsbFunction(Protocol):
    """What answers behind one port."""

    descriptors: Descriptors

    moving: Callable[[int], bool]
    """Whether data of an endpoint is on its way: its port knows."""

    def power_lost(self) -> None:
        """It was unplugged, and so had no power."""

    def ready(self, endpoint: int) -> str:
        """What a bulk transfer of the endpoint would be now: "SRAM" at the cable's full speed,
        "stream" of packets; "" while the device takes or has none."""

    def abandoned(self) -> None:
        """The program that used it has died: what it left half done breaks no rule."""

    def control_in(
        self, request_type: int, request: int, value: int, index: int, nbytes: int
    ) -> bytes: ...

    def control_out(
        self, request_type: int, request: int, value: int, index: int, data: bytes
    ) -> None: ...

    def bulk_in(self, endpoint: int, nbytes: int) -> bytes: ...
    def bulk_out(self, endpoint: int, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A bridge with a card, without a cable."""

    hardware: Chassis
    function: UsbFunction
    pump: Callable[[], bool]
    """Lets the card work; whether it did anything."""

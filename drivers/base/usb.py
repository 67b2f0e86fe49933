"""USB as drivers see it: one opened device, control and bulk transfers with a time limit.

Source: USB 2.0, 5.5 (control), 5.8 (bulk), 9.3 (fields of a control request).
"""

from __future__ import annotations

from typing import Protocol


class Usb(Protocol):
    """One USB device with one interface claimed. Every failure is a DeviceError.

    Raises, all of them: DeviceTimeout when `timeout_s` is over, DeviceGone when it was unplugged,
    MalformedInput when fewer bytes come than the caller needs.
    """

    name: str
    """Where it is: "1-4.2", as sysfs names it."""

    def control_in(
        self, request_type: int, request: int, value: int, index: int, nbytes: int, timeout_s: float
    ) -> bytes:
        """At most `nbytes` of a request's answer; bit 7 of `request_type` is set."""

    def control_out(
        self, request_type: int, request: int, value: int, index: int, data: bytes, timeout_s: float
    ) -> None:
        """A request with its data, which may be empty; bit 7 of `request_type` is clear."""

    def bulk_in(self, endpoint: int, nbytes: int, timeout_s: float) -> bytes:
        """What comes from an endpoint (0x80 and up), at most `nbytes`: a short packet ends it."""

    def bulk_out(self, endpoint: int, data: bytes | memoryview, timeout_s: float) -> None:
        """All of `data` to an endpoint (below 0x80)."""

    def close(self) -> None:
        """Release the interface, and give it back to the kernel driver that had it."""

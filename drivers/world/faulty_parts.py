"""Libraries and USB devices of a `FaultyWorld`: their calls and transfers are its operations."""

from __future__ import annotations

from typing import Protocol

from drivers.base.library import Library, Native
from drivers.base.usb import Usb
from drivers.world.fault import Fault

_ALL_ONES = -1


class Failing(Protocol):
    """Counts operations and fails one of them."""

    fault: Fault

    def meets(self, operation: str) -> bool:
        """Count one operation; whether it is the one that fails."""


class FaultyLibrary:
    """A library of which one call fails as libraries do: by its return value.

    The call is not made. It returns the fault's number, -1 for "ones" and 0 (success, or a null
    handle) for "zeros" and "short".
    """

    def __init__(self, world: Failing, inner: Library) -> None:
        self.world, self.inner, self.name = world, inner, inner.name

    def function(self, symbol: str, signature: str) -> Native:
        if self.world.meets(f"look up {symbol}"):
            raise self.world.fault.error(f"look up {symbol}")
        inner = self.inner.function(symbol, signature)

        def call(*args: int) -> int:
            if not self.world.meets(f"call {symbol}"):
                return inner(*args)
            fault = self.world.fault
            return {"errno": fault.number, "ones": _ALL_ONES}.get(fault.kind, 0)

        return call


class FaultyUsb:
    """A USB device of which one transfer fails."""

    def __init__(self, world: Failing, inner: Usb) -> None:
        self.world, self.inner, self.name = world, inner, inner.name

    def _arrived(self, operation: str, data: bytes) -> bytes:
        """The data of a transfer to the host."""
        if not self.world.meets(operation):
            return data
        if self.world.fault.kind == "errno":
            raise self.world.fault.error(operation)
        return self.world.fault.spoil(data)

    def _sent(self, operation: str) -> None:
        if self.world.meets(operation):
            raise self.world.fault.error(operation)

    def control_in(
        self, request_type: int, request: int, value: int, index: int, nbytes: int, timeout_s: float
    ) -> bytes:
        data = self.inner.control_in(request_type, request, value, index, nbytes, timeout_s)
        return self._arrived(f"control in {request:#04x}", data)

    def control_out(
        self, request_type: int, request: int, value: int, index: int, data: bytes, timeout_s: float
    ) -> None:
        self._sent(f"control out {request:#04x}")
        self.inner.control_out(request_type, request, value, index, data, timeout_s)

    def bulk_in(self, endpoint: int, nbytes: int, timeout_s: float) -> bytes:
        return self._arrived(
            f"bulk in {endpoint:#04x}", self.inner.bulk_in(endpoint, nbytes, timeout_s)
        )

    def bulk_out(self, endpoint: int, data: bytes | memoryview, timeout_s: float) -> None:
        self._sent(f"bulk out {endpoint:#04x}")
        self.inner.bulk_out(endpoint, data, timeout_s)

    def close(self) -> None:
        self.inner.close()
        self._sent("close USB")

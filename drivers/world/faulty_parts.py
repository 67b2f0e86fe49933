"""Libraries and USB devices of a `FaultyWorld`: their calls and transfers are its operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from drivers.base.library import Library, Native
from drivers.base.usb import Transfer, Usb
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
    """A USB device of which one transfer fails; those queued behind it are not made."""

    def __init__(self, world: Failing, inner: Usb) -> None:
        self.world, self.inner, self.name = world, inner, inner.name
        self.product, self.serial = inner.product, inner.serial

    def run(self, transfers: Sequence[Transfer], timeout_s: float) -> list[bytes]:
        """A transfer into the host fails once it is made, one out of it before."""
        results: list[bytes] = []
        for transfer in transfers:
            meets, fault = self.world.meets(transfer.what), self.world.fault
            if meets and (fault.kind == "errno" or not transfer.into_host):
                raise fault.error(transfer.what)
            (data,) = self.inner.run([transfer], timeout_s)
            results.append(fault.spoil(data) if meets else data)
        return results

    def close(self) -> None:
        self.inner.close()
        if self.world.meets("close USB"):
            raise self.world.fault.error("close USB")
